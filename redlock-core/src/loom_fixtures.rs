//! What the models of this crate run on.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::decide::validity::DriftFactor;
use crate::inner::{Inner, Settings};
use crate::node::{Claim, LockNode, NodeError, Token, Ttl, Vote, async_trait};
use crate::runtime::{BoxFuture, Runtime};
use crate::types::instant::Instant;
use crate::types::resource::IntoResources;

/// A runtime whose time stands still and whose random numbers are always the same.
#[derive(Debug)]
pub(crate) enum Still {
    /// It has shut down and drops every task.
    Over,
    /// Each task has a thread of its own.
    Threads,
}

impl Runtime for Still {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        Box::pin(pending())
    }

    fn spawn(&self, future: BoxFuture<()>) {
        match self {
            Self::Over => drop(future),
            Self::Threads => drop(thread::spawn(move || block_on(future))),
        }
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
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
impl LockNode for Granting {
    fn label(&self) -> &str {
        "granting"
    }

    async fn acquire(&self, _: &Claim, _: Ttl) -> Result<Vote, NodeError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Vote::Granted)
    }

    async fn extend(&self, _: &Claim, _: Ttl) -> Result<Vote, NodeError> {
        Ok(Vote::Granted)
    }

    async fn release(&self, _: &Claim) -> Result<bool, NodeError> {
        Ok(true)
    }
}

/// Returns the state of a client with this node, which limits itself to one attempt at a time.
pub(crate) fn client(node: &Arc<Granting>, runtime: Still) -> Arc<Inner> {
    let settings = Settings {
        node_timeout: Duration::from_secs(1),
        retry_delay: Duration::ZERO,
        max_concurrent_attempts: 1,
        local_queue: true,
        drift: DriftFactor::new(0.01).expect("a small fraction"),
        owner: None,
    };
    let node: Arc<dyn LockNode> = Arc::<Granting>::clone(node);
    Arc::new(Inner::new(vec![node], Arc::new(runtime), settings))
}

/// Returns a claim on one resource.
pub(crate) fn claim() -> Claim {
    Claim::new("a".into_resources().expect("a valid name"), Token::from_bytes("mine"))
}

pub(crate) fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(10)).expect("a valid TTL")
}
