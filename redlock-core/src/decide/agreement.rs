//! Decides whether the votes of nodes count, if the node lists of programs must agree.
//!
//! Two programs that do not exclude each other have no list in common. Each of them claims its lists on its nodes: one
//! list in the first place of a node, two lists in the place for changes. Only one announcement can be in a place. A
//! program claims the place only if no announcement on any of its nodes keeps it from doing so, and then reads the
//! announcements again. So of two such programs with a node in common that both reach, only one *agrees* there: either
//! they claim the same place, or the later one of the two readings shows both announcements.
//!
//! The votes of a node count while the announcement of this program stands there, and no node has shown another list. An
//! announcement stands until it expires, unless it is renewed. The program that was first thus continues, and a program
//! with another list is blocked as soon as it starts. A node that does not reply keeps its standing until then.
//!
//! A program that has seen another list stays blocked for some time. Meanwhile the other programs have announced their
//! lists again, for example on a server that was restarted without its data.

use std::time::Duration;

use crate::types::instant::Instant;
use crate::types::quarantine::QuarantineReason;

/// The agreement of one program with the other programs of its nodes.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    /// The time until which the announcement stands on each node.
    standing: Vec<Option<Instant>>,
    /// The last time at which another list was seen, or could still be announced on a node that did not reply.
    conflict: Option<Instant>,
}

/// How long a program stays blocked after it has seen another list. Programs that run announce their lists meanwhile.
const BLOCKED: Duration = Duration::from_secs(12);

impl Agreement {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { standing: vec![None; nodes], conflict: None }
    }

    /// Records whether the announcements on the nodes keep this program from claiming its place. `is_complete` if all
    /// nodes have replied.
    pub(crate) fn observe(&mut self, is_conflict: bool, is_complete: bool, now: Instant) {
        if is_conflict {
            self.standing.fill(None);
        }
        if is_conflict || self.conflict.is_some() && !is_complete {
            self.conflict = Some(now);
        }
        if self.conflict.is_some_and(|last| now >= last + BLOCKED) {
            self.conflict = None;
        }
    }

    /// Records that the lists of this program are in their place on all nodes, where other programs have claimed it.
    pub(crate) fn join(&mut self) {
        self.conflict = None;
    }

    /// Returns whether another list keeps this program from claiming its place.
    pub(crate) fn is_blocked(&self) -> bool {
        self.conflict.is_some()
    }

    /// Records that the announcement on a node stands until this time, and that no other one is there.
    pub(crate) fn stand(&mut self, node: usize, until: Instant) {
        if !self.is_blocked() {
            self.standing[node] = self.standing[node].max(Some(until));
        }
    }

    /// Counts no vote of nodes any more.
    pub(crate) fn withdraw(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.standing[*node] = None;
        }
    }

    pub(crate) fn stands(&self, node: usize, now: Instant) -> bool {
        self.standing[node].is_some_and(|until| now < until)
    }

    /// Returns why a vote of a node does not count; `None` if it counts.
    pub(crate) fn uncounted(&self, node: usize, now: Instant) -> Option<QuarantineReason> {
        match () {
            () if self.is_blocked() => Some(QuarantineReason::OtherNodeList),
            () if self.stands(node, now) => None,
            () => Some(QuarantineReason::NodeListNotCompared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn votes_count_while_the_announcement_stands() {
        let mut agreement = Agreement::new(2);
        assert_eq!(Some(QuarantineReason::NodeListNotCompared), agreement.uncounted(0, at(0)));
        agreement.stand(0, at(26));
        agreement.stand(0, at(20));
        assert_eq!(None, agreement.uncounted(0, at(25)));
        assert_eq!(Some(QuarantineReason::NodeListNotCompared), agreement.uncounted(0, at(26)));
        assert_eq!(Some(QuarantineReason::NodeListNotCompared), agreement.uncounted(1, at(25)));
    }

    #[test]
    fn a_program_that_has_seen_another_list_stays_blocked() {
        let mut agreement = Agreement::new(2);
        agreement.stand(0, at(26));
        agreement.observe(true, true, at(10));
        agreement.stand(0, at(36));
        let other = Some(QuarantineReason::OtherNodeList);
        assert_eq!([other, other], [0, 1].map(|node| agreement.uncounted(node, at(10))));
        agreement.observe(false, true, at(21));
        assert!(agreement.is_blocked(), "other programs may not have announced their lists again");
        // The node with the other list may be the one that does not reply.
        agreement.observe(false, false, at(30));
        agreement.observe(false, true, at(41));
        assert!(agreement.is_blocked());
        agreement.observe(false, true, at(42));
        assert_eq!(Some(QuarantineReason::NodeListNotCompared), agreement.uncounted(0, at(42)));
    }

    #[test]
    fn a_node_that_does_not_reply_blocks_only_after_a_conflict() {
        let mut agreement = Agreement::new(1);
        agreement.observe(false, false, at(1));
        assert!(!agreement.is_blocked());
    }
}
