//! The place of a request among the waiters of its resource.

use std::time::Duration;

use crate::types::token::Token;

/// The place of a request among the waiters of its resource, on every node.
///
/// A node serves the waiters in the order of the time that they have waited, so the clocks of clients and nodes need not
/// agree. [`Request::Acquire`](crate::node::Request::Acquire) and [`Request::Release`](crate::node::Request::Release)
/// state the effects of a place. A request for several resources has its place on each of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// Identifies the place. A resource that is reserved for the request has this value.
    pub id: Token,
    /// The time for which the request has waited; `None` if it no longer waits.
    pub waited: Option<Duration>,
    /// The time for which the resource is reserved for the request.
    pub reserved_for: Duration,
}

impl Place {
    /// Creates the place of a request that has waited for this time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Place, Token};
    /// // In a test of a backend, this request has waited longer than the other one.
    /// let reserved_for = Duration::from_millis(200);
    /// let place = |id, waited| Place::new(Token::from_bytes(id), waited, reserved_for);
    /// let (first, second) = (place("a", Duration::from_secs(2)), place("b", Duration::ZERO));
    /// assert!(first.waited > second.waited);
    /// ```
    pub fn new(id: Token, waited: Duration, reserved_for: Duration) -> Self {
        Self { id, waited: Some(waited), reserved_for }
    }

    /// Returns the place of a request that no longer waits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Place, Token};
    /// let waited = Duration::from_secs(2);
    /// let place = Place::new(Token::from_bytes("a"), waited, Duration::from_millis(200));
    /// assert_eq!(None, place.given_up().waited);
    /// ```
    #[must_use]
    pub fn given_up(mut self) -> Self {
        self.waited = None;
        self
    }
}
