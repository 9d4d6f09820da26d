//! A relay between fred and its server that passes on only bounded replies.
//!
//! fred's decoder (`redis-protocol` 6.0) recurses into nested replies without a limit, so a few KB overflow the stack
//! and abort the process. It also parses an incomplete reply from its beginning at every read. fred creates its sockets
//! itself, from an address. It therefore receives the address of a relay in this process. The relay connects to the
//! server, with TLS if the configuration requires it. It passes requests on unchanged, and replies only when they are
//! complete and a [`Scanner`] has accepted them.
//!
//! The address is an abstract Unix socket, which exists only on Linux and Android. It leaves no file behind, and the
//! kernel identifies the process at the other end. The relay accepts one connection, from its own process, and closes
//! the address.

mod socket;
mod tls;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fred::types::config::{Config, ServerConfig};
use futures_util::future::{Either, select};
use redlock_wire::{Hub, Scanner, SocketHandle};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

use self::socket::Socket;

/// The size of a read from the server, in bytes. Replies have tens of bytes.
const CHUNK: usize = 16 * 1024;

/// The relay's task, which owns the socket to the server. Aborted on drop.
pub(crate) struct Relay {
    abort: AbortHandle,
    socket: SocketHandle,
    resp3: Arc<AtomicBool>,
}

impl Relay {
    /// Connects to the server of `config`. Returns the configuration for fred's connection.
    ///
    /// With it, fred connects to the relay.
    pub(crate) async fn open(config: Config, hub: &Hub) -> io::Result<(Config, Self)> {
        let socket = SocketHandle::default();
        let server = Socket::connect(&config, socket.clone(), hub).await?;
        let path = name();
        let listener = UnixListener::bind(&path)?;
        let resp3 = Arc::new(AtomicBool::new(false));
        let relay = tokio::spawn(run(listener, server, Arc::clone(&resp3)));
        let config = tls::without(Config { server: ServerConfig::Unix { path }, ..config });
        Ok((config, Self { abort: relay.abort_handle(), socket, resp3 }))
    }

    /// Returns the handle of the socket to the server.
    pub(crate) fn socket(&self) -> &SocketHandle {
        &self.socket
    }

    /// Sets the protocol from now on.
    ///
    /// In RESP3, fred takes the null of RESP2 for the beginning of a stream, which has no bounds. The relay must not
    /// pass it on.
    pub(crate) fn speaks_resp3(&self, resp3: bool) {
        self.resp3.store(resp3, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// Returns an abstract name that no other process is likely to use. It is not secret.
fn name() -> PathBuf {
    let random = [RandomState::new().hash_one(0), RandomState::new().hash_one(1)];
    let name = format!("\0redlock-{}-{:016x}{:016x}", std::process::id(), random[0], random[1]);
    PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes()))
}

/// Passes bytes on in both directions until a side closes or a reply is rejected.
async fn run(listener: UnixListener, server: Socket, resp3: Arc<AtomicBool>) {
    let Ok(client) = accept(listener).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = split(server);
    let requests = Box::pin(requests(from_client, to_server));
    let replies = Box::pin(replies(from_server, to_client, resp3));
    // Errors are not reported here: fred reports that the connection is lost.
    match select(requests, replies).await {
        Either::Left((_, _)) | Either::Right((_, _)) => {}
    }
}

/// Accepts the first connection of this process. Other processes may find the name and are rejected.
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

/// Passes complete replies on. An incomplete reply waits here; its size is bounded.
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
        // Frees the memory that a large reply has taken.
        buffer.shrink_to(4 * CHUNK);
    }
}
