//! The entry of a resource on one node, as an inspection returns it.

use std::time::Duration;

use crate::types::token::Token;

/// The entry of a resource on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockEntry {
    /// The stored token.
    pub token: Token,
    /// The time until the key expires unless it is extended, by the node's clock.
    ///
    /// `None` if it never expires, for example because another program has set it.
    pub remaining: Option<Duration>,
}

impl LockEntry {
    /// Creates an entry that holds `token` and never expires.
    pub fn of(token: Token) -> Self {
        Self { token, remaining: None }
    }

    /// Adds the time after which the key expires.
    #[must_use]
    pub fn expiring_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}
