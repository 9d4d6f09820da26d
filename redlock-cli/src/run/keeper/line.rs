//! The keeper's end of the socket.
//!
//! Writing never blocks: a supervisor that is stopped reads nothing, and the renewals go on.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UnixStream;

use crate::run::wire::{self, FromKeeper, Lines, ToKeeper};

/// The size of unsent messages in bytes above which logs are dropped.
const FULL: usize = 64 * 1024;

/// The connection to the supervisor.
pub(super) struct Line {
    stream: Arc<UnixStream>,
    received: Lines,
    writer: LineWriter,
}

/// The writing half. Clones share it.
#[derive(Clone)]
pub(super) struct LineWriter {
    stream: Arc<UnixStream>,
    unsent: Arc<Mutex<VecDeque<u8>>>,
}

impl Line {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = StdStream::from(socket);
        socket.set_nonblocking(true)?;
        let stream = Arc::new(UnixStream::from_std(socket)?);
        let writer = LineWriter { stream: Arc::clone(&stream), unsent: Arc::default() };
        Ok(Self { stream, received: Lines::default(), writer })
    }

    pub(super) fn writer(&self) -> LineWriter {
        self.writer.clone()
    }

    /// Returns the next message; `None` when the supervisor has ended.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost.
    pub(super) async fn next(&mut self) -> Option<ToKeeper> {
        loop {
            if let Some(message) = self.received.next() {
                return Some(message);
            }
            self.stream.readable().await.ok()?;
            let mut bytes = [0; 4096];
            match self.stream.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.received.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    pub(super) fn send(&mut self, message: &FromKeeper) {
        self.writer.send(message);
    }

    pub(super) fn flush(&mut self) {
        self.writer.flush();
    }
}

impl LineWriter {
    /// Sends a message, now or at the next flush.
    pub(super) fn send(&self, message: &FromKeeper) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(message, FromKeeper::Log(_)) || unsent.len() < FULL {
            unsent.extend(wire::line(message));
        }
        drop(unsent);
        self.flush();
    }

    /// Sends as much as fits.
    fn flush(&self) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        while !unsent.is_empty() {
            match self.stream.try_write(unsent.make_contiguous()) {
                Ok(count) => drop(unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The supervisor has ended.
                Err(_) => return unsent.clear(),
            }
        }
    }
}
