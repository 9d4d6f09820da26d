//! The retry decision: another attempt after a failed round, and its time.
//!
//! The delay is random, so that clients that collided once do not collide again. It is at least 1 ms, so that no
//! setting causes a hot loop. Contention is bounded by time and, on request, by a number of attempts. Three
//! rounds in a row without a usable quorum end a request as well, unless it outlasts outages: a caller waits for the
//! lock, not for nodes.
//!
//! `client/attempts` repeats an attempt by other rules in three cases. A request that does not wait repeats an attempt with
//! split votes after a short delay ([`SplitVotes`]). An attempt that has overtaken a release of this process is repeated at
//! once. After a notification, [`collision_delay`] spaces the attempts of the waiters.

use std::time::Duration;

use crate::types::instant::Instant;

/// The limits of the attempts of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// The time after which this decision permits no attempt; `None` for no limit.
    pub(crate) until: Option<Instant>,
    /// The maximum number of attempts; `None` for no limit.
    pub(crate) attempts: Option<u32>,
    /// The longest delay between two attempts of a request that no node notifies; the shortest is half of it.
    pub(crate) delay: Duration,
    /// `true` if rounds without a usable quorum do not end the request before its time is over.
    pub(crate) outlasts_outages: bool,
}

/// The reason why the last round failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryCause {
    /// Another client holds the lock, or several clients have split the votes.
    Contended,
    /// Nodes failed, or replied too late to be of use.
    Unusable,
}

impl RetryPolicy {
    /// Returns whether a request that begins at `start` has no time to wait.
    ///
    /// It makes a single attempt, apart from repetitions of split votes.
    pub(crate) fn does_not_wait(&self, start: Instant) -> bool {
        self.attempts.is_none() && self.until.is_some_and(|until| until <= start)
    }

    /// Shortens a delay that begins now to the remaining time of the request.
    pub(crate) fn bounded(&self, delay: Duration, now: Instant) -> Duration {
        self.until.map_or(delay, |until| delay.min(until.saturating_duration_since(now)))
    }
}

/// The count of the rounds of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff<'a> {
    policy: &'a RetryPolicy,
    attempts: u32,
    unusable: u32,
}

/// The minimum delay between two attempts.
pub(crate) const MIN_DELAY: Duration = Duration::from_millis(1);

/// The number of rounds in a row without a usable quorum that end a request.
///
/// One may be bad luck, and two may be a node that restarts. A third one indicates an outage.
const UNUSABLE_ROUNDS: u32 = 3;

impl<'a> Backoff<'a> {
    pub(crate) fn new(policy: &'a RetryPolicy) -> Self {
        Self { policy, attempts: 0, unusable: 0 }
    }

    /// Returns the delay before the next attempt, after one that failed at `now`.
    ///
    /// A notification may start the attempt earlier. While nodes are watched, the wait is longer: see `watch/watcher`.
    ///
    /// `None` means that there is no next attempt. A delay never exceeds the remaining time of the request. The
    /// attempt may still wait for a permit, at most for a node timeout.
    pub(crate) fn after(&mut self, retry_cause: RetryCause, now: Instant, random: u64) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        self.unusable = if retry_cause == RetryCause::Unusable { self.unusable + 1 } else { 0 };
        let left = self.policy.until.map(|until| until.saturating_duration_since(now));
        let exhausted = self.policy.attempts.is_some_and(|limit| self.attempts >= limit)
            || (self.unusable >= UNUSABLE_ROUNDS && !self.policy.outlasts_outages)
            || left.is_some_and(|left| left < MIN_DELAY);
        if exhausted {
            return None;
        }
        let delay = equal_jitter(self.policy.delay, random).max(MIN_DELAY);
        Some(self.policy.bounded(delay, now))
    }

    /// Does not count the last attempt, because nodes ended its delay early.
    pub(crate) fn uncount_attempt(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
    }
}

/// The repetitions of an attempt whose votes were split, in a request that does not wait.
///
/// Clients that attempt at the same moment may each get too few votes, and then no client holds the lock. A request that
/// does not wait must not report such a lock as held, so it attempts again, until a client has a quorum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SplitVotes {
    repeated: u32,
}

/// The maximum number of repetitions.
///
/// Each of the last ones is spread over 128 ms. With ten clients and a round trip of 1 ms, one of them wins each of these
/// with a probability above 0.9.
const REPETITIONS: u32 = 12;

impl SplitVotes {
    /// Returns the delay before the next repetition; `None` after the last one.
    pub(crate) fn next(&mut self, random: u64) -> Option<Duration> {
        self.repeated += 1;
        (self.repeated <= REPETITIONS).then(|| equal_jitter(MIN_DELAY * (1 << self.repeated.min(8)), random))
    }
}

/// Returns the delay before an attempt for which the nodes are free.
///
/// `failed` is the number of such attempts that have failed in a row. Other clients are notified at the same moment, so
/// a random delay separates clients that have collided once. `since_last` is the time since the last attempt began. It
/// prevents a hot loop if nodes report free and deny.
pub(crate) fn collision_delay(failed: u32, since_last: Duration, random: u64) -> Duration {
    let spread = match failed {
        0 => Duration::ZERO,
        _ => equal_jitter(MIN_DELAY * (1 << failed.min(6)), random),
    };
    spread.max(MIN_DELAY.saturating_sub(since_last))
}

/// The attempts in a row that a request makes because nodes have reserved the resource for [several
/// requests](crate::decide::standing::is_split).
///
/// The first ones may change the order on some nodes. If another request does not use its reservations, nothing changes
/// before these expire. So the time between two attempts grows to about that of a reservation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Splits {
    count: u32,
    /// There is no other such attempt before this time.
    next: Option<Instant>,
}

impl Splits {
    /// Records an attempt. The next one is made after a delay that `random` spreads.
    pub(crate) fn attempt(&mut self, now: Instant, random: u64) {
        self.count += 1;
        self.next = Some(now + equal_jitter(MIN_DELAY * (1 << (2 * self.count).min(8)), random));
    }

    /// Returns when the next such attempt may be made, if that is later.
    pub(crate) fn held_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }
}

/// Spreads `random` evenly over the upper half of `whole`.
pub(crate) fn equal_jitter(whole: Duration, random: u64) -> Duration {
    let half = whole / 2;
    half + jitter(half, random)
}

/// Spreads `random` evenly from zero to `whole`.
pub(crate) fn jitter(whole: Duration, random: u64) -> Duration {
    let nanos = whole.as_nanos().saturating_mul(u128::from(random)) >> u64::BITS;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Instant = Instant::ORIGIN;

    fn policy(millis: u64) -> RetryPolicy {
        let until = Some(START + Duration::from_millis(millis));
        RetryPolicy { until, attempts: None, delay: Duration::from_millis(200), outlasts_outages: false }
    }

    proptest! {
        #[test]
        fn delays_are_between_half_and_all_of_the_setting(random: u64, micros in 2_000_u64..10_000_000) {
            let delay = Duration::from_micros(micros);
            let limits = RetryPolicy { until: None, delay, ..policy(0) };
            let mut backoff = Backoff::new(&limits);
            let chosen = backoff.after(RetryCause::Contended, START, random).unwrap();
            prop_assert!(delay / 2 <= chosen && chosen <= delay, "{chosen:?}");
        }

        #[test]
        fn no_setting_causes_a_hot_loop(random: u64, nanos in 0_u64..2_000_000, left in 0_u64..3_000_000) {
            let (delay, left) = (Duration::from_nanos(nanos), Duration::from_nanos(left));
            for retry_cause in [RetryCause::Contended, RetryCause::Unusable] {
                let limits = RetryPolicy { until: Some(START + left), delay, ..policy(0) };
                let mut backoff = Backoff::new(&limits);
                if let Some(chosen) = backoff.after(retry_cause, START, random) {
                    prop_assert!(MIN_DELAY <= chosen && chosen <= left);
                }
            }
        }
    }

    #[test]
    fn delays_are_spread() {
        let limits = policy(10_000);
        let mut backoff = Backoff::new(&limits);
        assert_eq!(Some(Duration::from_millis(100)), backoff.after(RetryCause::Contended, START, 0));
        let longest = backoff.after(RetryCause::Contended, START, u64::MAX).unwrap();
        assert!(longest > Duration::from_micros(199_999), "{longest:?}");
    }

    #[test]
    fn contention_is_bounded_only_by_time() {
        let limits = policy(1_000);
        let mut backoff = Backoff::new(&limits);
        for _ in 0..1_000 {
            assert!(backoff.after(RetryCause::Contended, START, 7).is_some());
        }
        let end = START + Duration::from_secs(1);
        assert_eq!(
            Some(Duration::from_millis(50)),
            backoff.after(RetryCause::Contended, end - Duration::from_millis(50), 0)
        );
        assert_eq!(
            Some(MIN_DELAY),
            backoff.after(RetryCause::Contended, end - MIN_DELAY, 0),
            "one more attempt is made at the very end"
        );
        assert_eq!(None, backoff.after(RetryCause::Contended, end, 0));
    }

    #[test]
    fn collision_delays_grow_with_failed_attempts() {
        let long_ago = Duration::from_secs(1);
        assert_eq!(Duration::ZERO, collision_delay(0, long_ago, u64::MAX), "there is no collision yet");
        let least = [1, 2, 3, 6, 7, 100].map(|failed| collision_delay(failed, long_ago, 0).as_millis());
        assert_eq!([1, 2, 4, 32, 32, 32], least);
        let most = [1, 2, 6, 100].map(|failed| collision_delay(failed, long_ago, u64::MAX).as_micros());
        assert_eq!([1_999, 3_999, 63_999, 63_999], most);
    }

    #[test]
    fn attempts_of_split_reservations_become_rare() {
        let (mut splits, now) = (Splits::default(), Instant::ORIGIN);
        assert_eq!(None, splits.held_until(now));
        let mut held_for = |random| {
            splits.attempt(now, random);
            splits.held_until(now).map(|next| next.saturating_duration_since(now).as_millis())
        };
        assert_eq!([2, 8, 32, 128, 128].map(Some), [0; 5].map(&mut held_for));
        assert_eq!(Some(255), held_for(u64::MAX));
        let mut splits = Splits::default();
        splits.attempt(now, 0);
        let next = now + 2 * MIN_DELAY;
        assert_eq!([Some(next), None], [now, next].map(|now| splits.held_until(now)));
    }

    #[test]
    fn split_votes_are_repeated_twelve_times() {
        let mut votes = SplitVotes::default();
        let delays: Vec<_> = std::iter::from_fn(|| votes.next(0)).map(|delay| delay.as_millis()).collect();
        assert_eq!(vec![1, 2, 4, 8, 16, 32, 64, 128, 128, 128, 128, 128], delays);
    }

    #[test]
    fn two_attempts_start_at_least_a_millisecond_apart() {
        let micros = Duration::from_micros;
        assert_eq!(micros(700), collision_delay(0, micros(300), 0));
        assert_eq!(Duration::ZERO, collision_delay(0, MIN_DELAY, 0));
        assert_eq!(
            micros(1_000),
            collision_delay(1, Duration::ZERO, 0),
            "the collision delay is long enough"
        );
    }

    #[test]
    fn a_delay_ends_with_the_time_limit() {
        let policy = policy(5);
        let millis = Duration::from_millis;
        assert_eq!(millis(2), policy.bounded(millis(3), START + millis(3)));
        assert_eq!(millis(3), policy.bounded(millis(3), START));
        assert_eq!(Duration::ZERO, policy.bounded(millis(3), START + millis(6)));
        assert_eq!(millis(3), RetryPolicy { until: None, ..policy }.bounded(millis(3), START + millis(6)));
    }

    #[test]
    fn attempts_are_bounded_by_the_policy() {
        let limits = RetryPolicy { attempts: Some(3), ..policy(1_000) };
        let mut backoff = Backoff::new(&limits);
        let tries: Vec<_> =
            (0..3).map(|_| backoff.after(RetryCause::Contended, START, 0).is_some()).collect();
        assert_eq!(vec![true, true, false], tries);
    }

    #[test]
    fn attempts_after_notifications_are_not_counted() {
        let limits = RetryPolicy { attempts: Some(2), ..policy(1_000) };
        let mut backoff = Backoff::new(&limits);
        for _ in 0..10 {
            assert!(backoff.after(RetryCause::Contended, START, 0).is_some());
            backoff.uncount_attempt();
        }
        assert!(backoff.after(RetryCause::Contended, START, 0).is_some());
        assert_eq!(None, backoff.after(RetryCause::Contended, START, 0));
    }

    #[test]
    fn three_unusable_rounds_in_a_row_are_enough() {
        use RetryCause::{Contended, Unusable};
        let limits = RetryPolicy { until: None, ..policy(0) };
        let mut backoff = Backoff::new(&limits);
        let mut goes_on = |retry_cause| backoff.after(retry_cause, START, 0).is_some();
        assert!(goes_on(Unusable) && goes_on(Unusable));
        assert!(goes_on(Contended), "a contended round resets the count");
        assert!(goes_on(Unusable) && goes_on(Unusable));
        assert!(!goes_on(Unusable));
    }

    #[test]
    fn a_request_that_outlasts_outages_ends_only_with_its_time() {
        let limits = RetryPolicy { outlasts_outages: true, ..policy(1_000) };
        let mut backoff = Backoff::new(&limits);
        for _ in 0..100 {
            assert!(backoff.after(RetryCause::Unusable, START, 0).is_some());
        }
        assert_eq!(None, backoff.after(RetryCause::Unusable, START + Duration::from_secs(1), 0));
    }

    #[test]
    fn only_a_request_with_time_waits() {
        assert!(policy(0).does_not_wait(START));
        assert!(!policy(1).does_not_wait(START));
        assert!(!RetryPolicy { until: None, ..policy(0) }.does_not_wait(START));
        let limited = RetryPolicy { attempts: Some(1), ..policy(0) };
        assert!(!limited.does_not_wait(START), "it asked for this number of attempts");
    }
}
