//! What stands between fred and its server: a relay that lets only bounded replies through.
//!
//! fred's decoder (`redis-protocol` 6.0) recurses into nested replies without a limit, so a few KB overflow the stack and
//! abort the process; and it parses an incomplete reply from its beginning at every read. fred makes its sockets itself,
//! from an address. So it is given the address of a relay in this process, which connects to the server (with TLS where
//! the configuration says so), passes requests on as they are, and replies only when they are complete and a [`Scanner`]
//! has accepted them.
//!
//! The address is an abstract Unix socket, which exists on Linux and Android alone: no file is left behind, and the kernel
//! names the process at the other end. The relay takes one connection, from its own process, and closes the address.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fred::types::config::{Config, ServerConfig};
use futures_util::future::{Either, select};
use redlock_wire::Scanner;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::AbortHandle;

use crate::tls;

/// How much is read from the server at a time. Replies have some tens of bytes.
const CHUNK: usize = 16 * 1024;

/// Any kind of socket, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The relay's task, which owns the socket to the server. Aborted on drop.
pub(crate) struct Relay {
    abort: AbortHandle,
    resp3: Arc<AtomicBool>,
}

impl Relay {
    /// Connects to the server of `config`, and makes of it the configuration with which fred connects to the relay.
    pub(crate) async fn open(config: Config) -> io::Result<(Config, Self)> {
        let server = connect(&config).await?;
        let path = name();
        let listener = UnixListener::bind(&path)?;
        let resp3 = Arc::new(AtomicBool::new(false));
        let relay = tokio::spawn(run(listener, server, Arc::clone(&resp3)));
        let config = tls::without(Config { server: ServerConfig::Unix { path }, ..config });
        Ok((config, Self { abort: relay.abort_handle(), resp3 }))
    }

    /// What the connection speaks from now on. In RESP3, fred takes the null of RESP2 for the beginning of a stream, which
    /// has no bounds: it must not come through.
    pub(crate) fn speaks_resp3(&self, resp3: bool) {
        self.resp3.store(resp3, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// The server's socket.
async fn connect(config: &Config) -> io::Result<Box<dyn Stream>> {
    match &config.server {
        ServerConfig::Centralized { server } => {
            let host = server.host.trim_start_matches('[').trim_end_matches(']');
            let socket = TcpStream::connect((host, server.port)).await?;
            // No Nagle: a lock is one small write. No lingering: what a hung server has not read is not for it any more.
            socket.set_nodelay(true)?;
            socket.set_zero_linger()?;
            tls::over(config, server, socket).await
        }
        ServerConfig::Unix { path } => Ok(Box::new(UnixStream::connect(path).await?)),
        _ => Err(io::Error::other("neither TCP nor a Unix socket")),
    }
}

/// An abstract name that nobody else is likely to use. It is no secret.
fn name() -> PathBuf {
    let random = [RandomState::new().hash_one(0), RandomState::new().hash_one(1)];
    let name = format!("\0redlock-{}-{:016x}{:016x}", std::process::id(), random[0], random[1]);
    PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes()))
}

/// Passes bytes on in both directions until either side is closed, or the server sends what it must not.
async fn run(listener: UnixListener, server: Box<dyn Stream>, resp3: Arc<AtomicBool>) {
    let Ok(client) = accept(listener).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = split(server);
    let requests = Box::pin(requests(from_client, to_server));
    let replies = Box::pin(replies(from_server, to_client, resp3));
    // An error needs no words: fred reports that the connection is lost.
    match select(requests, replies).await {
        Either::Left((_, _)) | Either::Right((_, _)) => {}
    }
}

/// Takes the first connection of this process. Other processes may find the name, and are turned away.
async fn accept(listener: UnixListener) -> io::Result<UnixStream> {
    loop {
        let (client, _) = listener.accept().await?;
        let peer = client.peer_cred()?.pid();
        if peer.is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id())) {
            return Ok(client);
        }
    }
}

async fn requests(mut client: impl AsyncRead + Unpin, mut server: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy(&mut client, &mut server).await.map(drop)
}

/// Passes complete replies on. What is incomplete waits here, which is at most one reply of bounded size.
async fn replies(
    mut server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    resp3: Arc<AtomicBool>,
) -> io::Result<()> {
    let (mut scanner, mut buffer) = (Scanner::new(), Vec::with_capacity(CHUNK));
    loop {
        let before = buffer.len();
        buffer.reserve(CHUNK);
        if server.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        scanner.accept_null_lengths(!resp3.load(Ordering::SeqCst));
        let complete = scanner.scan(&buffer[before..]).map_err(io::Error::other)?;
        if complete > 0 {
            client.write_all(&buffer[..before + complete]).await?;
            buffer.drain(..before + complete);
        }
        // What a large reply has taken is given back.
        buffer.shrink_to(4 * CHUNK);
    }
}
