//! The task of a [`Pipeline`](super::Pipeline): it owns the socket, writes requests and reads replies.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::outbox::{Arrived, Expected, Outbox};
use super::resp::decode;
use crate::clock::time;
use crate::message::{RUNTIME_ENDED, Reply};
use crate::push::Hub;
use crate::scanner::{Scanner, Violation};

/// The number of bytes that one write takes, apart from the rest of its last request.
///
/// Requests behind it can still be dropped. The memory of a larger write is freed when it is sent.
const FULL: usize = 64 * 1024;

/// The size of the buffer for replies. It grows for a larger reply, and shrinks behind it.
const BUFFER: usize = 8 * 1024;

/// The socket of a [`Pipeline`](super::Pipeline).
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

pub(super) struct Driver<S: Socket> {
    outbox: Arc<Outbox>,
    socket: S,
    hub: Hub,
    scanner: Scanner,
    /// The replies to the requests that were taken, in their order.
    sent: VecDeque<Expected>,
    /// The requests that are being written.
    out: Vec<u8>,
    /// The number of bytes of `out` that are written.
    written: usize,
    /// `true` if the socket may hold back what was written.
    must_flush: bool,
    /// The bytes that were read and belong to no complete reply, at its start.
    input: Vec<u8>,
    /// The number of these bytes.
    filled: usize,
    /// The replies of one read.
    arrived: Vec<Arrived>,
    /// The callers to wake behind it.
    woken: Vec<Waker>,
    /// The reason of the loss. Until there is one, that of a runtime that drops the task.
    reason: String,
}

impl<S: Socket> Driver<S> {
    pub(super) fn new(outbox: Arc<Outbox>, socket: S, hub: Hub) -> Self {
        Self {
            outbox,
            socket,
            hub,
            scanner: Scanner::new(),
            sent: VecDeque::new(),
            out: Vec::new(),
            written: 0,
            must_flush: false,
            input: vec![0; BUFFER],
            filled: 0,
            arrived: Vec::new(),
            woken: Vec::new(),
            // No request waits for a driver that the connection has dropped, since each borrows the connection.
            reason: RUNTIME_ENDED.to_owned(),
        }
    }

    /// Runs until the connection is lost.
    pub(super) async fn run(mut self) {
        self.reason = poll_fn(|cx| self.poll(cx)).await;
    }

    /// Sends what waits and reads what has arrived. Completes with the reason of the loss.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        let outcome = match self.send(cx) {
            Poll::Ready(Err(error)) => {
                // Replies may have arrived before.
                let _ = self.receive(cx);
                Err(error)
            }
            // A server that reads no more requests may still send replies.
            Poll::Ready(Ok(())) | Poll::Pending => ready!(self.receive(cx)),
        };
        Poll::Ready(match outcome {
            Ok(()) => "the server closed the connection".to_owned(),
            Err(error) => error.to_string(),
        })
    }

    /// Writes all requests that wait.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut has_more = false;
            if self.written == self.out.len() {
                self.out.clear();
                self.out.shrink_to(FULL);
                self.written = 0;
                has_more = self.outbox.take(&mut self.out, FULL, &mut self.sent, cx.waker());
            }
            while self.written < self.out.len() {
                let count = ready!(self.socket.poll_write(cx, &self.out[self.written..]))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += count;
                self.must_flush = true;
            }
            if !has_more {
                break;
            }
        }
        if self.must_flush {
            ready!(self.socket.poll_flush(cx))?;
            self.must_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads until there is nothing to read. Completes at the end of the stream.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.filled == self.input.len() {
                self.input.resize(2 * self.filled, 0);
            }
            let count = ready!(self.socket.poll_read(cx, &mut self.input[self.filled..]))?;
            if count == 0 {
                return Poll::Ready(Ok(()));
            }
            let end = self.filled + count;
            let complete = self.scanner.scan(&self.input[self.filled..end]).map_err(invalid)?;
            if complete == 0 {
                self.filled = end;
                continue;
            }
            let complete = self.filled + complete;
            let read = self.read(complete);
            self.outbox.deliver(self.arrived.drain(..), &mut self.woken);
            self.woken.drain(..).for_each(Waker::wake);
            read.map_err(invalid)?;
            self.input.copy_within(complete..end, 0);
            self.filled = end - complete;
            if self.input.len() > BUFFER && self.filled < BUFFER {
                self.input.truncate(BUFFER);
                self.input.shrink_to_fit();
            }
        }
    }

    /// Reads complete replies and pushes: the first `complete` bytes of the input.
    fn read(&mut self, complete: usize) -> Result<(), String> {
        let mut bytes = &self.input[..complete];
        while let Some(kind) = bytes.first() {
            let (reply, size) = decode(bytes).ok_or_else(|| Violation::Malformed.to_string())?;
            if *kind == b'>' {
                forward(&self.hub, &reply);
            } else {
                match self.sent.front_mut() {
                    Some(Expected::Replies { slot, missing, timed }) => {
                        *missing -= 1;
                        let (slot, is_over) = (*slot, *missing == 0);
                        self.arrived.push(Arrived { slot, reply, is_last: is_over && !*timed });
                        if is_over {
                            self.sent.pop_front();
                        }
                    }
                    Some(Expected::Time(slots)) => {
                        // A number, because a copy of it is cheap.
                        let reply = time(&reply).map_or(reply, |time| Reply::Int(micros(time)));
                        let of = |slot| Arrived { slot, reply: reply.clone(), is_last: true };
                        self.arrived.extend(mem::take(slots).into_iter().map(of));
                        self.sent.pop_front();
                    }
                    None => {
                        return Err(match reply {
                            // Such as that it has too many clients.
                            Reply::Error(message) => message,
                            _ => "the server sent a reply without a request".to_owned(),
                        });
                    }
                }
            }
            bytes = &bytes[size..];
        }
        Ok(())
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Also runs if the runtime drops the task.
impl<S: Socket> Drop for Driver<S> {
    fn drop(&mut self) {
        self.outbox.close(mem::take(&mut self.reason));
    }
}

/// Reports to the hub which keys have changed.
fn forward(hub: &Hub, push: &Reply) {
    let Reply::Array(parts) = push else { return };
    match parts.as_slice() {
        [Reply::Bytes(kind), rest @ ..] if kind == b"invalidate" => {
            let [Reply::Array(keys)] = rest else {
                // Nil: the database was flushed. Any other form is unknown and may mean the same.
                hub.flushed();
                return;
            };
            for key in keys {
                match key {
                    Reply::Bytes(key) => hub.changed(key),
                    _ => hub.all_changed(),
                }
            }
        }
        _ => {}
    }
}
