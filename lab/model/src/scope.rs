//! The bounds of an exploration of the protocol.

use std::fmt;

/// The number of nodes.
pub const NODES: usize = 3;

/// The number of clients that lock the one resource.
pub const CLIENTS: usize = 2;

/// The maximum number of attempts of a client.
pub const ATTEMPTS: usize = 2;

/// The maximum number of extensions of a lease.
pub const EXTENSIONS: usize = 2;

/// The number of nodes that must agree.
pub(crate) const QUORUM: usize = NODES / 2 + 1;

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Connections that keep the order of messages and can break. The core knows the connection of each request.
    Streams,
    /// Single messages in any order, which may arrive twice.
    Datagrams,
}

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The transport of messages.
    pub transport: Transport,
    /// The maximum number of attempts of each client, up to [`ATTEMPTS`].
    pub attempts: [u8; CLIENTS],
    /// The maximum number of extensions of each lease of each client, up to [`EXTENSIONS`].
    pub extensions: [u8; CLIENTS],
    /// The maximum number of faults: a call that ends without its reply, a connection that breaks, a request that
    /// arrives twice, a dropped attempt. Late and reordered messages, the expiry of keys and the end of validity are no
    /// faults: they happen in every possible way.
    pub faults: u8,
    /// True if nodes may be in quarantine when their replies arrive, so that these count neither as grants nor as
    /// denials. Each such reply is a fault.
    pub quarantine: bool,
}

/// Formats the scope like `streams, attempts 2+1, extensions 0+0, 2 faults`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Streams => "streams",
            Transport::Datagrams => "datagrams",
        };
        let (attempts, extensions) =
            (self.attempts.map(|count| count.to_string()).join("+"), self.extensions);
        let extensions = extensions.map(|count| count.to_string()).join("+");
        write!(f, "{transport}, attempts {attempts}, extensions {extensions}, faults {}", self.faults)?;
        f.write_str(if self.quarantine { ", quarantine" } else { "" })
    }
}

const fn scope(transport: Transport, attempts: [u8; 2], extensions: [u8; 2], faults: u8) -> Scope {
    Scope { transport, attempts, extensions, faults, quarantine: false }
}

/// The largest scopes that take only minutes.
pub const SCOPES: &[Scope] = &[
    scope(Transport::Streams, [1, 1], [0, 0], 2),
    scope(Transport::Streams, [2, 1], [0, 0], 0),
    scope(Transport::Streams, [1, 1], [1, 0], 1),
    scope(Transport::Streams, [1, 1], [1, 1], 0),
    scope(Transport::Streams, [1, 1], [2, 0], 1),
    scope(Transport::Datagrams, [1, 1], [0, 0], 1),
    scope(Transport::Datagrams, [1, 1], [1, 0], 1),
    Scope { quarantine: true, ..scope(Transport::Streams, [1, 1], [1, 0], 1) },
];
