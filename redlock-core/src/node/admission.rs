//! Restart admission: whether the votes of a node count.
//!
//! A server that comes back without its keys grants locks that other clients still hold. Thus a node is *quarantined*
//! until the last lock that it may have lost has expired. Its votes do not count meanwhile.
//!
//! A vote counts if the node was admitted when the request was sent, and is still admitted when the reply is read. The
//! two readings must be of one admission. In between, the node may have lost the lock of another client and have been
//! admitted over another connection. A vote that does not count is neither a grant nor a denial. The quorum stays one
//! of all nodes.

use std::time::Duration;

use super::Reply;
use crate::types::quarantine::{Quarantine, QuarantineReason};

/// The admission of a node, which determines if its votes count.
///
/// A backend that takes part in [restart admission](crate::node#restart-admission) reads it around each request, and
/// passes it to [`judge`](Admission::judge). The rest of this crate knows only which replies have no vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The backend does not check for lost locks. The votes count.
    Unchecked,
    /// The node has all locks that it ever granted and that have not expired. The votes count.
    Admitted(AdmissionId),
    /// The node may have lost locks. The votes do not count.
    Quarantined(Quarantine),
}

/// The identifier of one uninterrupted admission of a node, never reused.
///
/// It belongs to one connection. It changes when the node loses locks, or may have, even if the node is admitted again
/// at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdmissionId(pub u64);

impl Admission {
    /// Takes the vote of a reply away, if it does not count.
    ///
    /// `self` is the admission when the request was sent, and `after` the one when the reply is read. Replies without a
    /// vote, such as those to releases, stay as they are.
    ///
    /// ```
    /// # use redlock_core::node::{Admission, AdmissionId, Reply};
    /// let before = Admission::Admitted(AdmissionId(1));
    /// assert_eq!(Reply::Granted, before.judge(Reply::Granted, before));
    ///
    /// // The connection has changed meanwhile.
    /// let after = Admission::Admitted(AdmissionId(2));
    /// assert!(matches!(before.judge(Reply::Granted, after), Reply::Quarantined(..)));
    /// ```
    #[must_use]
    pub fn judge(self, reply: Reply, after: Self) -> Reply {
        match (&reply, self.uncounted(after)) {
            (Reply::Deleted(_) | Reply::Watching(_) | Reply::Quarantined(..), _) | (_, None) => reply,
            (_, Some(quarantine)) => Reply::Quarantined(Box::new(reply), quarantine),
        }
    }

    /// Returns why a vote does not count; `None` if it counts.
    fn uncounted(self, after: Self) -> Option<Quarantine> {
        match (self, after) {
            (_, Self::Quarantined(quarantine)) | (Self::Quarantined(quarantine), _) => Some(quarantine),
            _ if self == after => None,
            _ => Some(Quarantine::new(QuarantineReason::Changed).ending_in(Duration::ZERO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantined(reason: QuarantineReason) -> Admission {
        Admission::Quarantined(Quarantine::new(reason))
    }

    #[test]
    fn a_vote_counts_only_within_one_admission() {
        let [one, other] = [1, 2].map(|id| Admission::Admitted(AdmissionId(id)));
        let out = quarantined(QuarantineReason::Restarted);
        let counts = |before: Admission, after| before.uncounted(after).is_none();
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
        let reason = |before: Admission, after| before.uncounted(after).map(|quarantine| quarantine.reason);
        assert_eq!(Some(QuarantineReason::Restarted), reason(earlier, later));
        assert_eq!(Some(QuarantineReason::NotChecked), reason(earlier, Admission::Admitted(AdmissionId(1))));
    }

    #[test]
    fn only_votes_are_taken_away() {
        let out = quarantined(QuarantineReason::Restarted);
        let judge = |reply| out.judge(reply, out);
        assert!(matches!(judge(Reply::Granted), Reply::Quarantined(..)));
        assert!(matches!(judge(Reply::Free { waiters: None }), Reply::Quarantined(..)));
        assert_eq!(Reply::Deleted(true), judge(Reply::Deleted(true)), "releases always count");
    }
}
