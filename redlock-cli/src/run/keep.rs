//! `--at-least` and `--once-per`: keeping the lock after the command has ended.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;

/// The shortest time for which servers keep a key. A shorter time needs no request.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest time for which a lock is kept. It is below the longest TTL, 24 days, to which the drift is added.
pub(crate) const LONGEST: Duration = Duration::from_secs(23 * 24 * 3600);

/// The time for which a lock is kept, counted from its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    /// The least time from the grant to the end of the lock.
    pub(crate) at_least: Duration,
    /// `true` if the lock of a failed command is released at once.
    pub(crate) success_only: bool,
}

impl Keep {
    /// Creates the rule for a job that runs once a period: 0.9 of it, and only after success.
    ///
    /// A whole period would skip every second run, because the next run comes one period after this one started, which
    /// is before the grant.
    pub(crate) fn once_per(period: Duration) -> Self {
        Self { at_least: period * 9 / 10, success_only: true }
    }

    /// Returns the time for which to keep the lock from now on; `None` for none.
    pub(crate) fn rest(&self, granted: Instant, now: Instant, success: bool) -> Option<Duration> {
        let rest = (granted + self.at_least).saturating_duration_since(now);
        Some(rest).filter(|rest| *rest >= SHORTEST && (success || !self.success_only))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn the_rest_counts_from_the_grant() {
        let keep = Keep { at_least: Duration::from_secs(50), success_only: false };
        assert_eq!(Some(Duration::from_secs(40)), keep.rest(at(100), at(110), true));
        assert_eq!(Some(Duration::from_secs(40)), keep.rest(at(100), at(110), false));
        assert_eq!(None, keep.rest(at(100), at(150), true));
    }

    #[test]
    fn once_per_hour_keeps_the_lock_for_nine_tenths_after_success() {
        let keep = Keep::once_per(Duration::from_secs(3600));
        assert_eq!(Some(Duration::from_secs(3230)), keep.rest(at(100), at(110), true));
        assert_eq!(None, keep.rest(at(100), at(110), false));
    }
}
