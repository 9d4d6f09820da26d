//! Whether to try again after a lost round, and when.
//!
//! The delay is random, so that contenders who collided once do not collide again; it is never below 1 ms, so that no
//! setting makes a hot loop. Contention is bounded by time and, when asked for, by a number of attempts. Nodes that
//! cannot be reached are bounded by rounds instead: waiting for them is not what a lock's caller meant by waiting.

use std::time::Duration;

use crate::clock::Instant;

/// How long a caller is willing to try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// When to stop trying, or never.
    pub(crate) until: Option<Instant>,
    /// How many attempts may be made, or any number.
    pub(crate) attempts: Option<u32>,
    /// The longest delay between two attempts; the shortest is half of it.
    pub(crate) delay: Duration,
}

/// Why the last round was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// Someone else has the lock.
    Contended,
    /// Nodes failed, or answered too late to be of use.
    Unusable,
}

impl Patience {
    /// So much of a delay that begins now as does not reach beyond the end.
    pub(crate) fn bounded(&self, delay: Duration, now: Instant) -> Duration {
        self.until.map_or(delay, |until| delay.min(until.saturating_duration_since(now)))
    }
}

/// Counts the rounds of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    patience: Patience,
    attempts: u32,
    unusable: u32,
}

/// The shortest delay there is.
pub(crate) const FLOOR: Duration = Duration::from_millis(1);

/// So many rounds in a row without a usable quorum end a request: one may be bad luck and two may be a node restarting,
/// but whoever waits through a third waits for an outage.
const UNUSABLE_ROUNDS: u32 = 3;

impl Backoff {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, attempts: 0, unusable: 0 }
    }

    /// The delay before the next attempt, after one that was lost at `now`; `None` when there is none. A delay never
    /// reaches beyond the end of the patience, and no attempt begins after it.
    pub(crate) fn after(&mut self, setback: Setback, now: Instant, random: u64) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        self.unusable = if setback == Setback::Unusable { self.unusable + 1 } else { 0 };
        let left = self.patience.until.map(|until| until.saturating_duration_since(now));
        let exhausted = self.patience.attempts.is_some_and(|limit| self.attempts >= limit)
            || self.unusable >= UNUSABLE_ROUNDS
            || left.is_some_and(|left| left < FLOOR);
        if exhausted {
            return None;
        }
        let delay = between_half_and_whole(self.patience.delay, random).max(FLOOR);
        Some(self.patience.bounded(delay, now))
    }

    /// The attempt that is to come was brought about by the nodes, before the delay was over: it uses up none.
    pub(crate) fn came_early(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
    }
}

/// How long to wait before an attempt for which the nodes are free, when so many of them in a row have failed: others are
/// told of the same moment, and whoever collides with them once need not do so again. The last attempt began so long ago;
/// nodes that say free and refuse make no hot loop.
pub(crate) fn scatter(failed: u32, since_last: Duration, random: u64) -> Duration {
    let spread = match failed {
        0 => Duration::ZERO,
        _ => between_half_and_whole(FLOOR * (1 << failed.min(6)), random),
    };
    spread.max(FLOOR.saturating_sub(since_last))
}

/// Spreads `random` evenly over the upper half of `whole`.
pub(crate) fn between_half_and_whole(whole: Duration, random: u64) -> Duration {
    let half = whole / 2;
    let nanos = half.as_nanos().saturating_mul(u128::from(random)) >> u64::BITS;
    half + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Instant = Instant::ORIGIN;

    fn patience(millis: u64) -> Patience {
        let until = Some(START + Duration::from_millis(millis));
        Patience { until, attempts: None, delay: Duration::from_millis(200) }
    }

    proptest! {
        #[test]
        fn delays_lie_between_half_and_whole(random: u64, micros in 2_000_u64..10_000_000) {
            let delay = Duration::from_micros(micros);
            let mut backoff = Backoff::new(Patience { until: None, attempts: None, delay });
            let chosen = backoff.after(Setback::Contended, START, random).unwrap();
            prop_assert!(delay / 2 <= chosen && chosen <= delay, "{chosen:?}");
        }

        #[test]
        fn no_setting_makes_a_hot_loop(random: u64, nanos in 0_u64..2_000_000, left in 0_u64..3_000_000) {
            let (delay, left) = (Duration::from_nanos(nanos), Duration::from_nanos(left));
            for setback in [Setback::Contended, Setback::Unusable] {
                let mut backoff = Backoff::new(Patience { until: Some(START + left), attempts: None, delay });
                if let Some(chosen) = backoff.after(setback, START, random) {
                    prop_assert!(FLOOR <= chosen && chosen <= left);
                }
            }
        }
    }

    #[test]
    fn delays_are_spread() {
        let mut backoff = Backoff::new(patience(10_000));
        assert_eq!(Some(Duration::from_millis(100)), backoff.after(Setback::Contended, START, 0));
        let longest = backoff.after(Setback::Contended, START, u64::MAX).unwrap();
        assert!(longest > Duration::from_micros(199_999), "{longest:?}");
    }

    #[test]
    fn contention_is_bounded_by_time_alone() {
        let mut backoff = Backoff::new(patience(1_000));
        for _ in 0..1_000 {
            assert!(backoff.after(Setback::Contended, START, 7).is_some());
        }
        let end = START + Duration::from_secs(1);
        assert_eq!(
            Some(Duration::from_millis(50)),
            backoff.after(Setback::Contended, end - Duration::from_millis(50), 0)
        );
        assert_eq!(
            Some(FLOOR),
            backoff.after(Setback::Contended, end - FLOOR, 0),
            "one more, at the very end"
        );
        assert_eq!(None, backoff.after(Setback::Contended, end, 0));
    }

    #[test]
    fn collisions_scatter_those_who_are_told_of_the_same_moment() {
        let long_ago = Duration::from_secs(1);
        assert_eq!(Duration::ZERO, scatter(0, long_ago, u64::MAX), "nobody to collide with");
        let least = [1, 2, 3, 6, 7, 100].map(|failed| scatter(failed, long_ago, 0).as_millis());
        assert_eq!([1, 2, 4, 32, 32, 32], least);
        let most = [1, 2, 6, 100].map(|failed| scatter(failed, long_ago, u64::MAX).as_micros());
        assert_eq!([1_999, 3_999, 63_999, 63_999], most);
    }

    #[test]
    fn a_millisecond_lies_between_the_beginnings_of_two_attempts() {
        let micros = Duration::from_micros;
        assert_eq!(micros(700), scatter(0, micros(300), 0));
        assert_eq!(Duration::ZERO, scatter(0, FLOOR, 0));
        assert_eq!(micros(1_000), scatter(1, Duration::ZERO, 0), "scattered as far anyway");
    }

    #[test]
    fn a_delay_ends_with_the_patience() {
        let patience = patience(5);
        let millis = Duration::from_millis;
        assert_eq!(millis(2), patience.bounded(millis(3), START + millis(3)));
        assert_eq!(millis(3), patience.bounded(millis(3), START));
        assert_eq!(Duration::ZERO, patience.bounded(millis(3), START + millis(6)));
        assert_eq!(millis(3), Patience { until: None, ..patience }.bounded(millis(3), START + millis(6)));
    }

    #[test]
    fn attempts_are_counted_when_asked_for() {
        let mut backoff = Backoff::new(Patience { attempts: Some(3), ..patience(1_000) });
        let tries: Vec<_> = (0..3).map(|_| backoff.after(Setback::Contended, START, 0).is_some()).collect();
        assert_eq!(vec![true, true, false], tries);
    }

    #[test]
    fn attempts_that_the_nodes_brought_about_are_not_counted() {
        let mut backoff = Backoff::new(Patience { attempts: Some(2), ..patience(1_000) });
        for _ in 0..10 {
            assert!(backoff.after(Setback::Contended, START, 0).is_some());
            backoff.came_early();
        }
        assert!(backoff.after(Setback::Contended, START, 0).is_some());
        assert_eq!(None, backoff.after(Setback::Contended, START, 0));
    }

    #[test]
    fn three_unusable_rounds_in_a_row_are_enough() {
        use Setback::{Contended, Unusable};
        let mut backoff = Backoff::new(Patience { until: None, ..patience(0) });
        let mut goes_on = |setback| backoff.after(setback, START, 0).is_some();
        assert!(goes_on(Unusable) && goes_on(Unusable));
        assert!(goes_on(Contended), "the row was broken");
        assert!(goes_on(Unusable) && goes_on(Unusable));
        assert!(!goes_on(Unusable));
    }
}
