//! The losses of a running server: locks, the counters of fencing tokens, or both.

use std::mem;
use std::time::Duration;

use super::machine::Persistence;
use super::{FaultKind, Server};

impl Server {
    /// Loses all keys at once, including those of counters, as by FLUSHALL.
    pub fn flush(&self) {
        self.begin_fault(FaultKind::Flush);
        self.lose_locks();
        self.lose_counters();
        let mut state = self.state();
        state.losses += 1;
        state.machine.notify_of_loss();
        self.0.changed.notify(usize::MAX);
    }

    /// Copies all data, like a snapshot or a replica that lags from now on. The copy replaces the earlier one.
    ///
    /// Without a copy, the server uses that of an empty server.
    pub fn copy(&self) {
        self.state().machine.copy();
    }

    /// Becomes a replica, and takes over the [older copy](Server::copy) of its data.
    ///
    /// It rejects writes until it is [promoted](Server::promote). Returns `false` if the server is down or rejects writes
    /// already.
    pub fn demote(&self) -> bool {
        let lost = {
            let mut state = self.state();
            if !state.up || state.machine.is_read_only() {
                return false;
            }
            state.losses += 1;
            state.demoted = true;
            let lost = state.machine.roll_back();
            state.machine.notify_of_loss();
            self.0.changed.notify(usize::MAX);
            lost
        };
        self.read_only(true);
        self.record_loss(&lost);
        self.record_rollback();
        true
    }

    /// Becomes the master again, as the same process.
    ///
    /// If it is no replica, this has no effect.
    pub fn promote(&self) {
        let mut state = self.state();
        if !mem::take(&mut state.demoted) {
            return;
        }
        state.machine.promote();
        drop(state);
        self.read_only(false);
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
