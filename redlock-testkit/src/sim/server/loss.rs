//! What a running server loses: locks, the counters of fencing tokens, or both.

use std::time::Duration;

use redlock_core::Runtime;

use super::machine::Keeps;
use super::{Server, Trouble};

impl Server {
    /// Loses all keys at once, those of counters too, as by FLUSHALL.
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

    /// From now on counts up from 1 where a counter is lost, whatever its clock shows: as servers that are not meant to
    /// lose any might.
    pub fn count_without_time(&self) {
        self.state().machine.count_without_time();
    }

    fn lose_locks(&self) {
        let now = self.0.world.now();
        let lost = self.state().machine.lose_all_but(&Keeps::Counters, now);
        self.record_loss(&lost);
    }

    fn lose_counters(&self) {
        if self.state().machine.lose_counters() {
            self.strikes(Trouble::Amnesia(Duration::ZERO));
        }
    }
}
