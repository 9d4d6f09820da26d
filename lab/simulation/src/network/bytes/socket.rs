//! The socket of a client.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use redlock_wire::SocketHandle;

use super::Connection;

/// The socket of a client. All use of it goes through the handle. Dropping it closes it.
pub(super) struct Socket {
    pub(super) connection: Arc<Connection>,
    pub(super) handle: SocketHandle,
}

impl redlock_wire::Socket for Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.handle.read(cx, |cx| self.connection.read(cx, buffer))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..self.connection.accepts(bytes.len())];
        self.handle.write(|| Poll::Ready(self.connection.send(bytes).map(|()| bytes.len())))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.flush(|| Poll::Ready(Ok(())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.connection.close();
    }
}
