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

    /// Dropped, where nobody waits for it.
    pub(crate) fn send(self, verdict: T) {
        if !self.is_canceled() {
            *locked(&self.0.verdict) = Some(verdict);
            self.0.told.store(true, Ordering::Release);
        }
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
    let (ticket, work) = (shared.ticket(), work(Verdict(Arc::clone(&desk))));
    let work: BoxFuture<()> = Box::pin(async move {
        let _ticket = ticket;
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
