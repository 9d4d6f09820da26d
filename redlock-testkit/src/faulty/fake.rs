//! In-memory nodes with faults, for most tests.

use std::iter::repeat_n;
use std::sync::Arc;

use redlock_core::runtime::Runtime;
use redlock_core::{Builder, Redlock};

use super::Faulty;
use crate::memory::MemoryNode;
use crate::threads::ThreadRuntime;

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

    /// Restarts the server of the node after a crash, with all its data and its script.
    ///
    /// With a [longest TTL](MemoryNode::set_longest_ttl), the votes of the node do not count for a time. Use it to test
    /// a rolling restart:
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes.iter().for_each(|node| node.inner().set_longest_ttl(ttl));
    /// nodes[0].crash();
    /// nodes[0].restart_with_data();
    /// nodes[1].crash(); // too early: the first node has no vote
    /// let error = redlock.lock("orders:42", ttl).try_now().await.unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// # });
    /// ```
    ///
    /// See [`restart`](Faulty::restart) for a node whose server has kept running.
    pub fn restart_with_data(&self) {
        self.inner().restart();
        self.restart();
    }

    /// Restarts the server of the node after a crash, with its script and without any data.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// faulty.crash();
    /// faulty.restart_empty();
    /// let error = guard.extend(ttl).await.unwrap_err();
    /// assert_eq!(ErrorKind::Lost, error.kind());
    /// # });
    /// ```
    pub fn restart_empty(&self) {
        self.inner().clear();
        self.restart();
    }
}

/// Creates `count` empty nodes in memory, labeled `fake-0`, `fake-1` and so on, and a `Redlock` over them.
///
/// The code under test gets the `Redlock`. The nodes inject faults, and show keys and requests:
///
/// ```
/// use std::time::Duration;
///
/// use redlock_testkit::{Fault, block_on, fake_redlock};
///
/// let (redlock, nodes) = fake_redlock(5);
/// nodes[0].inject(Fault::hang());
/// nodes[1].crash();
///
/// let guard = block_on(redlock.lock("invoice:42", Duration::from_secs(10)))?;
/// assert!(nodes[2..].iter().all(|node| node.inner().holder("invoice:42").is_some()));
/// block_on(guard.release())?;
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// It uses the [`ThreadRuntime`], so it works in any `#[test]`, and time is real. See [`fake_redlock_on`] for time that
/// a test controls.
///
/// # Panics
///
/// Panics if `count` is 0.
pub fn fake_redlock(count: usize) -> (Redlock, Vec<FakeNode>) {
    fake_redlock_on(count, Arc::new(ThreadRuntime))
}

/// Same as [`fake_redlock`], on this runtime. The keys of the nodes expire by its clock.
///
/// With the paused time of tokio, waits take no time:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use redlock_core::{KeepAlive, TokioRuntime};
/// use redlock_testkit::{Fault, fake_redlock_on};
///
/// # /*
/// #[tokio::test(start_paused = true)]
/// async fn the_lock_is_lost_if_a_majority_hangs() -> Result<(), redlock_core::Error> {
/// # */
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), redlock_core::Error> {
///     let (redlock, nodes) = fake_redlock_on(3, Arc::new(TokioRuntime::new()));
///     let request = redlock.lock("nightly", Duration::from_secs(10));
///     let guard = request.keep_alive(KeepAlive::new()).await?;
///     tokio::time::sleep(Duration::from_secs(3600)).await;
///     assert!(guard.is_held(), "it was renewed for an hour");
///     nodes[..2].iter().for_each(|node| node.inject(Fault::hang()));
///     guard.lost().await;
///     Ok(())
/// }
/// ```
///
/// Use [`fake_nodes`] for a [`Builder`](redlock_core::Builder) with other options.
///
/// # Panics
///
/// Panics if `count` is 0.
pub fn fake_redlock_on(count: usize, runtime: Arc<dyn Runtime>) -> (Redlock, Vec<FakeNode>) {
    let nodes = fake_nodes(count, runtime.clone());
    let redlock = Builder::new(runtime).nodes(nodes.iter().cloned().map(Into::into)).build();
    (redlock.unwrap_or_else(|error| panic!("{error}")), nodes)
}

/// Creates `count` empty nodes in memory, labeled `fake-0`, `fake-1` and so on, for a `Redlock` with your options.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use redlock_core::{ErrorKind, Redlock};
/// use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
///
/// let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
/// let redlock = Redlock::builder(ThreadRuntime)
///     .nodes(nodes.iter().cloned().map(Into::into))
///     .node_timeout(Duration::from_millis(20))
///     .build()?;
///
/// nodes[1..].iter().for_each(|node| node.inject(Fault::hang()));
/// let error = block_on(redlock.lock("invoice:42", Duration::from_secs(10)).try_now()).unwrap_err();
/// assert_eq!(ErrorKind::NoQuorum, error.kind());
/// # Ok::<(), redlock_core::Error>(())
/// ```
pub fn fake_nodes(count: usize, runtime: Arc<dyn Runtime>) -> Vec<FakeNode> {
    let numbered = repeat_n(runtime, count).enumerate();
    numbered.map(|(number, runtime)| FakeNode::new(format!("fake-{number}"), runtime)).collect()
}
