//! Work that its caller drives while it cares, and the runtime from then on.
//!
//! A round is polled in the caller's own task, so that the uncontended path needs no other. The caller learns the
//! verdict as soon as there is one; what is left of the work then (stragglers, undoing) moves to the background. So it
//! does when the caller goes away earlier: the work notices that nobody waits for the verdict any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::runtime::BoxFuture;
use crate::shared::{Shared, locked};

/// Where the work puts its verdict.
///
/// No waker goes with it: the work is polled by whoever waits for the verdict, and anew when nobody does any more.
pub(crate) struct Verdict<T>(Arc<Desk<T>>);

struct Desk<T> {
    verdict: Mutex<Option<T>>,
    /// Whether there is one, for who looks often.
    told: AtomicBool,
    canceled: AtomicBool,
}

impl<T> Verdict<T> {
    /// Whether nobody waits for it any more.
    pub(crate) fn is_canceled(&self) -> bool {
        self.0.canceled.load(Ordering::Acquire)
    }

    /// Dropped with the desk, where nobody waits for it.
    pub(crate) fn send(self, verdict: T) {
        *locked(&self.0.verdict) = Some(verdict);
        self.0.told.store(true, Ordering::Release);
    }
}

/// Waits for the verdict of some work, driving it meanwhile.
///
/// Dropped before or after the verdict, the rest of the work goes on in the background.
pub(crate) struct Driven<T> {
    /// Outstanding as long as it is there.
    work: Option<BoxFuture<()>>,
    begun: bool,
    desk: Arc<Desk<T>>,
    shared: Arc<Shared>,
}

/// Prepares some work. It begins when it is polled; dropped before, it never does.
pub(crate) fn drive<T, F>(shared: &Arc<Shared>, work: impl FnOnce(Verdict<T>) -> F) -> Driven<T>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (verdict, told, canceled) = (Mutex::new(None), AtomicBool::new(false), AtomicBool::new(false));
    let desk = Arc::new(Desk { verdict, told, canceled });
    let outstanding = (work(Verdict(Arc::clone(&desk))), shared.ticket());
    let work: BoxFuture<()> = Box::pin(async move {
        // In this order also where it is dropped before its first poll: it counts until nothing is left of it.
        let (work, _ticket) = outstanding;
        work.await;
    });
    Driven { work: Some(work), begun: false, desk, shared: Arc::clone(shared) }
}

impl<T> Driven<T> {
    /// Hands the work to the runtime at once; its verdict goes nowhere.
    pub(crate) fn in_background(mut self) {
        self.begun = true;
    }
}

impl<T> Future for Driven<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        // Taken out meanwhile: work that panics is not polled again.
        if let Some(mut work) = self.work.take() {
            if work.as_mut().poll(cx).is_pending() {
                self.work = Some(work);
            }
        }
        if self.desk.told.load(Ordering::Acquire) {
            if let Some(verdict) = locked(&self.desk.verdict).take() {
                return Poll::Ready(verdict);
            }
        }
        assert!(self.work.is_some(), "work ends with a verdict");
        Poll::Pending
    }
}

impl<T> Drop for Driven<T> {
    fn drop(&mut self) {
        if self.begun {
            self.desk.canceled.store(true, Ordering::Release);
            if let Some(work) = self.work.take() {
                self.shared.runtime.spawn(work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::clock::Instant;
    use crate::decide::validity::DriftFactor;
    use crate::runtime::Runtime;
    use crate::shared::Settings;

    /// A runtime that has ended: what it is given it drops.
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

    /// Notes when it is dropped whether anything is outstanding.
    struct Last(Arc<Shared>, Arc<AtomicBool>);

    impl Drop for Last {
        fn drop(&mut self) {
            self.1.store(self.0.is_idle(), Ordering::Relaxed);
        }
    }

    #[test]
    fn work_counts_until_nothing_is_left_of_it() {
        let settings = Settings {
            node_timeout: Duration::ZERO,
            retry_delay: Duration::ZERO,
            max_concurrent_attempts: 1,
            local_queue: false,
            drift: DriftFactor::new(0.01).unwrap(),
            owner: None,
        };
        let shared = Arc::new(Shared::new(Vec::new(), Arc::new(Over), settings));
        for begun in [false, true] {
            let idle = Arc::new(AtomicBool::new(false));
            let last = Last(Arc::clone(&shared), Arc::clone(&idle));
            let mut driven = drive(&shared, |verdict: Verdict<()>| async move {
                let _kept = (last, verdict);
                pending::<()>().await;
            });
            if begun {
                let waker = Waker::noop();
                assert!(Pin::new(&mut driven).poll(&mut Context::from_waker(waker)).is_pending());
            }
            driven.in_background();
            assert!(!idle.load(Ordering::Relaxed), "begun: {begun}");
            assert!(shared.is_idle());
        }
    }
}
