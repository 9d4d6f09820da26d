//! Requests that go as one, and what each of them gets.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use super::LOST;
use crate::connection::{Failure, Reply};

/// So many requests go as one at most: what is to be saved is saved by then, and each of them waits for the last reply.
pub(super) const FULL: usize = 64;

/// Requests that will go as one. Dropped before, none of them was sent.
pub(super) struct Batch<P> {
    requests: Vec<P>,
    board: Arc<Board>,
}

/// A batch that goes. Dropped, its requests are taken to be sent and to have no reply.
pub(super) struct Sealed {
    /// Those of its requests, in their order.
    places: Vec<usize>,
    board: Arc<Board>,
}

/// What a request of a batch waits for. Dropped, the request has no answer; before the batch goes, it does not go with it.
pub(super) struct Answer {
    board: Arc<Board>,
    place: usize,
    /// Whose waker is kept, to be woken when the batch is answered.
    waiting: Task,
}

/// Where the requests of a batch find their answers.
///
/// Whatever may run foreign code, to wake a task or to drop a waker, is done when the lock is no longer held.
#[derive(Default)]
struct Board {
    /// By place. Read without a lock: most who look find nothing yet.
    outcome: OnceLock<Result<Vec<Reply>, Failure>>,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    /// By place; none where nobody waits any more.
    wakers: Vec<Option<Waker>>,
    /// How many wait.
    count: usize,
    /// To be woken when none does.
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

    /// The task of this waker waits for the answer.
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

    /// What is to be sent: the requests that are still waited for.
    pub(super) fn seal(mut self) -> (Vec<P>, Sealed) {
        let (requests, board) = (mem::take(&mut self.requests), Arc::clone(&self.board));
        let waiters = board.waiters();
        let awaited = requests.into_iter().enumerate().filter(|(place, _)| waiters.wakers[*place].is_some());
        let (places, requests) = awaited.unzip();
        drop(waiters);
        (requests, Sealed { places, board })
    }
}

impl<P> Drop for Batch<P> {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            self.board.tell(Err(Failure::not_sent(LOST)));
        }
    }
}

impl Sealed {
    /// Waits for the outcome as long as anybody waits for a part of it.
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
            Ok(_) => Err(Failure::maybe_sent("the replies are not as many as the requests")),
            Err(failure) => Err(failure),
        });
    }

    /// With something in the places of the requests that were not sent, since nobody looks there.
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

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.board.outcome.get().is_none() {
            self.board.tell(Err(Failure::maybe_sent(LOST)));
        }
    }
}

impl Board {
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has no effect when there is an outcome already.
    fn tell(&self, outcome: Result<Vec<Reply>, Failure>) {
        // Before the wakers are taken: whoever comes too late to be woken finds it.
        if self.outcome.set(outcome).is_ok() {
            let wakers = mem::take(&mut self.waiters().wakers);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// What a request gets, if that is known.
    fn answer(&self, place: usize) -> Poll<Result<Reply, Failure>> {
        match self.outcome.get() {
            None => Poll::Pending,
            Some(Ok(replies)) => Poll::Ready(Ok(replies[place].clone())),
            Some(Err(failure)) => Poll::Ready(Err(failure.clone())),
        }
    }

    /// Whether nobody waits any more. Otherwise the task is woken when that is so.
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

/// What tells a waker from the others that are there at the same time: its address. Always that of a clone that is kept, since
/// the one that was passed may lie in its executor's frame, where another task's lies next.
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
        // The waker is kept until there is an outcome, so nobody else has the same.
        if answer.is_ready() || self.waiting == Task::of(cx.waker()) {
            return answer;
        }
        let next = cx.waker().clone();
        let task = Task::of(&next);
        let mut waiters = self.board.waiters();
        // Whoever tells takes the wakers behind the outcome: now there is one, or this waker will be seen.
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
