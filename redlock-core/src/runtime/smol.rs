//! The runtime of the smol ecosystem.

use std::time::Duration;

use super::{BoxFuture, Runtime};
use crate::types::instant::{Instant, suspend_aware_now};

/// A [`Runtime`] on smol: its global executor and its timers.
///
/// The timers work on any thread.
#[derive(Debug, Default)]
pub struct SmolRuntime {}

impl SmolRuntime {
    /// Creates a runtime for a builder.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, SmolRuntime};
    /// # use redlock_testkit::MemoryNode;
    /// # let node = MemoryNode::new("10.0.0.1:6379");
    /// # let ttl = Duration::from_secs(10);
    /// let redlock = Redlock::builder(SmolRuntime::new()).node(node).build()?;
    /// let guard = smol::block_on(async { redlock.lock("orders:42", ttl).await })?;
    /// assert!(guard.is_held());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }
}

impl Runtime for SmolRuntime {
    fn now(&self) -> Instant {
        suspend_aware_now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        Box::pin(async move {
            smol::Timer::after(duration).await;
        })
    }

    fn spawn(&self, future: BoxFuture<()>) {
        smol::spawn(future).detach();
    }
}
