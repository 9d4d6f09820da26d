//! Several requests at once, with one time limit for all of them.
//!
//! All calls are polled together by whoever polls [`Calls`]: there are few, and a task for each would cost more. The
//! timer is made when the first call has to wait, so calls that answer at once need none.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{NodeError, Vote};
use crate::runtime::{BoxFuture, Runtime};

/// One request to one node.
pub(crate) type Call<'a> = Pin<Box<dyn Future<Output = Result<Vote, NodeError>> + Send + 'a>>;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Answered(Vote),
    Failed(NodeError),
    /// It was dropped at the time limit.
    TimedOut,
}

pub(crate) struct Calls<'a> {
    runtime: &'a dyn Runtime,
    calls: Vec<Option<Call<'a>>>,
    /// Where the current sweep over the calls goes on.
    next: usize,
    limit: Instant,
    timer: Option<BoxFuture<()>>,
    timed_out: bool,
}

impl<'a> Calls<'a> {
    pub(crate) fn new(
        runtime: &'a dyn Runtime,
        start: Instant,
        limit: Duration,
        calls: impl Iterator<Item = Call<'a>>,
    ) -> Self {
        let calls = calls.map(Some).collect();
        Self { runtime, calls, next: 0, limit: start + limit, timer: None, timed_out: false }
    }

    /// The next call to end, by its position; `None` when all have. Safe to drop and ask again.
    pub(crate) async fn next(&mut self) -> Option<(usize, Ending)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Ending)>> {
        loop {
            while let Some(slot) = self.calls.get_mut(self.next) {
                self.next += 1;
                let Some(call) = slot else { continue };
                let ending = match call.as_mut().poll(cx) {
                    Poll::Ready(Ok(vote)) => Ending::Answered(vote),
                    Poll::Ready(Err(error)) => Ending::Failed(error),
                    Poll::Pending if self.timed_out => Ending::TimedOut,
                    Poll::Pending => continue,
                };
                *slot = None;
                return Poll::Ready(Some((self.next - 1, ending)));
            }
            self.next = 0;
            if self.calls.iter().all(Option::is_none) {
                self.timer = None;
                return Poll::Ready(None);
            }
            // A last sweep after the limit: an answer that is there counts as one.
            ready!(self.poll_limit(cx));
            self.timed_out = true;
        }
    }

    /// Ready once the limit has passed by the clock; the timer is only a reason to look at it.
    fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(timer) = &mut self.timer {
                ready!(timer.as_mut().poll(cx));
            }
            let left = self.limit.saturating_duration_since(self.runtime.now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            self.timer = Some(self.runtime.sleep(left));
        }
    }
}
