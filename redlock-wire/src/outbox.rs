//! Requests that meet on one connection and are sent as one pipeline.
//!
//! The overhead of a client per request (a future of a kilobyte, two channels) costs more than the request itself. Once
//! a few requests are in flight on a connection, further ones are put into its outbox. The driver hands all that have
//! accumulated to the client as one pipeline. The requests of a single task are sent alone, at once.
//!
//! If the driver took many requests last time, the next one is not sent alone either, even if all others have ended. It
//! would be a separate write, right before those of other tasks. The tasks would then take turns in two groups, and the
//! servers would be woken twice as often. With 64 tasks this costs a tenth of the CPU of servers and client.
//!
//! Invariants:
//! - The order is kept. A request is sent alone only if no earlier request is still on its way to the client.
//! - A request that is dropped in the outbox is never sent. Once no request of a pipeline is waited for any more, the
//!   pipeline is dropped too, and the client may still hold it back.
//! - No request waits for a driver that is gone. A request that the driver did not hand to the client was not sent.

mod batch;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures_util::future::{lazy, poll_immediate};
use futures_util::stream::{FuturesUnordered, StreamExt};

use self::batch::{Answer, Batch};
use crate::connection::{Connection, Failure, Reply};
use crate::sync::{Mutex, MutexGuard, locked};

/// The number of concurrent requests that are sent alone. It covers a task that acquires while its own release is
/// in flight, and a few others. A higher limit has no benefit.
const ALONE: usize = 4;

/// The requests that are not yet handed to the client of one connection.
pub(crate) struct Outbox<P>(Mutex<State<P>>);

struct State<P> {
    waiting: Vec<Batch<P>>,
    /// The number of requests that were sent alone and have not ended.
    alone: usize,
    /// The number of requests in batches that have not ended.
    batched: usize,
    /// The number of batches that the driver has taken but not handed to the client.
    taken: usize,
    /// The number of requests that the driver took when it took some last.
    last_taken: usize,
    /// The waker of the driver, to be woken when there is something to take.
    driver: Option<Waker>,
    /// `true` if the driver is gone.
    closed: bool,
}

impl<P> Default for Outbox<P> {
    fn default() -> Self {
        Self(Mutex::new(State {
            waiting: Vec::new(),
            alone: 0,
            batched: 0,
            taken: 0,
            last_taken: 0,
            driver: None,
            closed: false,
        }))
    }
}

impl<P> Outbox<P> {
    /// Sends a request behind all that were sent before, alone or with others.
    ///
    /// Errors and cancel safety are those of [`Connection::call`].
    pub(crate) async fn call<C: Connection<Packed = P>>(
        &self,
        connection: &C,
        request: P,
    ) -> Result<Reply, Failure> {
        if !C::BATCHES {
            return connection.call(request).await;
        }
        match lazy(|cx| self.put(request, cx.waker())).await {
            Found::Alone(request) => {
                let _alone = Alone(self);
                connection.call(request).await
            }
            Found::Answer(answer) => answer.await,
        }
    }

    fn put(&self, request: P, waker: &Waker) -> Found<P> {
        let mut state = self.state();
        let is_first = state.waiting.is_empty() && state.taken == 0;
        let are_few = state.alone + state.batched < ALONE && state.last_taken <= ALONE;
        if state.closed || is_first && are_few {
            state.alone += 1;
            return Found::Alone(request);
        }
        if state.waiting.last().is_none_or(Batch::is_full) {
            state.waiting.push(Batch::default());
        }
        let last = state.waiting.len() - 1;
        let answer = state.waiting[last].push(request, waker);
        state.batched += 1;
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Found::Answer(answer)
    }

    /// Hands requests to the client as long as it is polled. It never completes.
    pub(crate) async fn drive<C: Connection<Packed = P>>(&self, connection: &C) {
        let _closing = Closing(self);
        let mut sent = FuturesUnordered::new();
        poll_fn(|cx| {
            // New futures are polled first in the order in which they are pushed.
            sent.extend(self.take(cx).into_iter().map(|batch| self.send(connection, batch)));
            while let Poll::Ready(Some(())) = sent.poll_next_unpin(cx) {}
            Poll::Pending::<()>
        })
        .await;
    }

    fn take(&self, cx: &Context<'_>) -> Vec<Batch<P>> {
        let mut state = self.state();
        let before = state.driver.replace(cx.waker().clone());
        state.taken += state.waiting.len();
        if !state.waiting.is_empty() {
            state.last_taken = state.waiting.iter().map(Batch::len).sum();
        }
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        drop(before);
        waiting
    }

    async fn send<C: Connection<Packed = P>>(&self, connection: &C, batch: Batch<P>) {
        let count = batch.len();
        let (requests, sealed) = batch.seal();
        let nothing_left = requests.is_empty();
        let mut outcome = pin!(connection.pipeline(requests));
        // The first poll puts it into the client's queue, or into the line for a place there. It therefore precedes
        // every later request.
        let at_once =
            if nothing_left { Some(Ok(Vec::new())) } else { poll_immediate(outcome.as_mut()).await };
        self.state().taken -= 1;
        match at_once {
            Some(outcome) => sealed.complete(outcome),
            None => sealed.complete_when_ready(outcome).await,
        }
        self.state().batched -= count;
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        locked(&self.0)
    }
}

/// The way in which a request is sent.
enum Found<P> {
    Alone(P),
    Answer(Answer),
}

/// A request that was sent alone, until it ends.
struct Alone<'a, P>(&'a Outbox<P>);

impl<P> Drop for Alone<'_, P> {
    fn drop(&mut self) {
        self.0.state().alone -= 1;
    }
}

/// Closes the outbox when its driver is dropped.
struct Closing<'a, P>(&'a Outbox<P>);

impl<P> Drop for Closing<'_, P> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let left = (mem::take(&mut state.waiting), state.driver.take());
        drop(state);
        drop(left);
    }
}

const LOST: &str = "the connection is lost";
