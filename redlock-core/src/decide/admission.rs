//! Restart admission: which votes count, and when a quorum can count again.
//!
//! A vote counts if the node was admitted when the request was sent, and is still admitted when the reply is read. The
//! two readings must be of one admission. In between, the node may have lost the lock of another client and have been
//! admitted over another connection. A vote that does not count is neither a grant nor a denial. The quorum stays one
//! of all nodes.

use std::time::Duration;

use crate::node::{Admission, Quarantine, QuarantineReason};

/// Returns why a vote does not count; `None` if it counts.
pub(crate) fn uncounted(before: Admission, after: Admission) -> Option<Quarantine> {
    match (before, after) {
        (_, Admission::Quarantined(quarantine)) | (Admission::Quarantined(quarantine), _) => Some(quarantine),
        _ if before == after => None,
        _ => Some(Quarantine::new(QuarantineReason::Changed).ending_in(Duration::ZERO)),
    }
}

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
    use crate::node::AdmissionId;

    fn quarantined(reason: QuarantineReason) -> Admission {
        Admission::Quarantined(Quarantine::new(reason))
    }

    #[test]
    fn a_vote_counts_only_within_one_admission() {
        let [one, other] = [1, 2].map(|id| Admission::Admitted(AdmissionId(id)));
        let out = quarantined(QuarantineReason::Restarted);
        let counts = |before, after| uncounted(before, after).is_none();
        assert!(counts(Admission::Unchecked, Admission::Unchecked));
        assert!(counts(one, one));
        assert!(!counts(one, other), "the node was admitted again in between");
        assert!(!counts(out, one), "the request was sent during the quarantine");
        assert!(!counts(one, out), "the node was quarantined meanwhile");
        assert!(!counts(out, out));
        assert!(!counts(Admission::Unchecked, one));
    }

    #[test]
    fn the_later_reason_is_reported() {
        let (earlier, later) =
            (quarantined(QuarantineReason::NotChecked), quarantined(QuarantineReason::Restarted));
        let reason = |before, after| uncounted(before, after).map(|quarantine| quarantine.reason);
        assert_eq!(Some(QuarantineReason::Restarted), reason(earlier, later));
        assert_eq!(Some(QuarantineReason::NotChecked), reason(earlier, Admission::Admitted(AdmissionId(1))));
    }

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
