//! The losses of a running server: locks, the counters of fencing tokens, or both.

use std::time::Duration;

use super::machine::Persistence;
use super::{FaultKind, Server};

impl Server {
    /// Loses all keys at once, including those of counters, as by FLUSHALL.
    pub fn flush(&self) {
        self.begin_fault(FaultKind::Flush);
        self.lose_locks();
        self.lose_counters();
    }

    /// Loses all locks at once, and keeps the counters of fencing tokens.
    pub fn evict(&self) {
        self.begin_fault(FaultKind::Eviction);
        self.lose_locks();
    }

    /// Loses the counters of fencing tokens at once, and keeps the locks.
    pub fn forget(&self) {
        self.lose_counters();
    }

    /// Starts lost counters with 1 from now on, regardless of the clock.
    ///
    /// A server that must never lose its counters could do so.
    pub fn count_from_one(&self) {
        self.state().machine.count_from_one();
    }

    fn lose_locks(&self) {
        let lost = self.state().machine.lose_all_but(&Persistence::Counters);
        self.record_loss(&lost);
    }

    fn lose_counters(&self) {
        if self.state().machine.lose_counters() {
            self.begin_fault(FaultKind::Amnesia(Duration::ZERO));
        }
    }
}
