//! The limit of rounds in flight.
//!
//! Attempts, renewals and watches wait here until they may begin. [`concurrency`](crate::decide::concurrency) decides
//! which of them may.

#[cfg(all(test, loom))]
mod loom_tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::decide::concurrency::{Class, Concurrency, Waiting};
use crate::runtime::{LONGEST_SLEEP, Runtime};
use crate::sync::{Mutex, locked};

/// The approximate number of waiting rounds that are polled in each interval.
const POLLED_AT_ONCE: usize = 64;

/// The rounds in flight of one [`Redlock`](crate::Redlock).
pub(crate) struct Limiter {
    rounds: Mutex<Concurrency<Waker>>,
    runtime: Arc<dyn Runtime>,
    /// The time after which another round is [overdue](Concurrency::begin_overdue).
    overdue: Duration,
}

/// The right to have a round in flight. When it is dropped, the next waiting round may begin.
pub(crate) struct Permit {
    limiter: Arc<Limiter>,
    class: Class,
}

impl Limiter {
    pub(crate) fn new(max: usize, runtime: Arc<dyn Runtime>, node_timeout: Duration) -> Self {
        Self { rounds: Mutex::new(Concurrency::new(max)), runtime, overdue: 2 * node_timeout }
    }

    /// Holds attempts back while cleanup is behind.
    pub(crate) fn cleanup_is_behind(&self, is_behind: impl FnOnce() -> bool) {
        self.change(|rounds| rounds.cleanup_is_behind(is_behind()));
    }

    /// Returns whether no further attempt may wait.
    pub(crate) fn is_full(&self) -> bool {
        locked(&self.rounds).is_full()
    }

    /// Sets whether the last renewal that ended has failed.
    pub(crate) fn renewals_fail(&self, fail: bool) {
        self.change(|rounds| rounds.renewals_fail(fail));
    }

    /// Returns the interval at which to poll a waiting round.
    ///
    /// It grows with the number of waiting rounds of this class, so that all of them together cost little. Renewals are
    /// polled more often, because a lease does not wait.
    pub(crate) fn poll_interval(&self, class: Class) -> Duration {
        let waiting = locked(&self.rounds).waiting_of(class);
        let shortest = match class {
            Class::Renewal(_) => self.overdue.min(LONGEST_SLEEP),
            Class::Attempt | Class::Watch => LONGEST_SLEEP,
        };
        shortest.saturating_mul(u32::try_from(waiting / POLLED_AT_ONCE).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// Returns the numbers of waiting attempts and renewals, and the reason.
    pub(crate) fn waiting(&self) -> (usize, usize, &'static str) {
        let rounds = locked(&self.rounds);
        let (attempts, renewals) = rounds.waiting();
        (attempts, renewals, rounds.obstacle())
    }

    /// Changes the rounds, then wakes those that may begin because of it.
    ///
    /// The wakers are called after the mutex is unlocked.
    fn change<T>(&self, change: impl FnOnce(&mut Concurrency<Waker>) -> T) -> T {
        let mut rounds = locked(&self.rounds);
        let changed = change(&mut rounds);
        if rounds.is_waited_for() {
            let mut begun = Vec::new();
            while let Some(waker) = rounds.begin_next() {
                begun.push(waker);
            }
            drop(rounds);
            begun.into_iter().for_each(Waker::wake);
        }
        changed
    }
}

impl Permit {
    /// Returns the permit if the round may begin at once.
    pub(crate) fn try_new(limiter: &Arc<Limiter>, class: Class) -> Option<Self> {
        let may_begin = locked(&limiter.rounds).try_begin(class);
        may_begin.then(|| Self { limiter: Arc::clone(limiter), class })
    }

    /// Waits until the round may begin.
    ///
    /// The future may be dropped at any time. Poll it in every [interval](Limiter::poll_interval), since another round
    /// may be [overdue](Concurrency::begin_overdue).
    pub(crate) fn wait(limiter: &Arc<Limiter>, class: Class) -> PermitWait<'_> {
        PermitWait { limiter, class, waiting: None }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.change(|rounds| rounds.end(self.class));
    }
}

/// A future that waits for a [`Permit`].
pub(crate) struct PermitWait<'a> {
    limiter: &'a Arc<Limiter>,
    class: Class,
    waiting: Option<Waiting>,
}

impl Future for PermitWait<'_> {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let Self { limiter, class, waiting } = &mut *self;
        let waker = cx.waker().clone();
        let mut rounds = locked(&limiter.rounds);
        let replaced = match *waiting {
            Some(entered) => match rounds.waker(entered) {
                Some(waiting) => Some(std::mem::replace(waiting, waker)),
                None => {
                    drop(rounds);
                    *waiting = None;
                    return Poll::Ready(Permit { limiter: Arc::clone(limiter), class: *class });
                }
            },
            None if rounds.try_begin(*class) => {
                drop(rounds);
                return Poll::Ready(Permit { limiter: Arc::clone(limiter), class: *class });
            }
            None => {
                *waiting = Some(rounds.wait(*class, waker));
                None
            }
        };
        let overdue = rounds.begin_overdue(*class, limiter.runtime.now(), limiter.overdue);
        // A waker may run foreign code when it is called or dropped, so not under the mutex.
        drop(rounds);
        drop(replaced);
        if let Some(overdue) = overdue {
            overdue.wake();
        }
        Poll::Pending
    }
}

impl Drop for PermitWait<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            drop(self.limiter.change(|rounds| rounds.leave(waiting)));
        }
    }
}
