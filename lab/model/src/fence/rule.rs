//! The atomic operations of a node. They contain the rule and most of its broken variants.

use std::ops::RangeInclusive;

use crate::fence::protocol::Fencing;
use crate::fence::scope::Counters;
use crate::fence::state::{Attempt, Node, Phase, Round, State};
use crate::fence::variant::Variant;

impl Fencing {
    /// Returns the owner of the key that an attempt sets.
    pub(crate) fn owner(self, attempt: usize) -> u8 {
        let shared = self.variant == Variant::OneKeyForTwoAttempts && attempt == 1;
        if shared { 0 } else { u8::try_from(attempt).unwrap_or(u8::MAX) }
    }

    /// Returns true if a node may reply with a counter that is not its own.
    pub(crate) fn lies(self, node: usize) -> bool {
        self.scope.lies && node == 0
    }

    /// Returns the possible values of F after a key is set.
    pub(crate) fn raised(self, state: &State, counter: u8) -> RangeInclusive<u8> {
        match self.scope.counters {
            Counters::UpTo(bound) => counter + 1..=bound.min(counter + 1),
            // Values are even. Values between two others, and the one above all others, are odd.
            Counters::Any => counter + 1..=self.values(state).max().unwrap_or_default() + 1,
        }
    }

    /// Returns the node after it has carried out a confirm, or `None` if it does not count.
    pub(crate) fn confirmed(self, attempt: Attempt, owner: u8, node: Node) -> Option<Node> {
        let extends = attempt.round != Round::None;
        let (is_owner, free) = (node.key == Some(owner), node.key.is_none());
        let passed = node.counter <= attempt.token;
        let raised = Node { counter: attempt.token, ..node };
        match self.variant {
            Variant::WriteBackToAny if !extends => passed.then_some(raised),
            Variant::ConfirmCreates => {
                ((is_owner || free) && passed).then_some(Node { key: Some(owner), ..raised })
            }
            Variant::ConfirmIgnoresTheCounter => {
                is_owner.then_some(Node { counter: node.counter.max(attempt.token), ..node })
            }
            Variant::ConfirmLowersTheCounter => is_owner.then_some(raised),
            Variant::ConfirmRaisesNothing => (is_owner && passed).then_some(node),
            Variant::ExtensionIsAPlainSet if extends => Some(Node { key: Some(owner), ..node }),
            Variant::ExtensionChecksTheOwnerAlone if extends => is_owner.then_some(node),
            _ => (is_owner && passed).then_some(raised),
        }
    }

    /// Returns the node after it has carried out a refill, or `None` if it denies it.
    pub(crate) fn refilled(self, attempt: Attempt, owner: u8, node: Node) -> Option<Node> {
        let passed = node.counter <= attempt.token;
        let counter = match self.variant {
            Variant::RefillIgnoresTheCounter => node.counter.max(attempt.token),
            Variant::RefillRaisesNothing => node.counter,
            _ => attempt.token,
        };
        let unguarded =
            matches!(self.variant, Variant::RefillIgnoresTheCounter | Variant::RefillLowersTheCounter);
        let may = attempt.phase == Phase::Granted && node.key.is_none() && (passed || unguarded);
        may.then_some(Node { key: Some(owner), counter })
    }

    /// Returns the node after it has lost its key.
    pub(crate) fn vanished(self, node: Node) -> Node {
        let drops = self.variant == Variant::ReleaseDropsTheCounter;
        Node { key: None, counter: if drops { 0 } else { node.counter } }
    }
}
