//! The lines of a history.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An acquisition, and the lease that it may have resulted in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HoldId {
    /// The name of the process. A process that is started again has another name.
    pub process: String,
    /// The number of the acquisition in its process.
    pub hold: u64,
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.process, self.hold)
    }
}

/// A line of a client process: an action begins, or its result is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The time. An action begins after it, and a result was known before it.
    pub time: u64,
    /// The acquisition that the event belongs to.
    #[serde(flatten)]
    pub id: HoldId,
    /// The name of the lock.
    pub resource: String,
    /// The action or its result.
    #[serde(flatten)]
    pub action: Action,
}

/// An action that begins, or its result.
///
/// `valid_until` is the end of the validity that the client reports, on the clock of the history.
///
/// A `ttl` is in nanoseconds, and `valid_until` is the end of the validity.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[allow(missing_docs)] // the names of the fields
pub enum Action {
    /// An acquisition begins.
    Acquire { mode: Mode, ttl: u64 },
    /// The lock was acquired.
    Acquired {
        /// The end of the validity.
        valid_until: u64,
        /// The fencing token, if the lock is fenced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
    },
    /// The lock was not acquired.
    NotAcquired { reason: String },
    /// An extension begins.
    Extend { ttl: u64 },
    /// The lease was extended.
    Extended { valid_until: u64 },
    /// The lease was not extended.
    NotExtended { reason: String },
    /// The client looked at a lease that is renewed in the background.
    Held { valid_until: u64 },
    /// The client no longer holds the lock, although it has not released it.
    Lost { reason: String },
    /// A release begins.
    Release,
    /// The release ended.
    Released { outcome: String },
    /// The release failed, and continues in the background.
    NotReleased { reason: String },
    /// The lease is neither extended nor released any more. Its keys expire.
    Left,
}

/// The kind of lock that an acquisition requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// A writer of a lock of readers and writers.
    Write,
    /// A reader of a lock of readers and writers.
    Read,
}

impl Mode {
    /// Returns whether two clients may not hold a lock in these modes at the same time.
    pub fn excludes(self, other: Self) -> bool {
        !(self == Self::Read && other == Self::Read)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// A line about a fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultLine {
    /// The time.
    pub time: u64,
    /// The number of the fault, which its beginning and its end have in common.
    pub number: usize,
    /// The kind.
    pub kind: FaultKind,
    /// The beginning or the end of the fault.
    pub phase: Phase,
    /// The hosts or processes that it affects.
    pub targets: Vec<String>,
}

/// The beginning or the end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The fault begins after this time.
    Begin,
    /// The fault ended before this time.
    End,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The link of a host is down.
    Unplug,
    /// The targets, and all others, do not reach each other.
    Split,
    /// Packets from some clients to some servers are lost.
    LoseRequests,
    /// Packets from some servers to some clients are lost.
    LoseReplies,
    /// A server is stopped with `SIGSTOP`.
    PauseServer,
    /// A server is killed, and later started with its data.
    RestartServer,
    /// A server is killed, and later started without its data.
    RestartEmpty,
    /// The data of a running server is deleted.
    Flush,
    /// The cached scripts of a server are deleted, and clients must send them again.
    FlushScripts,
    /// The clock of a server is set.
    StepClock,
    /// The clock of a server runs fast or slowly.
    SlewClock,
    /// A client is stopped with `SIGSTOP`.
    PauseClient,
    /// A client is killed, and a new one is started later. The targets are the names of processes.
    KillClient,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unplug => "link down",
            Self::Split => "partition",
            Self::LoseRequests => "requests lost",
            Self::LoseReplies => "replies lost",
            Self::PauseServer => "server paused",
            Self::RestartServer => "server killed, restarted",
            Self::RestartEmpty => "server killed, restarted empty",
            Self::Flush => "server flushed",
            Self::FlushScripts => "scripts flushed",
            Self::StepClock => "server clock set",
            Self::SlewClock => "server clock slewed",
            Self::PauseClient => "client paused",
            Self::KillClient => "client killed",
        })
    }
}

/// A key on a server at the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Key {
    /// The name of the server.
    pub server: String,
    /// The name of the key.
    pub key: String,
    /// The reply of `PTTL`.
    pub ttl: i64,
}
