//! The error type, with a report of every node.

use std::fmt;
use std::time::Duration;

use crate::types::report::{self, NodeReport, NodeReports, Outcome};
use crate::types::token::{Fingerprint, Token};

/// The error of a lock, an extension or a release.
///
/// Opaque: match on its [`kind`](Error::kind). `Display` describes the failure in one line.
/// [`node_reports`](Error::node_reports) returns the index, label, outcome and latency of every node, and
/// [`source`](std::error::Error::source) prints them.
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
/// # use std::{sync::Arc, time::Duration};
/// # use redlock_testkit::MemoryNode;
/// # use redlock_core::{ErrorKind, LockNode, Redlock, TokioRuntime};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
/// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
/// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
/// # let ttl = Duration::from_secs(10);
/// match redlock.lock("report", ttl).await {
///     Ok(guard) => drop(guard),
///     Err(error) if error.kind() == ErrorKind::Contended => {
///         println!("try again later: {error}");
///     }
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    nodes: NodeReports,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another client or task holds the lock, or is ahead in the queue.
    ///
    /// Either enough nodes replied, and another client holds the lock. Or another task of this process holds it or has
    /// waited longer, and nothing was sent.
    Contended,
    /// The process has too many attempts to make.
    ///
    /// The limit is [`max_concurrent_attempts`](crate::Builder::max_concurrent_attempts). Either the request did not
    /// get its turn in time, or too many others were waiting for theirs. Nothing was sent, or nothing in the last
    /// attempt.
    Overloaded,
    /// Too few nodes replied: errors and timeouts alone exclude a quorum.
    NoQuorum,
    /// No validity was left.
    ///
    /// A quorum granted too late, or the lease expired before an extension began or succeeded.
    TooSlow,
    /// The lock is no longer held.
    ///
    /// A quorum reported that its keys are gone, or it was released or detached before an extension. Or
    /// [`run`](crate::Redlock::run) reports a [loss](crate::Loss) of any kind.
    Lost,
    /// The lock is held, but it can never be extended again.
    ///
    /// On too many nodes a newer claim has counted above its fencing token. The lock stays valid until its deadline.
    Superseded,
    /// A key holds a value that is not a lock.
    ///
    /// There are so many of these nodes that the others are not a quorum. Another program uses the name for something
    /// else.
    WrongType,
    /// A setting or an argument is invalid. Nothing was sent.
    InvalidInput,
    /// A backend does not support the operation. Nothing was sent.
    ///
    /// It does not count for [fenced](crate::LockRequest::fenced) locks, or cannot be
    /// [inspected](crate::Redlock::inspect).
    Unsupported,
    /// The [`Redlock`](crate::Redlock) was closed. Nothing was sent.
    Closed,
}

impl Error {
    /// Creates an error of the kind [`InvalidInput`](ErrorKind::InvalidInput).
    ///
    /// The message is one line that names the value and the limit. For adapters and backends, which report their own
    /// invalid parameters in the same way.
    ///
    /// ```
    /// use redlock_core::{Error, ErrorKind};
    ///
    /// let error = Error::invalid("a pool size of 0 is too small; the minimum is 1");
    /// assert_eq!(ErrorKind::InvalidInput, error.kind());
    /// ```
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message.into(), NodeReports::default())
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this Redlock was closed".into(), NodeReports::default())
    }

    pub(crate) fn new(kind: ErrorKind, message: String, nodes: NodeReports) -> Self {
        Self(Box::new(Inner { kind, message, nodes }))
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same call may succeed later without manual changes.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{ErrorKind, LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let error = redlock.lock("", ttl).await.unwrap_err();
    /// assert_eq!(ErrorKind::InvalidInput, error.kind());
    /// assert!(!error.is_retryable());
    /// # Ok(()) }
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Contended | ErrorKind::Overloaded | ErrorKind::NoQuorum | ErrorKind::TooSlow => true,
            ErrorKind::Lost
            | ErrorKind::Superseded
            | ErrorKind::WrongType
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported
            | ErrorKind::Closed => false,
        }
    }

    /// Returns the reports of all nodes about the last round, in configured order.
    ///
    /// Empty if nothing was sent.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// if let Err(error) = redlock.lock("report", ttl).await {
    ///     for report in error.node_reports() {
    ///         println!("{report}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn node_reports(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// Returns the current holder, if a node reported it.
    ///
    /// It is the token that most nodes named, as a fingerprint, with the label of its [owner](Fingerprint::owner) if it
    /// has one.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let other = Redlock::builder(TokioRuntime::new()).nodes(nodes.clone()).build()?;
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// // `other` is the `Redlock` of another process.
    /// let guard = other.lock("report", ttl).owner("host-2").await?;
    ///
    /// let request = redlock.lock("report", ttl).max_wait(Duration::ZERO);
    /// let error = request.await.unwrap_err();
    /// let holder = error.holder().expect("these nodes report the holder");
    /// assert_eq!(Some("host-2"), holder.owner());
    /// # Ok(()) }
    /// ```
    pub fn holder(&self) -> Option<Fingerprint> {
        report::holder(self.node_reports().iter().map(NodeReport::outcome)).map(Token::fingerprint)
    }

    /// Returns how long the current holder keeps the lock, if a node reported it.
    ///
    /// The value is the longest of all nodes, at the time of that node's reply. The holder may still extend the lock.
    pub fn remaining(&self) -> Option<Duration> {
        self.refusals().filter_map(|refusal| refusal.remaining).max()
    }

    /// Returns whether no client is known to have a quorum.
    pub(crate) fn is_split(&self, quorum: usize) -> bool {
        let holders: Vec<_> = self.refusals().filter_map(|refusal| refusal.holder.as_ref()).collect();
        let votes = |token| holders.iter().filter(|other| **other == token).count();
        holders.iter().all(|token| votes(*token) < quorum)
    }

    fn refusals(&self) -> impl Iterator<Item = &crate::Denial> {
        self.node_reports().iter().filter_map(|node| match node.outcome() {
            Outcome::Denied(refusal) => Some(refusal),
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
