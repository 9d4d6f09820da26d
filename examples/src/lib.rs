//! Examples that need more than redlock: a database, a web framework, a client of one's own.
//!
//! | example | shows | told in |
//! |---|---|---|
//! | `fenced_row` | a row in SQLite that refuses who comes too late | `docs/fencing.md` |
//! | `fenced_value` | a value in Redis that does | the same |
//! | `fenced_service` | a service that does | the same |
//! | `web_service` | a web service whose requests lock, with axum | `docs/patterns.md` |

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use redlock_redis_rs::{Builder, Error, LockNode, Redlock, Runtime, TokioRuntime};
use redlock_testkit::MemoryNode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Three embedded fake nodes, which several programs lock on.
pub struct Nodes([MemoryNode; 3]);

impl Nodes {
    /// Without any locks.
    #[allow(clippy::new_without_default)] // they are made on purpose
    pub fn new() -> Self {
        Self(["one", "two", "three"].map(MemoryNode::new))
    }

    /// A lock that knows nothing of other programs but what the nodes say.
    ///
    /// # Errors
    ///
    /// None that three nodes could give a reason for.
    pub fn program(&self) -> Result<Redlock, Error> {
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
        let nodes = self.0.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        Builder::new(runtime).nodes(nodes).build()
    }

    /// Whether nobody has anything on any of them.
    pub fn are_empty(&self) -> bool {
        self.0.iter().all(MemoryNode::is_empty)
    }
}

/// Posts nothing over HTTP, and answers with the status line of the response.
///
/// # Errors
///
/// When there is no connection, or it is lost.
pub async fn post_to(server: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    let request = format!("POST {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

/// What the chapters show is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;

/// These with axum as it is, which nothing that is published depends on.
#[cfg(doctest)]
#[doc = include_str!("../../docs/patterns.md")]
struct Recipes;
