//! The validity of a lease.
//!
//! A lease whose round began at `start` is valid until `start + ttl - drift`. The first key cannot have been set before
//! `start`. Thus by a perfect clock, no key expires before `start + ttl`. The drift allowance covers imperfect clocks
//! ([article], "Safety arguments"). It is the sum of a share of the TTL for clocks of different speeds, and of 2 ms for
//! expiry in whole milliseconds. All values are integers and rounded against the holder.
//!
//! [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

use std::time::Duration;

use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::ttl::{EXPIRY_GRANULE, Ttl};

/// The maximum difference between clocks, in parts per million of the TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriftFactor(u32);

/// The maximum share of the time for which a lock is kept. Of a day, 1 % would be a quarter of an hour.
const LONGEST_KEPT_SHARE: Duration = Duration::from_millis(500);

impl DriftFactor {
    pub(crate) fn new(factor: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&factor) {
            return Err(Error::invalid(format!("a clock drift factor of {factor} is not in 0.0..1.0")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in 0..=1,000,000, checked above
        Ok(Self((factor * 1e6).ceil() as u32))
    }

    /// Returns the factor, from 0 to less than 1.
    pub(crate) fn get(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Returns the maximum difference between clocks after `ttl`.
    pub(crate) fn drift(self, ttl: Ttl) -> Duration {
        self.share(ttl.as_duration()) + EXPIRY_GRANULE
    }

    /// Returns the end of the validity of a lease whose round began at `start`.
    ///
    /// At this very moment the lease is no longer valid.
    pub(crate) fn deadline(self, start: Instant, ttl: Ttl) -> Instant {
        start + ttl.as_duration().saturating_sub(self.drift(ttl))
    }

    /// Returns the TTL of the keys of a lock that is [kept](crate::Guard::keep_for) for `rest`.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: `rest` is out of the bounds of a TTL, or exceeds them with its drift.
    pub(crate) fn kept_ttl(self, rest: Duration) -> Result<Ttl, Error> {
        Ttl::new(rest)?;
        Ttl::new(rest.saturating_add(self.share(rest).min(LONGEST_KEPT_SHARE) + EXPIRY_GRANULE))
    }

    /// Returns this share of `time`, rounded up.
    fn share(self, time: Duration) -> Duration {
        let nanos = (time.as_nanos() * u128::from(self.0)).div_ceil(1_000_000);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn the_default_drift_is_one_percent_and_two_milliseconds() {
        let factor = DriftFactor::new(0.01).unwrap();
        assert_eq!(Duration::from_millis(102), factor.drift(ttl(10_000)));
        let start = Instant::since_origin(Duration::from_secs(5));
        assert_eq!(start + Duration::from_millis(9_898), factor.deadline(start, ttl(10_000)));
        assert_eq!(start + Duration::from_micros(7_900), factor.deadline(start, Ttl::MIN));
    }

    #[test]
    fn a_kept_lock_gets_the_drift_but_no_share_of_a_day() {
        let added = |factor, seconds| {
            let rest = Duration::from_secs(seconds);
            DriftFactor::new(factor).unwrap().kept_ttl(rest).unwrap().as_duration().saturating_sub(rest)
        };
        assert_eq!(Duration::from_millis(12), added(0.01, 1));
        assert_eq!(Duration::from_millis(502), added(0.01, 50));
        assert_eq!(Duration::from_millis(502), added(0.01, 86_400));
        assert_eq!(Duration::from_millis(52), added(0.05, 1));
        assert_eq!(Duration::from_millis(2), added(0.0, 86_400));
    }

    #[test]
    fn the_time_of_a_kept_lock_has_the_bounds_of_a_ttl() {
        let kept = |millis| DriftFactor::new(0.01).unwrap().kept_ttl(Duration::from_millis(millis)).is_ok();
        let days_24 = 24 * 86_400_000;
        assert!(!kept(9) && kept(10));
        assert!(kept(days_24 - 502) && !kept(days_24 - 501));
        assert!(DriftFactor(10_000).kept_ttl(Duration::MAX).is_err());
    }

    #[test]
    fn invalid_drift_is_rejected() {
        for factor in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(DriftFactor::new(factor).unwrap_err().to_string().contains("0.0..1.0"));
        }
    }

    proptest! {
        #[test]
        fn a_deadline_precedes_the_expiry_of_the_key_on_the_fastest_clock(
            millis in 10_u64..2_073_600_000, ppm in 0_u32..500_000, start in 0_u64..1 << 60,
        ) {
            let (factor, start) = (DriftFactor(ppm), Instant::since_origin(Duration::from_nanos(start)));
            let validity = factor.deadline(start, ttl(millis)).saturating_duration_since(start);
            // A server clock that is fast by `ppm` and expires a key a whole millisecond early.
            let left = u128::from(millis) * 1_000_000 - u128::from(millis) * u128::from(ppm);
            prop_assert!(validity.as_nanos() <= left.saturating_sub(1_000_000));
        }

        #[test]
        fn a_factor_is_never_rounded_down(factor in 0.0_f64..0.999) {
            prop_assert!(f64::from(DriftFactor::new(factor).unwrap().0) >= factor * 1e6);
        }
    }
}
