//! In-memory nodes with faults, for most tests.

use std::iter::repeat_n;
use std::sync::Arc;

use redlock_core::runtime::Runtime;

use super::Faulty;
use crate::memory::MemoryNode;

/// A node in memory, with faults.
pub type FakeNode = Faulty<MemoryNode>;

impl FakeNode {
    /// Creates an empty node in memory, whose keys expire by the runtime's clock.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{FakeNode, ThreadRuntime, block_on};
    /// let fake = |name| FakeNode::new(name, Arc::new(ThreadRuntime));
    /// let nodes = ["eu", "us", "asia"].map(fake);
    /// nodes[2].crash();
    /// let builder = Redlock::builder(ThreadRuntime);
    /// let redlock = builder.nodes(nodes.map(Into::into)).build()?;
    /// let health = block_on(redlock.health());
    /// let down = health.nodes().iter().find(|node| !node.is_healthy());
    /// assert_eq!(Some("asia"), down.map(|node| node.label()));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn new(label: impl Into<String>, runtime: Arc<dyn Runtime>) -> Self {
        Self::wrap(MemoryNode::with_runtime(label, runtime.clone()), runtime)
    }

    /// Restarts the node after a crash, with its script and without any data.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{ErrorKind, Redlock};
    /// # use redlock_testkit::{FakeNode, ThreadRuntime, block_on};
    /// # let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// node.crash();
    /// node.restart_empty();
    /// let error = block_on(guard.extend(ttl)).unwrap_err();
    /// assert_eq!(ErrorKind::Lost, error.kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn restart_empty(&self) {
        self.inner().clear();
        self.restart();
    }
}

/// Creates `count` empty nodes in memory, labeled `fake-0`, `fake-1` and so on.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use redlock_core::node::LockNode;
/// use redlock_core::Redlock;
/// use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
///
/// let nodes = fake_nodes(5, Arc::new(ThreadRuntime));
/// nodes[0].inject(Fault::hang());
/// nodes[1].crash();
/// let redlock = Redlock::builder(ThreadRuntime)
///     .nodes(nodes.iter().cloned().map(Into::into))
///     .build()?;
///
/// let guard = block_on(redlock.lock("invoice:42", Duration::from_secs(10)))?;
/// assert!(nodes[2..].iter().all(|node| node.inner().holder("invoice:42").is_some()));
/// # drop(guard);
/// # Ok::<(), redlock_core::Error>(())
/// ```
pub fn fake_nodes(count: usize, runtime: Arc<dyn Runtime>) -> Vec<FakeNode> {
    let numbered = repeat_n(runtime, count).enumerate();
    numbered.map(|(number, runtime)| FakeNode::new(format!("fake-{number}"), runtime)).collect()
}
