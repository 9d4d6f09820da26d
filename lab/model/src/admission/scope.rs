//! The scope of an exploration of the admission rule.

use std::fmt;

use crate::admission::clock::Clocks;
use crate::admission::loss::Loss;

/// The number of clients that lock the one resource.
pub(crate) const CLIENTS: usize = 2;

/// The maximum number of nodes.
pub(crate) const MOST_NODES: usize = 5;

/// The longest TTL in ticks.
pub(crate) const MOST_TICKS: u8 = 4;

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The number of nodes, from three to five.
    pub nodes: usize,
    /// The longest TTL of each client, in ticks, up to four.
    pub ttl: [u8; CLIENTS],
    /// The maximum number of attempts of each client, up to three.
    pub attempts: [u8; CLIENTS],
    /// The maximum number of extensions of each lease of each client, up to three.
    pub extensions: [u8; CLIENTS],
    /// The maximum number of losses of data, up to three.
    pub losses: u8,
    /// The kinds of these losses.
    pub kinds: &'static [Loss],
    /// The state of the world at the beginning.
    pub start: Start,
    /// The transport of the clients.
    pub transport: Transport,
    /// True if a client that notices a restart or a flush also waits by its own clock.
    pub remembers: bool,
    /// True if a decision counts only nodes that are still admitted.
    pub rechecks: bool,
    /// The bounds of the clocks; `None` if all clocks run evenly.
    pub clocks: Option<Clocks>,
}

/// The state of the world at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Every node was admitted long ago, and both clients know that.
    Admitted,
    /// Every node was admitted long ago, and both clients have just started.
    NewClients,
    /// Every node was admitted long ago. The first client knows that, and the second has just started.
    NewClient,
    /// No node has a stamp, and both clients have just started.
    NewNodes,
}

/// How a client learns of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The node notifies it before later replies.
    Pushes,
    /// A look follows each request in the same pipeline.
    Looks,
}

/// Three nodes and two clients with one attempt each, a TTL of two ticks, and one loss of any kind.
pub const SMALL: Scope = Scope {
    nodes: 3,
    ttl: [2, 2],
    attempts: [1, 1],
    extensions: [0, 0],
    losses: 1,
    kinds: Loss::ALL,
    start: Start::Admitted,
    transport: Transport::Pushes,
    remembers: false,
    rechecks: false,
    clocks: None,
};

impl Scope {
    /// Returns true if the clients differ in nothing but their names.
    pub(crate) fn is_symmetric(self) -> bool {
        let equal = |counts: [u8; CLIENTS]| counts[0] == counts[1];
        let alike = self.start != Start::NewClient;
        alike && equal(self.ttl) && equal(self.attempts) && equal(self.extensions)
    }

    /// Returns true if the clients have stated different bounds.
    pub(crate) fn bounds_differ(self) -> bool {
        self.ttl[0] != self.ttl[1]
    }

    /// Returns the longest TTL of any client, beyond which no wait needs to be counted.
    pub(crate) fn longest_ttl(self) -> u8 {
        self.ttl[0].max(self.ttl[1])
    }

    /// Returns true if a client that needs no votes any more still watches clocks for clients that are new.
    pub(crate) fn helps_new_clients(self) -> bool {
        self.clocks.is_some_and(|clocks| {
            self.start != Start::Admitted || clocks.replacements > 0 || clocks.vouches > 0
        })
    }

    pub(crate) fn quorum(self) -> usize {
        self.nodes / 2 + 1
    }
}

/// Formats the scope like `3 nodes, TTL 2, attempts 1+1, extensions 0+0, losses 1`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |counts: [u8; CLIENTS]| format!("{}+{}", counts[0], counts[1]);
        let ttl = if self.bounds_differ() { sum(self.ttl) } else { self.ttl[0].to_string() };
        let (attempts, extensions) = (sum(self.attempts), sum(self.extensions));
        write!(f, "{} nodes, TTL {ttl}, attempts {attempts}, extensions {extensions}", self.nodes)?;
        write!(f, ", losses {}", self.losses)?;
        if self.kinds != Loss::ALL {
            let names: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
            write!(f, " ({})", names.join(", "))?;
        }
        f.write_str(match self.start {
            Start::Admitted => "",
            Start::NewClients => ", new clients",
            Start::NewClient => ", an old and a new client",
            Start::NewNodes => ", new nodes",
        })?;
        f.write_str(if self.transport == Transport::Looks { ", no notifications" } else { "" })?;
        f.write_str(if self.remembers { ", clients remember" } else { "" })?;
        f.write_str(if self.rechecks { ", decisions look again" } else { "" })?;
        self.clocks.map_or(Ok(()), |clocks| clocks.fmt(f))
    }
}

const fn extended(scope: Scope) -> Scope {
    Scope { extensions: [1, 1], ..scope }
}

const fn losses(losses: u8, scope: Scope) -> Scope {
    Scope { losses, ..scope }
}

const fn ttl(ttl: u8, scope: Scope) -> Scope {
    Scope { ttl: [ttl, ttl], ..scope }
}

const fn nodes(nodes: usize, scope: Scope) -> Scope {
    Scope { nodes, ..scope }
}

const fn looking(scope: Scope) -> Scope {
    Scope { transport: Transport::Looks, ..scope }
}

/// The largest scopes that take only minutes.
pub const SCOPES: &[Scope] = &[
    SMALL,
    extended(SMALL),
    losses(2, SMALL),
    losses(2, extended(SMALL)),
    Scope { start: Start::NewClients, ..SMALL },
    Scope { start: Start::NewNodes, ..SMALL },
    ttl(3, extended(SMALL)),
    ttl(4, extended(SMALL)),
    ttl(3, losses(2, SMALL)),
    Scope { attempts: [2, 2], ..extended(SMALL) },
    Scope { attempts: [2, 1], ..extended(SMALL) },
    Scope { extensions: [2, 0], ..SMALL },
    Scope { remembers: true, ..extended(SMALL) },
    Scope { rechecks: true, ..extended(SMALL) },
    Scope { kinds: Loss::WITHOUT_COPIES, ..losses(3, SMALL) },
    nodes(4, SMALL),
    nodes(4, extended(SMALL)),
    nodes(5, SMALL),
    looking(losses(2, SMALL)),
    looking(extended(SMALL)),
];
