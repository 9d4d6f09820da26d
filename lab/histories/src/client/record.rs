//! The record of a process.

use std::cell::Cell;
use std::io::{self, Write as _, stdout};
use std::time::Duration;

use redlock_core::Lease;
use redlock_history_checker::{Action, Event, HoldId, Mode};
use rustix::time::{ClockId, clock_gettime};

/// Writes the events of a process, in the order of their times.
pub(crate) struct Recorder {
    process: String,
    holds: Cell<u64>,
}

impl Recorder {
    pub(crate) fn new(process: &str) -> Self {
        Self { process: process.to_owned(), holds: Cell::new(0) }
    }

    /// Records that an acquisition begins.
    pub(crate) fn acquire(&self, resource: &str, mode: Mode, ttl: Duration) -> io::Result<Record<'_>> {
        let hold = self.holds.get() + 1;
        self.holds.set(hold);
        let record = Record { recorder: self, hold, resource: resource.to_owned() };
        record.event(Action::Acquire { mode, ttl: nanoseconds(ttl) })?;
        Ok(record)
    }
}

/// The record of one acquisition and its lease.
pub(crate) struct Record<'a> {
    recorder: &'a Recorder,
    hold: u64,
    resource: String,
}

impl Record<'_> {
    /// Records an action before it begins, or its result once it is known.
    pub(crate) fn event(&self, action: Action) -> io::Result<()> {
        let id = HoldId { process: self.recorder.process.clone(), hold: self.hold };
        let event = Event { time: now(), id, resource: self.resource.clone(), action };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        // One write: a process that is killed leaves whole lines.
        stdout().write_all(&line)
    }
}

/// Returns the end of the validity on the clock of the history. It is never later than the lease reports.
pub(crate) fn valid_until(lease: &Lease) -> u64 {
    let now = now();
    now + nanoseconds(lease.remaining())
}

fn now() -> u64 {
    let since_boot = clock_gettime(ClockId::Monotonic).try_into();
    nanoseconds(since_boot.expect("the clock counts from the start of the machine"))
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().expect("a time of less than 500 years")
}
