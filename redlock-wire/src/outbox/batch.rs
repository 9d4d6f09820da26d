//! Requests that are sent as one pipeline, and the result of each.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use super::LOST;
use crate::connection::{Failure, Reply};

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

/// The result that a request of a batch waits for. Dropping it abandons the request; before the batch is sent, the
/// request is then left out.
pub(super) struct Answer {
    board: Arc<BatchState>,
    place: usize,
    /// The task whose waker is registered.
    waiting: Task,
}

/// The state that the requests of a batch share.
///
/// Code that may run foreign code, by waking a task or dropping a waker, runs after the lock is released.
#[derive(Default)]
struct BatchState {
    /// The replies by place. Read without a lock: most readers find nothing yet.
    outcome: OnceLock<Result<Vec<Reply>, Failure>>,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    /// The wakers by place; `None` for abandoned requests.
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
        let (place, board, waker) = (self.len(), Arc::clone(&self.board), waker.clone());
        let waiting = Task::of(&waker);
        self.requests.push(request);
        let mut waiters = self.board.waiters();
        waiters.wakers.push(Some(waker));
        waiters.count += 1;
        drop(waiters);
        Answer { board, place, waiting }
    }

    /// Returns the requests that are still waited for, which are to be sent.
    pub(super) fn seal(mut self) -> (Vec<P>, SentBatch) {
        let (requests, board) = (mem::take(&mut self.requests), Arc::clone(&self.board));
        let waiters = board.waiters();
        let awaited = requests.into_iter().enumerate().filter(|(place, _)| waiters.wakers[*place].is_some());
        let (places, requests) = awaited.unzip();
        drop(waiters);
        (requests, SentBatch { places, board })
    }
}

impl<P> Drop for Batch<P> {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            self.board.tell(Err(Failure::not_sent(LOST)));
        }
    }
}

impl SentBatch {
    /// Waits for the outcome as long as some request of the batch is waited for.
    pub(super) async fn tell_when_there(
        self,
        mut outcome: Pin<&mut impl Future<Output = Result<Vec<Reply>, Failure>>>,
    ) {
        let outcome = poll_fn(|cx| match outcome.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if self.board.is_left_to(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(outcome) = outcome.await {
            self.tell(outcome);
        }
    }

    pub(super) fn tell(self, outcome: Result<Vec<Reply>, Failure>) {
        self.board.tell(match outcome {
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
        if self.board.outcome.get().is_none() {
            self.board.tell(Err(Failure::maybe_sent(LOST)));
        }
    }
}

impl BatchState {
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the outcome. It has no effect if there is one already.
    fn tell(&self, outcome: Result<Vec<Reply>, Failure>) {
        // Set before the wakers are taken, so that a task that registers too late finds it.
        if self.outcome.set(outcome).is_ok() {
            let wakers = mem::take(&mut self.waiters().wakers);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Returns the result of a request, if it is known.
    fn answer(&self, place: usize) -> Poll<Result<Reply, Failure>> {
        match self.outcome.get() {
            None => Poll::Pending,
            Some(Ok(replies)) => Poll::Ready(Ok(replies[place].clone())),
            Some(Err(failure)) => Poll::Ready(Err(failure.clone())),
        }
    }

    /// Returns whether no request is waited for. Otherwise it registers the task to be woken when that is so.
    fn is_left_to(&self, cx: &Context<'_>) -> bool {
        let mut waiters = self.waiters();
        if waiters.count == 0 {
            return true;
        }
        let before = waiters.sender.replace(cx.waker().clone());
        drop(waiters);
        drop(before);
        false
    }
}

/// The address of a waker, which distinguishes it from the other live wakers. It is always the address of a stored
/// clone. A waker that is passed in may lie in its executor's frame, where the waker of another task lies next.
#[derive(PartialEq, Eq)]
struct Task {
    data: usize,
    vtable: usize,
}

impl Task {
    fn of(waker: &Waker) -> Self {
        Self { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}

impl Future for Answer {
    type Output = Result<Reply, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.board.answer(self.place);
        // The waker is stored until there is an outcome, so no other waker has the same address.
        if answer.is_ready() || self.waiting == Task::of(cx.waker()) {
            return answer;
        }
        let next = cx.waker().clone();
        let task = Task::of(&next);
        let mut waiters = self.board.waiters();
        // The outcome is published before the wakers are taken. So either there is an outcome now, or this waker will
        // be woken.
        let Some(waker) = waiters.wakers.get_mut(self.place) else {
            drop(waiters);
            return self.board.answer(self.place);
        };
        let before = waker.replace(next);
        drop(waiters);
        drop(before);
        self.waiting = task;
        Poll::Pending
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.board.outcome.get().is_some() {
            return;
        }
        let mut waiters = self.board.waiters();
        let before = waiters.wakers.get_mut(self.place).and_then(Option::take);
        waiters.count -= 1;
        let sender = if waiters.count == 0 { waiters.sender.take() } else { None };
        drop(waiters);
        drop(before);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}
