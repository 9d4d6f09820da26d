//! What a lease knows about one node.

use crate::decide::pending_release::{PendingRelease, WriteState};
use crate::types::fencing_token::FencingToken;
use crate::types::node_error::NodeErrorKind;
use crate::types::report::Outcome;

/// The knowledge of a lease about one node.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct LeasePeer {
    /// The writes that may be, or become, a key on this node.
    pub(crate) writes: WriteState,
    /// True if the node counts for a newer claim than this one.
    pub(crate) superseded: bool,
    /// The release that is not confirmed yet.
    ///
    /// `None` before the end of the lease, and after another part has taken the release over.
    pub(crate) release: Option<PendingRelease>,
}

impl LeasePeer {
    /// Begins the release, according to what is known about the writes now.
    pub(crate) fn begin_release(&mut self) {
        self.release = Some(self.writes.pending_release());
    }

    /// Records the counter of the node. Returns whether the node must receive the token in order to count.
    ///
    /// Counters never decrease, so a superseded node stays superseded.
    pub(crate) fn note_counter(&mut self, counter: FencingToken, token: FencingToken) -> bool {
        self.superseded |= counter > token;
        counter < token
    }

    /// Ends a write with this outcome.
    pub(crate) fn end_write(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Granted | Outcome::GrantedFenced(_) => self.writes.settle(true),
            Outcome::Denied(_) | Outcome::Superseded(_) => self.writes.settle(false),
            Outcome::Quarantined { granted, .. } => self.writes.settle(*granted),
            Outcome::Failed(error) if error.kind() != NodeErrorKind::Unknown => {
                self.writes.settle(false);
                // The write was never carried out, and never will be.
                if !self.writes.may_be_there() {
                    self.release = None;
                }
            }
            Outcome::Failed(_) | Outcome::TimedOut => self.writes.end_unknown(),
            Outcome::Released
            | Outcome::NotHeld
            | Outcome::Free { .. }
            | Outcome::Held(_)
            | Outcome::Pending => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_a_greater_counter_never_counts_again() {
        let token = |number| FencingToken::new(number).unwrap();
        let mut peer = LeasePeer::default();
        assert!(peer.note_counter(token(6), token(7)), "the node must receive the token");
        assert!(!peer.note_counter(token(7), token(7)), "the node counts already");
        assert!(!peer.superseded);
        assert!(!peer.note_counter(token(8), token(7)));
        assert!(peer.superseded);
        assert!(peer.note_counter(token(1), token(7)), "a counter that fell was lost");
        assert!(peer.superseded);
    }
}
