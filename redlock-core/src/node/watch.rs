//! A watch of a resource on one node.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::runtime::BoxFuture;
use crate::types::token::Token;

/// A watch of one resource on one node. See [`Request::Watch`](super::Request::Watch).
#[non_exhaustive]
pub struct Watch {
    /// The availability at a moment from which on no change is missed.
    pub availability: Availability,
    /// The token that held the resource at that moment; `None` if it was free, or if the backend does not read it.
    ///
    /// A waiter recognizes by it that the lock has passed to another client, even if both had it for milliseconds only.
    pub holder: Option<Token>,
    /// Completes once the resource may be free, or no more notifications follow.
    ///
    /// The latter is the case after a connection was lost. The notification is a hint. It may come without a cause, and
    /// it does not contain the present state: send [`Watch`](super::Request::Watch) again to read it. The notification
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
        Self { availability, holder: None, changed: Box::pin(changed) }
    }

    /// Adds the token that holds the resource.
    ///
    /// ```
    /// # use redlock_core::node::{Availability, Token, Watch};
    /// let watch = Watch::new(Availability::Taken(None), std::future::pending());
    /// let watch = watch.held_by(Some(Token::from_bytes("1d0ca7e5")));
    /// assert_eq!(Some(Token::from_bytes("1d0ca7e5")), watch.holder);
    /// ```
    #[must_use]
    pub fn held_by(mut self, holder: Option<Token>) -> Self {
        self.holder = holder;
        self
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { availability, holder, changed: _ } = self;
        f.debug_struct("Watch")
            .field("availability", availability)
            .field("holder", holder)
            .finish_non_exhaustive()
    }
}
