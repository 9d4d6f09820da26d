//! The queues of a process: the turns of its tasks for a resource.
//!
//! Tasks that want the same resource queue here, and one of them at a time sends requests to the nodes. A mutex between
//! threads is cheaper than a lock service ([article], "Making the algorithm more reliable"). That task then waits in
//! [`watcher`](crate::watch::watcher) until another client releases the lock.
//!
//! The request owns its place, then the lease that results from it. Dropping the place leaves the queue, wherever that
//! happens. A lease may hand its turn over before that, when its releases are sent. Several resources are entered in
//! sorted order, so that no two requests wait for each other.
//!
//! [article]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

#[cfg(all(test, loom))]
mod loom_tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use crate::decide::fifo::{Queue, TurnResult, Wakers};
use crate::runtime::{Alarm, Runtime};
use crate::sync::{Mutex, locked};
use crate::types::instant::Instant;
use crate::types::position::Position;
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;

/// The number of queues whose memory is kept. That of a larger burst is freed at its end.
const SPARE: usize = 1024;

/// The queues of one [`Redlock`](crate::Redlock). An unused resource has none.
pub(crate) struct LocalQueues {
    runtime: Arc<dyn Runtime>,
    queues: Mutex<HashMap<Resource, Queue<Waker>>>,
    last_number: AtomicU64,
    /// True if a turn may pass before its release is confirmed, because the nodes serve other processes in their turn.
    passes_early: bool,
}

/// A place in the queues of the resources of one request.
pub(crate) struct QueuePlace {
    queues: Arc<LocalQueues>,
    resources: Resources,
    number: u64,
    /// The number of queues that were entered.
    ///
    /// The place has the turn in all of them except the last, and in that one too once the place is complete.
    entered: usize,
}

impl LocalQueues {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, passes_early: bool) -> Self {
        Self { runtime, queues: Mutex::default(), last_number: AtomicU64::default(), passes_early }
    }
}

impl QueuePlace {
    /// Creates a place that has entered no queue yet.
    pub(crate) fn new(queues: Arc<LocalQueues>, resources: Resources) -> Self {
        let number = queues.last_number.fetch_add(1, Ordering::Relaxed);
        Self { queues, resources, number, entered: 0 }
    }

    /// Waits for the turn on all resources.
    pub(crate) async fn turn(&mut self) {
        let mut alarm = Alarm::default();
        while self.entered < self.resources.len() {
            self.entered += 1;
            poll_fn(|cx| self.poll_turn(cx, &mut alarm)).await;
        }
    }

    /// Takes the turn on all resources, if no other task has it or waits for it.
    ///
    /// It fails if another task of this process uses any of the resources.
    pub(crate) fn try_turn(&mut self, now: Instant) -> bool {
        let mut queues = locked(&self.queues.queues);
        let busy = |resource| queues.get(resource).is_some_and(|queue: &Queue<_>| !queue.is_idle(now));
        if self.resources.iter().any(busy) {
            return false;
        }
        for resource in &*self.resources {
            queues
                .entry(resource.clone())
                .or_default()
                .request_turn(self.number, now, false, || Waker::noop().clone());
        }
        self.entered = self.resources.len();
        true
    }

    /// Records that the lock is being released.
    pub(crate) fn begin_release(&self) {
        drop(self.with_queues(|queue| queue.begin_release(self.number)));
    }

    /// Wakes the tasks to which the turn can be handed over, before it is.
    pub(crate) fn wake_successors(&self) -> Woken {
        if !self.queues.passes_early {
            return Woken::default();
        }
        self.with_queues(|queue| Wakers { to_wake: queue.successor(self.number), to_drop: None })
    }

    /// Hands the turn over to the tasks that wait for it. The release of the lease with this token is not confirmed yet.
    pub(crate) fn hand_over(&self, token: &Token) -> Woken {
        self.with_queues(|queue| queue.hand_over(self.number, token))
    }

    /// Returns since when the next task waits. It has this place on the nodes from now on.
    pub(crate) fn enter_next(&self, place: &Token) -> Option<Instant> {
        let mut queues = locked(&self.queues.queues);
        queues.get_mut(&self.resources[0])?.enter_next(self.number, place)
    }

    /// Takes the place on the nodes that a release has entered for this task.
    pub(crate) fn take_entered(&self) -> Option<Token> {
        let mut queues = locked(&self.queues.queues);
        queues.get_mut(&self.resources[0])?.take_entered(self.number)
    }

    /// Returns whether the place has the turn on all resources.
    pub(crate) fn has_turn(&self) -> bool {
        let queues = locked(&self.queues.queues);
        let has_turn = |resource| queues.get(resource).is_some_and(|queue| queue.has_turn(self.number));
        self.resources.iter().all(has_turn)
    }

    /// Leaves the queues. Returns the place on the nodes that a release has entered for this task, and enters none later.
    pub(crate) fn withdraw(&mut self) -> Option<Token> {
        let place = Cell::new(None);
        drop(self.with_queues(|queue| {
            if let Some(entered) = queue.take_entered(self.number) {
                place.set(Some(entered));
            }
            queue.leave(self.number)
        }));
        self.entered = 0;
        place.into_inner()
    }

    /// Returns the lock of this process that precedes the place: its token, and the end of its validity.
    ///
    /// A place that waits in a queue waits for the lock of that resource. A place that has entered no queue may be
    /// preceded on any of its resources.
    pub(crate) fn holder(&self) -> Option<(Token, Instant)> {
        let queues = locked(&self.queues.queues);
        let first = self.entered.saturating_sub(1);
        let end = if self.entered == 0 { self.resources.len() } else { self.entered };
        let mut queues = self.resources[first..end].iter().filter_map(|resource| queues.get(resource));
        queues.find_map(Queue::holder).cloned()
    }

    /// Returns the position in the queue in which the place waits.
    pub(crate) fn position(&self) -> Option<Position> {
        let queues = locked(&self.queues.queues);
        let queue = queues.get(self.resources.get(self.entered.checked_sub(1)?)?)?;
        Some(queue.position(self.number))
    }

    /// Returns the tokens of the leases that handed the turn over before their releases were confirmed.
    pub(crate) fn unconfirmed(&self) -> Vec<Token> {
        let queues = locked(&self.queues.queues);
        let queues = self.resources.iter().filter_map(|resource| queues.get(resource));
        queues.filter_map(Queue::unconfirmed).cloned().collect()
    }

    /// Waits until the release of the lease with this token is confirmed, or cannot be.
    pub(crate) async fn confirmed(&self, token: &Token) {
        for resource in &*self.resources {
            poll_fn(|cx| {
                let (is_confirmed, before) = match locked(&self.queues.queues).get_mut(resource) {
                    Some(queue) => queue.is_confirmed(token, || cx.waker().clone()),
                    None => (true, None),
                };
                drop(before);
                if is_confirmed { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Limits the turn to the validity of a lock that was acquired or extended.
    pub(crate) fn hold_until(&self, token: &Token, until: Instant) -> Woken {
        self.with_queues(|queue| queue.hold_until(self.number, token, until))
    }

    fn poll_turn(&self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<()> {
        loop {
            let (now, resource) = (self.queues.runtime.now(), &self.resources[self.entered - 1]);
            let (result, before) = {
                let mut queues = locked(&self.queues.queues);
                queues.entry(resource.clone()).or_default().request_turn(
                    self.number,
                    now,
                    self.resources.len() == 1,
                    || cx.waker().clone(),
                )
            };
            drop(before);
            match result {
                TurnResult::Turn => return Poll::Ready(()),
                TurnResult::Wait => return Poll::Pending,
                TurnResult::WaitUntil(until) => ready!(alarm.poll_at(&*self.queues.runtime, until, cx)),
            }
        }
    }

    /// Applies `act` to every queue that was entered.
    fn with_queues(&self, act: impl Fn(&mut Queue<Waker>) -> Wakers<Waker>) -> Woken {
        let mut woken = Woken::default();
        for resource in &self.resources[..self.entered] {
            let mut queues = locked(&self.queues.queues);
            let Some(queue) = queues.get_mut(resource) else { continue };
            let Wakers { to_wake, to_drop } = act(queue);
            if queue.is_unused() {
                queues.remove(resource);
                if queues.is_empty() {
                    queues.shrink_to(SPARE);
                }
            }
            drop(queues);
            woken.0.extend(to_wake);
            drop(to_drop);
        }
        woken
    }
}

/// The tasks to wake after a change of queues.
///
/// They are woken when this value is dropped, so drop it without holding a mutex. An executor may poll or drop any task
/// inside a waker.
#[derive(Default)]
#[must_use]
pub(crate) struct Woken(Vec<Waker>);

impl Woken {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

/// Leaves every queue, with or without the turn.
impl Drop for QueuePlace {
    fn drop(&mut self) {
        drop(self.with_queues(|queue| queue.leave(self.number)));
    }
}

impl fmt::Debug for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePlace(#{} for {})", self.number, self.resources)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc;
    use std::task::Wake;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::runtime::BoxFuture;
    use crate::types::resource::IntoResources;

    /// A runtime whose time never passes.
    #[derive(Debug)]
    struct StoppedClock;

    impl Runtime for StoppedClock {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }

        fn sleep(&self, _: Duration) -> BoxFuture<()> {
            Box::pin(pending())
        }

        fn spawn(&self, _: BoxFuture<()>) {}
    }

    fn places(count: usize) -> Vec<QueuePlace> {
        let queues = Arc::new(LocalQueues::new(Arc::new(StoppedClock), true));
        let place = || QueuePlace::new(Arc::clone(&queues), "a".into_resources().unwrap());
        std::iter::repeat_with(place).take(count).collect()
    }

    /// Polls the turn of `place` with this waker.
    fn poll_turn(place: &mut QueuePlace, waker: &Waker) -> Poll<()> {
        place.entered = 1;
        place.poll_turn(&mut Context::from_waker(waker), &mut Alarm::default())
    }

    /// A waker that drops a place when it is woken or dropped, as an executor may.
    struct Drops(Mutex<Option<QueuePlace>>);

    impl Drops {
        fn waker(mut place: QueuePlace) -> Waker {
            let _ = poll_turn(&mut place, Waker::noop());
            Waker::from(Arc::new(Self(Mutex::new(Some(place)))))
        }
    }

    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            let place = locked(&self.0).take();
            drop(place);
        }
    }

    /// Runs a test that hangs if a mutex is held while a waker runs.
    fn without_deadlock(test: impl FnOnce() + Send + 'static) {
        let (done, end) = mpsc::channel();
        thread::spawn(move || {
            test();
            done.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(20)).expect("a deadlock or a panic");
    }

    #[test]
    fn a_replaced_waker_can_drop_a_place() {
        without_deadlock(|| {
            let mut places = places(3);
            assert!(places[0].try_turn(Instant::ORIGIN));
            let waker = Drops::waker(places.pop().unwrap());
            assert!(poll_turn(&mut places[1], &waker).is_pending());
            drop(waker);
            assert!(poll_turn(&mut places[1], Waker::noop()).is_pending());
        });
    }

    #[test]
    fn the_waker_of_a_place_that_is_left_can_drop_another_place() {
        without_deadlock(|| {
            let mut places = places(3);
            assert!(places[0].try_turn(Instant::ORIGIN));
            let waker = Drops::waker(places.pop().unwrap());
            assert!(poll_turn(&mut places[1], &waker).is_pending());
            drop(waker);
            drop(places.pop());
        });
    }

    #[test]
    fn a_woken_waker_can_drop_its_own_place_and_others() {
        without_deadlock(|| {
            let mut places = places(3);
            assert!(places[0].try_turn(Instant::ORIGIN));
            let waker = Drops::waker(places.pop().unwrap());
            assert!(poll_turn(&mut places[1], &waker).is_pending());
            let turn = places.remove(0);
            // This wakes the task of the next place, which drops the third one.
            let woken =
                turn.hold_until(&Token::from_bytes("t"), Instant::since_origin(Duration::from_secs(1)));
            drop(woken);
            drop(turn);
            assert!(poll_turn(&mut places[0], &waker).is_ready());
        });
    }
}
