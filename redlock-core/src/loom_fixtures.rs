//! The runtime, the node and the claims of the models.

use std::fmt;
use std::future::pending;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use crate::client::handle::{Handle, Settings};
use crate::decide::quorums::Quorums;
use crate::decide::validity::DriftFactor;
use crate::node::{Backend, Claim, LockNode, NodeError, Reply, Request, Token, Ttl, async_trait};
use crate::runtime::{BoxFuture, Runtime};
use crate::sync::{Mutex, locked};
use crate::types::instant::Instant;
use crate::types::resource::IntoResources;

/// A runtime whose time stands still, and whose random numbers are always the same.
#[derive(Default)]
pub(crate) struct StoppedClock {
    /// The threads of its tasks; `None` if it has shut down, so that it drops every task.
    threads: Option<Mutex<Vec<JoinHandle<()>>>>,
}

impl StoppedClock {
    /// Returns a runtime that has shut down.
    pub(crate) fn ended() -> Arc<Self> {
        Arc::default()
    }

    /// Returns a runtime that starts a thread for each task.
    pub(crate) fn with_threads() -> Arc<Self> {
        Arc::new(Self { threads: Some(Mutex::default()) })
    }

    /// Waits until all tasks have ended.
    ///
    /// Loom does not know the reference counts of `std`. Thus the last owner of a value is the one that has joined all
    /// other threads.
    pub(crate) fn join(&self) {
        for thread in self.threads.iter().flat_map(|threads| mem::take(&mut *locked(threads))) {
            thread.join().expect("a task does not panic");
        }
    }
}

impl Runtime for StoppedClock {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        Box::pin(pending())
    }

    fn spawn(&self, future: BoxFuture<()>) {
        if let Some(threads) = &self.threads {
            locked(threads).push(thread::spawn(move || block_on(future)));
        }
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

impl fmt::Debug for StoppedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoppedClock").finish_non_exhaustive()
    }
}

/// A node that grants everything at once.
#[derive(Default)]
pub(crate) struct Granting(AtomicUsize);

impl Granting {
    /// Returns the number of acquisitions so far.
    pub(crate) fn acquisitions(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Backend for Granting {
    fn label(&self) -> &'static str {
        "granting"
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(..) => {
                self.0.fetch_add(1, Ordering::Relaxed);
                Ok(Reply::Granted)
            }
            Request::Extend(..) => Ok(Reply::Granted),
            Request::Release(_) => Ok(Reply::Deleted(true)),
            other => Err(NodeError::unsupported(other)),
        }
    }
}

/// Returns a client with this node, which limits itself to one attempt at a time.
pub(crate) fn client(node: &Arc<Granting>, runtime: Arc<StoppedClock>) -> Arc<Handle> {
    client_of(Arc::new(Arc::clone(node)), runtime)
}

/// Same as [`client`], with any node.
pub(crate) fn client_of(node: Arc<dyn LockNode>, runtime: Arc<StoppedClock>) -> Arc<Handle> {
    let settings = Settings {
        node_timeout: Duration::from_secs(1),
        retry_delay: Duration::ZERO,
        max_concurrent_attempts: 1,
        local_queue: true,
        drift: DriftFactor::new(0.01).expect("a small fraction"),
        owner: None,
        compare_node_lists: false,
        node_lists_must_agree: false,
    };
    Arc::new(Handle::new(vec![node], Quorums::of(1), runtime, settings))
}

/// Returns a claim on one resource.
pub(crate) fn claim() -> Claim {
    Claim::new("a".into_resources().expect("a valid name"), Token::from_bytes("mine"))
}

pub(crate) fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(10)).expect("a valid TTL")
}
