//! The readers of one resource.

use std::collections::BTreeMap;

use redlock_core::node::Token;
use redlock_core::runtime::Instant;

/// The readers of one resource, by token, each with a separate expiry.
#[derive(Clone, Default)]
pub(super) struct Readers(BTreeMap<Vec<u8>, Instant>);

impl Readers {
    pub(super) fn has(&self, token: &Token, now: Instant) -> bool {
        self.0.get(token.as_bytes()).is_some_and(|expires| now < *expires)
    }

    /// Adds a reader, or makes its time at least this long. Removes the expired ones.
    pub(super) fn add(&mut self, token: &Token, expires: Instant, now: Instant) {
        self.0.retain(|_, expires| now < *expires);
        let until = self.0.entry(token.as_bytes().to_vec()).or_insert(expires);
        *until = expires.max(*until);
    }

    pub(super) fn remove(&mut self, token: &Token) {
        self.0.remove(token.as_bytes());
    }

    /// Returns the expiry of the last reader; `None` without any.
    pub(super) fn last(&self) -> Option<Instant> {
        self.0.values().max().copied()
    }

    /// Returns the readers that have not expired.
    pub(super) fn living(&self, now: Instant) -> impl Iterator<Item = (Token, Instant)> {
        let living = self.0.iter().filter(move |(_, expires)| now < **expires);
        living.map(|(token, expires)| (Token::from_bytes(token), *expires))
    }
}
