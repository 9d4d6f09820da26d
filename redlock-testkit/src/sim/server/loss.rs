//! The losses of a running server: locks, the counters of fencing tokens, or both.

use std::time::Duration;

use redlock_core::Runtime;

use super::machine::Persistence;
use super::{Server, Trouble};

impl Server {
    /// Loses all keys at once, including those of counters, as by FLUSHALL.
    pub fn flush(&self) {
        self.strikes(Trouble::Flush);
        self.lose_locks();
        self.lose_counters();
    }

    /// Loses all locks at once, and keeps the counters of fencing tokens.
    pub fn evict(&self) {
        self.strikes(Trouble::Eviction);
        self.lose_locks();
    }

    /// Loses the counters of fencing tokens at once, and keeps the locks.
    pub fn forget(&self) {
        self.lose_counters();
    }

    /// Starts lost counters with 1 from now on, regardless of the clock.
    ///
    /// Servers that are not expected to lose counters might do so.
    pub fn count_without_time(&self) {
        self.state().machine.count_without_time();
    }

    fn lose_locks(&self) {
        let now = self.0.world.now();
        let lost = self.state().machine.lose_all_but(&Persistence::Counters, now);
        self.record_loss(&lost);
    }

    fn lose_counters(&self) {
        if self.state().machine.lose_counters() {
            self.strikes(Trouble::Amnesia(Duration::ZERO));
        }
    }
}
