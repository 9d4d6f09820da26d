//! Which rounds may begin now, so that a burst does not send more than the process can read replies to.
//!
//! Attempts at locks begin in the order in which they came, and at most so many are in flight at once: until they are
//! decided. Renewals of held locks are bounded by themselves, begin in the order in which their leases expire, and go
//! first: while one of them waits no attempt begins. So a process that is asked for more than it can do denies new locks,
//! and keeps those that it holds. Nor does an attempt begin while cleanup is behind, since each may leave more of it.
//!
//! Only so many attempts wait, too: further ones are denied at once. A queue that is longer than what its requests can wait
//! for would cost time and memory that the others need.
//!
//! Nothing can deadlock. What is in flight waits for nodes alone, for a bounded time; confirmations, releases and cleanup are
//! not counted, so none of them waits for an attempt. An attempt is polled by its caller, who may turn to something else: if
//! none ends for [some time](Concurrency::begin_overdue), one more begins. And renewals hold attempts back only as long as
//! renewals succeed: where they fail because of the nodes, an attempt is to say so.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Instant;

/// What wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// An attempt at a lock.
    Attempt,
    /// The renewal of a lease that expires at this time.
    Renewal(Instant),
}

/// The rounds of one client: those in flight, and those that wait, each with a `W` to wake it by.
#[derive(Debug)]
pub(crate) struct Concurrency<W> {
    max: usize,
    attempts: InFlight<W>,
    renewals: InFlight<W>,
    is_cleanup_behind: bool,
    /// Whether the last renewal that ended has failed.
    renewals_fail: bool,
    last_number: u64,
    /// Since when all attempts in flight have been there while others wait.
    stuck_since: Option<Instant>,
}

/// For each attempt that may be in flight so many wait at most.
const MAX_WAITING: usize = 256;

/// The rounds of one class. Those that wait are ordered by time, then by arrival.
#[derive(Debug)]
struct InFlight<W> {
    count: usize,
    waiting: BTreeMap<Key, W>,
}

type Key = (Instant, u64);

/// A round that waited when it entered. It begins by being taken out of those that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    class: Class,
    key: Key,
}

impl<W> Concurrency<W> {
    /// With at most `max` rounds of each class in flight.
    pub(crate) fn new(max: usize) -> Self {
        let none = || InFlight { count: 0, waiting: BTreeMap::new() };
        let (attempts, renewals) = (none(), none());
        Self {
            max,
            attempts,
            renewals,
            is_cleanup_behind: false,
            renewals_fail: false,
            last_number: 0,
            stuck_since: None,
        }
    }

    /// Begins a round if it may begin at once.
    pub(crate) fn try_begin(&mut self, class: Class) -> bool {
        let may_begin = self.class(class).waiting.is_empty() && self.has_room(class);
        self.class(class).count += usize::from(may_begin);
        may_begin
    }

    /// Whether no other attempt is to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.attempts.waiting.len() >= self.max.saturating_mul(MAX_WAITING)
    }

    /// Has a round wait.
    pub(crate) fn wait(&mut self, class: Class, waker: W) -> Waiting {
        self.last_number += 1;
        let time = match class {
            Class::Attempt => Instant::ORIGIN,
            Class::Renewal(expires) => expires,
        };
        let key = (time, self.last_number);
        self.class(class).waiting.insert(key, waker);
        Waiting { class, key }
    }

    /// The waker of a round that waits; `None` once it has begun.
    pub(crate) fn waker(&mut self, waiting: Waiting) -> Option<&mut W> {
        self.class(waiting.class).waiting.get_mut(&waiting.key)
    }

    /// A round does not wait any more. If it has begun, it has ended too.
    pub(crate) fn leave(&mut self, waiting: Waiting) -> Option<W> {
        let waker = self.class(waiting.class).waiting.remove(&waiting.key);
        if waker.is_none() {
            self.end(waiting.class);
        }
        waker
    }

    /// Whether renewals fail, by the last one that has ended.
    pub(crate) fn renewals_fail(&mut self, fail: bool) {
        self.renewals_fail = fail;
    }

    /// Begins one attempt more than may be in flight, if none of those has ended for `limit`. Returns its waker.
    pub(crate) fn begin_overdue(&mut self, now: Instant, limit: Duration) -> Option<W> {
        if self.attempts.waiting.is_empty() || self.attempts.count < self.max {
            self.stuck_since = None;
            return None;
        }
        let since = *self.stuck_since.get_or_insert(now);
        if now.saturating_duration_since(since) < limit {
            return None;
        }
        self.stuck_since = Some(now);
        let (_, waker) = self.attempts.waiting.pop_first()?;
        self.attempts.count += 1;
        Some(waker)
    }

    /// Why an attempt has to wait.
    pub(crate) fn obstacle(&self) -> &'static str {
        match () {
            () if self.is_cleanup_behind => "cleanup is behind",
            () if !self.renewals.waiting.is_empty() => "renewals of held locks come first",
            () => "as many attempts are in flight as may be",
        }
    }

    /// A round has ended. Others may [begin](Concurrency::begin_next).
    pub(crate) fn end(&mut self, class: Class) {
        self.stuck_since = None;
        self.class(class).count -= 1;
    }

    /// Attempts are held back, or are not any more: then others may [begin](Concurrency::begin_next).
    pub(crate) fn cleanup_is_behind(&mut self, is_behind: bool) {
        self.is_cleanup_behind = is_behind;
    }

    /// Begins the next round that may begin, and returns its waker.
    pub(crate) fn begin_next(&mut self) -> Option<W> {
        [Class::Renewal(Instant::ORIGIN), Class::Attempt].into_iter().find_map(|class| {
            let waker = if self.has_room(class) { self.class(class).waiting.pop_first() } else { None };
            let (_, waker) = waker?;
            self.class(class).count += 1;
            Some(waker)
        })
    }

    /// Whether a round that ends, or cleanup that has caught up, may let another begin.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.attempts.waiting.is_empty() || !self.renewals.waiting.is_empty()
    }

    /// How many attempts wait, and how many renewals.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.attempts.waiting.len(), self.renewals.waiting.len())
    }

    fn has_room(&self, class: Class) -> bool {
        match class {
            Class::Attempt => {
                let renewals_wait = !self.renewals.waiting.is_empty() && !self.renewals_fail;
                self.attempts.count < self.max && !renewals_wait && !self.is_cleanup_behind
            }
            Class::Renewal(_) => self.renewals.count < self.max,
        }
    }

    fn class(&mut self, class: Class) -> &mut InFlight<W> {
        match class {
            Class::Attempt => &mut self.attempts,
            Class::Renewal(_) => &mut self.renewals,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    /// A client on which two rounds of each class may be in flight, and two attempts are.
    fn full() -> Concurrency<&'static str> {
        let mut rounds = Concurrency::new(2);
        assert!(rounds.try_begin(Class::Attempt) && rounds.try_begin(Class::Attempt));
        assert!(!rounds.try_begin(Class::Attempt));
        rounds
    }

    #[test]
    fn attempts_begin_in_the_order_in_which_they_came() {
        let mut rounds = full();
        let [_, second, _] = ["first", "second", "third"].map(|name| rounds.wait(Class::Attempt, name));
        assert_eq!(None, rounds.begin_next());
        assert_eq!(Some("second"), rounds.leave(second));
        rounds.end(Class::Attempt);
        assert!(!rounds.try_begin(Class::Attempt), "others came before");
        assert_eq!((Some("first"), None), (rounds.begin_next(), rounds.begin_next()));
        rounds.end(Class::Attempt);
        assert_eq!(Some("third"), rounds.begin_next());
    }

    #[test]
    fn renewals_begin_beside_attempts_and_by_when_their_leases_expire() {
        let mut rounds = full();
        let late = Class::Renewal(at(30));
        assert!(rounds.try_begin(late) && rounds.try_begin(late) && !rounds.try_begin(late));
        rounds.wait(Class::Renewal(at(20)), "20");
        rounds.wait(Class::Renewal(at(10)), "10");
        rounds.end(late);
        assert_eq!((Some("10"), None), (rounds.begin_next(), rounds.begin_next()));
    }

    #[test]
    fn no_attempt_begins_while_a_renewal_waits_or_cleanup_is_behind() {
        let mut rounds = full();
        let renewal = Class::Renewal(at(10));
        assert!(rounds.try_begin(renewal) && rounds.try_begin(renewal));
        let waiting = rounds.wait(renewal, "renewal");
        rounds.wait(Class::Attempt, "attempt");
        rounds.end(Class::Attempt);
        assert_eq!(None, rounds.begin_next());
        assert_eq!(Some("renewal"), rounds.leave(waiting));
        rounds.cleanup_is_behind(true);
        assert_eq!(None, rounds.begin_next());
        rounds.cleanup_is_behind(false);
        assert_eq!(Some("attempt"), rounds.begin_next());
    }

    #[test]
    fn a_round_that_has_begun_and_is_dropped_makes_room() {
        let mut rounds = full();
        let [first, _] = ["first", "second"].map(|name| rounds.wait(Class::Attempt, name));
        rounds.end(Class::Attempt);
        assert_eq!(Some("first"), rounds.begin_next());
        assert!(rounds.waker(first).is_none());
        assert_eq!(None, rounds.leave(first));
        assert_eq!(Some("second"), rounds.begin_next());
        assert!(!rounds.is_waited_for());
    }

    #[test]
    fn a_bounded_number_of_attempts_waits() {
        let mut rounds = full();
        let mut waiting: Vec<_> = (0..511).map(|_| rounds.wait(Class::Attempt, "")).collect();
        assert!(!rounds.is_full());
        waiting.push(rounds.wait(Class::Attempt, ""));
        assert!(rounds.is_full());
        rounds.leave(waiting.remove(7));
        assert!(!rounds.is_full());
    }

    #[test]
    fn attempts_that_are_not_polled_do_not_keep_others_out_forever() {
        let mut rounds = full();
        let limit = Duration::from_millis(400);
        assert_eq!(None, rounds.begin_overdue(at(0), limit));
        let _waiting = ["first", "second"].map(|name| rounds.wait(Class::Attempt, name));
        assert_eq!([None, None], [0, 399].map(|now| rounds.begin_overdue(at(now), limit)));
        assert_eq!(Some("first"), rounds.begin_overdue(at(400), limit));
        assert_eq!(None, rounds.begin_overdue(at(700), limit));
        rounds.end(Class::Attempt);
        assert_eq!(None, rounds.begin_overdue(at(900), limit), "one has ended");
        assert_eq!(None, rounds.begin_next(), "there is still one too many");
        assert_eq!(Some("second"), rounds.begin_overdue(at(1300), limit));
    }

    #[test]
    fn renewals_that_fail_hold_no_attempt_back() {
        let mut rounds = full();
        let renewal = Class::Renewal(at(10));
        assert!(rounds.try_begin(renewal) && rounds.try_begin(renewal));
        rounds.wait(renewal, "renewal");
        rounds.end(Class::Attempt);
        assert!(!rounds.try_begin(Class::Attempt));
        assert_eq!("renewals of held locks come first", rounds.obstacle());
        rounds.renewals_fail(true);
        assert!(rounds.try_begin(Class::Attempt));
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_and_nothing_is_forgotten(
            max in 1_usize..4, steps in prop::collection::vec((0_u8..6, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut rounds = Concurrency::new(max);
            let (mut running, mut waiting) = (Vec::new(), Vec::<(Waiting, Class)>::new());
            for (step, index) in steps {
                let class = if step % 2 == 0 { Class::Attempt } else { Class::Renewal(at(index.index(9) as u64)) };
                match step {
                    0 | 1 if rounds.try_begin(class) => running.push(class),
                    0 | 1 => waiting.push((rounds.wait(class, ()), class)),
                    2 if !running.is_empty() => rounds.end(running.swap_remove(index.index(running.len()))),
                    3 if !waiting.is_empty() => {
                        let (left, _) = waiting.swap_remove(index.index(waiting.len()));
                        rounds.leave(left);
                    }
                    4 => rounds.cleanup_is_behind(true),
                    _ => rounds.cleanup_is_behind(false),
                }
                while rounds.begin_next().is_some() {}
                let (begun, still): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|(waiting, _)| rounds.waker(*waiting).is_none());
                running.extend(begun.into_iter().map(|(_, class)| class));
                waiting = still;
                let attempts = running.iter().filter(|class| **class == Class::Attempt).count();
                prop_assert!(attempts <= max && running.len() - attempts <= max);
                prop_assert_eq!((attempts, running.len() - attempts), (rounds.attempts.count, rounds.renewals.count));
            }
            rounds.cleanup_is_behind(false);
            while !waiting.is_empty() || !running.is_empty() {
                running.drain(..).for_each(|class| rounds.end(class));
                while rounds.begin_next().is_some() {}
                let before = waiting.len();
                let (begun, still): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|(waiting, _)| rounds.waker(*waiting).is_none());
                running.extend(begun.into_iter().map(|(_, class)| class));
                waiting = still;
                prop_assert!(before == 0 || waiting.len() < before, "nothing begins any more");
            }
        }
    }
}
