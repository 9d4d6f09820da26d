//! The times of a job that runs once a period: how long it waits for its lock, and how long the lock is kept afterwards.

use std::time::Duration;

use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::ttl::Ttl;

/// The time from the call for which the lock is kept: nine tenths of the period.
///
/// A whole period would skip every second run, because the next call comes one period after this one, give or take the
/// delays of the scheduler. It does not count from the grant: the request may have waited for an outage to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(Duration);

impl Share {
    /// Returns the share of a period, if it is a valid time to live.
    pub(crate) fn of(period: Duration) -> Result<Self, Error> {
        let share = period / 10 * 9;
        match Ttl::new(share) {
            Ok(_) => Ok(Self(share)),
            Err(_) => {
                Err(Error::invalid(format!("a period of {period:?} is out of range: 12 ms to 26 days")))
            }
        }
    }

    /// Returns how long to keep the lock from now on; `None` if too little of the share is left.
    pub(crate) fn rest(self, called: Instant, now: Instant) -> Option<Duration> {
        let rest = (called + self.0).saturating_duration_since(now);
        (rest >= Ttl::MIN.as_duration()).then_some(rest)
    }
}

/// Returns how long a job waits for its lock by default: a tenth of the period, and at most a minute.
///
/// A minute covers a restart of the servers. A tenth of the period is over when the next period begins, even after the
/// nine tenths for which the lock is kept.
pub(crate) fn default_wait(period: Duration) -> Duration {
    (period / 10).min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn a_job_waits_for_a_tenth_of_its_period_and_at_most_a_minute() {
        let waits = [600, 60, 3600].map(|period| default_wait(Duration::from_secs(period)).as_secs());
        assert_eq!([60, 6, 60], waits);
    }

    #[test]
    fn nine_tenths_of_the_period_count_from_the_call() {
        let share = Share::of(Duration::from_secs(3600)).unwrap();
        assert_eq!(Some(Duration::from_secs(3230)), share.rest(at(100), at(110)));
        assert_eq!(None, share.rest(at(100), at(3340)), "the job took as long");
    }

    #[test]
    fn the_bounds_are_those_of_a_ttl() {
        let day = Duration::from_secs(24 * 3600);
        for good in [Duration::from_millis(12), 26 * day] {
            assert!(Share::of(good).is_ok(), "{good:?}");
        }
        for bad in [Duration::from_millis(11), 27 * day, Duration::MAX] {
            assert!(Share::of(bad).unwrap_err().to_string().contains("12 ms to 26 days"), "{bad:?}");
        }
    }
}
