//! Work that its caller drives while it cares, and the runtime from then on.
//!
//! A round is polled in the caller's own task, so that the uncontended path needs no other. The caller learns the
//! verdict as soon as there is one; what is left of the work then (stragglers, undoing) moves to the background. So it
//! does when the caller goes away earlier: the work notices that nobody waits for the verdict any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_channel::oneshot;

use crate::runtime::BoxFuture;
use crate::shared::{Shared, Ticket};

/// Where the work puts its verdict. [`is_canceled`](oneshot::Sender::is_canceled) once nobody waits for it.
pub(crate) type Verdict<T> = oneshot::Sender<T>;

/// Waits for the verdict of some work, driving it meanwhile.
///
/// Dropped before or after the verdict, the rest of the work goes on in the background.
pub(crate) struct Driven<T> {
    /// Outstanding as long as it is there.
    work: Option<(BoxFuture<()>, Ticket)>,
    begun: bool,
    verdict: oneshot::Receiver<T>,
    shared: Arc<Shared>,
}

/// Prepares some work. It begins when it is polled; dropped before, it never does.
pub(crate) fn drive<T, F>(shared: &Arc<Shared>, work: impl FnOnce(Verdict<T>) -> F) -> Driven<T>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, verdict) = oneshot::channel();
    let work: BoxFuture<()> = Box::pin(work(sender));
    Driven { work: Some((work, shared.ticket())), begun: false, verdict, shared: Arc::clone(shared) }
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
        if let Some((mut work, ticket)) = self.work.take() {
            if work.as_mut().poll(cx).is_pending() {
                self.work = Some((work, ticket));
            }
        }
        Pin::new(&mut self.verdict).poll(cx).map(|verdict| verdict.expect("work ends with a verdict"))
    }
}

impl<T> Drop for Driven<T> {
    fn drop(&mut self) {
        if self.begun {
            self.verdict.close();
            if let Some(outstanding) = self.work.take() {
                self.shared.runtime.spawn(Box::pin(async move {
                    let (work, _ticket) = outstanding;
                    work.await;
                }));
            }
        }
    }
}
