//! The error type, with a report of every node.

use std::fmt;
use std::time::Duration;

use crate::types::denial::Denial;
use crate::types::lease_state::Loss;
use crate::types::position::Position;
use crate::types::report::{self, NodeReport, NodeReports, Outcome};
use crate::types::token::{Fingerprint, Token};

/// The error of a lock, an extension or a release.
///
/// Opaque: match on its [`kind`](Error::kind). `Display` describes the failure in one line: what failed, and why single
/// nodes have no vote. The error of a [`LockRequest`](crate::LockRequest) also has the time since its first poll:
///
/// ```text
/// cannot lock "a": 2 of 3 nodes failed, so no quorum of 2, after 10.2ms (10.0.0.2:6379: connection refused; ...)
/// ```
///
/// `Debug` prints the kind and the same text, so `fn main() -> Result<(), Error>` prints a readable line. There is no
/// [`source`](std::error::Error::source). [`node_reports`](Error::node_reports) returns the label, the outcome and the
/// latency of every node.
///
/// ```
/// # redlock_testkit::example!(|redlock, ttl| {
/// match redlock.lock("report", ttl).await {
///     Ok(guard) => drop(guard),
///     Err(error) if error.kind() == ErrorKind::Contended => {
///         println!("try again later: {error}");
///     }
///     Err(error) => return Err(error.into()),
/// }
/// # });
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    /// The time since the beginning of the request.
    waited: Option<Duration>,
    loss: Option<Loss>,
    /// `true` if `run` lost the lock: another call acquires another lock.
    lost_by_run: bool,
    nodes: NodeReports,
    /// The time until a quorum of these nodes can count again, if quarantine prevents the lock and the time is known.
    quarantine: Option<Duration>,
    /// The lock of this process that excluded the request, and the rest of its validity.
    local_holder: Option<(Fingerprint, Duration)>,
    /// The position of the request among the waiters, when it gave up.
    position: Option<Position>,
}

impl ErrorKind {
    /// Returns the name in metrics and serialized errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Contended => "contended",
            Self::Undecided => "undecided",
            Self::Overloaded => "overloaded",
            Self::NoQuorum => "no_quorum",
            Self::TooSlow => "too_slow",
            Self::Lost => "lost",
            Self::Superseded => "superseded",
            Self::WrongType => "wrong_type",
            Self::DamagedCounter => "damaged_counter",
            Self::InvalidInput => "invalid_input",
            Self::Unsupported => "unsupported",
            Self::Closed => "closed",
        }
    }
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another client or task holds the lock, or has waited longer.
    ///
    /// There are three cases:
    ///
    /// - A quorum of nodes replied, and another client holds the lock.
    /// - A quorum of nodes replied, and the lock is free but [reserved] for a client that has waited longer.
    /// - Another task of this process holds the lock or is ahead in the queue. Nothing was sent.
    ///
    /// [reserved]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md#order-of-waiters
    Contended,
    /// No client is known to hold the lock, because the votes were split.
    ///
    /// Several clients attempted at the same time, keys of failed attempts remain, or nodes that may have the key of a
    /// holder did not reply. The attempt was repeated, with growing random delays, within the time of the request. A
    /// request that does not wait repeats it up to 12 times.
    Undecided,
    /// The process has too many attempts to make.
    ///
    /// The limit is [`max_concurrent_attempts`](crate::Builder::max_concurrent_attempts). Either the request did not
    /// get its turn in time, or too many other requests were waiting. The last attempt sent nothing. If there was no
    /// earlier attempt, nothing was sent at all.
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
    /// [`run`](crate::LockRequest::run) reports a [loss](crate::Loss) of any kind.
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
    /// The [fencing counters](crate::LockRequest::fenced) of a resource are damaged.
    ///
    /// There are so many of these nodes that the others are not a quorum. The reports of the nodes name the defects, and
    /// the chapter [Damaged counters] what to do.
    ///
    /// [Damaged counters]: https://github.com/redlock-rs/redlock/blob/main/docs/fencing.md#damaged-counters
    DamagedCounter,
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
        Self::new(ErrorKind::InvalidInput, message.into())
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this Redlock was closed".into())
    }

    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        let nodes = NodeReports::default();
        Self(Box::new(Inner {
            kind,
            message,
            waited: None,
            loss: None,
            lost_by_run: false,
            nodes,
            quarantine: None,
            local_holder: None,
            position: None,
        }))
    }

    /// Adds the reports of all nodes, and the time until a quorum of them can count again.
    pub(crate) fn with_nodes(mut self, nodes: NodeReports, quarantine: Option<Duration>) -> Self {
        (self.0.nodes, self.0.quarantine) = (nodes, quarantine);
        self
    }

    /// Adds the reason for which the lock is no longer held.
    pub(crate) fn with_loss(mut self, loss: Loss) -> Self {
        self.0.loss = Some(loss);
        self
    }

    /// Marks the error as one of `run`, which can be called again.
    pub(crate) fn lost_by_run(mut self) -> Self {
        self.0.lost_by_run = true;
        self
    }

    /// Adds the lock of this process that excluded the request.
    pub(crate) fn held_by(mut self, token: &Token, remaining: Duration) -> Self {
        self.0.local_holder = Some((token.fingerprint(), remaining));
        self
    }

    /// Sets the position of the request among the waiters, which the text contains.
    pub(crate) fn at(mut self, position: Option<Position>) -> Self {
        self.0.position = position;
        self
    }

    /// Sets the time since the request began, which the text contains.
    ///
    /// A request sets it. A program that repeats requests can replace it by the time of all of them. Only the kinds
    /// [`Contended`](ErrorKind::Contended), [`Undecided`](ErrorKind::Undecided), [`Overloaded`](ErrorKind::Overloaded),
    /// [`NoQuorum`](ErrorKind::NoQuorum) and [`TooSlow`](ErrorKind::TooSlow) depend on the time; other errors are
    /// unchanged.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let node = MemoryNode::new("a");
    /// # let other = Redlock::builder(TokioRuntime::new()).node(node.clone()).build()?;
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(node).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = other.lock("report", ttl).await?;
    /// let request = redlock.lock("report", ttl).max_wait(Duration::ZERO);
    /// let error = request.await.unwrap_err().after(Duration::from_secs(90));
    /// assert!(error.to_string().contains(", after 90.0s"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn after(mut self, waited: Duration) -> Self {
        use ErrorKind::{Contended, NoQuorum, Overloaded, TooSlow, Undecided};

        if matches!(self.0.kind, Contended | Undecided | Overloaded | NoQuorum | TooSlow) {
            self.0.waited = Some(waited);
        }
        self
    }

    /// Returns the kind of this error.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    ///
    /// let request = redlock.lock("orders:42", ttl).max_wait(Duration::ZERO);
    /// let error = request.await.unwrap_err();
    /// let status = if error.kind() == ErrorKind::Contended { 409 } else { 503 };
    /// assert_eq!(409, status);
    /// # });
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same call may succeed later without manual changes.
    ///
    /// It is true for [`Lost`](ErrorKind::Lost) from [`run`](crate::LockRequest::run), which acquires another lock. If the
    /// work is not idempotent, check its effects before you repeat it. It is false for an extension of a lease that is
    /// lost, because a loss is final.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let error = redlock.lock("", ttl).await.unwrap_err();
    /// assert_eq!(ErrorKind::InvalidInput, error.kind());
    /// assert!(!error.is_retryable());
    /// # });
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Contended | ErrorKind::Undecided | ErrorKind::Overloaded | ErrorKind::NoQuorum => true,
            // The lease of an extension is lost. A lock request or a resumption may be faster the next time.
            ErrorKind::TooSlow => self.0.loss.is_none(),
            ErrorKind::Lost => self.0.lost_by_run,
            ErrorKind::Superseded
            | ErrorKind::WrongType
            | ErrorKind::DamagedCounter
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported
            | ErrorKind::Closed => false,
        }
    }

    /// Returns the reports of all nodes about the last round, in configured order.
    ///
    /// Empty if nothing was sent.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// if let Err(error) = redlock.lock("report", ttl).await {
    ///     for report in error.node_reports() {
    ///         println!("{report}");
    ///     }
    /// }
    /// # });
    /// ```
    pub fn node_reports(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// Returns the reason for which the lock is no longer held, if it is known.
    ///
    /// An extension sets it if the lock was lost or released before, or if a quorum of nodes reported that the keys are
    /// gone. A resumption sets it in the latter case, and [`run`](crate::LockRequest::run) if the lock was lost. All other
    /// errors return `None`. This includes an extension that succeeded only after the lease had expired.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).await?;
    /// let lease = guard.lease();
    /// guard.release().await?;
    /// let error = lease.extend(ttl).await.unwrap_err();
    /// assert_eq!(Some(&Loss::Released), error.loss());
    /// # });
    /// ```
    pub fn loss(&self) -> Option<&Loss> {
        self.0.loss.as_ref()
    }

    /// Returns the current holder, if a node reported it, or if it is in this process.
    ///
    /// It is the token that most nodes named, as a fingerprint, with the label of its [owner](Fingerprint::owner) if it
    /// has one. If the request waited for another task of this process, it is the lock of that task. A lock that is reserved
    /// for a waiter has no holder.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let node = MemoryNode::new("a");
    /// # let other = Redlock::builder(TokioRuntime::new()).node(node.clone()).build()?;
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(node).build()?;
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
        let reported = report::holder(self.node_reports().iter().map(NodeReport::outcome));
        let local = || self.0.local_holder.as_ref().map(|(holder, _)| holder.clone());
        reported.filter(|holder| !holder.is_place()).map(Token::fingerprint).or_else(local)
    }

    /// Returns how long the [holder](Error::holder) keeps the lock, if it is known.
    ///
    /// The value is the longest of all nodes, at the time of that node's reply. For a lock of this process, it is the
    /// rest of its validity when the request ended. The holder may still extend the lock.
    ///
    /// Servers report no time for a single attempt to lock one resource without a fencing token, such as with a
    /// [`max_wait`](crate::LockRequest::max_wait) of zero. If another process then holds the lock, this is `None`. A
    /// fake node of `redlock-testkit` reports the time for every attempt, so a test on fakes does not show this case.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    ///
    /// let request = redlock.lock("orders:42", ttl).max_wait(Duration::ZERO);
    /// let error = request.await.unwrap_err();
    /// let left = error.remaining().expect("the holder is in this process");
    /// println!("Retry-After: {}", left.as_secs() + 1);
    /// assert!(left <= ttl);
    /// # });
    /// ```
    pub fn remaining(&self) -> Option<Duration> {
        let local = self.0.local_holder.as_ref().map(|(_, remaining)| *remaining);
        self.denials().filter_map(|denial| denial.remaining).max().or(local)
    }

    /// Returns the position of the request among the waiters when it gave up, if it is known.
    ///
    /// It is the position on the nodes, at the last attempt. Each of these waiters is a process: all of its tasks share one
    /// [place], that of its first task. Only readers have a place each. Clients without a place, such as other libraries, are
    /// not counted. The rank and the number are the medians of those that the nodes state. Readers, and requests for several
    /// resources, are counted but have no position.
    ///
    /// If the request waited for its turn among the tasks of this process, it is the position among these tasks. The task
    /// that has the turn counts until it holds the lock.
    ///
    /// `None` if the request had no place, fewer than a quorum of nodes stated the position, or the failure has another
    /// reason than contention. A single attempt has no place.
    ///
    /// [place]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md#order-of-waiters
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let node = MemoryNode::new("a");
    /// # let other = Redlock::builder(TokioRuntime::new()).node(node.clone()).build()?;
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(node).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// // `other` is the `Redlock` of another process.
    /// let guard = other.lock("report", ttl).await?;
    ///
    /// let request = redlock.lock("report", ttl);
    /// let error = request.max_wait(Duration::from_millis(20)).await.unwrap_err();
    /// let position = error.position().expect("these nodes state the position");
    /// assert_eq!((1, 1), (position.rank, position.waiters));
    /// # Ok(()) }
    /// ```
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Returns the time until a quorum counts again, if quarantine prevents the lock.
    ///
    /// `None` if enough nodes count, or if the time is unknown. Nodes that did not reply are ignored. See
    /// [`Admission`](crate::node::Admission).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// if let Err(error) = redlock.lock("report", ttl).await {
    ///     if let Some(time) = error.quarantine() {
    ///         println!("no lock for {time:?}: too many servers have restarted");
    ///     }
    /// }
    /// # });
    /// ```
    pub fn quarantine(&self) -> Option<Duration> {
        self.0.quarantine
    }

    fn denials(&self) -> impl Iterator<Item = &Denial> {
        self.node_reports().iter().filter_map(|node| match node.outcome() {
            Outcome::Denied(denial) => Some(denial),
            _ => None,
        })
    }
}

/// Formats the failure, the position among the waiters, and the time that the request took. The label and the error of each
/// node without a vote follow.
///
/// A node that is the same server as an earlier one has no separate vote.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(position) = self.0.position {
            write!(f, ", {position}")?;
        }
        if let Some(waited) = self.0.waited {
            write!(f, ", after {waited:.1?}")?;
        }
        let mut separator = " (";
        for report in self.0.nodes.iter() {
            let Some(cause) = report.cause() else { continue };
            write!(f, "{separator}{}: {cause}", report.label())?;
            separator = "; ";
        }
        if separator == "; " { f.write_str(")") } else { Ok(()) }
    }
}

/// Formats the kind, then the same text as `Display`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

/// There is no source: the text contains the causes, and [`node_reports`](Error::node_reports) returns them.
impl std::error::Error for Error {}
