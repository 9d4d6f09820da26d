//! When a quorum of nodes can count again.

use std::time::Duration;

/// The time from which the next vote of a node counts, or those of a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Countable {
    Now,
    /// The vote counts after this time; `None` if the time is unknown.
    Later(Option<Duration>),
    /// The node does not reply.
    Unknown,
}

/// Returns the time until a quorum of each list counts. `lists` contains the nodes of each list, and its quorum.
///
/// `None` if the time is unknown, or if quarantine is not the obstacle.
pub(crate) fn until_quorums<N: Iterator<Item = Countable>>(
    lists: impl Iterator<Item = (N, usize)>,
) -> Option<Duration> {
    let mut latest = None;
    for (nodes, quorum) in lists {
        match until_quorum(nodes, quorum) {
            Countable::Now => {}
            Countable::Later(Some(time)) => latest = latest.max(Some(time)),
            Countable::Later(None) | Countable::Unknown => return None,
        }
    }
    latest
}

/// Returns when a quorum of the nodes of one list counts.
fn until_quorum(nodes: impl Iterator<Item = Countable>, quorum: usize) -> Countable {
    let (mut now, mut later) = (0, Vec::new());
    for node in nodes {
        match node {
            Countable::Now => now += 1,
            Countable::Later(Some(time)) => later.push(time),
            Countable::Later(None) | Countable::Unknown => {}
        }
    }
    later.sort_unstable();
    match quorum.saturating_sub(now) {
        0 => Countable::Now,
        missing => Countable::Later(later.get(missing - 1).copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_counts_when_the_last_missing_node_does() {
        use Countable::{Later, Now, Unknown};
        let seconds = |seconds| Later(Some(Duration::from_secs(seconds)));
        let until_all = |lists: &[[Countable; 5]]| {
            until_quorums(lists.iter().map(|nodes| (nodes.iter().copied(), 3))).map(|time| time.as_secs())
        };
        let until = |nodes| until_all(&[nodes]);
        assert_eq!(Some(7), until([Now, Now, seconds(9), Unknown, seconds(7)]));
        assert_eq!(Some(9), until([Now, seconds(12), seconds(9), Unknown, seconds(7)]));
        assert_eq!(None, until([Now, Now, Now, seconds(9), seconds(7)]), "a quorum counts");
        assert_eq!(None, until([Now, seconds(9), Unknown, Unknown, Later(None)]));
        assert_eq!(None, until([Unknown; 5]));
        let (soon, late) = ([seconds(7); 5], [Now, Now, seconds(9), Unknown, Unknown]);
        assert_eq!(Some(9), until_all(&[soon, late]));
        assert_eq!(Some(7), until_all(&[[Now; 5], soon]));
        assert_eq!(None, until_all(&[soon, [Unknown; 5]]), "the other list has no quorum");
        assert_eq!(None, until_all(&[[Now; 5], [Now; 5]]));
    }
}
