//! One pipelined connection over a socket: many requests in flight, one task.
//!
//! A request waits in a slot of the connection. The [driver](driver), which is one task, takes all requests that wait,
//! sends them in one write, reads the replies, puts them into the slots, and wakes their callers. There is no channel,
//! and no task for a request.
//!
//! Invariants:
//! - The order of first polls is the order on the wire. Replies have the same order, and each belongs to the first
//!   request that still lacks one.
//! - A request that is dropped before the driver takes it is never sent. One that is dropped later is carried out
//!   once; its slot stays occupied until its replies have arrived, and they are discarded.
//! - The commands of one request are sent together or not at all. No other command comes between them.
//! - A reading of the clock comes behind the requests of its write that need it. Each of them has it as its last reply.
//! - No request waits for a driver that is gone. A request that the driver did not take was not sent. A later one fails
//!   at once.
//! - The number of slots is that of the requests in flight, however long a caller leaves a reply unread.

mod driver;
#[cfg(all(test, loom))]
mod loom_tests;
mod outbox;
mod resp;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;

use self::driver::Driver;
pub use self::driver::Socket;
use self::outbox::{Outbox, Packed, Replies};
pub use self::resp::decode;
use crate::message::{Failure, Reply};
use crate::push::Hub;

/// The requests of one pipelined connection.
///
/// It reports the server's pushes to a [`Hub`], in the order in which they arrive, and before the reply to any later
/// request is returned.
pub struct Pipeline(Arc<Outbox>);

impl Pipeline {
    /// Returns the requests of a connection, and the driver over `socket`. Spawn the driver.
    ///
    /// The driver completes when the connection is lost. Dropping it closes the socket.
    pub fn new(socket: impl Socket, hub: &Hub) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let outbox = Arc::<Outbox>::default();
        let driver = Driver::new(Arc::clone(&outbox), socket, hub.clone());
        (Self(outbox), driver.run())
    }

    /// Sends one command in its wire format and waits for the reply.
    ///
    /// Errors and cancel safety are those of [`Connection::call`](crate::Connection::call).
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: there is no reply.
    pub async fn call(&self, command: Vec<u8>) -> Result<Reply, Failure> {
        let mut replies = self.request(command, 1, false).await?;
        replies.pop().ok_or_else(|| Failure::maybe_sent("the reply is missing"))
    }

    /// Sends several commands together and waits for all replies.
    ///
    /// All of them are sent or none is, and no other command comes between them. Errors and cancel safety are those of
    /// [`Connection::pipeline`](crate::Connection::pipeline).
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: a reply is missing.
    pub async fn call_all(&self, commands: Vec<Vec<u8>>) -> Result<Vec<Reply>, Failure> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.request(commands.concat(), commands.len(), false).await.map(SmallVec::into_vec)
    }

    /// Sends several commands together, and reads the clock of the server behind them.
    ///
    /// One `TIME` follows all requests of this kind that are written together. Returns the replies and the time, as
    /// [`Connection::timed`](crate::Connection::timed).
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: a reply is missing.
    pub async fn timed(&self, commands: Vec<Vec<u8>>) -> Result<(Vec<Reply>, Option<Duration>), Failure> {
        let mut replies = self.request(commands.concat(), commands.len(), true).await?;
        let time = replies.pop().as_ref().and_then(clock_time);
        Ok((replies.into_vec(), time))
    }

    /// Same as [`timed`](Self::timed), for one command.
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: the reply is missing.
    pub async fn timed_call(&self, command: Vec<u8>) -> Result<(Reply, Option<Duration>), Failure> {
        let mut replies = self.request(command, 1, true).await?;
        let time = replies.pop().as_ref().and_then(clock_time);
        let reply = replies.pop().ok_or_else(|| Failure::maybe_sent("the reply is missing"))?;
        Ok((reply, time))
    }

    fn request(&self, bytes: Vec<u8>, commands: usize, timed: bool) -> Request<'_> {
        Request { outbox: &self.0, stage: Stage::New(Packed { bytes, commands, timed }) }
    }

    /// Returns whether the connection is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Completes when the connection is lost.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing changes.
    pub async fn lost(&self) {
        while !self.is_lost() {
            // Listens before it looks, so that the loss is not missed.
            let lost = self.0.listen_for_loss();
            if !self.is_lost() {
                lost.await;
            }
        }
    }
}

/// Returns the time of a reading of the clock, which the driver passes on in microseconds; `None` if it is an error.
fn clock_time(time: &Reply) -> Option<Duration> {
    match time {
        Reply::Int(micros) => u64::try_from(*micros).ok().map(Duration::from_micros),
        _ => None,
    }
}

/// Shows whether the connection is lost.
impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// A request. Its first poll puts it behind all others.
struct Request<'a> {
    outbox: &'a Outbox,
    stage: Stage,
}

enum Stage {
    New(Packed),
    InSlot(usize),
    Over,
}

impl Future for Request<'_> {
    type Output = Result<Replies, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::New(request) => match self.outbox.put(request, cx.waker()) {
                Ok(slot) => {
                    self.stage = Stage::InSlot(slot);
                    Poll::Pending
                }
                Err(failure) => Poll::Ready(Err(failure)),
            },
            Stage::InSlot(slot) => {
                let outcome = self.outbox.poll(slot, cx.waker());
                if outcome.is_pending() {
                    self.stage = Stage::InSlot(slot);
                }
                outcome
            }
            Stage::Over => unreachable!("polled after its end"),
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if let Stage::InSlot(slot) = self.stage {
            self.outbox.abandon(slot);
        }
    }
}
