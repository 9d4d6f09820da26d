//! Reports about single nodes, for errors, leases, health checks and inspections.

use std::fmt;
use std::time::Duration;

use crate::types::denial::Denial;
use crate::types::entry::LockEntry;
use crate::types::fencing_token::FencingToken;
use crate::types::node_error::NodeError;
use crate::types::quarantine::Quarantine;
use crate::types::token::Token;

/// A report about one node: its index, label, outcome and latency.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub(crate) index: usize,
    pub(crate) label: String,
    pub(crate) outcome: Outcome,
    pub(crate) latency: Duration,
    pub(crate) same_server_as: Option<(usize, String)>,
}

/// The outcome of a request to one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The node granted the request.
    Granted,
    /// The node denied the request.
    Denied(Denial),
    /// The node granted a fenced lock, and its counter now has this value.
    GrantedFenced(FencingToken),
    /// The node holds the lock, but a newer claim has raised its counter to this value.
    ///
    /// The node no longer counts for this lock.
    Superseded(FencingToken),
    /// The node deleted at least one resource of the lock. Releases only.
    Released,
    /// The node held no resource of the lock. Releases only.
    NotHeld,
    /// The node has nothing under the resource. Inspections only.
    Free {
        /// The number of [places](crate::node::Place) that wait for the resource; `None` if the node does not state it.
        waiters: Option<u32>,
    },
    /// The node has this entry under the resource. Inspections only.
    Held(LockEntry),
    /// The node replied, but its vote does not count: it may have lost locks, or programs list different nodes.
    Quarantined {
        /// `true` if the node carried out the request.
        granted: bool,
        /// The reason, and the time until votes count again.
        quarantine: Quarantine,
    },
    /// The request failed without a vote, for this reason.
    Failed(NodeError),
    /// The node did not reply within the node timeout.
    TimedOut,
    /// The node did not reply before the round was decided.
    Pending,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// This client held the lock until now.
    ///
    /// The validity had not passed, and the first replies of the nodes do not contradict this. This includes the margin
    /// before its end, in which [`Lease::state`](crate::Lease::state) already reports a loss.
    Released,
    /// The validity had passed before the release.
    ///
    /// Another client may have acquired the lock since then.
    ///
    /// Also returned if an extension found the keys gone on a quorum of nodes shortly before the end of the validity.
    /// This margin is TTL / 50, at least 1 ms and at most 500 ms. The lease counts as expired in it.
    AlreadyExpired,
    /// The lock was lost before its validity had passed.
    ///
    /// Too few nodes still had it for a quorum: it was deleted, or nodes have lost data. Another client may have
    /// acquired it meanwhile. This is not always detected, because a release waits for replies of a quorum and no longer.
    AlreadyLost,
}

impl Outcome {
    /// Takes the vote away for this reason, if there is one. Replies to releases have none.
    pub(crate) fn without_vote(self, quarantine: Quarantine) -> Self {
        match self {
            Self::Granted | Self::GrantedFenced(_) => Self::Quarantined { granted: true, quarantine },
            Self::Denied(_) | Self::Superseded(_) | Self::Free { .. } | Self::Held(_) => {
                Self::Quarantined { granted: false, quarantine }
            }
            Self::Released
            | Self::NotHeld
            | Self::Quarantined { .. }
            | Self::Failed(_)
            | Self::TimedOut
            | Self::Pending => self,
        }
    }

    /// Returns the name in metrics and serialized reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Granted | Self::GrantedFenced(_) => "granted",
            Self::Released => "released",
            Self::NotHeld => "not_held",
            Self::Denied(_) => "denied",
            Self::Superseded(_) => "superseded",
            Self::Free { .. } => "free",
            Self::Held(_) => "held",
            Self::Quarantined { .. } => "quarantined",
            Self::Failed(_) => "failed",
            Self::TimedOut => "timed_out",
            Self::Pending => "pending",
        }
    }
}

impl ReleaseOutcome {
    /// Returns the name in metrics and serialized outcomes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::AlreadyExpired => "already_expired",
            Self::AlreadyLost => "already_lost",
        }
    }
}

impl NodeReport {
    /// Returns the node's position in the configuration, from 0.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let ttl = Duration::from_secs(10);
    /// let addresses = ["10.0.0.1:6379", "10.0.0.2:6379"];
    /// # let nodes = addresses.map(|address| MemoryNode::new(address).into());
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes).build()?;
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// for report in guard.node_reports() {
    ///     assert_eq!(addresses[report.index()], report.label());
    /// }
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the node's label, such as `10.0.0.1:6379`.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// # nodes[..2].iter().for_each(|node| node.crash());
    /// # let request = redlock.lock("orders:42", ttl).max_attempts(1);
    /// let error = request.await.unwrap_err();
    /// for report in error.node_reports() {
    ///     if let Outcome::Failed(cause) = report.outcome() {
    ///         println!("check {}: {cause}", report.label());
    ///     }
    /// }
    /// # assert_eq!("fake-0", error.node_reports()[0].label());
    /// # });
    /// ```
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the outcome of the request.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// // Another client holds the lock.
    /// node.set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// let request = redlock.lock("orders:42", ttl).max_wait(Duration::ZERO);
    /// let error = request.await.unwrap_err();
    /// assert!(matches!(error.node_reports()[0].outcome(), Outcome::Denied(_)));
    /// # });
    /// ```
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns the time from the first request of the round to the outcome.
    ///
    /// For a pending node, the time ends at the report.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// // The network delays each request.
    /// faulty.inject(Fault::delay(Duration::from_millis(20)));
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let latency = guard.node_reports()[0].latency();
    /// assert!(latency >= Duration::from_millis(20));
    /// # });
    /// ```
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Returns why the node has no separate vote; `None` if it has one or may still reply.
    pub(crate) fn cause(&self) -> Option<String> {
        match (&self.outcome, self.same_server_as()) {
            (Outcome::Failed(error), _) => Some(error.to_string()),
            (Outcome::Quarantined { quarantine, .. }, _) => Some(quarantine.to_string()),
            (Outcome::TimedOut, _) => Some(format!("timed out after {:.1?}", self.latency)),
            (_, Some((_, label))) => Some(format!("the same server as {label}")),
            _ => None,
        }
    }

    /// Returns why the vote of the node does not count, if it replied.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// # node.set_longest_ttl(Duration::from_secs(10));
    /// // The server was flushed, so it may have lost locks.
    /// # node.flush();
    /// let request = redlock.lock("orders:42", ttl).max_attempts(1);
    /// let error = request.await.unwrap_err();
    /// let quarantine = error.node_reports()[0].quarantine();
    /// let reason = quarantine.map(|quarantine| quarantine.reason);
    /// assert_eq!(Some(QuarantineReason::DataLost), reason);
    /// # });
    /// ```
    pub fn quarantine(&self) -> Option<&Quarantine> {
        match &self.outcome {
            Outcome::Quarantined { quarantine, .. } => Some(quarantine),
            _ => None,
        }
    }

    /// Returns the first node that is the same server, as index and label.
    ///
    /// The two nodes have one vote together.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let reports = guard.node_reports();
    /// let mut others = reports.iter().map(|report| report.same_server_as());
    /// assert!(others.all(|other| other.is_none()), "two nodes are one server");
    /// # });
    /// ```
    pub fn same_server_as(&self) -> Option<(usize, &str)> {
        self.same_server_as.as_ref().map(|(index, label)| (*index, label.as_str()))
    }
}

/// Formats as `node 2 (10.0.0.3:6379): timed out after 50ms`.
impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, label, outcome, latency, same_server_as } = self;
        write!(f, "node {index} ({label}): ")?;
        match outcome {
            Outcome::Granted => write!(f, "granted after {latency:.1?}")?,
            Outcome::Denied(Denial { holder: Some(holder), .. }) => {
                write!(f, "denied after {latency:.1?}: held by {holder}")?;
            }
            Outcome::Denied(_) => write!(f, "denied after {latency:.1?}")?,
            Outcome::GrantedFenced(counter) => {
                write!(f, "granted after {latency:.1?}: fencing counter {counter}")?;
            }
            Outcome::Superseded(counter) => {
                write!(f, "superseded after {latency:.1?}: fencing counter {counter}")?;
            }
            Outcome::Released => write!(f, "released after {latency:.1?}")?,
            Outcome::NotHeld => write!(f, "did not have the lock (after {latency:.1?})")?,
            Outcome::Free { waiters } => {
                write!(f, "free{} (after {latency:.1?})", Waiting(*waiters))?;
            }
            Outcome::Held(LockEntry { token, remaining: Some(left), waiters }) => {
                let waiting = Waiting(*waiters);
                write!(f, "held by {token}, expires in {left:.1?}{waiting} (after {latency:.1?})")?;
            }
            Outcome::Held(LockEntry { token, remaining: None, waiters }) => {
                write!(f, "held by {token}, no expiry{} (after {latency:.1?})", Waiting(*waiters))?;
            }
            Outcome::Quarantined { granted: true, quarantine } => {
                write!(f, "granted after {latency:.1?}, not counted: {quarantine}")?;
            }
            Outcome::Quarantined { granted: false, quarantine } => {
                write!(f, "not counted: {quarantine} (after {latency:.1?})")?;
            }
            Outcome::Failed(error) => write!(f, "{error} (after {latency:.1?})")?,
            Outcome::TimedOut => write!(f, "timed out after {latency:.1?}")?,
            Outcome::Pending => write!(f, "no reply yet after {latency:.1?}")?,
        }
        match same_server_as {
            Some((index, label)) => write!(f, " [the same server as node {index} ({label})]"),
            None => Ok(()),
        }
    }
}

/// The end of a text about a resource: the number of its waiters, if there are any.
pub(crate) struct Waiting(pub(crate) Option<u32>);

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None | Some(0) => Ok(()),
            Some(1) => f.write_str(", 1 waiter"),
            Some(waiters) => write!(f, ", {waiters} waiters"),
        }
    }
}

/// Returns the holder: the token that most denials named.
pub(crate) fn holder<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Option<&'a Token> {
    let named = outcomes.filter_map(|outcome| match outcome {
        Outcome::Denied(denial) => denial.holder.as_ref(),
        _ => None,
    });
    let votes = |token: &Token| named.clone().filter(|other| *other == token).count();
    named.clone().max_by_key(|token| votes(token))
}

/// The reports about all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeReports(pub(crate) Vec<NodeReport>);

impl std::ops::Deref for NodeReports {
    type Target = [NodeReport];

    fn deref(&self) -> &[NodeReport] {
        &self.0
    }
}

impl fmt::Display for NodeReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, report) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(f, "{separator}{report}")?;
        }
        Ok(())
    }
}
