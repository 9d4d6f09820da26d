//! What a node does with a request.

use crate::client::World;
use crate::state::{Flight, Key};
use crate::step::{Asks, Request};
use crate::variant::Variant;

impl World<'_> {
    /// Carries a request out. Whether it granted.
    pub(crate) fn carry_out(&mut self, request: Request, by_copy: bool) -> bool {
        let Request { client, attempt, node, asks } = request;
        let variant = self.protocol.variant;
        let ended = self.state.clients[client].has_ended(attempt);
        let round = match asks {
            _ if ended => 0,
            Asks::Extend => self.state.clients[client].round,
            Asks::Refill(number) => index(number + 1),
            _ => 0,
        };
        let ours = Key { client: index(client), attempt: index(attempt), round, by_copy };
        let held = self.state.nodes[node].key;
        let same = |key: Key| {
            key.client == ours.client
                && (key.attempt == ours.attempt || variant == Variant::OneTokenForAllAttempts)
        };
        let (after, granted) = match (asks, held) {
            (Asks::Acquire | Asks::Refill(_), None) => (Some(ours), true),
            (Asks::Refill(_), Some(key)) if variant == Variant::RefillOverwrites => {
                self.state.trespassed |= !same(key);
                (Some(ours), true)
            }
            (Asks::Acquire | Asks::Refill(_), Some(key)) => (held, same(key)),
            (Asks::Extend, Some(key)) if same(key) => {
                (Some(Key { round: key.round.max(round), ..key }), true)
            }
            (Asks::Extend, None) if variant == Variant::ExtensionCreatesAndCounts => (Some(ours), true),
            (Asks::Release, Some(key)) if same(key) => (None, true),
            (Asks::Release, Some(_)) if variant == Variant::ReleaseComparesNothing => {
                self.state.trespassed = true;
                (None, true)
            }
            (Asks::Extend | Asks::Release, _) => (held, false),
        };
        self.state.nodes[node].key = after;
        granted
    }

    /// What a release can rely on that was sent a node timeout after another was answered: what had been sent before has
    /// been carried out, or never is.
    pub(crate) fn drop_late_writes(&mut self, request: Request) {
        let part = &mut self.state.nodes[request.node].links[request.client].attempts[request.attempt];
        for write in part.writes_mut() {
            *write = Flight::None;
        }
    }
}

/// Small by the bounds of a [`Scope`](crate::Scope).
pub(crate) fn index(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
