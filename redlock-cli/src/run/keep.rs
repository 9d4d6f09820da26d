//! `--at-least` and `--once-per`: keeping the lock after the command has ended.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;

/// The shortest time for which servers keep a key. A shorter time needs no request.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest time for which a lock is kept. It is below the longest TTL, 24 days, to which the drift is added.
pub(crate) const LONGEST: Duration = Duration::from_secs(23 * 24 * 3600);

/// The time for which a lock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    /// The least time to the end of the lock, from its grant or from the request.
    pub(crate) at_least: Duration,
    /// `true` if the time counts from the beginning of the request, so that it includes the wait.
    pub(crate) since_request: bool,
    /// `true` if the lock of a failed command is released at once.
    pub(crate) success_only: bool,
}

impl Keep {
    /// Creates the rule for a job that runs once a period: 0.9 of it, and only after success.
    ///
    /// A whole period would skip every second run, because the next run comes one period after this one started, give
    /// or take the delays of the scheduler. For the same reason, the time does not count from the grant: the run may
    /// have waited for an outage to end.
    pub(crate) fn once_per(period: Duration) -> Self {
        Self { at_least: period / 10 * 9, since_request: true, success_only: true }
    }

    /// Returns the time for which to keep the lock from now on; `None` for none.
    ///
    /// `waited` is the time from the request to the grant.
    pub(crate) fn rest(
        &self,
        granted: Instant,
        waited: Duration,
        now: Instant,
        success: bool,
    ) -> Option<Duration> {
        let since = if self.since_request { granted - waited } else { granted };
        let rest = (since + self.at_least).saturating_duration_since(now);
        Some(rest).filter(|rest| *rest >= SHORTEST && (success || !self.success_only))
    }
}

/// Returns how long `--once-per` waits for servers by default: a tenth of the period, and at most a minute.
///
/// These are the times of `LockRequest::once_per`. A minute covers a restart of the servers. A tenth of the period is
/// over when the next period begins.
pub(crate) fn outage_limit(period: Duration) -> Duration {
    (period / 10).min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    const NO_WAIT: Duration = Duration::ZERO;

    #[test]
    fn the_rest_counts_from_the_grant() {
        let keep = Keep { at_least: Duration::from_secs(50), since_request: false, success_only: false };
        assert_eq!(Some(Duration::from_secs(40)), keep.rest(at(100), NO_WAIT, at(110), true));
        assert_eq!(
            Some(Duration::from_secs(40)),
            keep.rest(at(100), Duration::from_secs(30), at(110), false)
        );
        assert_eq!(None, keep.rest(at(100), NO_WAIT, at(150), true));
    }

    #[test]
    fn once_per_hour_keeps_the_lock_for_nine_tenths_after_success() {
        let keep = Keep::once_per(Duration::from_secs(3600));
        assert_eq!(Some(Duration::from_secs(3230)), keep.rest(at(100), NO_WAIT, at(110), true));
        assert_eq!(None, keep.rest(at(100), NO_WAIT, at(110), false));
    }

    #[test]
    fn once_per_hour_counts_from_the_request() {
        let (keep, waited) = (Keep::once_per(Duration::from_secs(3600)), Duration::from_secs(60));
        assert_eq!(Some(Duration::from_secs(3170)), keep.rest(at(100), waited, at(110), true));
        assert_eq!(None, keep.rest(at(100), waited, at(3280), true), "the next run may start soon");
    }

    #[test]
    fn servers_are_awaited_for_a_tenth_of_the_period_and_at_most_a_minute() {
        let limits = [10, 600, 3600].map(|period| outage_limit(Duration::from_secs(period)).as_secs());
        assert_eq!([1, 60, 60], limits);
    }
}
