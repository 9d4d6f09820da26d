//! The scope of an exploration of a lock that is kept.

use std::fmt;

/// The number of nodes.
pub(crate) const NODES: usize = 3;

/// The number of nodes that must agree.
pub(crate) const QUORUM: usize = NODES / 2 + 1;

/// The maximum number of extensions.
pub(crate) const EXTENSIONS: usize = 2;

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The maximum number of extensions before the lock is kept, up to two.
    pub extensions: u8,
    /// The maximum number of faults: a call that ends without its reply, a connection that breaks, a dropped operation.
    pub faults: u8,
}

/// Formats the scope like `extensions 1, faults 1`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extensions {}, faults {}", self.extensions, self.faults)
    }
}

const fn scope(extensions: u8, faults: u8) -> Scope {
    Scope { extensions, faults }
}

/// The largest scopes that take only minutes.
pub const SCOPES: &[Scope] =
    &[scope(0, 0), scope(0, 1), scope(0, 2), scope(1, 0), scope(1, 1), scope(1, 2), scope(2, 0), scope(2, 1)];
