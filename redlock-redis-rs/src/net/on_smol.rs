//! Sockets and tasks on smol.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use redis::io::tcp::{TcpSettings, socket2::SockRef};
use smol::net::{TcpStream, resolve as lookup};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Task;
use crate::socket::{Stream, set_up};

pub(super) async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    lookup((host, port)).await
}

pub(super) async fn tcp(address: SocketAddr, settings: &TcpSettings) -> io::Result<Box<dyn Stream>> {
    let socket = TcpStream::connect(address).await?;
    set_up(&SockRef::from(&socket), settings)?;
    Ok(Box::new(Socket(socket)))
}

#[cfg(unix)]
pub(super) async fn unix(path: &Path) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(Socket(smol::net::unix::UnixStream::connect(path).await?)))
}

pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Task {
    Task::Smol { _task: smol::spawn(task) }
}

/// A smol socket with tokio's traits, which the client requires on either runtime.
struct Socket<S>(S);

impl<S: smol::io::AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.0).poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: smol::io::AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}
