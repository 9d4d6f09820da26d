//! The socket of a connection, encrypted or not, on the runtime of the caller.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::{BoxFuture, select_ok};
use redis::io::tcp::{TcpSettings, socket2::SockRef};
use redis::{ConnectionAddr, ConnectionInfo};
use redlock_wire::tls::handshake;
use redlock_wire::{Hub, SocketHandle};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;

use crate::net;
use crate::tls::Tls;

/// The number of bytes that the connection reads before other tasks run.
///
/// A server that sends small replies or pushes without end otherwise occupies a thread for many milliseconds at a time.
const BYTES_PER_TURN: usize = 16 * 1024;

/// Any kind of socket, encrypted or not, on any runtime.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects on the runtime of the caller. All use of the socket goes through `handle`.
///
/// If the address requires TLS, `tls` sets it up, and `hub` records the handshake.
pub(crate) async fn open(
    info: &ConnectionInfo,
    tls: Option<&Tls>,
    handle: SocketHandle,
    hub: &Hub,
) -> io::Result<Guarded> {
    let socket: Box<dyn Stream> = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let addresses = net::resolve(host, *port).await?;
            let attempts =
                addresses.into_iter().map(|address| attempt(address, info.tcp_settings(), host, tls, hub));
            let attempts: Vec<_> = attempts.collect();
            if attempts.is_empty() {
                return Err(io::Error::other("the host name has no address"));
            }
            select_ok(attempts).await?.0
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => net::unix(path).await?,
        other => return Err(io::Error::other(format!("{other}: this system has no such sockets"))),
    };
    Ok(Guarded { socket, handle, left: BYTES_PER_TURN })
}

fn attempt<'a>(
    address: SocketAddr,
    settings: &'a TcpSettings,
    host: &'a str,
    tls: Option<&'a Tls>,
    hub: &'a Hub,
) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
    Box::pin(async move {
        let socket = net::tcp(address, settings).await?;
        match tls {
            Some(tls) => handshake(hub, tls.secure(host, socket)).await,
            None => Ok(socket),
        }
    })
}

/// Sets the options of a TCP socket.
///
/// Nagle's algorithm is off: a lock is one small write. Lingering is off: requests that a hung server has not read are
/// discarded. The other options are those of the application.
pub(crate) fn set_up(socket: &SockRef<'_>, settings: &TcpSettings) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}

/// A socket that yields to other tasks, and fails when the node has given it up.
pub(crate) struct Guarded {
    socket: Box<dyn Stream>,
    handle: SocketHandle,
    /// The number of bytes left to read in this turn.
    left: usize,
}

impl redlock_wire::Socket for Guarded {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { socket, handle, left } = self;
        if *left == 0 {
            *left = BYTES_PER_TURN;
            // Wakes this task again after the runtime has looked at all sockets and timers.
            ready!(pin!(yield_now()).poll(cx));
        }
        let mut buffer = ReadBuf::new(buffer);
        let read = handle.read(cx, |cx| Pin::new(socket).poll_read(cx, &mut buffer));
        if read.is_pending() {
            *left = BYTES_PER_TURN;
        }
        ready!(read)?;
        let count = buffer.filled().len();
        *left = left.saturating_sub(count);
        Poll::Ready(Ok(count))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, handle, .. } = self;
        handle.write(|| Pin::new(socket).poll_write(cx, bytes))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, handle, .. } = self;
        handle.flush(|| Pin::new(socket).poll_flush(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use redlock_wire::Socket as _;

    use super::*;

    /// A server that always has another push to read, up to 1 MiB. Its other functions are not used.
    struct Flood {
        sent: Arc<AtomicUsize>,
    }

    const PUSH: &[u8] = b">2\r\n$10\r\ninvalidate\r\n_\r\n";

    const FLOOD: usize = 1 << 20;

    impl AsyncRead for Flood {
        fn poll_read(
            self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            while self.sent.load(Ordering::Relaxed) < FLOOD && buffer.remaining() >= PUSH.len() {
                buffer.put_slice(PUSH);
                self.sent.fetch_add(PUSH.len(), Ordering::Relaxed);
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Flood {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_server_that_sends_without_end_does_not_block_other_tasks() {
        const CHUNK: usize = 4096;

        let sent = Arc::new(AtomicUsize::new(0));
        let flood = Box::new(Flood { sent: Arc::clone(&sent) });
        let mut socket = Guarded { socket: flood, handle: SocketHandle::default(), left: BYTES_PER_TURN };
        let client = tokio::spawn(async move {
            let mut buffer = [0; CHUNK];
            while poll_fn(|cx| socket.poll_read(cx, &mut buffer)).await.unwrap() > 0 {}
        });
        let mut turns = 0;
        while !client.is_finished() {
            let before = sent.load(Ordering::Relaxed);
            yield_now().await;
            let read = sent.load(Ordering::Relaxed) - before;
            assert!(read < BYTES_PER_TURN + CHUNK, "{read} bytes in one turn");
            turns += 1;
        }
        client.await.unwrap();
        assert!(turns >= FLOOD / (BYTES_PER_TURN + CHUNK), "{turns} turns");
    }
}
