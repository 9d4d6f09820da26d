//! How much of the protocol an exploration covers: what bounds it.

use std::fmt;

/// How many nodes there are.
pub const NODES: usize = 3;

/// How many clients want the one resource.
pub const CLIENTS: usize = 2;

/// How many attempts a client makes at most.
pub const ATTEMPTS: usize = 2;

/// How many extensions a lease has at most.
pub const EXTENSIONS: usize = 2;

/// How many nodes must agree.
pub(crate) const QUORUM: usize = NODES / 2 + 1;

/// What messages travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Connections that keep the order, which core may ask for, and break.
    Streams,
    /// Single messages that keep no order and may arrive twice.
    Datagrams,
}

/// The bounds of an exploration: within them, every interleaving is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What messages travel over.
    pub transport: Transport,
    /// How many attempts each client makes at most, up to [`ATTEMPTS`].
    pub attempts: [u8; CLIENTS],
    /// How many extensions each lease of each client has at most, up to [`EXTENSIONS`].
    pub extensions: [u8; CLIENTS],
    /// How many things go wrong at most: a call that ends without its answer, a connection that breaks, a request that
    /// arrives twice, an attempt that is given up. Messages that are late or overtaken, keys that expire and validity
    /// that ends cost nothing: they happen in every way there is.
    pub faults: u8,
}

/// `streams, attempts 2+1, extensions 0+0, 2 faults`
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Streams => "streams",
            Transport::Datagrams => "datagrams",
        };
        let (attempts, extensions) =
            (self.attempts.map(|count| count.to_string()).join("+"), self.extensions);
        let extensions = extensions.map(|count| count.to_string()).join("+");
        write!(f, "{transport}, attempts {attempts}, extensions {extensions}, faults {}", self.faults)
    }
}
