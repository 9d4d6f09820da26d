//! Observes and ends the use of a connection's socket.
//!
//! A connection reads and sends in a separate task. On a busy machine it may be scheduled much later than the tasks in
//! which a node runs. Two things follow.
//!
//! - A server is not silent just because the client has returned no reply. The socket shows more: whether the client
//!   has sent a request, and has looked for replies since and found none.
//! - A client may send long after its node has ended the connection. Such a write could leave a key behind, if its
//!   cleanup ended before. Thus a node closes the socket before it opens the next connection.
//!
//! For both, an adapter performs each read and write of a socket through its [`SocketHandle`].

#[cfg(all(test, loom))]
mod loom_tests;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, MutexGuard, locked};

/// A handle that observes the use of a socket and can end it.
///
/// Clones share one socket.
#[derive(Clone, Debug, Default)]
pub struct SocketHandle(Arc<Mutex<State>>);

/// Locked during each operation: none is in progress when `close` has returned.
#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The number of reads that have returned bytes or an error.
    reads: u64,
    /// The number of writes, pending ones included.
    writes: u64,
    /// The task to wake so that it reads again, if the last read found no bytes.
    reader: Option<Waker>,
    /// `true` if a read has found nothing since the last observation.
    found_nothing: bool,
}

/// The state of a socket when the node [observes](SocketHandle::observe) it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// The number of reads that have returned bytes or an error.
    pub(crate) reads: u64,
    /// The number of writes, pending ones included.
    pub(crate) writes: u64,
    /// `true` if a read has found no bytes since the last observation.
    pub(crate) found_nothing: bool,
}

impl SocketHandle {
    /// Performs a read.
    ///
    /// # Errors
    ///
    /// - The error of the read.
    /// - [`BrokenPipe`](io::ErrorKind::BrokenPipe): the node has closed the connection.
    pub fn read<T>(
        &self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.state();
        if state.is_closed {
            return closed();
        }
        let outcome = read(cx);
        if outcome.is_ready() {
            state.reads += 1;
            return outcome;
        }
        state.found_nothing = true;
        let is_new = state.reader.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker()));
        let replaced = if is_new { state.reader.replace(cx.waker().clone()) } else { None };
        // Dropping a waker may run foreign code.
        drop(state);
        drop(replaced);
        outcome
    }

    /// Performs a write.
    ///
    /// # Errors
    ///
    /// - The error of the write.
    /// - [`BrokenPipe`](io::ErrorKind::BrokenPipe): the node has closed the connection.
    pub fn write<T>(&self, write: impl FnOnce() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let mut state = self.state();
        if state.is_closed {
            return closed();
        }
        state.writes += 1;
        write()
    }

    /// Performs a flush or a shutdown.
    ///
    /// # Errors
    ///
    /// - The error of the operation.
    /// - [`BrokenPipe`](io::ErrorKind::BrokenPipe): the node has closed the connection.
    pub fn flush<T>(&self, flush: impl FnOnce() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let state = self.state();
        if state.is_closed { closed() } else { flush() }
    }

    /// Returns the activity so far, and makes the client read again.
    pub(crate) fn observe(&self) -> Observation {
        let mut state = self.state();
        let State { reads, writes, found_nothing, .. } = *state;
        let observation = Observation { reads, writes, found_nothing };
        state.found_nothing = false;
        let reader = state.reader.clone();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        observation
    }

    /// Ends all use of the socket.
    ///
    /// When this returns, no operation is in progress, and each later one fails.
    ///
    /// Returns the client's waker, which is to be called without holding a lock: the client then detects this.
    #[must_use]
    pub(crate) fn close(&self) -> Option<Waker> {
        let mut state = self.state();
        state.is_closed = true;
        state.reader.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }
}

fn closed<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn read(socket: &SocketHandle, waker: &Waker, outcome: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        socket.read(&mut Context::from_waker(waker), |_| outcome)
    }

    #[test]
    fn each_empty_read_is_reported_once() {
        let (socket, waker) = (SocketHandle::default(), Waker::noop());
        assert!(!socket.observe().found_nothing, "the client has not read yet");
        assert!(read(&socket, waker, Poll::Pending).is_pending());
        assert!(socket.observe().found_nothing);
        assert!(!socket.observe().found_nothing, "an empty read is reported once");
        assert!(read(&socket, waker, Poll::Ready(Ok(()))).is_ready());
        assert!(!socket.observe().found_nothing, "the last read found bytes");
    }

    #[test]
    fn writes_are_counted_even_if_they_wait_and_flushes_are_not() {
        let socket = SocketHandle::default();
        assert!(socket.write(|| Poll::<io::Result<()>>::Pending).is_pending());
        assert!(socket.write(|| Poll::Ready(Ok(()))).is_ready());
        assert!(socket.flush(|| Poll::Ready(Ok(()))).is_ready());
        assert_eq!(2, socket.observe().writes);
    }

    #[test]
    fn reads_are_counted_and_the_client_is_made_to_read() {
        let (socket, woken) = (SocketHandle::default(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        assert!(read(&socket, &waker, Poll::Pending).is_pending());
        assert_eq!((0, 0), (socket.observe().reads, woken.0.load(Ordering::SeqCst) - 1));
        assert!(read(&socket, &waker, Poll::Ready(Ok(()))).is_ready());
        assert_eq!((1, 2), (socket.observe().reads, woken.0.load(Ordering::SeqCst)));
    }

    #[test]
    fn a_closed_socket_is_unused_and_its_reader_is_woken() {
        let (socket, woken) = (SocketHandle::default(), Arc::new(Woken::default()));
        assert!(read(&socket, &Waker::from(Arc::clone(&woken)), Poll::Pending).is_pending());
        socket.clone().close().expect("the client waits").wake();
        assert_eq!(1, woken.0.load(Ordering::SeqCst));
        let unused = || -> Poll<io::Result<()>> { panic!("the socket is used") };
        let mut cx = Context::from_waker(Waker::noop());
        for outcome in [socket.read(&mut cx, |_| unused()), socket.write(unused), socket.flush(unused)] {
            assert!(matches!(outcome, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
        }
    }
}
