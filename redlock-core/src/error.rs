//! What went wrong, and what every node had to say about it.

use std::fmt;
use std::time::Duration;

use crate::report::{self, NodeReport, NodeReports, Outcome};
use crate::token::{Fingerprint, Token};

/// Why there is no lock, no extension or no confirmed release.
///
/// Opaque: match on [`kind`](Error::kind). Its `Display` says what happened in one line; [`nodes`](Error::nodes) has
/// every node's index, label, outcome and latency, and [`source`](std::error::Error::source) prints them.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    nodes: NodeReports,
}

/// What a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Enough nodes answered, and someone else has the lock; or another task of this process has it, or has waited for it
    /// longer, and no node was asked.
    Contended,
    /// This process has more attempts to make than it may have [in flight](crate::Builder::max_concurrent_attempts), and the
    /// request waited in vain for its turn, or came when as many others waited as may: no node was asked, or none in the
    /// last attempt.
    Overloaded,
    /// Too few nodes answered to say anything: errors and timeouts alone exclude a quorum.
    NoQuorum,
    /// The validity was spent: by the time a quorum had granted, or before an extension was asked for or had succeeded.
    Expired,
    /// A quorum says that the lock is not ours any more; it was released or detached before it could be extended; or the
    /// work of [`run`](crate::Redlock::run) was stopped, whatever the [loss](crate::Loss).
    Lost,
    /// The lock is ours, and can never be extended again: on so many nodes a newer claim has counted beyond its fencing
    /// token. It stays valid until its deadline.
    Superseded,
    /// What lies under a resource's key is no lock, on so many nodes that there is no quorum. Somebody uses the name for
    /// something else.
    WrongType,
    /// The configuration or an argument is wrong. Nothing was sent.
    Invalid,
    /// A backend cannot do what was asked: count for [fenced](crate::LockRequest::fenced) locks, or be
    /// [inspected](crate::Redlock::inspect). Nothing was sent.
    Unsupported,
    /// The [`Redlock`](crate::Redlock) was closed. Nothing was sent.
    Closed,
}

impl Error {
    /// A configuration or an argument that is wrong, said in one line that names the value and the limit.
    ///
    /// For adapters and backends, whose own parameters are refused in the same way.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message.into(), NodeReports::default())
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this Redlock was closed".into(), NodeReports::default())
    }

    pub(crate) fn new(kind: ErrorKind, message: String, nodes: NodeReports) -> Self {
        Self(Box::new(Inner { kind, message, nodes }))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later without anything being changed by hand.
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Contended | ErrorKind::Overloaded | ErrorKind::NoQuorum | ErrorKind::Expired => true,
            ErrorKind::Lost
            | ErrorKind::Superseded
            | ErrorKind::WrongType
            | ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Closed => false,
        }
    }

    /// What every node said in the last round, in the order in which the nodes were configured. Empty when nothing was
    /// sent.
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// Who is in the way, where a node could tell: the token that most nodes named, as a fingerprint, with the label of
    /// its [owner](Fingerprint::owner) if it has one.
    pub fn holder(&self) -> Option<Fingerprint> {
        report::holder(self.nodes().iter().map(NodeReport::outcome)).map(Token::fingerprint)
    }

    /// For how long the one in the way holds the lock if it is not extended, where a node could tell: the longest, as of
    /// that node's answer.
    pub fn remaining(&self) -> Option<Duration> {
        self.refusals().filter_map(|refusal| refusal.remaining).max()
    }

    /// Whether nobody is known to have a quorum.
    pub(crate) fn is_split(&self, quorum: usize) -> bool {
        let holders: Vec<_> = self.refusals().filter_map(|refusal| refusal.holder.as_ref()).collect();
        let votes = |token| holders.iter().filter(|other| **other == token).count();
        holders.iter().all(|token| votes(*token) < quorum)
    }

    fn refusals(&self) -> impl Iterator<Item = &crate::Refusal> {
        self.nodes().iter().filter_map(|node| match node.outcome() {
            Outcome::Refused(refusal) => Some(refusal),
            _ => None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.message.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if self.0.nodes.is_empty() { None } else { Some(&self.0.nodes) }
    }
}
