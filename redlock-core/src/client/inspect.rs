//! Inspection: the holder of a resource, without acquiring it.

use std::fmt;
use std::time::Duration;

use tracing::Span;

use crate::client::handle::Handle;
use crate::client::lease::Lease;
use crate::decide::quorums::Members;
use crate::round::engine::run;
use crate::round::inspect::{Holder, Inspect};
use crate::types::error::{Error, ErrorKind};
use crate::types::report::{NodeReport, NodeReports, Waiting};
use crate::types::resource::Resource;
use crate::types::token::{Fingerprint, Token};

/// The holder of a resource, according to the nodes.
///
/// See [`Redlock::inspect`](crate::Redlock::inspect).
#[derive(Clone, Debug)]
pub struct Inspection {
    resource: Resource,
    status: LockStatus,
    holder: Option<Token>,
    waiters: Option<u32>,
    nodes: NodeReports,
}

/// The status of a resource, according to a quorum of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockStatus {
    /// A quorum has nothing under the name, so a lock can be acquired now.
    ///
    /// A node that has reserved the lock for a waiter counts as free, because no client holds the lock.
    Free,
    /// A quorum has the same token under the name.
    #[non_exhaustive]
    Held {
        /// The fingerprint of the token, with the [owner label](Fingerprint::owner) if any.
        by: Fingerprint,
        /// The minimum remaining time, unless the lock is released earlier.
        ///
        /// `None` if it never expires, for example because another program has set it.
        remaining: Option<Duration>,
    },
    /// The nodes disagree, or too few of those that agree could be inspected.
    ///
    /// An attempt or its cleanup is in progress, or nodes have lost data. [`Inspection::node_reports`] has the holder
    /// on each node.
    Undecided,
}

impl Inspection {
    /// Returns the inspected resource.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let inspection = redlock.inspect("orders:42").await?;
    /// println!("{}: {:?}", inspection.resource(), inspection.status());
    /// assert_eq!("orders:42", inspection.resource().to_string());
    /// # });
    /// ```
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the status of the resource.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let inspection = redlock.inspect("orders:42").await?;
    /// let LockStatus::Held { by, .. } = inspection.status() else {
    ///     panic!("free, or the nodes disagree");
    /// };
    /// assert_eq!(&guard.fingerprint(), by);
    /// # });
    /// ```
    pub fn status(&self) -> &LockStatus {
        &self.status
    }

    /// Returns whether the resource is free, according to a quorum.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(!redlock.inspect("orders:42").await?.is_free());
    ///
    /// guard.release().await?;
    /// assert!(redlock.inspect("orders:42").await?.is_free());
    /// # });
    /// ```
    pub fn is_free(&self) -> bool {
        self.status == LockStatus::Free
    }

    /// Returns the holder, if a quorum agrees on it.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).owner("host-1").await?;
    /// let inspection = redlock.inspect("orders:42").await?;
    /// let holder = inspection.holder().expect("the lock is held");
    /// assert_eq!(Some("host-1"), holder.owner());
    /// # });
    /// ```
    pub fn holder(&self) -> Option<&Fingerprint> {
        match &self.status {
            LockStatus::Held { by, .. } => Some(by),
            _ => None,
        }
    }

    /// Returns the minimum remaining time, unless the lock is released earlier.
    ///
    /// The time counts from the end of the inspection. `None` if the resource is free, the nodes disagree, or the key
    /// never expires.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let inspection = redlock.inspect("orders:42").await?;
    /// // An HTTP service responds with this time as `Retry-After`.
    /// let retry_after = inspection.remaining().expect("the key expires");
    /// assert!(retry_after <= ttl);
    /// # });
    /// ```
    pub fn remaining(&self) -> Option<Duration> {
        match self.status {
            LockStatus::Held { remaining, .. } => remaining,
            _ => None,
        }
    }

    /// Returns the number of waiters, if a quorum of nodes states it.
    ///
    /// Each of these waiters is a process: all of its tasks share one [place], that of its first task. Only readers have a
    /// place each. Clients without a place, such as other libraries, are not counted. Nodes may differ, because a place
    /// reaches one after the other; the number is the median of those that they state. It includes a waiter that has died,
    /// until its place ends after at most 12 s, and one for which the lock is [reserved](LockStatus::Free).
    ///
    /// `None` if the nodes keep no [places](crate::node::Place), or their users may not count them.
    ///
    /// [place]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md#order-of-waiters
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let inspection = redlock.inspect("orders:42").await?;
    /// assert_eq!(Some(0), inspection.waiters());
    /// # });
    /// ```
    pub fn waiters(&self) -> Option<u32> {
        self.waiters
    }

    /// Returns whether `lease` is the holder.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(redlock.inspect("orders:42").await?.is_held_by(&guard));
    ///
    /// let other = redlock.lock("orders:43", ttl).await?;
    /// assert!(!redlock.inspect("orders:42").await?.is_held_by(&other));
    /// # });
    /// ```
    pub fn is_held_by(&self, lease: &Lease) -> bool {
        self.holder.as_ref() == Some(lease.record.claim.token())
    }

    pub(super) fn token(&self) -> Option<&Token> {
        self.holder.as_ref()
    }

    /// Returns the reports of all nodes, in configured order.
    ///
    /// Nodes that did not reply before the result was certain are pending.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// # for (node, token) in nodes.iter().zip(["one", "another"]) {
    /// #     node.inner().set_holder("orders:42", Token::from_bytes(token), Ttl::MAX);
    /// # }
    /// let inspection = redlock.inspect("orders:42").await?;
    /// assert_eq!(&LockStatus::Undecided, inspection.status());
    /// // The reports show which token is on which node.
    /// for report in inspection.node_reports() {
    ///     println!("{report}");
    /// }
    /// # });
    /// ```
    pub fn node_reports(&self) -> &[NodeReport] {
        &self.nodes
    }
}

/// Formats the holder and the number of waiters, or the reports of the nodes if they disagree.
///
/// For example: `"invoice:42" is held by host-1:4242#9c01a7f2 for at least 8.9s, 3 waiters`, or `"invoice:42" is free`.
impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, status, holder, waiters, nodes } = self;
        match holder {
            Some(holder) => write!(f, "{resource:?} is held by {holder}")?,
            None if self.is_free() => write!(f, "{resource:?} is free")?,
            None => write!(f, "no quorum agrees on the holder of {resource:?} ({nodes})")?,
        }
        match status {
            LockStatus::Held { remaining: Some(left), .. } => write!(f, " for at least {left:.1?}")?,
            LockStatus::Held { remaining: None, .. } => f.write_str(" without expiry")?,
            _ => {}
        }
        Waiting(*waiters).fmt(f)
    }
}

pub(crate) async fn inspect(handle: &Handle, resource: Resource) -> Result<Inspection, Error> {
    handle.check_call(std::slice::from_ref(&resource))?;
    let able = |list: Members| list.nodes().filter(|node| handle.peers[*node].profile.inspect).count();
    if let Some(list) = handle.rules.quorums.lists().find(|list| able(*list) < list.quorum()) {
        let (able, nodes, name, quorum) = (able(list), list.len(), list.name(), list.quorum());
        let message = format!(
            "cannot inspect {resource:?}: only {able} of {nodes} {name} support it, {quorum} required"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if handle.node_lists_must_agree() {
        handle.compare_node_lists().await;
    }
    let (start, limit) = (handle.now(), handle.rules.node_timeout);
    let round = Inspect::new(handle.rules, resource.clone(), start);
    let inspected = run(handle, round, start, limit, Span::none()).await;
    let (holder, votes) =
        inspected.map_err(|failure| failure.into_error(format_args!("{resource:?}"), handle))?;
    let (status, holder) = match holder {
        Holder::Nobody => (LockStatus::Free, None),
        Holder::Undecided => (LockStatus::Undecided, None),
        Holder::Token(token, remaining) => {
            (LockStatus::Held { by: token.fingerprint(), remaining }, Some(token))
        }
    };
    let waiters = votes.waiters();
    let nodes = NodeReports(votes.reports(handle.now(), |node| handle.label(node)));
    Ok(Inspection { resource, status, holder, waiters, nodes })
}
