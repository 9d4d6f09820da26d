//! Work that the caller drives at first, and the runtime later.
//!
//! A round is polled in the task of the caller, so that the uncontended path needs no other task. The caller receives
//! the result as soon as it is certain. The rest of the work, such as late replies and cleanup, then moves to the
//! background. The same happens if the caller stops waiting earlier: the work detects this.

#[cfg(all(test, loom))]
mod loom_tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::inner::Inner;
use crate::runtime::BoxFuture;
use crate::sync::{Mutex, locked};

/// The sender of the result of the work.
///
/// No waker belongs to it. The task that waits for the result polls the work, and the runtime polls it when no task
/// waits.
pub(crate) struct Responder<T> {
    /// The place for the result, until it is sent.
    slot: Option<Arc<Mutex<Slot<T>>>>,
}

struct Slot<T> {
    result: Option<T>,
    /// True once the caller no longer waits.
    canceled: bool,
}

impl<T> Responder<T> {
    /// Returns whether the caller no longer waits for the result.
    pub(crate) fn is_canceled(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| locked(slot).canceled)
    }

    /// Delivers the result; it is dropped with the slot if no caller waits.
    pub(crate) fn send(mut self, result: T) {
        self.send_once(|| Some(result));
    }

    /// Delivers the result that `result` returns once it is certain. `result` is not called after that.
    pub(crate) fn send_once(&mut self, result: impl FnOnce() -> Option<T>) {
        let Some(slot) = &self.slot else { return };
        if let Some(result) = result() {
            locked(slot).result = Some(result);
            self.slot = None;
        }
    }
}

/// A future that drives some work and returns its result.
///
/// If it is dropped after its first poll, with or without the result, the rest of the work continues in the background.
pub(crate) struct Detachable<T> {
    /// The rest of the work, which counts as outstanding until it is dropped.
    work: Option<BoxFuture<()>>,
    begun: bool,
    slot: Arc<Mutex<Slot<T>>>,
    inner: Arc<Inner>,
}

/// Prepares some work, which begins at the first poll. If the future is dropped earlier, the work never begins.
pub(crate) fn drive<T, F>(inner: &Arc<Inner>, work: impl FnOnce(Responder<T>) -> F) -> Detachable<T>
where
    F: Future<Output = ()> + Send + 'static,
{
    let slot = Arc::new(Mutex::new(Slot { result: None, canceled: false }));
    let outstanding = (work(Responder { slot: Some(Arc::clone(&slot)) }), inner.ticket());
    let work: BoxFuture<()> = Box::pin(async move {
        // The work is dropped before the ticket, even without a poll. Thus it counts until nothing is left of it.
        let (work, _ticket) = outstanding;
        work.await;
    });
    Detachable { work: Some(work), begun: false, slot, inner: Arc::clone(inner) }
}

impl<T> Detachable<T> {
    /// Hands the work to the runtime at once and ignores its result.
    pub(crate) fn in_background(mut self) {
        self.begun = true;
    }
}

impl<T> Future for Detachable<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        // Taken out for the poll: work that panics is not polled again.
        if let Some(mut work) = self.work.take() {
            if work.as_mut().poll(cx).is_pending() {
                self.work = Some(work);
            }
        }
        let result = locked(&self.slot).result.take();
        if let Some(result) = result {
            return Poll::Ready(result);
        }
        assert!(self.work.is_some(), "work ends with a result");
        Poll::Pending
    }
}

impl<T> Drop for Detachable<T> {
    fn drop(&mut self) {
        if self.begun {
            locked(&self.slot).canceled = true;
            if let Some(work) = self.work.take() {
                self.inner.runtime.spawn(work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::decide::validity::DriftFactor;
    use crate::inner::Settings;
    use crate::runtime::Runtime;
    use crate::types::instant::Instant;

    /// A runtime that has ended, so it drops every task.
    #[derive(Debug)]
    struct Over;

    impl Runtime for Over {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }

        fn sleep(&self, _: Duration) -> BoxFuture<()> {
            Box::pin(pending())
        }

        fn spawn(&self, _: BoxFuture<()>) {}
    }

    /// Records on drop whether any work is outstanding.
    struct Last(Arc<Inner>, Arc<AtomicBool>);

    impl Drop for Last {
        fn drop(&mut self) {
            self.1.store(self.0.is_idle(), Ordering::Relaxed);
        }
    }

    #[test]
    fn work_is_outstanding_until_its_future_is_dropped() {
        let settings = Settings {
            node_timeout: Duration::ZERO,
            retry_delay: Duration::ZERO,
            max_concurrent_attempts: 1,
            local_queue: false,
            drift: DriftFactor::new(0.01).unwrap(),
            owner: None,
        };
        let inner = Arc::new(Inner::new(Vec::new(), Arc::new(Over), settings));
        for begun in [false, true] {
            let idle = Arc::new(AtomicBool::new(false));
            let last = Last(Arc::clone(&inner), Arc::clone(&idle));
            let mut driven = drive(&inner, |responder: Responder<()>| async move {
                let _kept = (last, responder);
                pending::<()>().await;
            });
            if begun {
                let waker = Waker::noop();
                assert!(Pin::new(&mut driven).poll(&mut Context::from_waker(waker)).is_pending());
            }
            driven.in_background();
            assert!(!idle.load(Ordering::Relaxed), "begun: {begun}");
            assert!(inner.is_idle());
        }
    }
}
