//! When a quorum of nodes can count again.

use std::time::Duration;

/// The time from which the next vote of a node counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Countable {
    Now,
    /// The vote counts after this time; `None` if the time is unknown.
    Later(Option<Duration>),
    /// The node does not reply.
    Unknown,
}

/// Returns the time until a quorum of nodes counts.
///
/// `None` if the time is unknown, or if quarantine is not the obstacle.
pub(crate) fn until_quorum(nodes: impl Iterator<Item = Countable>, quorum: usize) -> Option<Duration> {
    let (mut now, mut later) = (0, Vec::new());
    for node in nodes {
        match node {
            Countable::Now => now += 1,
            Countable::Later(Some(time)) => later.push(time),
            Countable::Later(None) | Countable::Unknown => {}
        }
    }
    later.sort_unstable();
    let missing = quorum.checked_sub(now)?;
    later.get(missing.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_counts_when_the_last_missing_node_does() {
        use Countable::{Later, Now, Unknown};
        let seconds = |seconds| Later(Some(Duration::from_secs(seconds)));
        let until = |nodes: [Countable; 5]| until_quorum(nodes.into_iter(), 3).map(|time| time.as_secs());
        assert_eq!(Some(7), until([Now, Now, seconds(9), Unknown, seconds(7)]));
        assert_eq!(Some(9), until([Now, seconds(12), seconds(9), Unknown, seconds(7)]));
        assert_eq!(None, until([Now, Now, Now, seconds(9), seconds(7)]), "a quorum counts");
        assert_eq!(None, until([Now, seconds(9), Unknown, Unknown, Later(None)]));
        assert_eq!(None, until([Unknown; 5]));
    }
}
