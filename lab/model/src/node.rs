//! The operations of a node.

use crate::client::World;
use crate::state::{Flight, Key};
use crate::step::{Request, RequestKind};
use crate::variant::Variant;

impl World<'_> {
    /// Carries a request out. Returns true if it was granted.
    pub(crate) fn carry_out(&mut self, request: Request, by_copy: bool) -> bool {
        let Request { client, attempt, node, kind } = request;
        let variant = self.protocol.variant;
        let ended = self.state.clients[client].has_ended(attempt);
        let round = match kind {
            _ if ended => 0,
            RequestKind::Extend => self.state.clients[client].round,
            RequestKind::Refill(number) => index(number + 1),
            _ => 0,
        };
        let own = Key { client: index(client), attempt: index(attempt), round, by_copy };
        let held = self.state.nodes[node].key;
        let same = |key: Key| {
            key.client == own.client
                && (key.attempt == own.attempt || variant == Variant::OneTokenForAllAttempts)
        };
        let (after, granted) = match (kind, held) {
            (RequestKind::Acquire | RequestKind::Refill(_), None) => (Some(own), true),
            (RequestKind::Refill(_), Some(key)) if variant == Variant::RefillOverwrites => {
                self.state.trespassed |= !same(key);
                (Some(own), true)
            }
            (RequestKind::Acquire | RequestKind::Refill(_), Some(key)) => (held, same(key)),
            (RequestKind::Extend, Some(key)) if same(key) => {
                (Some(Key { round: key.round.max(round), ..key }), true)
            }
            (RequestKind::Extend, None) if variant == Variant::ExtensionCreatesAndCounts => (Some(own), true),
            (RequestKind::Release, Some(key)) if same(key) => (None, true),
            (RequestKind::Release, Some(_)) if variant == Variant::ReleaseComparesNothing => {
                self.state.trespassed = true;
                (None, true)
            }
            (RequestKind::Extend | RequestKind::Release, _) => (held, false),
        };
        self.state.nodes[node].key = after;
        granted
    }

    /// Drops the writes that can no longer arrive after a second release. A write sent before the first release arrives
    /// within the node timeout or never.
    pub(crate) fn drop_late_writes(&mut self, request: Request) {
        let part = &mut self.state.nodes[request.node].links[request.client].attempts[request.attempt];
        for write in part.writes_mut() {
            *write = Flight::None;
        }
    }
}

/// Converts a number that is small by the bounds of a [`Scope`](crate::Scope).
pub(crate) fn index(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
