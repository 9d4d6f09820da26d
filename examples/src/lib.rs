//! Examples that need more than redlock: a database, a web framework, a scheduler or a plain client.
//!
//! | example | shows | chapter |
//! |---|---|---|
//! | `cron` | a schedule on several machines, with tokio-cron-scheduler | `docs/patterns.md` |
//! | `fenced_row` | a row in SQLite that rejects stale writers | `docs/fencing.md` |
//! | `fenced_value` | a value in Redis that rejects stale writers | `docs/fencing.md` |
//! | `fenced_service` | a web service that rejects stale writers, with axum | `docs/fencing.md` |
//! | `job_queue` | a queue of jobs with several workers, with apalis | `docs/patterns.md` |
//! | `opentelemetry` | traces and metrics over OTLP | `docs/monitoring.md` |
//! | `prometheus` | the metrics as Prometheus scrapes them, with axum | `docs/monitoring.md` |
//! | `sql_backend` | a node in SQLite, with the SQL of the chapter | `docs/custom-backends.md` |
//! | `web_service` | a web service whose requests lock, with axum | `docs/patterns.md` |

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use redlock_redis_rs::node::LockNode;
use redlock_redis_rs::runtime::Runtime;
use redlock_redis_rs::{Builder, Error, Redlock, TokioRuntime};
use redlock_testkit::MemoryNode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Three embedded fake nodes that several programs lock on.
pub struct Nodes([MemoryNode; 3]);

impl Nodes {
    /// Creates nodes without any locks.
    #[allow(clippy::new_without_default)] // a default value would hide the servers
    pub fn new() -> Self {
        Self(["one", "two", "three"].map(MemoryNode::new))
    }

    /// Creates a client that shares nothing with other clients except the nodes.
    ///
    /// # Errors
    ///
    /// Never fails with three valid nodes.
    pub fn program(&self) -> Result<Redlock, Error> {
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
        let nodes = self.0.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        Builder::new(runtime).nodes(nodes).build()
    }

    /// Returns true if no node has a key.
    pub fn are_empty(&self) -> bool {
        self.0.iter().all(MemoryNode::is_empty)
    }
}

/// Sends a request over HTTP, such as `GET /document`, and returns the status line of the response.
///
/// Each of the headers ends with `\r\n`.
///
/// # Errors
///
/// Fails if there is no connection, or if it is lost.
pub async fn send(server: SocketAddr, request: &str, headers: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    let length = body.len();
    let request = format!(
        "{request} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

/// Compiles the code in the chapters of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;

/// The code of these chapters needs axum, which no published crate depends on.
#[cfg(doctest)]
#[doc = include_str!("../../docs/patterns.md")]
struct Recipes;

#[cfg(doctest)]
#[doc = include_str!("../../docs/monitoring.md")]
struct Monitoring;

#[cfg(doctest)]
#[doc = include_str!("../../docs/concepts.md")]
struct Concepts;

#[cfg(doctest)]
#[doc = include_str!("../../docs/performance/capacity.md")]
struct Capacity;
