//! Timers for callers outside of any tokio runtime: one thread for the whole process.
//!
//! The thread starts with the first timer and stays. A timer whose future was dropped stays in the queue until it is due.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use event_listener::Event;

use crate::runtime::BoxFuture;

static TIMERS: Timers = Timers { queue: Mutex::new(Queue::new()), changed: Condvar::new() };

struct Timers {
    queue: Mutex<Queue>,
    /// Fires when a timer is added that is due before all others.
    changed: Condvar,
}

struct Queue {
    timers: BinaryHeap<Timer>,
    /// Whether the thread has been started.
    started: bool,
}

struct Timer {
    due: Instant,
    over: Event,
}

/// Completes after `duration` or a little later.
///
/// # Panics
///
/// If the thread cannot be started.
pub(super) fn sleep(duration: Duration) -> BoxFuture<()> {
    TIMERS.sleep(duration)
}

impl Timers {
    #[allow(clippy::disallowed_methods)] // this is what others are told to ask
    fn sleep(&'static self, duration: Duration) -> BoxFuture<()> {
        // A time that the clock cannot show does not come.
        let Some(due) = Instant::now().checked_add(duration) else { return Box::pin(pending()) };
        let over = Event::new();
        let woken = over.listen();
        let mut queue = self.queue();
        if !queue.started {
            let thread = thread::Builder::new().name("redlock-timers".into());
            thread.spawn(|| self.run()).expect("cannot start a thread for timers");
            queue.started = true;
        }
        let is_first = queue.timers.peek().is_none_or(|first| due < first.due);
        queue.timers.push(Timer { due, over });
        drop(queue);
        if is_first {
            self.changed.notify_one();
        }
        Box::pin(woken)
    }

    fn run(&self) {
        loop {
            let timer = self.next();
            // A waker that panics must not end the timers of others.
            drop(catch_unwind(AssertUnwindSafe(|| timer.over.notify(usize::MAX))));
        }
    }

    /// Waits for the next timer. The queue is not locked when this returns.
    #[allow(clippy::disallowed_methods)] // this is what others are told to ask
    fn next(&self) -> Timer {
        let mut queue = self.queue();
        loop {
            let Some(first) = queue.timers.peek() else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = first.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if let Some(timer) = queue.timers.pop() {
                    return timer;
                }
            }
            let woken = self.changed.wait_timeout(queue, left);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    const fn new() -> Self {
        Self { timers: BinaryHeap::new(), started: false }
    }
}

/// The one that is due first is the greatest.
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Timer {}
