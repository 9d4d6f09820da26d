//! Timers for callers outside of any tokio runtime, on one thread for the whole process.
//!
//! The thread starts with the first timer and never ends. A timer whose future was dropped stays in the queue until it
//! is due.

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
    /// Notified when a timer is added that is due before all others.
    changed: Condvar,
}

struct Queue {
    timers: BinaryHeap<Timer>,
    /// True once the thread has been started.
    started: bool,
}

struct Timer {
    due: Instant,
    expired: Event,
}

/// Waits for at least `duration`.
///
/// # Panics
///
/// Panics if the thread cannot be started.
pub(super) fn sleep(duration: Duration) -> BoxFuture<()> {
    TIMERS.sleep(duration)
}

impl Timers {
    #[allow(clippy::disallowed_methods)] // this is the runtime's clock
    fn sleep(&'static self, duration: Duration) -> BoxFuture<()> {
        // A time above the range of the clock never comes.
        let Some(due) = Instant::now().checked_add(duration) else { return Box::pin(pending()) };
        let expired = Event::new();
        let woken = expired.listen();
        let mut queue = self.queue();
        if !queue.started {
            let thread = thread::Builder::new().name("redlock-timers".into());
            thread.spawn(|| self.run()).expect("cannot start a thread for timers");
            queue.started = true;
        }
        let is_first = queue.timers.peek().is_none_or(|first| due < first.due);
        queue.timers.push(Timer { due, expired });
        drop(queue);
        if is_first {
            self.changed.notify_one();
        }
        Box::pin(woken)
    }

    fn run(&self) {
        loop {
            let timer = self.next();
            // A panicking waker must not end the timers of others.
            drop(catch_unwind(AssertUnwindSafe(|| timer.expired.notify(usize::MAX))));
        }
    }

    /// Waits for the next timer. The queue is unlocked on return.
    #[allow(clippy::disallowed_methods)] // this is the runtime's clock
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

/// The timer that is due first is the greatest.
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
