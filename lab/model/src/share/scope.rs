//! The scope of an exploration of readers and writers.

use std::fmt;

/// The maximum number of clients.
pub(crate) const CLIENTS: usize = 3;

/// The number of nodes.
pub(crate) const NODES: usize = 3;

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The role of each client. Each makes one attempt.
    pub roles: [Role; CLIENTS],
    /// The maximum number of extensions of each lease, up to two.
    pub extensions: [u8; CLIENTS],
    /// The maximum number of faults: a call that ends without its reply, a request that arrives twice, a dropped
    /// attempt.
    pub faults: u8,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// There is no such client.
    Absent,
    /// The client reads.
    Reader,
    /// The client writes, or holds a plain lock.
    Writer,
}

/// Formats the scope like `2 readers, 1 writer, extensions 1+0+0, faults 1`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: Role| self.roles.iter().filter(|role| **role == wanted).count();
        let extensions = self.extensions.map(|count| count.to_string()).join("+");
        let (readers, writers) = (count(Role::Reader), count(Role::Writer));
        write!(f, "readers {readers}, writers {writers}, extensions {extensions}, faults {}", self.faults)
    }
}

const fn scope(roles: [Role; 3], extensions: [u8; 3], faults: u8) -> Scope {
    Scope { roles, extensions, faults }
}

const PAIR: [Role; 3] = [Role::Reader, Role::Writer, Role::Absent];

/// The largest scopes that take only minutes.
pub const SCOPES: &[Scope] = &[
    scope(PAIR, [0; 3], 2),
    scope(PAIR, [2, 0, 0], 0),
    scope(PAIR, [1, 1, 0], 0),
    scope(PAIR, [0, 1, 0], 1),
    scope([Role::Reader, Role::Reader, Role::Writer], [0; 3], 0),
];
