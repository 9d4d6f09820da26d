//! The times at which a command is stopped because its lock is about to end.
//!
//! The rule is that of [`Grace`]: `SIGTERM` by default is the signal, and `SIGKILL` the stop. Its margin is 50 ms or more,
//! for ticks, scheduling and the delivery of a signal.
//!
//! Both times move with every renewal until the first signal is sent. After it, `SIGKILL` follows after the grace period
//! at the latest, even if a renewal succeeds meanwhile: the command has begun to stop.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use redlock_redis_rs::supervise::Grace;

/// The shortest TTL of a supervised lock.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(1);

const LEAST_MARGIN: Duration = Duration::from_millis(50);

/// Returns how long the supervisor waits for the keeper to release the lock, or to keep it for the rest of a period.
///
/// The servers have one node timeout to reply. To keep a lock, the keeper may first wait for the end of earlier writes,
/// for two node timeouts at most. The margin is for the processes.
pub(crate) fn release_limit(node_timeout: Duration) -> Duration {
    const MARGIN: Duration = Duration::from_secs(1);

    3 * node_timeout + MARGIN
}

/// The rule for one TTL and one grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times(Grace);

impl Times {
    /// Creates the rule. The default grace period is a quarter of the TTL.
    ///
    /// Fails with a message if too little time would be left for renewals.
    pub(crate) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, String> {
        if ttl < MIN_TTL {
            return Err(format!("a TTL of {ttl:?} is too short; the minimum is 1s"));
        }
        let grace = Grace::new(ttl, grace.unwrap_or(ttl / 4), LEAST_MARGIN);
        grace.map(Self).map_err(|error| error.to_string())
    }

    /// Returns the rule for the shortest TTL, without a grace period.
    pub(crate) fn smallest() -> Self {
        Self::new(MIN_TTL, Some(Duration::ZERO))
            .expect("the shortest TTL has no time for a grace period, and needs none")
    }

    /// Returns how long the command has from the first signal to `SIGKILL`.
    pub(crate) fn grace(&self) -> Duration {
        self.0.period()
    }

    /// Returns the longest interval between two readings of the clock: half of the margin.
    pub(crate) fn tick(&self) -> Duration {
        self.0.margin() / 2
    }

    /// Returns when the first signal is due if the lock is valid until `end`.
    pub(crate) fn term_at(&self, end: Instant) -> Instant {
        self.0.signal_at(end)
    }

    /// Returns when `SIGKILL` is due if the lock is valid until `end`.
    pub(crate) fn kill_at(&self, end: Instant) -> Instant {
        self.0.stop_at(end)
    }

    /// Returns when `SIGKILL` is due after a first signal at `term`.
    pub(crate) fn kill_after(&self, term: Instant, end: Instant) -> Instant {
        (term + self.grace()).min(self.kill_at(end))
    }
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
    fn the_limit_of_a_release_covers_three_replies() {
        assert_eq!([4_000, 16_000].map(ms), [1_000, 5_000].map(|timeout| release_limit(ms(timeout))));
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
    }
}
