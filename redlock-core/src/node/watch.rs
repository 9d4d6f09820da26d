//! A watch of a resource on one node.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::runtime::BoxFuture;

/// A watch of one resource on one node. See [`LockNode::watch`](super::LockNode::watch).
#[non_exhaustive]
pub struct Watch {
    /// The availability at a moment from which on no change is missed.
    pub availability: Availability,
    /// Completes once the resource may be free, or no more notifications follow.
    ///
    /// The latter is the case after a connection was lost. The notification is a hint. It may come without a cause, and
    /// it does not contain the present state: call [`watch`](super::LockNode::watch) again to read it. The notification
    /// of an expiry may come late or never. Dropping the future ends the watch.
    pub changed: BoxFuture<()>,
}

/// The availability of a resource on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// The resource is free.
    Free,
    /// The resource is held.
    ///
    /// The value is the time until the key expires unless it is extended, by the node's clock. `None` if that is
    /// unknown, or if the key never expires.
    Taken(Option<Duration>),
}

impl Watch {
    /// Creates a watch of a resource that was in this state at the beginning.
    ///
    /// ```
    /// # use futures_channel::oneshot;
    /// # use redlock_core::node::{Availability, Watch};
    /// # use redlock_testkit::block_on;
    /// let (notifier, notified) = oneshot::channel::<()>();
    /// // It completes even if the notifier is dropped: no notification can follow.
    /// let changed = async { notified.await.unwrap_or_default() };
    /// let watch = Watch::new(Availability::Taken(None), changed);
    ///
    /// notifier.send(()).expect("the watch waits"); // the server reports a change
    /// block_on(watch.changed);
    /// ```
    pub fn new(availability: Availability, changed: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { availability, changed: Box::pin(changed) }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("availability", &self.availability).finish_non_exhaustive()
    }
}
