//! One client's way to one server: which connection it has, and in which order requests arrive.

use std::time::Duration;

use redlock_core::Instant;

/// The connection of one node, on streams. Pure; where there are datagrams it is never broken.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Counts connections.
    generation: u64,
    /// The connection is broken, and the client has not noticed yet.
    broken: bool,
    /// The client has noticed, and could not make another one.
    down: bool,
    /// When the last request arrives.
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

    /// Whether messages of this connection may still count on it.
    pub(super) fn carries(&self, generation: u64) -> bool {
        !self.broken && self.generation == generation
    }

    /// Breaks the connection. Answers whether it was whole.
    pub(super) fn sever(&mut self) -> bool {
        !std::mem::replace(&mut self.broken, true)
    }

    /// The client has noticed: the next connection is another one.
    pub(super) fn noticed(&mut self, reachable: bool) {
        *self = Self { generation: self.generation + 1, down: !reachable, ..Self::default() };
    }

    /// Another connection could be made.
    pub(super) fn reconnected(&mut self) {
        self.down = false;
    }

    /// When a request arrives that is sent now: after all that were sent before.
    pub(super) fn arrival(&mut self, now: Instant, delay: Duration) -> Instant {
        let behind = self.last.map_or(Instant::ORIGIN, |last| last + Duration::from_nanos(1));
        let at = (now + delay).max(behind);
        self.last = Some(at);
        at
    }
}
