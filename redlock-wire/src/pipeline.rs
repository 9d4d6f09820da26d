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
//! - No request waits for a driver that is gone. A request that the driver did not take was not sent. A later one fails
//!   at once.
//! - The number of slots is that of the requests in flight, however long a caller leaves a reply unread.

mod driver;
#[cfg(all(test, loom))]
mod loom_tests;
mod resp;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use event_listener::Event;
use smallvec::SmallVec;

use self::driver::Driver;
pub use self::resp::decode;
use crate::connection::{Failure, Reply};
use crate::push::Hub;
use crate::sync::{Mutex, MutexGuard, locked};

/// The number of free slots that are kept. The memory of a larger burst is freed at its end.
const SPARE: usize = 1024;

const LOST: &str = "the connection is lost";

/// The socket of a [`Pipeline`].
///
/// Its methods are those of the asynchronous sockets of any runtime. They register the task to be woken if they return
/// `Pending`.
pub trait Socket: Send + 'static {
    /// Reads into `buffer`. Returns the number of bytes; zero at the end of the stream.
    ///
    /// # Errors
    ///
    /// - The connection is lost.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes a part of `bytes`. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// - The connection is lost.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Passes on what the socket holds back, such as the rest of an encrypted record.
    ///
    /// # Errors
    ///
    /// - The connection is lost.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The requests of one pipelined connection.
///
/// It reports the server's pushes to a [`Hub`], in the order in which they arrive, and before the reply to any later
/// request is returned.
pub struct Pipeline(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when the connection is lost.
    lost: Event,
}

/// Code that may run foreign code, by waking a task or dropping a waker, runs after the mutex is released.
#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// The free slots.
    free: Vec<usize>,
    /// The slots that the driver has not taken yet, in their order.
    waiting: VecDeque<usize>,
    /// The waker of the driver, to be woken when there is something to take.
    driver: Option<Waker>,
    /// The reason of the loss.
    lost: Option<String>,
}

/// The replies to one request. Most requests are a single command.
type Replies = SmallVec<[Reply; 1]>;

/// A request and what is known about it.
enum Slot {
    Free,
    /// The driver has not taken it yet.
    Waiting {
        bytes: Vec<u8>,
        commands: usize,
        waker: Waker,
    },
    Sent {
        replies: Replies,
        waker: Waker,
    },
    Done(Result<Replies, Failure>),
    /// The caller is gone, and the driver still refers to the slot.
    Abandoned,
}

impl Pipeline {
    /// Returns the requests of a connection, and the driver over `socket`. Spawn the driver.
    ///
    /// The driver completes when the connection is lost. Dropping it closes the socket.
    pub fn new(socket: impl Socket, hub: &Hub) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(Shared { state: Mutex::default(), lost: Event::new() });
        let driver = Driver::new(Arc::clone(&shared), socket, hub.clone());
        (Self(shared), driver.run())
    }

    /// Sends one command in its wire format and waits for the reply.
    ///
    /// Errors and cancel safety are those of [`Connection::call`](crate::Connection::call).
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: there is no reply.
    pub async fn call(&self, command: Vec<u8>) -> Result<Reply, Failure> {
        let mut replies = self.request(command, 1).await?;
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
        self.request(commands.concat(), commands.len()).await.map(SmallVec::into_vec)
    }

    fn request(&self, bytes: Vec<u8>, commands: usize) -> Request<'_> {
        Request { shared: &self.0, stage: Stage::New { bytes, commands } }
    }

    /// Returns whether the connection is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.state().lost.is_some()
    }

    /// Completes when the connection is lost.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing changes.
    pub async fn lost(&self) {
        while !self.is_lost() {
            // Listens before it looks, so that the loss is not missed.
            let lost = self.0.lost.listen();
            if !self.is_lost() {
                lost.await;
            }
        }
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
    shared: &'a Shared,
    stage: Stage,
}

enum Stage {
    New { bytes: Vec<u8>, commands: usize },
    InSlot(usize),
    Over,
}

impl Future for Request<'_> {
    type Output = Result<Replies, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::New { bytes, commands } => match self.shared.put(bytes, commands, cx.waker()) {
                Ok(slot) => {
                    self.stage = Stage::InSlot(slot);
                    Poll::Pending
                }
                Err(failure) => Poll::Ready(Err(failure)),
            },
            Stage::InSlot(slot) => {
                let outcome = self.shared.poll(slot, cx.waker());
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
            self.shared.abandon(slot);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Puts a request behind all others. Returns its slot.
    fn put(&self, bytes: Vec<u8>, commands: usize, waker: &Waker) -> Result<usize, Failure> {
        let mut state = self.state();
        if let Some(reason) = &state.lost {
            return Err(Failure::not_sent(reason));
        }
        let slot = state.occupy(Slot::Waiting { bytes, commands, waker: waker.clone() });
        state.waiting.push_back(slot);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(slot)
    }

    /// Takes the outcome of a request. If there is none yet, it registers the task to be woken.
    fn poll(&self, slot: usize, waker: &Waker) -> Poll<Result<Replies, Failure>> {
        let mut state = self.state();
        match &mut state.slots[slot] {
            Slot::Waiting { waker: registered, .. } | Slot::Sent { waker: registered, .. } => {
                if !registered.will_wake(waker) {
                    let before = mem::replace(registered, waker.clone());
                    drop(state);
                    drop(before);
                }
                Poll::Pending
            }
            _ => match state.vacate(slot) {
                Slot::Done(outcome) => Poll::Ready(outcome),
                _ => unreachable!("the slot of a caller"),
            },
        }
    }

    /// Gives up a request.
    fn abandon(&self, slot: usize) {
        let mut state = self.state();
        let before = match state.slots[slot] {
            Slot::Done(_) => state.vacate(slot),
            _ => mem::replace(&mut state.slots[slot], Slot::Abandoned),
        };
        drop(state);
        drop(before);
    }

    /// Takes requests that wait, up to about `limit` bytes in `out`. Adds their slots and numbers of commands to
    /// `sent`.
    ///
    /// Returns whether others still wait. If not, it registers the driver to be woken by the next request.
    fn take(
        &self,
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut VecDeque<(usize, usize)>,
        waker: &Waker,
    ) -> bool {
        let mut state = self.state();
        while out.len() < limit {
            let Some(slot) = state.waiting.pop_front() else { break };
            if let Slot::Waiting { bytes, commands, waker } =
                mem::replace(&mut state.slots[slot], Slot::Abandoned)
            {
                out.extend_from_slice(&bytes);
                sent.push_back((slot, commands));
                state.slots[slot] = Slot::Sent { replies: Replies::new(), waker };
            } else {
                state.vacate(slot);
            }
        }
        let has_more = !state.waiting.is_empty();
        let is_registered = state.driver.as_ref().is_some_and(|driver| driver.will_wake(waker));
        let before = if is_registered { None } else { state.driver.replace(waker.clone()) };
        drop(state);
        drop(before);
        has_more
    }

    /// Delivers replies in their order. Adds the wakers of the requests that are now complete to `woken`.
    fn deliver(&self, replies: impl Iterator<Item = Arrived>, woken: &mut Vec<Waker>) {
        let mut state = self.state();
        for Arrived { slot, reply, is_last } in replies {
            match &mut state.slots[slot] {
                Slot::Sent { replies, .. } => {
                    replies.push(reply);
                    if !is_last {
                        continue;
                    }
                    let replies = Slot::Done(Ok(mem::take(replies)));
                    if let Slot::Sent { waker, .. } = mem::replace(&mut state.slots[slot], replies) {
                        woken.push(waker);
                    }
                }
                _ if is_last => {
                    state.vacate(slot);
                }
                _ => {}
            }
        }
    }

    /// Records the loss and completes all requests.
    fn close(&self, reason: String) {
        let mut state = self.state();
        state.waiting.clear();
        let mut wakers = Vec::new();
        for slot in 0..state.slots.len() {
            let failure = match &state.slots[slot] {
                Slot::Waiting { .. } => Failure::not_sent(&reason),
                Slot::Sent { .. } => Failure::maybe_sent(&reason),
                Slot::Abandoned => {
                    state.slots[slot] = Slot::Free;
                    state.free.push(slot);
                    continue;
                }
                Slot::Free | Slot::Done(_) => continue,
            };
            match mem::replace(&mut state.slots[slot], Slot::Done(Err(failure))) {
                Slot::Waiting { waker, .. } | Slot::Sent { waker, .. } => wakers.push(waker),
                _ => {}
            }
        }
        let driver = state.driver.take();
        state.lost = Some(reason);
        drop(state);
        drop(driver);
        wakers.into_iter().for_each(Waker::wake);
        self.lost.notify(usize::MAX);
    }
}

impl State {
    fn occupy(&mut self, content: Slot) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = content;
            return slot;
        }
        self.slots.push(content);
        self.slots.len() - 1
    }

    /// Frees a slot. Returns its content.
    fn vacate(&mut self, slot: usize) -> Slot {
        let content = mem::replace(&mut self.slots[slot], Slot::Free);
        self.free.push(slot);
        if self.free.len() == self.slots.len() && self.slots.len() > SPARE {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
        content
    }
}

/// A reply, and the slot of its request.
struct Arrived {
    slot: usize,
    reply: Reply,
    /// `true` if it is the last reply to the request.
    is_last: bool,
}
