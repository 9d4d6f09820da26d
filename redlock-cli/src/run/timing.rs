//! The times at which a command is stopped because its lock is about to end.
//!
//! V is the end of the validity, T the TTL, G the grace period, and A an allowance for ticks, scheduling and the delivery
//! of a signal:
//!
//! ```text
//! A       = T / 50, from 50 ms to 500 ms
//! S_kill  = V - A            SIGKILL
//! S_term  = V - A - G        the first signal, SIGTERM by default
//! ```
//!
//! Both times move with every renewal until the first signal is sent. After it, `SIGKILL` follows after G at the latest,
//! even if a renewal succeeds meanwhile: the command has begun to stop.
//!
//! The library first renews when two thirds of T are left. Together with `G + A <= T / 3`, renewals have a window of at
//! least T/3 in which they can fail and be repeated before the command notices.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;

/// The shortest TTL of a supervised lock.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(1);

const ALLOWANCE_DIVISOR: u32 = 50;
const ALLOWANCE_BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// The rule for one TTL and one grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    grace: Duration,
    allowance: Duration,
}

impl Times {
    /// Creates the rule. The default grace period is a quarter of the TTL.
    ///
    /// Fails with a message if too little time would be left for renewals.
    pub(crate) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, String> {
        if ttl < MIN_TTL {
            return Err(format!("a TTL of {ttl:?} is too short; the minimum is 1s"));
        }
        let (grace, allowance) = (grace.unwrap_or(ttl / 4), allowance(ttl));
        if grace.saturating_add(allowance) > ttl / 3 {
            let needed = ttl_for(grace);
            return Err(format!(
                "a grace period of {grace:?} is too long for a TTL of {ttl:?}; it needs a TTL of {needed:?}"
            ));
        }
        Ok(Self { grace, allowance })
    }

    /// Returns the rule for the shortest TTL, without a grace period.
    pub(crate) fn smallest() -> Self {
        Self { grace: Duration::ZERO, allowance: allowance(MIN_TTL) }
    }

    /// Returns how long the command has from the first signal to `SIGKILL`.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// Returns the longest interval between two readings of the clock: half of the allowance.
    pub(crate) fn tick(&self) -> Duration {
        self.allowance / 2
    }

    /// Returns when the first signal is due if the lock is valid until `end`.
    pub(crate) fn term_at(&self, end: Instant) -> Instant {
        self.kill_at(end) - self.grace
    }

    /// Returns when `SIGKILL` is due if the lock is valid until `end`.
    pub(crate) fn kill_at(&self, end: Instant) -> Instant {
        end - self.allowance
    }

    /// Returns when `SIGKILL` is due after a first signal at `term`.
    pub(crate) fn kill_after(&self, term: Instant, end: Instant) -> Instant {
        (term + self.grace).min(self.kill_at(end))
    }
}

fn allowance(ttl: Duration) -> Duration {
    let (least, most) = ALLOWANCE_BOUNDS;
    (ttl / ALLOWANCE_DIVISOR).clamp(least, most)
}

/// Returns the shortest TTL that allows this grace period, in whole milliseconds.
fn ttl_for(grace: Duration) -> Duration {
    let (least, most) = ALLOWANCE_BOUNDS;
    // G + T/50 <= T/3 is T >= G * 150/47.
    let grace = grace.min(Duration::from_secs(u64::from(u32::MAX)));
    let candidates = [(grace + least) * 3, grace * 150 / 47, (grace + most) * 3];
    let fits = |ttl: &Duration| grace + allowance(*ttl) <= *ttl / 3;
    let up = |ttl: Duration| {
        Duration::from_millis(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    };
    // A third of a whole number of milliseconds may be rounded down by a nanosecond.
    let rounded = candidates.into_iter().flat_map(|ttl| [up(ttl), up(ttl) + Duration::from_millis(1)]);
    rounded.filter(fits).min().unwrap_or((grace + most) * 3).max(MIN_TTL)
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
    fn the_defaults_for_thirty_seconds() {
        let times = Times::new(ms(30_000), None).unwrap();
        assert_eq!(ms(7_500), times.grace());
        assert_eq!(at(21_698), times.term_at(at(29_698)));
        assert_eq!(at(29_198), times.kill_at(at(29_698)));
        assert_eq!(ms(250), times.tick());
    }

    #[test]
    fn too_long_a_grace_period_names_the_ttl_that_it_needs() {
        let message = Times::new(ms(30_000), Some(ms(20_000))).unwrap_err();
        assert_eq!("a grace period of 20s is too long for a TTL of 30s; it needs a TTL of 61.5s", message);
        assert!(Times::new(ms(61_500), Some(ms(20_000))).is_ok());
        assert!(Times::new(ms(999), None).unwrap_err().contains("the minimum is 1s"));
        assert!(Times::new(ms(1000), None).is_ok());
        assert!(Times::new(ms(30_000), Some(Duration::MAX)).is_err());
    }

    /// An accepted TTL with its grace period.
    fn accepted() -> impl Strategy<Value = (Duration, Times)> {
        (1_000_u64..2_000_000, 0.0_f64..0.4).prop_filter_map("rejected", |(ttl, share)| {
            let ttl = ms(ttl);
            Times::new(ttl, Some(ttl.mul_f64(share))).ok().map(|times| (ttl, times))
        })
    }

    proptest! {
        #[test]
        fn renewals_have_a_window_of_a_third_of_the_ttl((ttl, times) in accepted()) {
            // The library renews when at least two thirds of the TTL are left.
            let end = at(10_000_000);
            let window = times.term_at(end).saturating_duration_since(end - ttl * 2 / 3);
            prop_assert!(window + Duration::from_nanos(2) >= ttl / 3, "{window:?} of {ttl:?}");
        }

        #[test]
        fn nothing_is_later_than_the_allowance_before_the_end(
            (ttl, times) in accepted(), end in 10_000_000_u64..20_000_000, late in 0_u64..10_000_000,
        ) {
            let last = at(end) - (ttl / 50).clamp(ms(50), ms(500));
            prop_assert!(times.term_at(at(end)) <= times.kill_at(at(end)));
            prop_assert_eq!(last, times.kill_at(at(end)));
            let term = times.term_at(at(end)) + ms(late);
            prop_assert!(times.kill_after(term, at(end)) <= last);
        }

        #[test]
        fn both_times_move_with_the_end(
            (_, times) in accepted(), ends in prop::collection::vec(3_000_000_u64..9_000_000, 2..20),
        ) {
            let mut ends = ends;
            ends.sort_unstable();
            let rising = |time: &dyn Fn(Instant) -> Instant| ends.windows(2).all(|two| time(at(two[0])) <= time(at(two[1])));
            prop_assert!(rising(&|end| times.term_at(end)) && rising(&|end| times.kill_at(end)));
        }

        #[test]
        fn a_grace_period_is_kept_unless_the_end_is_near((_, times) in accepted(), early in 0_u64..1_000_000) {
            let end = at(10_000_000);
            let term = times.term_at(end) - ms(early);
            prop_assert_eq!(term + times.grace(), times.kill_after(term, end));
        }

        #[test]
        fn the_named_ttl_is_the_shortest_that_is_accepted(grace in 0_u64..100_000) {
            let named = ttl_for(ms(grace));
            prop_assert!(Times::new(named, Some(ms(grace))).is_ok(), "{named:?}");
            let less = named.saturating_sub(ms(2));
            prop_assert!(Times::new(less, Some(ms(grace))).is_err(), "{less:?}");
        }
    }
}
