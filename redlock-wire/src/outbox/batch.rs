//! Requests that are sent as one pipeline, and the result of each.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::LOST;
use crate::connection::{Failure, Reply};
use crate::sync::{Mutex, MutexGuard, locked};

/// The maximum number of requests in a batch. More save nothing further, and each request waits for the last reply.
pub(super) const FULL: usize = 64;

/// Requests that will be sent as one pipeline. If it is dropped before, none of them was sent.
pub(super) struct Batch<P> {
    requests: Vec<P>,
    board: Arc<BatchState>,
}

/// A batch that is being sent. If it is dropped, its requests count as sent without a reply.
pub(super) struct SentBatch {
    /// The places of its requests, in their order.
    places: Vec<usize>,
    board: Arc<BatchState>,
}

/// The result that a request of a batch waits for. Dropping it cancels the request; before the batch is sent, the
/// request is then left out.
pub(super) struct Answer {
    board: Arc<BatchState>,
    place: usize,
}

/// The state that the requests of a batch share.
///
/// Code that may run foreign code, by waking a task or dropping a waker, runs after the lock is released.
#[derive(Default)]
struct BatchState(Mutex<State>);

#[derive(Default)]
struct State {
    /// The replies by place. Each is taken by its request.
    outcome: Option<Result<Vec<Reply>, Failure>>,
    /// The wakers by place, until there is an outcome; `None` for canceled requests.
    wakers: Vec<Option<Waker>>,
    /// The number of requests that are waited for.
    count: usize,
    /// The waker of the sender, to be woken when `count` reaches zero.
    sender: Option<Waker>,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self { requests: Vec::new(), board: Arc::default() }
    }
}

impl<P> Batch<P> {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= FULL
    }

    /// Adds a request. The task of this waker waits for the reply.
    pub(super) fn push(&mut self, request: P, waker: &Waker) -> Answer {
        let (place, board) = (self.len(), Arc::clone(&self.board));
        self.requests.push(request);
        let mut state = board.state();
        state.wakers.push(Some(waker.clone()));
        state.count += 1;
        drop(state);
        Answer { board, place }
    }

    /// Returns the requests that are still waited for, which are to be sent.
    pub(super) fn seal(mut self) -> (Vec<P>, SentBatch) {
        let (requests, board) = (mem::take(&mut self.requests), Arc::clone(&self.board));
        let state = board.state();
        let awaited = requests.into_iter().enumerate().filter(|(place, _)| state.wakers[*place].is_some());
        let (places, requests) = awaited.unzip();
        drop(state);
        (requests, SentBatch { places, board })
    }
}

impl<P> Drop for Batch<P> {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            self.board.complete(Err(Failure::not_sent(LOST)));
        }
    }
}

impl SentBatch {
    /// Waits for the outcome as long as some request of the batch is waited for.
    pub(super) async fn complete_when_ready(
        self,
        mut outcome: Pin<&mut impl Future<Output = Result<Vec<Reply>, Failure>>>,
    ) {
        let outcome = poll_fn(|cx| match outcome.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if self.board.is_left_to(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(outcome) = outcome.await {
            self.complete(outcome);
        }
    }

    pub(super) fn complete(self, outcome: Result<Vec<Reply>, Failure>) {
        self.board.complete(match outcome {
            Ok(replies) if replies.len() == self.places.len() => Ok(self.by_place(replies)),
            Ok(_) => Err(Failure::maybe_sent("unexpected number of replies")),
            Err(failure) => Err(failure),
        });
    }

    /// Returns the replies by place, with fillers for the requests that were not sent.
    fn by_place(&self, replies: Vec<Reply>) -> Vec<Reply> {
        let count = self.places.last().map_or(0, |last| last + 1);
        if count == replies.len() {
            return replies;
        }
        let mut by_place = vec![Reply::Nil; count];
        for (place, reply) in self.places.iter().zip(replies) {
            by_place[*place] = reply;
        }
        by_place
    }
}

impl Drop for SentBatch {
    fn drop(&mut self) {
        if !self.board.is_complete() {
            self.board.complete(Err(Failure::maybe_sent(LOST)));
        }
    }
}

impl BatchState {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }

    fn is_complete(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// Publishes the outcome. It has no effect if there is one already.
    fn complete(&self, outcome: Result<Vec<Reply>, Failure>) {
        let mut state = self.state();
        if state.outcome.is_none() {
            state.outcome = Some(outcome);
            let (wakers, sender) = (mem::take(&mut state.wakers), state.sender.take());
            drop(state);
            drop(sender);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Returns whether no request is waited for. Otherwise it registers the task to be woken when that is so.
    fn is_left_to(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        if state.count == 0 {
            return true;
        }
        let before = state.sender.replace(cx.waker().clone());
        drop(state);
        drop(before);
        false
    }
}

impl Future for Answer {
    type Output = Result<Reply, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.board.state();
        match &mut state.outcome {
            Some(Ok(replies)) => return Poll::Ready(Ok(mem::replace(&mut replies[self.place], Reply::Nil))),
            Some(Err(failure)) => return Poll::Ready(Err(failure.clone())),
            None => {}
        }
        let waker = &mut state.wakers[self.place];
        if waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let before = waker.replace(cx.waker().clone());
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut state = self.board.state();
        state.count -= 1;
        let before = state.wakers.get_mut(self.place).and_then(Option::take);
        let sender = if state.count == 0 { state.sender.take() } else { None };
        drop(state);
        drop(before);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}
