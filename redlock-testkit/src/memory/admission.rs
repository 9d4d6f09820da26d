//! The restart admission of one node in memory.
//!
//! The rule of servers is in `redlock-wire`. It finds out from a stamp whether a server may have lost locks. A test causes
//! each loss of a node in memory, so the node needs no stamp and no look, and only waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_core::node::{Admission, AdmissionId, ClockReading, Quarantine, QuarantineReason, ServerClock};
use redlock_core::runtime::Instant;

/// The admission of a node that states its longest TTL.
pub(super) struct Guarded {
    pub(super) longest_ttl: Duration,
    id: AdmissionId,
    /// The last loss of data, until its quarantine ends.
    lost: Option<(Instant, QuarantineReason)>,
    clock: ServerClock,
}

impl Guarded {
    pub(super) fn new(longest_ttl: Duration) -> Self {
        Self { longest_ttl, id: next_id(), lost: None, clock: ServerClock::default() }
    }

    pub(super) fn lose(&mut self, reason: QuarantineReason, now: Instant) {
        self.id = next_id();
        self.lost = Some((now, reason));
    }

    /// Compares the clock of the server with that of the client, `now`. A jump is a loss.
    pub(super) fn read_clock(&mut self, server: Instant, now: Instant) {
        let server = server.elapsed_since_origin();
        let reading = ClockReading { sent: Some(now), server, received: now };
        if self.clock.jump(reading, Quarantine::duration(self.longest_ttl)).is_some() {
            self.lose(QuarantineReason::ClockJumped, now);
        }
    }

    pub(super) fn vouch(&mut self) {
        self.lost = None;
    }

    pub(super) fn admission(&self, now: Instant) -> Admission {
        let Some((since, reason)) = self.lost else { return Admission::Admitted(self.id) };
        let passed = now.saturating_duration_since(since);
        let left = Quarantine::duration(self.longest_ttl).saturating_sub(passed);
        if left.is_zero() {
            return Admission::Admitted(self.id);
        }
        Admission::Quarantined(Quarantine::new(reason).ending_in(left))
    }
}

/// Returns an identifier that no node of this process has used.
fn next_id() -> AdmissionId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    AdmissionId(NEXT.fetch_add(1, Ordering::Relaxed))
}
