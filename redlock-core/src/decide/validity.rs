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
use crate::types::ttl::Ttl;

/// The maximum difference between clocks, in parts per million of the TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriftFactor(u32);

/// The addition to the share of the TTL. Servers expire keys by a clock of whole milliseconds.
const GRANULE: Duration = Duration::from_millis(2);

impl DriftFactor {
    pub(crate) fn new(factor: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&factor) {
            return Err(Error::invalid(format!("a clock drift factor of {factor} is not in 0.0..1.0")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in 0..=1,000,000, checked above
        Ok(Self((factor * 1e6).ceil() as u32))
    }

    /// Returns the maximum difference between clocks after `ttl`.
    pub(crate) fn drift(self, ttl: Ttl) -> Duration {
        let nanos = (ttl.as_duration().as_nanos() * u128::from(self.0)).div_ceil(1_000_000);
        let share = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        share + GRANULE
    }

    /// Returns the end of the validity of a lease whose round began at `start`.
    ///
    /// At this very moment the lease is no longer valid.
    pub(crate) fn deadline(self, start: Instant, ttl: Ttl) -> Instant {
        start + ttl.as_duration().saturating_sub(self.drift(ttl))
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
