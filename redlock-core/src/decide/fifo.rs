//! The order of the tasks of one process that want one resource.
//!
//! First come, first served: each task gets a number, and numbers take the turn in their order. A turn ends when its
//! task leaves it, or when the validity of its lock has passed. In the second case, the next number takes the turn
//! over. Only the next number checks this time; all others wait to become the next one.
//!
//! A turn may also be handed over while the nodes have not confirmed the release of its lock. The next number can find
//! out then which release that is, and wait for its confirmation.

use std::collections::BTreeMap;

use crate::types::instant::Instant;
use crate::types::position::Position;
use crate::types::token::Token;

/// The turns of one resource. A `W` wakes a waiting task.
#[derive(Debug)]
pub(crate) struct Queue<W> {
    turn: Option<Turn>,
    waiting: BTreeMap<u64, Waiting<W>>,
    /// The place that the last release entered for the next number, until that number takes it.
    entered: Option<(u64, Token)>,
    /// The last turn that was handed over, until its release is confirmed.
    handed_over: Option<HandedOver<W>>,
}

/// A number that waits for the turn.
#[derive(Debug)]
struct Waiting<W> {
    /// The start of the wait, if the number takes a place on the nodes.
    since: Option<Instant>,
    waker: W,
}

#[derive(Debug)]
struct Turn {
    number: u64,
    /// The token of the acquired lock, and the time at which the turn ends on its own.
    ///
    /// `None` before the lock is acquired.
    lock: Option<(Token, Instant)>,
}

/// A turn that passed on before its release was confirmed.
#[derive(Debug)]
struct HandedOver<W> {
    number: u64,
    /// The token of the released lease.
    token: Token,
    /// The waker of the number that waits for the confirmation.
    waker: Option<W>,
}

/// The result of a request for the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnResult {
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
    /// The waker of the number that must check again, if there is one.
    pub(crate) to_wake: Option<W>,
    /// A waker that is no longer needed.
    pub(crate) to_drop: Option<W>,
}

impl<W> Default for Wakers<W> {
    fn default() -> Self {
        Self { to_wake: None, to_drop: None }
    }
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { turn: None, waiting: BTreeMap::new(), entered: None, handed_over: None }
    }
}

impl<W: Clone> Queue<W> {
    /// Takes the turn, or waits for it. A number that waits may call this again.
    ///
    /// `takes_place` is true if the number can take a [place](Queue::enter_next) on the nodes.
    ///
    /// Also returns the previous waker of the number. The caller must drop it after unlocking its mutex, because
    /// dropping a waker may run any code.
    pub(crate) fn request_turn(
        &mut self,
        number: u64,
        now: Instant,
        takes_place: bool,
        waker: impl FnOnce() -> W,
    ) -> (TurnResult, Option<W>) {
        let is_next = self.waiting.first_key_value().is_none_or(|(next, _)| *next >= number);
        if is_next && self.is_free(now) {
            let before = self.waiting.remove(&number).map(|waiting| waiting.waker);
            self.turn = Some(Turn { number, lock: None });
            return (TurnResult::Turn, before);
        }
        let since = self.waiting.get(&number).map_or(takes_place.then_some(now), |waiting| waiting.since);
        let before =
            self.waiting.insert(number, Waiting { since, waker: waker() }).map(|waiting| waiting.waker);
        let result = match &self.turn {
            Some(Turn { lock: Some((_, until)), .. }) if is_next => TurnResult::WaitUntil(*until),
            _ => TurnResult::Wait,
        };
        (result, before)
    }

    /// Returns whether no number has the turn or waits for it.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.waiting.is_empty() && self.is_free(now)
    }

    /// Sets the end of the turn: the lock with this token was acquired, and is valid until then.
    pub(crate) fn hold_until(&mut self, number: u64, token: &Token, until: Instant) -> Wakers<W> {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.number == number) else {
            return Wakers::default();
        };
        // A number that waits for an earlier time checks again then, so it need not be woken.
        let is_earlier = turn.lock.as_ref().is_none_or(|(_, before)| until < *before);
        turn.lock = Some((token.clone(), until));
        Wakers { to_wake: if is_earlier { self.next() } else { None }, to_drop: None }
    }

    /// Records that the lock of this turn is being released. It is no longer held, and the turn ends when it is left.
    pub(crate) fn begin_release(&mut self, number: u64) -> Wakers<W> {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.number == number) {
            turn.lock = None;
        }
        Wakers::default()
    }

    /// Leaves the turn, or stops waiting for it. A turn that was handed over is confirmed by this.
    pub(crate) fn leave(&mut self, number: u64) -> Wakers<W> {
        if let Some(confirmed) = self.handed_over.take_if(|handed_over| handed_over.number == number) {
            return Wakers { to_wake: confirmed.waker, to_drop: None };
        }
        let was_next = self.waiting.first_key_value().is_some_and(|(next, _)| *next == number);
        let had_turn = self.has_turn(number);
        let to_drop = self.waiting.remove(&number).map(|waiting| waiting.waker);
        if had_turn {
            self.turn = None;
        }
        Wakers { to_wake: if was_next || had_turn { self.next() } else { None }, to_drop }
    }

    /// Returns the waker of the number to which the turn can be [handed over](Queue::hand_over) now.
    ///
    /// A number that is woken before the turn is handed over to it finds that it still waits.
    pub(crate) fn successor(&self, number: u64) -> Option<W> {
        if self.has_turn(number) { self.next() } else { None }
    }

    /// Hands the turn over to the next number, although the release of `token` is not confirmed yet.
    ///
    /// The number then [leaves](Queue::leave) when the release is confirmed. The turn stays if no number waits for it.
    pub(crate) fn hand_over(&mut self, number: u64, token: &Token) -> Wakers<W> {
        let Some(successor) = self.successor(number) else { return Wakers::default() };
        self.turn = None;
        let before = self.handed_over.replace(HandedOver { number, token: token.clone(), waker: None });
        Wakers { to_wake: Some(successor), to_drop: before.and_then(|before| before.waker) }
    }

    /// Returns since when the next number waits for the turn of `number`. It has this place on the nodes from now on.
    pub(crate) fn enter_next(&mut self, number: u64, place: &Token) -> Option<Instant> {
        let (next, waiting) = self.waiting.first_key_value().filter(|_| self.has_turn(number))?;
        let since = waiting.since?;
        self.entered = Some((*next, place.clone()));
        Some(since)
    }

    /// Takes the place that a release has entered for this number.
    pub(crate) fn take_entered(&mut self, number: u64) -> Option<Token> {
        self.entered.take_if(|(next, _)| *next == number).map(|(_, place)| place)
    }

    /// Returns the token of the lock that the turn has acquired, and the end of its validity.
    pub(crate) fn holder(&self) -> Option<&(Token, Instant)> {
        self.turn.as_ref()?.lock.as_ref()
    }

    /// Returns the position of a number that waits. The turn counts until its lock is acquired.
    pub(crate) fn position(&self, number: u64) -> Position {
        let attempting = self.turn.iter().filter(|turn| turn.lock.is_none()).count();
        let ahead = attempting + self.waiting.range(..number).count();
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Position { rank: count(ahead + 1), waiters: count(attempting + self.waiting.len()) }
    }

    /// Returns the token of the lease whose release is not confirmed, if the turn was handed over.
    pub(crate) fn unconfirmed(&self) -> Option<&Token> {
        self.handed_over.as_ref().map(|handed_over| &handed_over.token)
    }

    /// Returns whether the release of `token` is confirmed. Otherwise, the waker is called then.
    ///
    /// Also returns a previous waker, for the caller to drop.
    pub(crate) fn is_confirmed(&mut self, token: &Token, waker: impl FnOnce() -> W) -> (bool, Option<W>) {
        match self.handed_over.as_mut().filter(|handed_over| handed_over.token == *token) {
            Some(handed_over) => (false, handed_over.waker.replace(waker())),
            None => (true, None),
        }
    }

    /// Returns whether the queue can be removed.
    pub(crate) fn is_unused(&self) -> bool {
        self.turn.is_none() && self.waiting.is_empty() && self.handed_over.is_none()
    }

    pub(crate) fn has_turn(&self, number: u64) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.number == number)
    }

    fn is_free(&self, now: Instant) -> bool {
        match &self.turn {
            None => true,
            Some(turn) => turn.lock.as_ref().is_some_and(|(_, until)| *until <= now),
        }
    }

    fn next(&self) -> Option<W> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting.waker.clone())
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
    fn request_turn(queue: &mut Queue<u64>, number: u64, now: u64) -> TurnResult {
        queue.request_turn(number, at(now), true, || number).0
    }

    /// Returns the number that is woken.
    fn hold_until(queue: &mut Queue<u64>, number: u64, until: u64) -> Option<u64> {
        queue.hold_until(number, &token(number), at(until)).to_wake
    }

    /// Returns the number that is woken.
    fn leave(queue: &mut Queue<u64>, number: u64) -> Option<u64> {
        queue.leave(number).to_wake
    }

    /// Returns the number that is woken.
    fn hand_over(queue: &mut Queue<u64>, number: u64) -> Option<u64> {
        queue.hand_over(number, &token(number)).to_wake
    }

    /// Returns a token that belongs to `number`.
    fn token(number: u64) -> Token {
        Token::from_bytes(number.to_be_bytes())
    }

    #[test]
    fn a_lock_that_is_being_released_has_no_holder_and_keeps_its_turn() {
        let mut queue = Queue::<u64>::default();
        assert_eq!(TurnResult::Turn, queue.request_turn(1, at(0), true, || 1).0);
        let _ = queue.hold_until(1, &token(1), at(100));
        assert!(queue.holder().is_some());
        let _ = queue.begin_release(2);
        assert!(queue.holder().is_some(), "another turn");
        let _ = queue.begin_release(1);
        assert!(queue.holder().is_none());
        assert_eq!(TurnResult::Wait, queue.request_turn(2, at(200), true, || 2).0);
        assert_eq!(Some(2), queue.leave(1).to_wake);
        assert_eq!(TurnResult::Turn, queue.request_turn(2, at(200), true, || 2).0);
    }

    #[test]
    fn the_next_number_gets_the_turn_when_the_validity_ends() {
        let mut queue = Queue::default();
        assert_eq!(TurnResult::Turn, request_turn(&mut queue, 1, 0));
        assert_eq!(TurnResult::Wait, request_turn(&mut queue, 2, 0), "the end of the turn is unknown");
        assert_eq!(TurnResult::Wait, request_turn(&mut queue, 3, 0));
        assert_eq!(Some(2), hold_until(&mut queue, 1, 10), "the next one is woken to set a timer");
        assert_eq!(TurnResult::WaitUntil(at(10)), request_turn(&mut queue, 2, 1));
        assert_eq!(TurnResult::Wait, request_turn(&mut queue, 3, 1), "only the next one gets a timer");
        assert_eq!(None, hold_until(&mut queue, 1, 20), "a later end wakes no number");
        assert_eq!(TurnResult::WaitUntil(at(20)), request_turn(&mut queue, 2, 10));
        assert_eq!(TurnResult::Turn, request_turn(&mut queue, 2, 20));
        assert_eq!(None, leave(&mut queue, 1), "the turn has already passed on");
        assert_eq!(TurnResult::Wait, request_turn(&mut queue, 3, 20));
    }

    #[test]
    fn the_next_number_is_woken_only_for_an_earlier_end() {
        let mut queue = Queue::default();
        request_turn(&mut queue, 1, 0);
        request_turn(&mut queue, 2, 0);
        let woken = [20, 20, 30, 10].map(|until| hold_until(&mut queue, 1, until));
        assert_eq!([Some(2), None, None, Some(2)], woken);
    }

    #[test]
    fn a_queue_is_idle_without_holder_and_waiters_and_unused_when_all_have_left() {
        let mut queue = Queue::default();
        let see = |queue: &Queue<u64>| (queue.is_idle(at(10)), queue.is_unused());
        assert_eq!((true, true), see(&queue));
        request_turn(&mut queue, 1, 0);
        assert_eq!((false, false), see(&queue));
        hold_until(&mut queue, 1, 11);
        assert_eq!((false, false), see(&queue));
        hold_until(&mut queue, 1, 10);
        assert_eq!((true, false), see(&queue), "the turn has ended, but its holder has not left");
        request_turn(&mut queue, 2, 9);
        assert_eq!((false, false), see(&queue), "a waiter is queued");
        leave(&mut queue, 1);
        assert_eq!((false, false), see(&queue));
        leave(&mut queue, 2);
        assert_eq!((true, true), see(&queue));
    }

    #[test]
    fn a_turn_is_handed_over_only_to_a_waiting_number() {
        let mut queue = Queue::default();
        request_turn(&mut queue, 1, 0);
        assert_eq!((None, None), (queue.successor(1), hand_over(&mut queue, 1)));
        assert_eq!(TurnResult::Wait, request_turn(&mut queue, 2, 0), "the first one still has the turn");
        assert_eq!((None, None), (queue.successor(2), hand_over(&mut queue, 2)), "it has no turn");
        assert_eq!(Some(2), queue.successor(1));
        assert_eq!(
            TurnResult::Wait,
            request_turn(&mut queue, 2, 0),
            "it is woken, but the turn is not handed over yet"
        );
        assert_eq!(Some(2), hand_over(&mut queue, 1));
        assert_eq!(TurnResult::Turn, request_turn(&mut queue, 2, 0));
        assert_eq!(Some(&token(1)), queue.unconfirmed());
        assert_eq!(None, leave(&mut queue, 2));
        assert!(!queue.is_unused(), "the release is not confirmed");
        assert_eq!(None, leave(&mut queue, 1));
        assert!(queue.is_unused());
    }

    #[test]
    fn the_confirmation_wakes_the_number_that_waits_for_it() {
        let mut queue = Queue::default();
        for number in [1, 2, 3] {
            let _ = request_turn(&mut queue, number, 0);
        }
        hand_over(&mut queue, 1);
        request_turn(&mut queue, 2, 0);
        assert_eq!((true, None), queue.is_confirmed(&token(7), || 2), "of another lease");
        assert_eq!((false, None), queue.is_confirmed(&token(1), || 2));
        assert_eq!((false, Some(2)), queue.is_confirmed(&token(1), || 9), "the waker is replaced");
        assert_eq!(Some(9), leave(&mut queue, 1), "the turn stays");
        assert_eq!((true, None), queue.is_confirmed(&token(1), || 2));
        assert_eq!(TurnResult::Wait, request_turn(&mut queue, 3, 0));
        assert_eq!(Some(3), leave(&mut queue, 2));
    }

    #[test]
    fn the_last_turn_that_was_handed_over_counts() {
        let mut queue = Queue::default();
        for number in [1, 2, 3] {
            let _ = request_turn(&mut queue, number, 0);
        }
        hand_over(&mut queue, 1);
        request_turn(&mut queue, 2, 0);
        let _ = queue.is_confirmed(&token(1), || 2);
        let Wakers { to_wake, to_drop } = queue.hand_over(2, &token(2));
        assert_eq!((Some(3), Some(2)), (to_wake, to_drop));
        assert_eq!(Some(&token(2)), queue.unconfirmed());
        assert_eq!(None, leave(&mut queue, 1), "confirmed by the grant of the next one");
        assert_eq!(Some(&token(2)), queue.unconfirmed());
    }

    #[test]
    fn unused_wakers_are_returned() {
        let mut queue = Queue::default();
        assert_eq!((TurnResult::Turn, None), queue.request_turn(1, at(0), true, || "unused"));
        assert_eq!((TurnResult::Wait, None), queue.request_turn(2, at(0), true, || "first"));
        assert_eq!((TurnResult::Wait, Some("first")), queue.request_turn(2, at(0), true, || "second"));
        assert_eq!((TurnResult::Wait, None), queue.request_turn(3, at(0), true, || "other"));
        assert_eq!(Wakers { to_wake: None, to_drop: Some("other") }, queue.leave(3));
        assert_eq!(Wakers { to_wake: Some("second"), to_drop: None }, queue.leave(1));
        assert_eq!((TurnResult::Turn, Some("second")), queue.request_turn(2, at(0), true, || "unused"));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask(u64),
        Hold(u64, u64),
        HandOver(u64),
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
            (0_u64..12).prop_map(Step::HandOver),
            (0_u64..12).prop_map(Step::Leave),
            (0_u64..30).prop_map(Step::Time),
        ], 1..120)) {
            let mut queue = Queue::default();
            let (mut now, mut asked) = (0, Vec::<u64>::new());
            // The holder as the numbers see it, which is the last number that received the turn and has not left.
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
                    Step::HandOver(number) if holder == Some(number) && until.is_none_or(|until| until > now) => {
                        woken = hand_over(&mut queue, number);
                        if woken.is_some() { holder = None; until = None; }
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
                    match request_turn(&mut queue, number, now) {
                        TurnResult::Turn => {
                            prop_assert_eq!(Some(&number), asked.first(), "the turn is passed on in order");
                            prop_assert!(holder.is_none() || until.is_some_and(|until| until <= now), "only one number has the turn");
                            asked.remove(0);
                            (holder, until) = (Some(number), None);
                        }
                        TurnResult::WaitUntil(time) => prop_assert_eq!(until.map(at), Some(time)),
                        TurnResult::Wait => prop_assert!(holder.is_some()),
                    }
                }
                prop_assert!(asked.is_empty() || holder.is_some(), "a number waits although the turn is free");
            }
            for number in seen { leave(&mut queue, number); }
            prop_assert!(queue.is_unused());
        }
    }
}
