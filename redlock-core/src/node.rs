//! The contract of a backend: one independent lock server.
//!
//! # Custom backends
//!
//! Implement [`LockNode`] for any store that can set an absent value with an expiry, and can compare a value before it
//! deletes it. Three operations are required. Each has a [`Claim`] (resources and a token), and is atomic on its node:
//!
//! | Operation | Effect | Reply |
//! |---|---|---|
//! | [`acquire`] | sets every resource to the token with the TTL, or none of them | granted or denied |
//! | [`extend`] | makes each TTL at least `ttl`, if all resources still hold the token | granted or denied |
//! | [`release`] | deletes each resource that still holds the token, no others | granted (any deleted) or denied |
//!
//! [`label`](LockNode::label) returns the name of the node. All other methods have a default and are optional:
//!
//! - [`inspect`](LockNode::inspect) returns the holder of a resource.
//! - [`watch`](LockNode::watch) notifies waiters when a resource may be free.
//! - [`connection`](LockNode::connection) lets the core finish its cleanup sooner.
//! - [`server`](LockNode::server) lets the core detect two names of one server.
//! - [`capabilities`](LockNode::capabilities) returns the supported operations.
//!
//! # Fencing
//!
//! A backend can issue [fencing tokens](FencingToken) if it keeps a counter for each resource, separately and for
//! longer than the resource. It then has three more operations, each of them atomic. *Token* is the fencing token here:
//!
//! | Operation | Effect | Reply |
//! |---|---|---|
//! | [`acquire_fenced`] | `acquire`, and raises all counters to the [next] of the greatest | counted or denied |
//! | [`confirm`] | `extend`, if no counter is above the token; sets all to it | granted, denied or superseded |
//! | [`refill_fenced`] | `acquire`, if no counter is above the token; sets all to it | granted, denied or superseded |
//!
//! `acquire`, `extend` and `release` do not change the counters. Plain and fenced locks exclude each other, and only
//! fenced locks are ordered. All checks come before the first change. An unused counter may be forgotten after a day,
//! or after the [time that the backend states](Capabilities::fence_retention).
//!
//! A counter or a number to be written that is [too far ahead](FencingToken::is_plausible) of the node's clock is an
//! error. Nothing is changed then.
//!
//! # Denials and errors
//!
//! A denial is a reply: [`Vote::Denied`]. A [`NodeError`] means that there is no vote. Its kind states the possible
//! effects of the request: see [`NodeErrorKind`].
//!
//! The core handles timeouts, quorum, retries and cleanup. It drops calls that exceed the node timeout, so it must be
//! safe to drop a call. The core assumes that a dropped request may or may not be carried out.
//!
//! The conformance suite of `redlock-testkit` verifies a backend. It has one test for each sentence of these docs.
//!
//! [`acquire`]: LockNode::acquire
//! [`extend`]: LockNode::extend
//! [`release`]: LockNode::release
//! [`acquire_fenced`]: LockNode::acquire_fenced
//! [`confirm`]: LockNode::confirm
//! [`refill_fenced`]: LockNode::refill_fenced
//! [next]: FencingToken::next
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//!
//! use redlock_core::{Claim, Instant, LockNode, NodeError, Denial, Resource, Token, Ttl, Vote, async_trait, suspend_aware_now};
//!
//! struct InProcess(Mutex<HashMap<Resource, (Token, Instant)>>);
//!
//! impl InProcess {
//!     /// Runs `operation` on the living entries.
//!     fn with<T>(&self, operation: impl FnOnce(&mut HashMap<Resource, (Token, Instant)>) -> T) -> T {
//!         let mut held = self.0.lock().unwrap();
//!         held.retain(|_, (_, deadline)| *deadline > suspend_aware_now());
//!         operation(&mut held)
//!     }
//! }
//!
//! #[async_trait]
//! impl LockNode for InProcess {
//!     fn label(&self) -> &str {
//!         "in-process"
//!     }
//!
//!     async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
//!         self.with(|held| {
//!             let taken = |resource| held.get(resource).is_some_and(|(token, _)| token != claim.token());
//!             if claim.resources().iter().any(taken) {
//!                 return Ok(Vote::Denied(Denial::default()));
//!             }
//!             for resource in claim.resources() {
//!                 let fresh = (claim.token().clone(), suspend_aware_now() + ttl.as_duration());
//!                 held.entry(resource.clone()).or_insert(fresh);
//!             }
//!             Ok(Vote::Granted)
//!         })
//!     }
//!
//!     async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
//!         self.with(|held| {
//!             let ours = |resource| held.get(resource).is_some_and(|(token, _)| token == claim.token());
//!             if !claim.resources().iter().all(ours) {
//!                 return Ok(Vote::Denied(Denial::default()));
//!             }
//!             for resource in claim.resources() {
//!                 let (_, deadline) = held.get_mut(resource).expect("checked above");
//!                 *deadline = (*deadline).max(suspend_aware_now() + ttl.as_duration());
//!             }
//!             Ok(Vote::Granted)
//!         })
//!     }
//!
//!     async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
//!         self.with(|held| {
//!             let before = held.len();
//!             held.retain(|resource, (token, _)| token != claim.token() || !claim.resources().contains(resource));
//!             Ok(if held.len() < before { Vote::Granted } else { Vote::Denied(Denial::default()) })
//!         })
//!     }
//! }
//! ```

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::runtime::BoxFuture;
use crate::types::claim::Claim;
use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::resource::Resource;
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// One independent lock server.
///
/// The [module docs](self) describe how to implement a custom backend.
///
/// # Errors
///
/// Every operation fails with a [`NodeError`], whose [kind](NodeErrorKind) states the possible effects. Operations that
/// have a default return [`Unsupported`](NodeErrorKind::Unsupported) by default.
///
/// # Cancel safety
///
/// If the future of an operation is dropped, at any await, it is unknown whether the request is carried out. It must be
/// carried out completely or not at all. A request that has not been sent by then must never be sent.
#[async_trait]
pub trait LockNode: Send + Sync + 'static {
    /// Returns a human-readable name of the node, such as `10.0.0.1:6379`.
    ///
    /// The name contains no secrets. It differs between all nodes of a [`Redlock`](crate::Redlock): two nodes with the
    /// same label are rejected, as one server that is listed twice.
    fn label(&self) -> &str;

    /// Sets every resource of the claim to its token, or none of them.
    ///
    /// Granted if each resource is absent or holds this token already. Absent resources are set and expire after `ttl`.
    /// A resource that holds the token already is left as it is.
    ///
    /// Otherwise denied, and nothing is changed. The denial has the holder's token and the remaining TTL, if they are
    /// cheap to determine.
    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError>;

    /// Makes the remaining TTL of every resource at least `ttl`.
    ///
    /// Granted if every resource still holds the token. Otherwise denied, and nothing is changed. Never shortens a TTL,
    /// and never creates a resource.
    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError>;

    /// Deletes each resource that still holds the token.
    ///
    /// Granted if at least one was deleted. Denied if no resource holds the token, even if a key holds a value that is
    /// not a lock.
    async fn release(&self, claim: &Claim) -> Result<Vote, NodeError>;

    /// Acquires the claim, and raises the counters of its resources.
    ///
    /// Same as [`acquire`](LockNode::acquire). In addition, if something was set, the counters of all resources become
    /// the [next](FencingToken::next) of the greatest of them. If all resources hold the token already, nothing is
    /// changed, including the counters: a request that arrives twice counts once. (If a counter is gone by then, it is
    /// counted again.)
    ///
    /// Returns [`Counted`](Vote::Counted) with the value of the counters, or denies. If the next number would not be
    /// [plausible](FencingToken::is_plausible), the result is an error of the kind
    /// [`Rejected`](NodeErrorKind::Rejected), and nothing is changed. The same applies at the end of all numbers.
    ///
    /// A backend that supports this states it in its [capabilities](Capabilities::fencing), for this operation and the
    /// next two.
    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        let _ = (claim, ttl);
        Err(NodeError::unsupported("acquire with a fencing token"))
    }

    /// Extends the claim, and sets the counters of its resources to `fence`.
    ///
    /// Same as [`extend`](LockNode::extend), if no counter of the resources is greater than `fence`: then all of them
    /// become `fence`.
    ///
    /// - Returns [`Granted`](Vote::Granted) in this case.
    /// - Denies if a resource does not hold the token.
    /// - Returns [`Superseded`](Vote::Superseded) if all resources hold the token and a counter is greater. Nothing is
    ///   changed.
    /// - Fails with an error of the kind [`Rejected`](NodeErrorKind::Rejected) if all resources hold the token, and
    ///   `fence` or a counter is not [plausible](FencingToken::is_plausible). Nothing is changed.
    async fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        let _ = (claim, ttl, fence);
        Err(NodeError::unsupported("confirm a fencing token"))
    }

    /// Acquires the claim, and sets the counters of its resources to `fence`.
    ///
    /// Same as [`acquire`](LockNode::acquire), if no counter of the resources is greater than `fence`: then all of them
    /// become `fence`. The replies are those of [`confirm`](LockNode::confirm), except that an absent resource does not
    /// cause a denial.
    async fn refill_fenced(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        let _ = (claim, ttl, fence);
        Err(NodeError::unsupported("refill with a fencing token"))
    }

    /// Returns the holder of a resource on this node, and changes nothing.
    ///
    /// Returns the token and its remaining time at one moment, or `None` if the resource is free. A key of another type
    /// is an error.
    ///
    /// A backend that supports this states it in its [capabilities](Capabilities::inspect).
    async fn inspect(&self, resource: &Resource) -> Result<Option<LockEntry>, NodeError> {
        let _ = resource;
        Err(NodeError::unsupported("inspect"))
    }

    /// Begins to watch a resource, and returns its present state.
    ///
    /// A later change by any client completes [`Watch::changed`]. Without this operation, the core polls.
    ///
    /// A backend that supports this states it in its [capabilities](Capabilities::watch).
    async fn watch(&self, resource: &Resource) -> Result<Watch, NodeError> {
        let _ = resource;
        Err(NodeError::unsupported("watch"))
    }

    /// Returns the ordered connection that a request sent now would use, if any.
    ///
    /// The server carries out the requests of one connection in the order in which they were sent. An identifier
    /// belongs to one connection and is never reused. So two equal readings mean that the connection was the same all
    /// the time.
    ///
    /// The core uses it to recognize that a release followed a write whose reply was lost. Without it, the core sends a
    /// second release.
    ///
    /// When this value changes, nothing is sent over the earlier connection any more. This includes requests whose
    /// futures are still polled, and requests that the client has queued. A write that arrives after its cleanup leaves
    /// a key until its TTL expires.
    fn connection(&self) -> Option<ConnectionId> {
        None
    }

    /// Returns the identity of the server, if the backend knows it.
    ///
    /// Nodes with the same identity count as one. The core calls this with every vote, so it should return a stored
    /// number.
    fn server(&self) -> Option<ServerId> {
        None
    }

    /// Returns the optional operations that the backend supports.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Checks whether this backend can lock a resource of this name.
    ///
    /// The core calls this before it sends anything about the resource. The default allows every name.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the backend uses the name for something else. The caller
    /// gets this error.
    fn check(&self, resource: &Resource) -> Result<(), Error> {
        let _ = resource;
        Ok(())
    }

    /// Notifies the backend of the [node timeout](crate::Builder::node_timeout).
    ///
    /// The core calls this when a [`Redlock`](crate::Redlock) is built. A backend with connections should allow at
    /// least this time for one connection attempt. The default ignores it.
    fn set_node_timeout(&self, timeout: Duration) {
        let _ = timeout;
    }
}

/// The reply of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// The request was carried out on every resource.
    Granted,
    /// The request was denied, and nothing was changed.
    Denied(Denial),
    /// The request was carried out on every resource; the counters have this value.
    ///
    /// Only [`acquire_fenced`](LockNode::acquire_fenced) replies this.
    Counted(FencingToken),
    /// The resources hold the token, but a counter is greater than the fencing token.
    ///
    /// Nothing was changed. The value is this counter. A newer claim has set it, so the node never counts for this
    /// claim again.
    Superseded(FencingToken),
}

/// The details of a denial.
///
/// Both fields are optional: a backend sets those that are cheap to determine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// The token that holds the resource.
    pub holder: Option<Token>,
    /// The time until the key expires unless it is extended, by the node's clock.
    pub remaining: Option<Duration>,
}

impl Denial {
    /// Creates a denial because of `holder`.
    pub fn by(holder: Token) -> Self {
        Self { holder: Some(holder), remaining: None }
    }

    /// Adds the time after which the holder's key expires.
    #[must_use]
    pub fn expiring_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}

/// The entry of a resource on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockEntry {
    /// The stored token.
    pub token: Token,
    /// The time until the key expires unless it is extended, by the node's clock.
    ///
    /// `None` if it never expires, for example because another program has set it.
    pub remaining: Option<Duration>,
}

impl LockEntry {
    /// Creates an entry that holds `token` and never expires.
    pub fn of(token: Token) -> Self {
        Self { token, remaining: None }
    }

    /// Adds the time after which the key expires.
    #[must_use]
    pub fn expiring_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}

/// A watch of one resource on one node. See [`LockNode::watch`].
#[non_exhaustive]
pub struct Watch {
    /// The availability at a moment from which on no change is missed.
    pub availability: Availability,
    /// Completes once the resource may be free, or no more notifications follow.
    ///
    /// The latter is the case after a connection was lost. The notification is a hint. It may come without a cause, and
    /// it does not contain the present state: call [`watch`](LockNode::watch) again to read it. The notification of an
    /// expiry may come late or never. Dropping the future ends the watch.
    pub changed: BoxFuture<()>,
}

/// The availability of a resource on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// The resource is free.
    Free,
    /// The resource is held.
    ///
    /// The value is the time until the key expires unless it is extended, by the node's clock. `None` if that is
    /// unknown, or if the key never expires.
    Taken(Option<Duration>),
}

impl Watch {
    /// Creates a watch of a resource that was in this state at the beginning.
    pub fn new(availability: Availability, changed: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { availability, changed: Box::pin(changed) }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("availability", &self.availability).finish_non_exhaustive()
    }
}

/// The identifier of one connection of a node, never reused.
///
/// See [`LockNode::connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u64);

/// The identifier of a server: a number made from a name such as Redis' `run_id`.
///
/// Two servers have the same identifier by chance, with a probability of about 10^-19. They then have one vote
/// together, which is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(NonZeroU64);

impl ServerId {
    /// Creates the identifier of the server with this name.
    ///
    /// It is valid within this process only.
    pub fn new(known_by: impl AsRef<str>) -> Self {
        let mut hasher = DefaultHasher::new();
        known_by.as_ref().hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the number, for a backend that stores it in an atomic.
    pub fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// Restores an identifier from its number.
impl From<NonZeroU64> for ServerId {
    fn from(number: NonZeroU64) -> Self {
        Self(number)
    }
}

/// The optional operations of a backend. There are none by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Support for [`LockNode::inspect`].
    pub inspect: bool,
    /// Support for [`LockNode::watch`].
    ///
    /// May change with the connection: the core reads it before each use.
    pub watch: bool,
    /// Support for fencing.
    ///
    /// The operations are [`LockNode::acquire_fenced`], [`LockNode::confirm`] and [`LockNode::refill_fenced`].
    pub fencing: bool,
    /// The time for which a counter is kept after the last fenced lock has expired.
    ///
    /// The default is 24 h. It must not change while the node is in use. If nodes differ, the shortest time counts.
    ///
    /// The time also limits the influence of one node on fencing tokens. The backend rejects numbers that are further
    /// ahead of the node's clock (see [`FencingToken::is_plausible`]). A node whose counter is further away from those
    /// of the other nodes has no vote.
    pub fence_retention: Duration,
}

/// Supports no optional operation.
impl Default for Capabilities {
    fn default() -> Self {
        let fence_retention = Duration::from_secs(24 * 60 * 60);
        Self { inspect: false, watch: false, fencing: false, fence_retention }
    }
}

impl Capabilities {
    /// Adds support for [`inspect`](LockNode::inspect).
    #[must_use]
    pub fn with_inspect(mut self) -> Self {
        self.inspect = true;
        self
    }

    /// Adds support for [`watch`](LockNode::watch).
    #[must_use]
    pub fn with_watch(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Adds support for [fencing tokens](LockNode::acquire_fenced).
    #[must_use]
    pub fn with_fencing(mut self) -> Self {
        self.fencing = true;
        self
    }

    /// Sets how long [counters are kept](Capabilities::fence_retention).
    ///
    /// The time begins when the last fenced lock has expired.
    #[must_use]
    pub fn with_fence_retention(mut self, retention: Duration) -> Self {
        self.fence_retention = retention;
        self
    }
}

/// The reason for which a node did not vote on a request.
///
/// A denial is a vote, not an error. The message is for humans and contains no secrets. The source may be the client's
/// own error.
#[derive(Clone)]
pub struct NodeError {
    kind: NodeErrorKind,
    message: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The possible effects of a request without a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// The node cannot be reached, and the request was certainly not sent.
    Unavailable,
    /// The request may have been sent, and it may be carried out now or later.
    ///
    /// For example, the connection or the reply was lost.
    Unknown,
    /// The server sent an error reply and changed nothing.
    ///
    /// For example, it is out of memory or read-only, or the user lacks a permission.
    Rejected,
    /// The resource's key holds a value that is not a lock. Nothing was changed.
    WrongType,
    /// The backend does not support the operation. Nothing was sent.
    Unsupported,
}

impl NodeError {
    /// Creates an error: the node cannot be reached, and nothing was sent.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unavailable, message)
    }

    /// Creates an error: the request may have been sent, and its outcome is unknown.
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unknown, message)
    }

    /// Creates an error: the server sent an error reply.
    pub fn rejected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Rejected, message)
    }

    /// Creates an error: the key of `resource` holds a value that is not a lock.
    pub fn wrong_type(resource: &Resource) -> Self {
        Self::new(NodeErrorKind::WrongType, format!("key {resource:?} holds a non-lock value"))
    }

    /// Creates an error: the backend does not support `operation`.
    pub fn unsupported(operation: &'static str) -> Self {
        Self::new(NodeErrorKind::Unsupported, format!("this backend cannot {operation}"))
    }

    /// Adds the client's own error as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the possible effects of the request.
    pub fn kind(&self) -> NodeErrorKind {
        self.kind
    }

    /// Prefixes the message with `what`, the operation that has failed.
    pub(crate) fn of(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message).into(), ..self }
    }

    fn new(kind: NodeErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl std::error::Error for NodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
