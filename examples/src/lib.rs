//! Examples that need more than redlock: a database, a client of one's own. `docs/fencing.md` tells what they show.
//!
//! | example | a resource that refuses who comes too late |
//! |---|---|
//! | `fenced_row` | a row in SQLite |
//! | `fenced_value` | a value in Redis |
//! | `fenced_service` | a service that answers requests |

use std::sync::Arc;

use redlock_redis_rs::{Builder, Error, LockNode, Redlock, Runtime, TokioRuntime};
use redlock_testkit::MemoryNode;

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
}

/// What the chapter on fencing shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;
