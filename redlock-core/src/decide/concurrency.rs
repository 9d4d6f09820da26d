//! The decision which rounds may begin now.
//!
//! It prevents a burst from sending more requests than the process can read replies to.
//!
//! Attempts begin in the order of their arrival, and a limited number of them is in flight at once, until they are
//! decided. Renewals of held locks have a separate limit, and begin in the order in which their leases expire. They
//! have precedence: while one of them waits, no attempt begins. Thus an overloaded process denies new locks and keeps
//! those that it holds. No attempt begins while cleanup is behind either, since each attempt may need more of it.
//!
//! A request that waits for a contended lock queries its nodes, at first and again after notifications. These queries
//! have a separate limit, too. When thousands of locks become free at once, the replies to thousands of queries would
//! delay everything else.
//!
//! The number of waiting attempts is limited too; further ones are denied at once. A queue that is longer than its
//! requests can wait would cost time and memory that other requests need.
//!
//! No deadlock is possible. Rounds in flight wait only for nodes, for a bounded time. Confirmations, releases and
//! cleanup are not counted, so none of them waits for an attempt. The caller of an attempt may stop polling it. If no
//! attempt ends for [some time](Concurrency::begin_overdue), one more begins. Renewals hold attempts back only while
//! renewals succeed. If they fail because of the nodes, an attempt is needed to report that.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::instant::Instant;

/// The kind of a round that is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// An attempt to acquire a lock.
    Attempt,
    /// The renewal of a lease that expires at this time.
    Renewal(Instant),
    /// The queries of a request that waits for a lock.
    Watch,
}

/// The rounds of one client: in flight, or waiting with a `W` that wakes them.
#[derive(Debug)]
pub(crate) struct Concurrency<W> {
    max: usize,
    attempts: InFlight<W>,
    renewals: InFlight<W>,
    watches: InFlight<W>,
    is_cleanup_behind: bool,
    /// True if the last renewal that ended has failed.
    renewals_fail: bool,
    last_number: u64,
}

/// The maximum number of waiting attempts per attempt that may be in flight.
const MAX_WAITING: usize = 256;

/// The rounds of one class. Those that wait are ordered by time, then by arrival.
#[derive(Debug)]
struct InFlight<W> {
    count: usize,
    waiting: BTreeMap<Key, W>,
    /// The time since which no round in flight has ended while others wait.
    stuck_since: Option<Instant>,
}

type Key = (Instant, u64);

/// A round that waited when it entered. It has begun once it is no longer among those that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    class: Class,
    key: Key,
}

impl<W> Concurrency<W> {
    /// Creates the state with at most `max` rounds of each class in flight.
    pub(crate) fn new(max: usize) -> Self {
        let none = || InFlight { count: 0, waiting: BTreeMap::new(), stuck_since: None };
        Self {
            max,
            attempts: none(),
            renewals: none(),
            watches: none(),
            is_cleanup_behind: false,
            renewals_fail: false,
            last_number: 0,
        }
    }

    /// Begins a round if it may begin at once.
    pub(crate) fn try_begin(&mut self, class: Class) -> bool {
        let may_begin = self.class(class).waiting.is_empty() && self.has_room(class);
        self.class(class).count += usize::from(may_begin);
        may_begin
    }

    /// Returns whether no further attempt may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.attempts.waiting.len() >= self.max.saturating_mul(MAX_WAITING)
    }

    /// Adds a round to those that wait.
    pub(crate) fn wait(&mut self, class: Class, waker: W) -> Waiting {
        self.last_number += 1;
        let time = match class {
            Class::Attempt | Class::Watch => Instant::ORIGIN,
            Class::Renewal(expires) => expires,
        };
        let key = (time, self.last_number);
        self.class(class).waiting.insert(key, waker);
        Waiting { class, key }
    }

    /// Returns the waker of a round that waits; `None` once it has begun.
    pub(crate) fn waker(&mut self, waiting: Waiting) -> Option<&mut W> {
        self.class(waiting.class).waiting.get_mut(&waiting.key)
    }

    /// Removes a round that waits; if it has begun, it ends.
    pub(crate) fn leave(&mut self, waiting: Waiting) -> Option<W> {
        let waker = self.class(waiting.class).waiting.remove(&waiting.key);
        if waker.is_none() {
            self.end(waiting.class);
        }
        waker
    }

    /// Sets whether the last renewal that ended has failed.
    pub(crate) fn renewals_fail(&mut self, fail: bool) {
        self.renewals_fail = fail;
    }

    /// Begins one round above the limit, if none of its class has ended for `limit`. Returns its waker.
    pub(crate) fn begin_overdue(&mut self, class: Class, now: Instant, limit: Duration) -> Option<W> {
        let max = self.max;
        let rounds = self.class(class);
        if rounds.waiting.is_empty() || rounds.count < max {
            rounds.stuck_since = None;
            return None;
        }
        let since = *rounds.stuck_since.get_or_insert(now);
        if now.saturating_duration_since(since) < limit {
            return None;
        }
        rounds.stuck_since = Some(now);
        let (_, waker) = rounds.waiting.pop_first()?;
        rounds.count += 1;
        Some(waker)
    }

    /// Returns why an attempt has to wait.
    pub(crate) fn obstacle(&self) -> &'static str {
        match () {
            () if self.is_cleanup_behind => "cleanup is behind",
            () if !self.renewals.waiting.is_empty() => "renewals of held locks come first",
            () => "limit of concurrent attempts reached",
        }
    }

    /// Ends a round. Others may [begin](Concurrency::begin_next) then.
    pub(crate) fn end(&mut self, class: Class) {
        let rounds = self.class(class);
        rounds.stuck_since = None;
        rounds.count -= 1;
    }

    /// Sets whether attempts are held back. If they no longer are, others may [begin](Concurrency::begin_next).
    pub(crate) fn cleanup_is_behind(&mut self, is_behind: bool) {
        self.is_cleanup_behind = is_behind;
    }

    /// Begins the next round that may begin, and returns its waker.
    pub(crate) fn begin_next(&mut self) -> Option<W> {
        [Class::Renewal(Instant::ORIGIN), Class::Attempt, Class::Watch].into_iter().find_map(|class| {
            let waker = if self.has_room(class) { self.class(class).waiting.pop_first() } else { None };
            let (_, waker) = waker?;
            self.class(class).count += 1;
            Some(waker)
        })
    }

    /// Returns whether any round waits for another to end, or for cleanup.
    pub(crate) fn is_waited_for(&self) -> bool {
        [&self.attempts, &self.renewals, &self.watches].into_iter().any(|rounds| !rounds.waiting.is_empty())
    }

    /// Returns the numbers of waiting attempts and renewals.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.attempts.waiting.len(), self.renewals.waiting.len())
    }

    /// Returns the number of waiting rounds of a class.
    pub(crate) fn waiting_of(&self, class: Class) -> usize {
        let rounds = match class {
            Class::Attempt => &self.attempts,
            Class::Renewal(_) => &self.renewals,
            Class::Watch => &self.watches,
        };
        rounds.waiting.len()
    }

    fn has_room(&self, class: Class) -> bool {
        let renewals_wait = !self.renewals.waiting.is_empty() && !self.renewals_fail;
        match class {
            Class::Attempt => self.attempts.count < self.max && !renewals_wait && !self.is_cleanup_behind,
            Class::Renewal(_) => self.renewals.count < self.max,
            Class::Watch => self.watches.count < self.max && !renewals_wait,
        }
    }

    fn class(&mut self, class: Class) -> &mut InFlight<W> {
        match class {
            Class::Attempt => &mut self.attempts,
            Class::Renewal(_) => &mut self.renewals,
            Class::Watch => &mut self.watches,
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

    /// Returns a state with a limit of two rounds per class and two attempts.
    fn full() -> Concurrency<&'static str> {
        let mut rounds = Concurrency::new(2);
        assert!(rounds.try_begin(Class::Attempt) && rounds.try_begin(Class::Attempt));
        assert!(!rounds.try_begin(Class::Attempt));
        rounds
    }

    #[test]
    fn attempts_start_in_the_order_of_their_arrival() {
        let mut rounds = full();
        let [_, second, _] = ["first", "second", "third"].map(|name| rounds.wait(Class::Attempt, name));
        assert_eq!(None, rounds.begin_next());
        assert_eq!(Some("second"), rounds.leave(second));
        rounds.end(Class::Attempt);
        assert!(!rounds.try_begin(Class::Attempt), "other attempts came first");
        assert_eq!((Some("first"), None), (rounds.begin_next(), rounds.begin_next()));
        rounds.end(Class::Attempt);
        assert_eq!(Some("third"), rounds.begin_next());
    }

    #[test]
    fn renewals_start_beside_attempts_and_in_the_order_of_expiry() {
        let mut rounds = full();
        let late = Class::Renewal(at(30));
        assert!(rounds.try_begin(late) && rounds.try_begin(late) && !rounds.try_begin(late));
        rounds.wait(Class::Renewal(at(20)), "20");
        rounds.wait(Class::Renewal(at(10)), "10");
        rounds.end(late);
        assert_eq!((Some("10"), None), (rounds.begin_next(), rounds.begin_next()));
    }

    #[test]
    fn no_attempt_starts_while_a_renewal_waits_or_cleanup_is_behind() {
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
    fn a_started_round_that_is_dropped_frees_its_permit() {
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
    fn watches_start_beside_attempts_and_after_renewals() {
        let mut rounds = full();
        assert!(rounds.try_begin(Class::Watch) && rounds.try_begin(Class::Watch));
        let watch = rounds.wait(Class::Watch, "watch");
        rounds.cleanup_is_behind(true);
        rounds.end(Class::Watch);
        assert_eq!(Some("watch"), rounds.begin_next());
        assert_eq!(None, rounds.leave(watch));
        let renewal = Class::Renewal(at(10));
        assert!(rounds.try_begin(renewal) && rounds.try_begin(renewal));
        let renewal = rounds.wait(renewal, "renewal");
        assert!(!rounds.try_begin(Class::Watch));
        rounds.leave(renewal);
        assert!(rounds.try_begin(Class::Watch));
    }

    #[test]
    fn the_number_of_waiting_attempts_is_bounded() {
        let mut rounds = full();
        let mut waiting: Vec<_> = (0..511).map(|_| rounds.wait(Class::Attempt, "")).collect();
        assert!(!rounds.is_full());
        waiting.push(rounds.wait(Class::Attempt, ""));
        assert!(rounds.is_full());
        rounds.leave(waiting.remove(7));
        assert!(!rounds.is_full());
    }

    #[test]
    fn attempts_that_are_not_polled_do_not_block_others_forever() {
        let mut rounds = full();
        let limit = Duration::from_millis(400);
        assert_eq!(None, rounds.begin_overdue(Class::Attempt, at(0), limit));
        let _waiting = ["first", "second"].map(|name| rounds.wait(Class::Attempt, name));
        assert_eq!([None, None], [0, 399].map(|now| rounds.begin_overdue(Class::Attempt, at(now), limit)));
        assert_eq!(Some("first"), rounds.begin_overdue(Class::Attempt, at(400), limit));
        assert_eq!(None, rounds.begin_overdue(Class::Attempt, at(700), limit));
        rounds.end(Class::Attempt);
        assert_eq!(None, rounds.begin_overdue(Class::Attempt, at(900), limit), "one attempt has ended");
        assert_eq!(None, rounds.begin_next(), "the limit is still exceeded");
        assert_eq!(Some("second"), rounds.begin_overdue(Class::Attempt, at(1300), limit));
    }

    #[test]
    fn failing_renewals_do_not_hold_attempts_back() {
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
        fn the_limit_holds_and_every_waiting_round_starts(
            max in 1_usize..4, steps in prop::collection::vec((0_u8..6, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut rounds = Concurrency::new(max);
            let (mut running, mut waiting) = (Vec::new(), Vec::<(Waiting, Class)>::new());
            for (step, index) in steps {
                let renewal = Class::Renewal(at(index.index(9) as u64));
                let class = [Class::Attempt, renewal, Class::Watch][index.index(3)];
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
                let count = |wanted: Class| running.iter().filter(|class| **class == wanted).count();
                let (attempts, watches) = (count(Class::Attempt), count(Class::Watch));
                let counts = [attempts, running.len() - attempts - watches, watches];
                prop_assert!(counts.iter().all(|count| *count <= max));
                prop_assert_eq!(counts, [rounds.attempts.count, rounds.renewals.count, rounds.watches.count]);
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
                prop_assert!(before == 0 || waiting.len() < before, "no waiting round starts");
            }
        }
    }
}
