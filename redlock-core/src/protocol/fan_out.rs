//! Several requests at once, with one time limit for all of them.
//!
//! The limit measures the nodes. Time in which this process did not run hardly counts, nor does time in which the nodes
//! replied to many others; see [`time_limit`](crate::decide::time_limit).
//!
//! The task that polls [`Calls`] polls all calls together. There are few of them, and a task for each would cost more.
//! The timer is created when the first call has to wait, so immediate replies need none.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use smallvec::SmallVec;

use crate::decide::time_limit::TimeLimit;
use crate::protocol::call::Call;
use crate::runtime::{BoxFuture, LONGEST_SLEEP, Runtime};
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// Calls by position: a node index, or the position in a batch.
pub(crate) struct Calls<'a> {
    runtime: &'a dyn Runtime,
    /// The calls, stored inline for the usual number of nodes.
    slots: SmallVec<[Slot<'a>; 5]>,
    limit: TimeLimit,
    timer: Option<BoxFuture<()>>,
    timed_out: bool,
    /// The time at which the returned outcomes were seen.
    completed_at: Instant,
    /// The time of the last clock reading.
    last_reading: Instant,
    /// True if calls may be polled once more after the limit.
    poll_past_deadline: bool,
}

enum Slot<'a> {
    Pending(Call<'a>),
    Ended(Outcome),
    /// No call was started, or its outcome was returned.
    Empty,
}

impl<'a> Slot<'a> {
    fn pending(&mut self) -> Option<&mut Call<'a>> {
        match self {
            Slot::Pending(call) => Some(call),
            Slot::Ended(_) | Slot::Empty => None,
        }
    }

    /// Takes the outcome, if there is one.
    fn take_outcome(&mut self) -> Option<Outcome> {
        // Checked first: slots are checked more often than calls end.
        if !matches!(self, Slot::Ended(_)) {
            return None;
        }
        match mem::replace(self, Slot::Empty) {
            Slot::Ended(outcome) => Some(outcome),
            Slot::Pending(_) | Slot::Empty => None,
        }
    }
}

impl<'a> Calls<'a> {
    pub(crate) fn new(
        runtime: &'a dyn Runtime,
        start: Instant,
        limit: Duration,
        calls: impl Iterator<Item = Call<'a>>,
    ) -> Self {
        let slots = calls.map(Slot::Pending).collect();
        Self {
            runtime,
            slots,
            limit: TimeLimit::new(start, limit),
            timer: None,
            timed_out: false,
            completed_at: start,
            last_reading: start,
            poll_past_deadline: true,
        }
    }

    /// Creates a set without calls, which are started one by one.
    pub(crate) fn none(runtime: &'a dyn Runtime, places: usize) -> Self {
        let slots = (0..places).map(|_| Slot::Empty).collect();
        let never = Instant::ORIGIN;
        Self {
            runtime,
            slots,
            limit: TimeLimit::new(never, Duration::ZERO),
            timer: None,
            timed_out: false,
            completed_at: never,
            last_reading: never,
            poll_past_deadline: true,
        }
    }

    /// Starts a call in a place that has none. The time limit of all calls starts again.
    pub(crate) fn start(&mut self, place: usize, limit: Duration, call: Call<'a>) {
        self.slots[place] = Slot::Pending(call);
        self.last_reading = self.runtime.now();
        self.limit = TimeLimit::new(self.last_reading, limit);
        self.timed_out = false;
    }

    /// Stops all polling after the limit.
    ///
    /// Otherwise, a call that was not polled for long would send its request after the cleanup of this request.
    pub(crate) fn without_poll_past_deadline(&mut self) {
        self.poll_past_deadline = false;
    }

    /// Drops the calls whose requests were not sent yet, and returns their places.
    pub(crate) fn drop_unsent(&mut self) -> Vec<usize> {
        let mut places = Vec::new();
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if matches!(slot, Slot::Pending(call) if !call.is_begun()) {
                *slot = Slot::Empty;
                places.push(place);
            }
        }
        places
    }

    /// Returns when the last returned outcome was seen; it came no later.
    ///
    /// Outcomes that are seen together have the same time, so that the clock is read once for all of them.
    pub(crate) fn completed_at(&self) -> Instant {
        self.completed_at
    }

    /// Returns the position and the outcome of the next call to end; `None` when all have ended.
    ///
    /// All calls are polled before the first outcome is returned, so no request waits for the handling of an outcome.
    /// This future may be dropped: no outcome is lost.
    pub(crate) async fn next(&mut self) -> Option<(usize, Outcome)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Outcome)>> {
        loop {
            let mut slots = self.slots.iter_mut().enumerate();
            if let Some(ended) = slots.find_map(|(index, slot)| Some((index, slot.take_outcome()?))) {
                return Poll::Ready(Some(ended));
            }
            let (mut ended, mut waiting) = (false, false);
            let too_late = !self.poll_past_deadline && self.runtime.now() >= self.limit.nominal_end();
            for slot in &mut self.slots {
                let Slot::Pending(call) = slot else { continue };
                let polled = if too_late { Poll::Pending } else { Pin::new(&mut *call).poll(cx) };
                let outcome = match polled {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending if self.timed_out || too_late => call.outcome_at_limit(),
                    Poll::Pending => {
                        waiting = true;
                        continue;
                    }
                };
                *slot = Slot::Ended(outcome);
                ended = true;
            }
            match (ended, waiting) {
                (true, _) => {
                    self.last_reading = self.runtime.now();
                    self.completed_at = self.last_reading;
                }
                (false, false) => return Poll::Ready(None),
                (false, true) => {
                    // One more poll after the limit: a reply that has arrived counts.
                    ready!(self.poll_limit(cx));
                    self.timed_out = true;
                }
            }
        }
    }

    /// Completes once the limit has passed by the clock.
    ///
    /// The timer is only a reason to read the clock. It is set from the last reading, which was in this poll or right
    /// before it. A pause in between makes the limit late, never early.
    fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(timer) = &mut self.timer {
                ready!(timer.as_mut().poll(cx));
                // A completed timer must not be polled again: a call that starts later restarts the limit.
                self.timer = None;
                self.last_reading = self.runtime.now();
            }
            let pending = self.slots.iter_mut().filter_map(Slot::pending);
            // The fold reads every call, because each call must update its own count of replies.
            let replies = || pending.fold(0, |most, call| call.other_replies().max(most));
            if self.limit.has_passed(self.last_reading, replies) {
                return Poll::Ready(());
            }
            let left = self.limit.next().saturating_duration_since(self.last_reading);
            self.timer = Some(self.runtime.sleep(left.min(LONGEST_SLEEP)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex;

    use futures_util::FutureExt;

    use super::*;
    use crate::inner::ReplyCount;
    use crate::node::Reply;

    /// A runtime in which time passes only by sleeping, and then at once.
    #[derive(Debug, Default)]
    struct Asleep(Mutex<Duration>);

    impl Runtime for Asleep {
        fn now(&self) -> Instant {
            Instant::since_origin(*self.0.lock().unwrap())
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<()> {
            *self.0.lock().unwrap() += duration;
            // Like any `async` block, this panics if it is polled after its completion.
            Box::pin(async {})
        }

        fn spawn(&self, _: BoxFuture<()>) {}
    }

    #[test]
    fn a_call_started_after_the_limit_has_its_own_limit() {
        let runtime = Asleep::default();
        let replies = ReplyCount::default();
        let mut calls = Calls::none(&runtime, 1);
        for millis in [50, 100] {
            calls.start(0, Duration::from_millis(50), Call::release_with(&replies, pending()));
            assert!(matches!(calls.next().now_or_never(), Some(Some((0, Outcome::TimedOut)))));
            assert_eq!(Instant::since_origin(Duration::from_millis(millis)), calls.completed_at());
        }
    }

    #[test]
    fn many_replies_to_other_requests_show_that_the_node_works() {
        let (runtime, replies) = (Asleep::default(), ReplyCount::default());
        let reply = poll_fn(|_| {
            (0..100).for_each(|_| replies.add());
            Poll::Pending
        });
        let calls = [Call::release_with(&replies, reply)];
        let mut calls = Calls::new(&runtime, Instant::ORIGIN, Duration::from_millis(80), calls.into_iter());
        assert!(matches!(calls.next().now_or_never(), Some(Some((0, Outcome::TimedOut)))));
        assert_eq!(Instant::since_origin(Duration::from_millis(90)), calls.completed_at(), "one part more");
    }

    /// The process pauses in its first sleep. The reply has arrived by then, but another task must run to read it.
    #[test]
    fn a_reply_that_arrived_during_a_pause_counts() {
        #[derive(Debug, Default)]
        struct Paused(Mutex<Vec<Duration>>);

        impl Runtime for Paused {
            fn now(&self) -> Instant {
                Instant::since_origin(self.0.lock().unwrap().iter().sum())
            }

            fn sleep(&self, duration: Duration) -> BoxFuture<()> {
                let mut slept = self.0.lock().unwrap();
                let late = if slept.is_empty() { Duration::from_secs(1) } else { Duration::ZERO };
                slept.push(duration + late);
                Box::pin(async {})
            }

            fn spawn(&self, _: BoxFuture<()>) {}
        }

        let runtime = Paused::default();
        let reply = poll_fn(|_| match runtime.0.lock().unwrap().len() {
            0..=1 => Poll::Pending,
            _ => Poll::Ready(Ok(Reply::Deleted(true))),
        });
        let replies = ReplyCount::default();
        let calls = [Call::release_with(&replies, reply)];
        let mut calls = Calls::new(&runtime, Instant::ORIGIN, Duration::from_millis(200), calls.into_iter());
        assert!(matches!(calls.next().now_or_never(), Some(Some((0, Outcome::Released)))));
    }
}
