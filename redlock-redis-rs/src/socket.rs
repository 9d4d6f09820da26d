//! The socket of a connection, made here and not by the client: what the server sends passes a [`Scanner`] first.
//!
//! The client buffers a reply until it is complete, and makes up to 20 bytes in memory of each byte of it, for as long as
//! the server goes on sending. Behind a [`Guarded`] socket it never sees more than a bounded part of such a reply.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::{BoxFuture, select_ok};
use redis::io::tcp::{TcpSettings, socket2::SockRef};
use redis::{ConnectionAddr, ConnectionInfo};
use redlock_wire::Scanner;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net;
use crate::tls::Tls;

/// Any kind of socket, encrypted or not, on any runtime.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects on the runtime of the caller. TLS is set up with `tls` where the address asks for it.
pub(crate) async fn open(info: &ConnectionInfo, tls: Option<&Tls>) -> io::Result<Guarded> {
    let socket: Box<dyn Stream> = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let addresses = net::resolve(host, *port).await?;
            let attempts =
                addresses.into_iter().map(|address| attempt(address, info.tcp_settings(), host, tls));
            let attempts: Vec<_> = attempts.collect();
            if attempts.is_empty() {
                return Err(io::Error::other("the host has no address"));
            }
            select_ok(attempts).await?.0
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => net::unix(path).await?,
        other => return Err(io::Error::other(format!("{other}: no such sockets here"))),
    };
    Ok(Guarded { socket, scanner: Scanner::new() })
}

fn attempt<'a>(
    address: SocketAddr,
    settings: &'a TcpSettings,
    host: &'a str,
    tls: Option<&'a Tls>,
) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
    Box::pin(async move {
        let socket = net::tcp(address, settings).await?;
        match tls {
            Some(tls) => tls.secure(host, socket).await,
            None => Ok(socket),
        }
    })
}

/// No Nagle: a lock is one small write. No lingering: what a hung server has not read is not for it any more. The rest is
/// the application's choice.
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

/// A socket that fails at a reply that is too large or too deep.
pub(crate) struct Guarded {
    socket: Box<dyn Stream>,
    scanner: Scanner,
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
        let scanned = self.scanner.scan(&buffer.filled()[before..]);
        Poll::Ready(
            scanned.map(drop).map_err(|violation| io::Error::new(io::ErrorKind::InvalidData, violation)),
        )
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
