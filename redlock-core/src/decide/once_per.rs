//! The decision how long the lock of a job is kept after the job, so that it runs once a period.

use std::time::Duration;

use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::ttl::Ttl;

/// The time from the grant for which the lock is kept: nine tenths of the period.
///
/// A whole period would skip every second run, because the next run begins one period after this one began, which is
/// before the grant.
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
    pub(crate) fn rest(self, granted: Instant, now: Instant) -> Option<Duration> {
        let rest = (granted + self.0).saturating_duration_since(now);
        (rest >= Ttl::MIN.as_duration()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn nine_tenths_of_the_period_count_from_the_grant() {
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
