//! The operations of a node.

use std::mem;

use crate::keep::protocol::Keeping;
use crate::keep::state::{Flight, Key, Life, State};
use crate::keep::step::{Request, RequestKind};
use crate::keep::variant::Variant;

impl Keeping {
    /// Carries a request of the keeper out. Returns true if it was granted.
    pub(crate) fn carry_out(self, state: &mut State, request: Request) -> bool {
        let node = &mut state.nodes[request.node];
        let order = mem::take(node.flight(request.kind));
        let before = node.key;
        let (after, granted) = match (request.kind, before) {
            (RequestKind::Write(round), None) => (Some(Key::Own(Life::of_round(index(round)))), true),
            (RequestKind::Write(_), Some(key)) => (before, key != Key::Other),
            (RequestKind::Extend(round), Some(Key::Own(life))) => {
                let round = life.round.max(Some(index(round)));
                let sets = self.variant == Variant::RenewalSetsTheLife;
                (Some(Key::Own(Life { round, kept: life.kept && !sets })), true)
            }
            (RequestKind::Keep, Some(Key::Own(life))) => {
                let raises = self.variant == Variant::KeepOnlyLengthens;
                (Some(Key::Own(Life { kept: true, round: life.round.filter(|_| raises) })), true)
            }
            (RequestKind::Keep, Some(Key::Other)) if self.variant == Variant::KeepComparesNothing => {
                state.trespassed = true;
                (Some(Key::Own(Life { kept: true, round: None })), true)
            }
            (RequestKind::Extend(_) | RequestKind::Keep, _) => (before, false),
        };
        node.key = after;
        if request.kind == RequestKind::Keep {
            node.settled = true;
            // The earlier requests on this connection were carried out before, or never sent.
            for flight in node.flights_mut().filter(|flight| **flight == Flight::Ordered) {
                *flight = Flight::None;
            }
        } else if order == Flight::Free {
            node.settled = false;
        }
        granted
    }
}

impl Life {
    pub(crate) fn of_round(round: u8) -> Self {
        Self { kept: false, round: Some(round) }
    }
}

/// Converts a number that is small by the bounds of a [`Scope`](crate::keep::Scope).
fn index(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
