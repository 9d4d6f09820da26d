//! What a node does, atomically. The rule is here, and most ways to break it.

use std::ops::RangeInclusive;

use crate::fence::protocol::Fencing;
use crate::fence::scope::Counters;
use crate::fence::state::{Attempt, Node, Phase, Round, State};
use crate::fence::variant::Variant;

impl Fencing {
    /// Whose key an attempt sets.
    pub(crate) fn owner(self, attempt: usize) -> u8 {
        let shared = self.variant == Variant::OneKeyForTwoAttempts && attempt == 1;
        if shared { 0 } else { u8::try_from(attempt).unwrap_or(u8::MAX) }
    }

    /// Whether a node may answer a counter that is not its own.
    pub(crate) fn lies(self, node: usize) -> bool {
        self.scope.lies && node == 0
    }

    /// What F may become where a key is set.
    pub(crate) fn raised(self, state: &State, counter: u8) -> RangeInclusive<u8> {
        match self.scope.counters {
            Counters::UpTo(bound) => counter + 1..=bound.min(counter + 1),
            // Values are even: those between two, and the one above all, are odd.
            Counters::Any => counter + 1..=self.values(state).max().unwrap_or_default() + 1,
        }
    }

    /// What becomes of a node that carries out a confirm; nothing if it does not count.
    pub(crate) fn confirmed(self, attempt: Attempt, owner: u8, node: Node) -> Option<Node> {
        let extends = attempt.round != Round::None;
        let (ours, free) = (node.key == Some(owner), node.key.is_none());
        let passed = node.counter <= attempt.token;
        let raised = Node { counter: attempt.token, ..node };
        match self.variant {
            Variant::WriteBackToAny if !extends => passed.then_some(raised),
            Variant::ConfirmCreates => {
                ((ours || free) && passed).then_some(Node { key: Some(owner), ..raised })
            }
            Variant::ConfirmIgnoresTheCounter => {
                ours.then_some(Node { counter: node.counter.max(attempt.token), ..node })
            }
            Variant::ConfirmLowersTheCounter => ours.then_some(raised),
            Variant::ConfirmRaisesNothing => (ours && passed).then_some(node),
            Variant::ExtensionIsAPlainSet if extends => Some(Node { key: Some(owner), ..node }),
            Variant::ExtensionChecksTheOwnerAlone if extends => ours.then_some(node),
            _ => (ours && passed).then_some(raised),
        }
    }

    /// What becomes of a node that carries out a refill; nothing if it refuses.
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

    /// What becomes of a node whose key goes.
    pub(crate) fn vanished(self, node: Node) -> Node {
        let drops = self.variant == Variant::ReleaseDropsTheCounter;
        Node { key: None, counter: if drops { 0 } else { node.counter } }
    }
}
