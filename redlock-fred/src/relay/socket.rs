//! The relay's socket to the server, with TLS if the configuration requires it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use fred::types::config::{Config, ServerConfig};
use redlock_wire::tls::handshake;
use redlock_wire::{Hub, SocketHandle};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::tls;

/// Any kind of socket, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A socket that is used only through its handle.
pub(crate) struct Socket {
    stream: Box<dyn Stream>,
    handle: SocketHandle,
}

impl Socket {
    /// Connects to the server of `config`.
    pub(crate) async fn connect(config: &Config, handle: SocketHandle, hub: &Hub) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match &config.server {
            ServerConfig::Centralized { server } => {
                let host = server.host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((host, server.port)).await?;
                // Nagle's algorithm is off: a lock is one small write. Lingering is off: a hung server must not receive
                // unread requests later.
                stream.set_nodelay(true)?;
                stream.set_zero_linger()?;
                if config.uses_tls() {
                    handshake(hub, tls::over(config, server, stream)).await?
                } else {
                    Box::new(stream)
                }
            }
            ServerConfig::Unix { path } => Box::new(UnixStream::connect(path).await?),
            _ => return Err(io::Error::other("neither TCP nor a Unix socket")),
        };
        Ok(Self { stream, handle })
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, handle } = self.get_mut();
        handle.read(cx, |cx| Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, handle } = self.get_mut();
        handle.write(|| Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, handle } = self.get_mut();
        handle.flush(|| Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, handle } = self.get_mut();
        handle.flush(|| Pin::new(stream).poll_shutdown(cx))
    }
}
