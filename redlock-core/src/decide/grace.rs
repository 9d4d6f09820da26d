//! The times at which work is told to stop, and is stopped, because its lock is about to end.

use std::time::Duration;

use crate::types::error::Error;
use crate::types::instant::Instant;

/// The divisor of the TTL that results in the margin.
///
/// A fiftieth is enough for a task to wake up and stop, and little of the validity.
const MARGIN: u32 = 50;

/// The longest margin: no task needs longer than this to learn of a loss.
const LONGEST_MARGIN: Duration = Duration::from_millis(500);

/// The share of the TTL that the grace period and the margin may take, as a divisor.
const SHARE: u32 = 3;

/// The rule for one TTL and one grace period: when work is told to stop, and when it is stopped.
///
/// V is the end of the validity, T the TTL, G the grace period, and A a margin in which the work ends:
///
/// ```text
/// A       = T / 50, at most 500 ms
/// signal  = V - A - G        the work is told to stop
/// stop    = V - A            the work is stopped
/// ```
///
/// Both times move with every renewal. A lock is renewed when two thirds of T are left. Together with `G + A <= T / 3`,
/// renewals have at least T/3 in which they can fail and be repeated before the signal.
///
/// [`LockRequest::grace`](crate::LockRequest::grace) follows this rule with a margin of at least 1 ms. A program that
/// stops work outside of this library, such as a process, can follow it with a longer margin.
///
/// ```
/// use std::time::Duration;
/// use redlock_core::runtime::suspend_aware_now;
/// use redlock_core::supervise::Grace;
///
/// # fn main() -> Result<(), redlock_core::Error> {
/// let least_margin = Duration::from_millis(50);
/// let grace = Grace::new(Duration::from_secs(30), Duration::from_secs(5), least_margin)?;
///
/// let end = suspend_aware_now() + Duration::from_secs(30);
/// assert_eq!(end - Duration::from_millis(5_500), grace.signal_at(end));
/// assert_eq!(end - Duration::from_millis(500), grace.stop_at(end));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    period: Duration,
    margin: Duration,
}

impl Grace {
    /// Creates the rule for locks with this TTL.
    ///
    /// `period` is the time from the signal to the stop. `least_margin` is the shortest time from the stop to the end of
    /// the validity, at most 500 ms; longer ones count as 500 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::supervise::Grace;
    /// let seconds = Duration::from_secs;
    /// let error = Grace::new(seconds(30), seconds(20), Duration::ZERO).unwrap_err();
    /// assert_eq!("a grace period of 20s is too long for a TTL of 30s; it needs a TTL of 61.5s", error.to_string());
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the grace period and the margin are more than a third of the
    /// TTL. The message names the shortest TTL that allows the grace period.
    pub fn new(ttl: Duration, period: Duration, least_margin: Duration) -> Result<Self, Error> {
        let margin = margin(ttl, least_margin);
        if period.saturating_add(margin) > ttl / SHARE {
            let needed = shortest_ttl(period, least_margin);
            return Err(Error::invalid(format!(
                "a grace period of {period:?} is too long for a TTL of {ttl:?}; it needs a TTL of {needed:?}"
            )));
        }
        Ok(Self { period, margin })
    }

    /// Returns the time from the signal to the stop.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::supervise::Grace;
    /// let seconds = Duration::from_secs;
    /// let grace = Grace::new(seconds(30), seconds(5), Duration::ZERO)?;
    /// assert_eq!(seconds(5), grace.period());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Returns the time from the stop to the end of the validity.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::supervise::Grace;
    /// let seconds = Duration::from_secs;
    /// let grace = Grace::new(seconds(10), seconds(2), Duration::ZERO)?;
    /// assert_eq!(Duration::from_millis(200), grace.margin());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub const fn margin(&self) -> Duration {
        self.margin
    }

    /// Returns when the work is told to stop if the lock is valid until `end`.
    ///
    /// For an example, see [`Grace`].
    pub fn signal_at(&self, end: Instant) -> Instant {
        self.stop_at(end) - self.period
    }

    /// Returns when the work is stopped if the lock is valid until `end`.
    ///
    /// For an example, see [`Grace`].
    pub fn stop_at(&self, end: Instant) -> Instant {
        end - self.margin
    }
}

/// Returns how long before the end of the validity of a lock its work is stopped.
pub(crate) fn margin(ttl: Duration, least: Duration) -> Duration {
    (ttl / MARGIN).max(least).min(LONGEST_MARGIN)
}

/// Returns the shortest TTL that allows this grace period, in whole milliseconds.
fn shortest_ttl(period: Duration, least_margin: Duration) -> Duration {
    let (least, most) = (least_margin.min(LONGEST_MARGIN), LONGEST_MARGIN);
    let period = period.min(Duration::from_secs(u64::from(u32::MAX)));
    let fits = |ttl: &Duration| period + margin(*ttl, least) <= *ttl / SHARE;
    // One for each range of the margin. In the middle one, G + T/50 <= T/3 is T >= G * 150/47.
    let candidates = [(period + least) * SHARE, period * 150 / 47, (period + most) * SHARE];
    let up = |ttl: Duration| {
        Duration::from_millis(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    };
    // A third of a whole number of milliseconds may be rounded down by a nanosecond.
    let rounded = candidates.into_iter().flat_map(|ttl| [up(ttl), up(ttl) + Duration::from_millis(1)]);
    rounded.filter(fits).min().unwrap_or((period + most) * SHARE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn thirty_seconds_with_a_quarter_of_grace() {
        let grace = Grace::new(ms(30_000), ms(7_500), ms(50)).unwrap();
        assert_eq!((ms(7_500), ms(500)), (grace.period(), grace.margin()));
        assert_eq!(at(21_698), grace.signal_at(at(29_698)));
        assert_eq!(at(29_198), grace.stop_at(at(29_698)));
    }

    #[test]
    fn too_long_a_grace_period_names_the_ttl_that_it_needs() {
        let message = Grace::new(ms(30_000), ms(20_000), ms(50)).unwrap_err().to_string();
        assert_eq!("a grace period of 20s is too long for a TTL of 30s; it needs a TTL of 61.5s", message);
        assert!(Grace::new(ms(61_500), ms(20_000), ms(50)).is_ok());
        assert!(Grace::new(ms(30_000), Duration::MAX, Duration::MAX).is_err());
    }

    /// An accepted TTL with its rule.
    fn accepted() -> impl Strategy<Value = (Duration, Grace)> {
        (10_u64..2_000_000, 0.0_f64..0.4, 1_u64..60).prop_filter_map("rejected", |(ttl, share, least)| {
            let ttl = ms(ttl);
            Grace::new(ttl, ttl.mul_f64(share), ms(least)).ok().map(|grace| (ttl, grace))
        })
    }

    proptest! {
        #[test]
        fn renewals_have_a_third_of_the_ttl_before_the_signal((ttl, grace) in accepted()) {
            let end = at(10_000_000);
            let window = grace.signal_at(end).saturating_duration_since(end - ttl * 2 / 3);
            prop_assert!(window + Duration::from_nanos(2) >= ttl / 3, "{window:?} of {ttl:?}");
        }

        #[test]
        fn the_work_has_the_grace_period_and_stops_a_margin_before_the_end(
            (ttl, grace) in accepted(), end in 10_000_000_u64..20_000_000,
        ) {
            let (signal, stop) = (grace.signal_at(at(end)), grace.stop_at(at(end)));
            prop_assert_eq!(grace.period(), stop.saturating_duration_since(signal));
            let left = at(end).saturating_duration_since(stop);
            prop_assert!(left >= (ttl / 50).min(ms(500)) && left >= ms(1) && left <= ms(500), "{left:?}");
        }

        #[test]
        fn the_named_ttl_is_the_shortest_that_is_accepted(period in 0_u64..100_000, least in 0_u64..1_000) {
            let (period, least) = (ms(period), ms(least));
            let named = shortest_ttl(period, least);
            prop_assert!(Grace::new(named, period, least).is_ok(), "{named:?}");
            let less = named.saturating_sub(ms(2));
            prop_assert!(less.is_zero() || Grace::new(less, period, least).is_err(), "{less:?}");
        }
    }
}
