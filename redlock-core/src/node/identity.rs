//! The identities of connections and servers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;

/// The identifier of one connection of a node, never reused.
///
/// See [`LockNode::connection`](super::LockNode::connection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u64);

/// The identifier of a server: a number made from a name such as Redis' `run_id`.
///
/// Two servers have the same identifier by chance, with a probability of about 10^-19. They then have one vote
/// together, which is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(NonZeroU64);

impl ServerId {
    /// Creates the identifier of the server with this name.
    ///
    /// It is valid within this process only.
    pub fn new(known_by: impl AsRef<str>) -> Self {
        let mut hasher = DefaultHasher::new();
        known_by.as_ref().hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the number, for a backend that stores it in an atomic.
    pub fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// Restores an identifier from its number.
impl From<NonZeroU64> for ServerId {
    fn from(number: NonZeroU64) -> Self {
        Self(number)
    }
}
