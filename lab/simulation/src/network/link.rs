//! The connection of one client to one server, and the order of its requests.

use std::time::Duration;

use redlock_core::runtime::Instant;

/// The connection of one node, on streams. Pure; with datagrams it never breaks.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The number of the connection.
    generation: u64,
    /// If `true`, the connection is broken, and the client has not noticed yet.
    broken: bool,
    /// If `true`, the client has noticed, and could not reconnect.
    down: bool,
    /// The arrival time of the last request.
    last: Option<Instant>,
}

impl Link {
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn is_down(&self) -> bool {
        self.down
    }

    /// Returns whether messages of this connection are still valid.
    pub(super) fn carries(&self, generation: u64) -> bool {
        !self.broken && self.generation == generation
    }

    /// Breaks the connection. Returns whether it was intact.
    pub(super) fn sever(&mut self) -> bool {
        !std::mem::replace(&mut self.broken, true)
    }

    /// Records that the client has noticed; the next connection has a new number.
    pub(super) fn noticed(&mut self, reachable: bool) {
        *self = Self { generation: self.generation + 1, down: !reachable, ..Self::default() };
    }

    /// Records that the client could reconnect.
    pub(super) fn reconnected(&mut self) {
        self.down = false;
    }

    /// Returns the arrival time of a request that is sent now: after all earlier ones.
    pub(super) fn arrival(&mut self, now: Instant, delay: Duration) -> Instant {
        let behind = self.last.map_or(Instant::ORIGIN, |last| last + Duration::from_nanos(1));
        let at = (now + delay).max(behind);
        self.last = Some(at);
        at
    }
}
