//! The order of the tasks of one process that want one resource.
//!
//! First come, first served: each task gets a number, and numbers take the turn in their order. A turn ends when its
//! task leaves it, or when the validity of its lock has passed. In the second case, the next number takes the turn
//! over. Only the next number checks this time; all others wait to become the next one.

use std::collections::BTreeMap;

use crate::types::instant::Instant;

/// The turns of one resource. A `W` wakes a waiting task.
#[derive(Debug)]
pub(crate) struct Queue<W> {
    turn: Option<Turn>,
    waiting: BTreeMap<u64, W>,
    /// The number of times in a row that the turn passed to a waiting number.
    handed_on: u32,
}

#[derive(Debug)]
struct Turn {
    number: u64,
    /// The time at which the turn ends on its own, once it has acquired the lock.
    until: Option<Instant>,
}

/// The result for a number that wants the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The number has the turn.
    Turn,
    /// The number waits, and checks nothing until it is woken.
    Wait,
    /// The number is next, and takes the turn over at this time unless woken before.
    WaitUntil(Instant),
}

/// The wakers that the caller must handle after it has unlocked its mutex.
///
/// A waker may run any code when it is called or dropped.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Wakers<W> {
    /// The waker of the next number, if that must check again.
    pub(crate) to_wake: Option<W>,
    /// The waker of the number that left, if it waited.
    pub(crate) to_drop: Option<W>,
}

impl<W> Default for Wakers<W> {
    fn default() -> Self {
        Self { to_wake: None, to_drop: None }
    }
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { turn: None, waiting: BTreeMap::new(), handed_on: 0 }
    }
}

impl<W: Clone> Queue<W> {
    /// Takes the turn, or waits for it. A number that waits may call this again.
    ///
    /// Also returns the previous waker of the number. The caller must drop it after unlocking its mutex, because
    /// dropping a waker may run any code.
    pub(crate) fn ask(
        &mut self,
        number: u64,
        now: Instant,
        waker: impl FnOnce() -> W,
    ) -> (Answer, Option<W>) {
        let is_next = self.waiting.first_key_value().is_none_or(|(next, _)| *next >= number);
        if is_next && self.is_free(now) {
            let before = self.waiting.remove(&number);
            self.turn = Some(Turn { number, until: None });
            return (Answer::Turn, before);
        }
        let before = self.waiting.insert(number, waker());
        let answer = match &self.turn {
            Some(Turn { until: Some(until), .. }) if is_next => Answer::WaitUntil(*until),
            _ => Answer::Wait,
        };
        (answer, before)
    }

    /// Returns whether no number has the turn or waits for it.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.waiting.is_empty() && self.is_free(now)
    }

    /// Sets the end of the turn: the lock was acquired, and is valid until then.
    pub(crate) fn hold_until(&mut self, number: u64, until: Instant) -> Wakers<W> {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.number == number) else {
            return Wakers::default();
        };
        // A number that waits for an earlier time checks again then, so it need not be woken.
        let news = turn.until.is_none_or(|before| until < before);
        turn.until = Some(until);
        Wakers { to_wake: if news { self.next() } else { None }, to_drop: None }
    }

    /// Leaves the turn, or stops waiting for it.
    pub(crate) fn leave(&mut self, number: u64) -> Wakers<W> {
        let was_next = self.waiting.first_key_value().is_some_and(|(next, _)| *next == number);
        let had_turn = self.turn.as_ref().is_some_and(|turn| turn.number == number);
        let to_drop = self.waiting.remove(&number);
        if had_turn {
            self.turn = None;
            self.handed_on = if self.waiting.is_empty() { 0 } else { self.handed_on.wrapping_add(1) };
        }
        Wakers { to_wake: if was_next || had_turn { self.next() } else { None }, to_drop }
    }

    /// Returns whether the holder of the turn should let other processes try first.
    ///
    /// This happens every sixteenth time in a row that the turn passes within this process. Otherwise, a process with
    /// many tasks would keep a contended lock forever.
    pub(crate) fn should_yield(&self) -> bool {
        self.handed_on > 0 && self.handed_on % 16 == 0
    }

    /// Returns whether the queue can be removed.
    pub(crate) fn is_unused(&self) -> bool {
        self.turn.is_none() && self.waiting.is_empty()
    }

    fn is_free(&self, now: Instant) -> bool {
        match &self.turn {
            None => true,
            Some(turn) => turn.until.is_some_and(|until| until <= now),
        }
    }

    fn next(&self) -> Option<W> {
        self.waiting.first_key_value().map(|(_, waker)| waker.clone())
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

    /// Polls the turn for `number`, with the number itself as its waker.
    fn ask(queue: &mut Queue<u64>, number: u64, now: u64) -> Answer {
        queue.ask(number, at(now), || number).0
    }

    /// Returns the number that is woken.
    fn hold_until(queue: &mut Queue<u64>, number: u64, until: u64) -> Option<u64> {
        queue.hold_until(number, at(until)).to_wake
    }

    /// Returns the number that is woken.
    fn leave(queue: &mut Queue<u64>, number: u64) -> Option<u64> {
        queue.leave(number).to_wake
    }

    #[test]
    fn the_next_one_gets_the_turn_when_the_validity_ends() {
        let mut queue = Queue::default();
        assert_eq!(Answer::Turn, ask(&mut queue, 1, 0));
        assert_eq!(Answer::Wait, ask(&mut queue, 2, 0), "the end of the turn is unknown");
        assert_eq!(Answer::Wait, ask(&mut queue, 3, 0));
        assert_eq!(Some(2), hold_until(&mut queue, 1, 10), "the next one is woken to set a timer");
        assert_eq!(Answer::WaitUntil(at(10)), ask(&mut queue, 2, 1));
        assert_eq!(Answer::Wait, ask(&mut queue, 3, 1), "only the next one gets a timer");
        assert_eq!(None, hold_until(&mut queue, 1, 20), "a later end wakes no number");
        assert_eq!(Answer::WaitUntil(at(20)), ask(&mut queue, 2, 10));
        assert_eq!(Answer::Turn, ask(&mut queue, 2, 20));
        assert_eq!(None, leave(&mut queue, 1), "the turn has already passed on");
        assert_eq!(Answer::Wait, ask(&mut queue, 3, 20));
    }

    #[test]
    fn the_next_one_is_woken_only_for_an_earlier_end() {
        let mut queue = Queue::default();
        ask(&mut queue, 1, 0);
        ask(&mut queue, 2, 0);
        let woken = [20, 20, 30, 10].map(|until| hold_until(&mut queue, 1, until));
        assert_eq!([Some(2), None, None, Some(2)], woken);
    }

    #[test]
    fn a_queue_is_idle_without_holder_and_waiters_and_unused_when_all_have_left() {
        let mut queue = Queue::default();
        let see = |queue: &Queue<u64>| (queue.is_idle(at(10)), queue.is_unused());
        assert_eq!((true, true), see(&queue));
        ask(&mut queue, 1, 0);
        assert_eq!((false, false), see(&queue));
        hold_until(&mut queue, 1, 11);
        assert_eq!((false, false), see(&queue));
        hold_until(&mut queue, 1, 10);
        assert_eq!((true, false), see(&queue), "the turn has ended, but its holder has not left");
        ask(&mut queue, 2, 9);
        assert_eq!((false, false), see(&queue), "a waiter is queued");
        leave(&mut queue, 1);
        assert_eq!((false, false), see(&queue));
        leave(&mut queue, 2);
        assert_eq!((true, true), see(&queue));
    }

    #[test]
    fn every_sixteenth_turn_in_a_row_yields_to_other_processes() {
        let mut queue = Queue::default();
        ask(&mut queue, 0, 0);
        let yields = (1..=64).filter(|number| {
            ask(&mut queue, *number, 0);
            leave(&mut queue, number - 1);
            ask(&mut queue, *number, 0);
            queue.should_yield()
        });
        assert_eq!(vec![16, 32, 48, 64], yields.collect::<Vec<_>>());
        leave(&mut queue, 64);
        ask(&mut queue, 65, 0);
        assert!(!queue.should_yield(), "no waiter was queued");
    }

    #[test]
    fn unused_wakers_are_returned() {
        let mut queue = Queue::default();
        assert_eq!((Answer::Turn, None), queue.ask(1, at(0), || "unused"));
        assert_eq!((Answer::Wait, None), queue.ask(2, at(0), || "first"));
        assert_eq!((Answer::Wait, Some("first")), queue.ask(2, at(0), || "second"));
        assert_eq!((Answer::Wait, None), queue.ask(3, at(0), || "other"));
        assert_eq!(Wakers { to_wake: None, to_drop: Some("other") }, queue.leave(3));
        assert_eq!(Wakers { to_wake: Some("second"), to_drop: None }, queue.leave(1));
        assert_eq!((Answer::Turn, Some("second")), queue.ask(2, at(0), || "unused"));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask(u64),
        Hold(u64, u64),
        Leave(u64),
        Time(u64),
    }

    proptest! {
        /// No number waits forever while it could have the turn.
        ///
        /// Woken numbers check at once, as tasks do. The turn is passed on in order, and the queue is empty at the end.
        #[test]
        fn every_number_gets_its_turn_in_order(steps in prop::collection::vec(prop_oneof![
            (0_u64..12).prop_map(Step::Ask),
            (0_u64..12, 1_u64..50).prop_map(|(number, time)| Step::Hold(number, time)),
            (0_u64..12).prop_map(Step::Leave),
            (0_u64..30).prop_map(Step::Time),
        ], 1..120)) {
            let mut queue = Queue::default();
            let (mut now, mut asked) = (0, Vec::<u64>::new());
            // The holder as the numbers see it, which is the last number that got the turn and has not left.
            let (mut holder, mut until) = (None, None);
            let mut seen = Vec::new();
            for step in steps {
                let mut woken = None;
                match step {
                    Step::Ask(number) if !seen.contains(&number) => {
                        // Numbers are assigned in order.
                        if seen.iter().any(|before| *before > number) { continue }
                        seen.push(number);
                        asked.push(number);
                        woken = Some(number);
                    }
                    Step::Hold(number, time) if holder == Some(number) => {
                        until = Some(now + time);
                        woken = hold_until(&mut queue, number, now + time);
                    }
                    Step::Leave(number) if seen.contains(&number) => {
                        if holder == Some(number) { holder = None; until = None; }
                        asked.retain(|other| *other != number);
                        woken = leave(&mut queue, number);
                    }
                    Step::Time(later) => {
                        now += later;
                        // The next number has a timer.
                        if until.is_some_and(|until| until <= now) { woken = asked.first().copied(); }
                    }
                    _ => {}
                }
                while let Some(number) = woken.take() {
                    if !asked.contains(&number) { break }
                    match ask(&mut queue, number, now) {
                        Answer::Turn => {
                            prop_assert_eq!(Some(&number), asked.first(), "the turn is passed on in order");
                            prop_assert!(holder.is_none() || until.is_some_and(|until| until <= now), "only one number has the turn");
                            asked.remove(0);
                            (holder, until) = (Some(number), None);
                        }
                        Answer::WaitUntil(time) => prop_assert_eq!(until.map(at), Some(time)),
                        Answer::Wait => prop_assert!(holder.is_some()),
                    }
                }
                prop_assert!(asked.is_empty() || holder.is_some(), "a number waits although the turn is free");
            }
            for number in seen { leave(&mut queue, number); }
            prop_assert!(queue.is_unused());
        }
    }
}
