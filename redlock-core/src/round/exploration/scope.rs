//! The bounds of an exploration.

use std::fmt;

/// The number of nodes.
pub(super) const NODES: usize = 3;

/// The number of clients that lock the one resource.
pub(super) const CLIENTS: usize = 2;

/// The number of nodes that must agree.
pub(super) const QUORUM: u32 = 2;

/// Within these bounds, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) transport: Transport,
    /// The maximum number of attempts of each client.
    pub(super) attempts: [u8; CLIENTS],
    /// The maximum number of extensions of each lease of each client.
    pub(super) extensions: [u8; CLIENTS],
    /// True if an extension may begin while calls of the last one are open.
    pub(super) overlapping: bool,
    /// The maximum number of events that are rare in practice.
    ///
    /// Late and reordered requests, the expiry of keys and the end of validity are not counted: they happen in every
    /// possible way.
    pub(super) faults: u8,
    pub(super) kinds: Kinds,
    /// True for each client that reads.
    pub(super) readers: [bool; CLIENTS],
    /// True for locks with fencing tokens.
    pub(super) fenced: bool,
    /// The counters of the nodes at the beginning.
    pub(super) counters: [u64; NODES],
    pub(super) keys: Keys,
}

/// The transport of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Connections that keep the order of requests and can break.
    Streams,
    /// Single requests in any order, which may arrive twice.
    Datagrams,
}

/// The faults that may happen where keys exist for their TTL, apart from calls without a reply and dropped attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    /// A reply does not count, because its node is in quarantine.
    pub(super) quarantine: bool,
    /// A request is certainly not carried out, and its client knows it.
    pub(super) refusal: bool,
    /// The runtime of a client ends, and with it all of its calls. Cleanup continues with the next runtime.
    pub(super) interruption: bool,
}

/// The time for which keys exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// A key exists as long as the validity that it counts for. Clients rely on that validity.
    Timed,
    /// A key may vanish at any moment, and clients rely on their leases for any time. This is the world of fencing
    /// tokens, which depend on no clock. A release is one of the ways in which a key vanishes.
    Forgotten,
}

impl Kinds {
    pub(super) const NONE: Self = Self { quarantine: false, refusal: false, interruption: false };
    pub(super) const ALL: Self = Self { quarantine: true, refusal: true, interruption: true };
}

/// Formats the scope like `streams, attempts 1+1, extensions 1+0, faults 1`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            transport,
            attempts,
            extensions,
            overlapping,
            faults,
            kinds,
            readers,
            fenced,
            counters,
            keys,
        } = self;
        f.write_str(match transport {
            Transport::Streams => "streams",
            Transport::Datagrams => "datagrams",
        })?;
        let sum = |counts: &[u8; CLIENTS]| counts.map(|count| count.to_string()).join("+");
        write!(f, ", attempts {}, extensions {}", sum(attempts), sum(extensions))?;
        let overlap = *overlapping && extensions.iter().any(|count| *count > 1);
        f.write_str(if overlap { " at once" } else { "" })?;
        write!(f, ", faults {faults}")?;
        for (is_possible, name) in [
            (kinds.quarantine, "quarantine"),
            (kinds.refusal, "refusals"),
            (kinds.interruption, "interruptions"),
        ] {
            if is_possible && *faults > 0 {
                write!(f, ", {name}")?;
            }
        }
        for (name, _) in ["A", "B"].into_iter().zip(readers).filter(|(_, reads)| **reads) {
            write!(f, ", {name} reads")?;
        }
        if *fenced {
            write!(f, ", tokens from {counters:?}")?;
        }
        f.write_str(if *keys == Keys::Forgotten { ", keys vanish" } else { "" })
    }
}
