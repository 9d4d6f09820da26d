//! The leases of a history.

use crate::line::{HoldId, Mode};

/// A time during which a client relies on its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The first moment.
    pub from: u64,
    /// The first moment after it.
    pub until: u64,
}

impl Interval {
    /// Returns the common part, if it is not empty.
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        let common = Self { from: self.from.max(other.from), until: self.until.min(other.until) };
        (common.from < common.until).then_some(common)
    }
}

/// An acquisition, and the lease that resulted from it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The acquisition.
    pub id: HoldId,
    /// The lock.
    pub resource: String,
    /// The kind of lock.
    pub mode: Mode,
    /// The time at which the acquisition began.
    pub invoked: u64,
    /// The time at which its success was known. `None` if it failed, or the process was killed before.
    pub acquired: Option<u64>,
    /// The fencing token.
    pub token: Option<u64>,
    /// When the client relies on the lease: from each time at which it learned the end of the validity, to this end, or
    /// to the release, the loss or the death of the process.
    pub intervals: Vec<Interval>,
    /// The time of the release, the reported loss or the death of the process, whichever comes first.
    pub ended: Option<u64>,
}

impl Hold {
    /// Adds a report that the lease is valid.
    pub(crate) fn valid(&mut self, from: u64, until: u64) {
        self.intervals.push(Interval { from, until });
    }

    /// Ends the lease at `time`, unless it ended before.
    pub(crate) fn end(&mut self, time: u64) {
        self.ended = Some(self.ended.map_or(time, |ended| ended.min(time)));
    }

    /// Cuts the intervals at the end of the lease, and removes empty ones.
    pub(crate) fn cut(&mut self) {
        let ended = self.ended.unwrap_or(u64::MAX);
        for interval in &mut self.intervals {
            interval.until = interval.until.min(ended);
        }
        self.intervals.retain(|interval| interval.from < interval.until);
    }
}
