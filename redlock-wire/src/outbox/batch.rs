//! Requests that go as one, and what each of them gets.

use std::future::{Future, poll_fn};
use std::iter;
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Those of its requests, until they are answered.
    places: Vec<usize>,
    board: Arc<Board>,
}

/// What a request of a batch waits for. Dropped, the request has no answer; before the batch goes, it does not go with it.
pub(super) struct Answer {
    board: Arc<Board>,
    place: usize,
    /// Who is woken when the batch is answered.
    waiting: Task,
}

/// Where the requests of a batch find their answers.
///
/// Whatever may run foreign code, to wake a task or to drop a waker, is done when the lock is no longer held.
#[derive(Default)]
struct Board {
    /// Whether the batch was answered: from then on nothing changes but by who takes an answer.
    told: AtomicBool,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    places: Vec<Place>,
    /// How many are waited for.
    awaited: usize,
    /// To be woken when none is.
    sender: Option<Waker>,
}

enum Place {
    Open(Waker),
    Answered(Result<Reply, Failure>),
    /// Nobody waits for an answer.
    Left,
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
        let mut places = self.board.places();
        let place = places.places.len();
        places.places.push(Place::Open(waker.clone()));
        places.awaited += 1;
        self.requests.push(request);
        Answer { board: Arc::clone(&self.board), place, waiting: Task::of(waker) }
    }

    /// What is to be sent: the requests that are still waited for.
    pub(super) fn seal(mut self) -> (Vec<P>, Sealed) {
        let (requests, board) = (mem::take(&mut self.requests), Arc::clone(&self.board));
        let places = board.places();
        let open = requests.into_iter().enumerate().filter(|(place, _)| places.is_open(*place));
        let (open, requests) = open.unzip();
        drop(places);
        (requests, Sealed { places: open, board })
    }
}

impl<P> Drop for Batch<P> {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            let sealed =
                Sealed { places: (0..self.requests.len()).collect(), board: Arc::clone(&self.board) };
            sealed.tell(Err(Failure::not_sent(LOST)));
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

    pub(super) fn tell(mut self, outcome: Result<Vec<Reply>, Failure>) {
        match outcome {
            Ok(replies) if replies.len() == self.places.len() => self.answer(replies.into_iter().map(Ok)),
            Ok(_) => self.fail(&Failure::maybe_sent("the replies are not as many as the requests")),
            Err(failure) => self.fail(&failure),
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.answer(iter::repeat_with(|| Err(failure.clone())));
    }

    /// Answers the requests in their order.
    fn answer(&mut self, answers: impl Iterator<Item = Result<Reply, Failure>>) {
        let asked = mem::take(&mut self.places);
        let mut wakers = Vec::with_capacity(asked.len());
        let mut places = self.board.places();
        for (place, answer) in asked.into_iter().zip(answers) {
            wakers.extend(places.answer(place, answer));
        }
        self.board.told.store(true, Ordering::Release);
        drop(places);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if !self.places.is_empty() {
            self.fail(&Failure::maybe_sent(LOST));
        }
    }
}

impl Board {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody waits any more. Otherwise the task is woken when that is so.
    fn is_left_to(&self, cx: &Context<'_>) -> bool {
        let mut places = self.places();
        if places.awaited == 0 {
            return true;
        }
        let before = places.sender.replace(cx.waker().clone());
        drop(places);
        drop(before);
        false
    }
}

impl Places {
    fn is_open(&self, place: usize) -> bool {
        matches!(self.places[place], Place::Open(_))
    }

    /// Answers a request, and says who is to be told.
    fn answer(&mut self, place: usize, answer: Result<Reply, Failure>) -> Option<Waker> {
        if !self.is_open(place) {
            return None;
        }
        match mem::replace(&mut self.places[place], Place::Answered(answer)) {
            Place::Open(waker) => Some(waker),
            Place::Answered(_) | Place::Left => None,
        }
    }
}

/// What tells a waker from the others that are there at the same time.
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

    /// Not to be polled again once it is ready. Polled without reason, as most polls are, it takes no lock.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = Task::of(cx.waker());
        // Its waker is on the board until the batch is answered, so nobody else has the same.
        if self.waiting == task && !self.board.told.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let mut places = self.board.places();
        let place = &mut places.places[self.place];
        let next = match place {
            Place::Open(_) => Place::Open(cx.waker().clone()),
            Place::Answered(_) | Place::Left => Place::Left,
        };
        let before = mem::replace(place, next);
        drop(places);
        self.waiting = task;
        match before {
            Place::Answered(answer) => Poll::Ready(answer),
            Place::Open(_) | Place::Left => Poll::Pending,
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Nobody waits for what goes with the board.
        if self.board.told.load(Ordering::Acquire) {
            return;
        }
        let mut places = self.board.places();
        let before = mem::replace(&mut places.places[self.place], Place::Left);
        places.awaited -= 1;
        let sender = if places.awaited == 0 { places.sender.take() } else { None };
        drop(places);
        drop(before);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}
