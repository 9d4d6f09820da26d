//! The contract of a transport: one independent lock server.
//!
//! # Your own backend
//!
//! Implement [`LockNode`] for anything that can set a value if absent, with an expiry, and compare it before it deletes
//! it. Three operations are needed; each is about a [`Claim`] (resources and a token) and is atomic on its node:
//!
//! | operation | does | answers |
//! |---|---|---|
//! | [`acquire`](LockNode::acquire) | sets every resource to the token with the TTL, or none of them | granted, or refused |
//! | [`extend`](LockNode::extend) | where every resource still holds the token, makes the TTL at least `ttl` | granted, or refused |
//! | [`release`](LockNode::release) | deletes what still holds the token, and only that | granted (something was deleted), or refused |
//!
//! Whatever else there is has a default and may be left out: [`inspect`](LockNode::inspect) says who has a resource,
//! [`watch`](LockNode::watch) tells when it may be free, [`connection`](LockNode::connection) and
//! [`server`](LockNode::server) let core be certain sooner and be right where two names are one server.
//! [`capabilities`](LockNode::capabilities) says which operations there are.
//!
//! # Fencing
//!
//! A backend that keeps a counter for each resource, beside it and longer than it, can give out
//! [fencing tokens](FencingToken). Then it has three more operations, each atomic as well:
//!
//! | operation | does | answers |
//! |---|---|---|
//! | [`acquire_fenced`](LockNode::acquire_fenced) | as `acquire`, and counts: the counters of all resources become the [next](FencingToken::next) of the greatest | counted, or refused |
//! | [`confirm`](LockNode::confirm) | as `extend`, where no counter is greater than the token: then all become the token | granted, refused, or superseded |
//! | [`refill_fenced`](LockNode::refill_fenced) | as `acquire`, where no counter is greater than the token: then all become the token | granted, refused, or superseded |
//!
//! `release` leaves the counters alone. `acquire` and `extend` do too: a plain lock and a fenced one exclude each other, and
//! only fenced ones are ordered. Every check comes before the first change. A counter that nobody uses any more may be
//! forgotten after a day, or after the [time that the backend states](Capabilities::fence_retention). A counter, or a token
//! to be written, that is [further ahead](FencingToken::is_plausible) of the node's clock is an error, and nothing is changed.
//!
//! A node that says no *refuses*: that is an answer, [`Vote::Refused`]. A [`NodeError`] means that there is no answer,
//! and its kind says what may have happened: see [`NodeErrorKind`]. Core takes care of everything else: timeouts,
//! quorum, retry, undoing. It drops a call that has run into the node timeout, so a call must be safe to drop: the
//! request may then have been carried out or not, and core treats it so.
//!
//! Prove a backend with the conformance suite of `redlock-testkit`, which has one test for each sentence of these docs.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//!
//! use redlock_core::{Claim, Instant, LockNode, NodeError, Refusal, Resource, Token, Ttl, Vote, async_trait, boot_time};
//!
//! struct InProcess(Mutex<HashMap<Resource, (Token, Instant)>>);
//!
//! impl InProcess {
//!     /// Runs `operation` on the living entries.
//!     fn with<T>(&self, operation: impl FnOnce(&mut HashMap<Resource, (Token, Instant)>) -> T) -> T {
//!         let mut held = self.0.lock().unwrap();
//!         held.retain(|_, (_, deadline)| *deadline > boot_time());
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
//!                 return Ok(Vote::Refused(Refusal::default()));
//!             }
//!             for resource in claim.resources() {
//!                 let fresh = (claim.token().clone(), boot_time() + ttl.as_duration());
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
//!                 return Ok(Vote::Refused(Refusal::default()));
//!             }
//!             for resource in claim.resources() {
//!                 let (_, deadline) = held.get_mut(resource).expect("checked above");
//!                 *deadline = (*deadline).max(boot_time() + ttl.as_duration());
//!             }
//!             Ok(Vote::Granted)
//!         })
//!     }
//!
//!     async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
//!         self.with(|held| {
//!             let before = held.len();
//!             held.retain(|resource, (token, _)| token != claim.token() || !claim.resources().contains(resource));
//!             Ok(if held.len() < before { Vote::Granted } else { Vote::Refused(Refusal::default()) })
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

use crate::claim::Claim;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::resource::Resource;
use crate::runtime::BoxFuture;
use crate::token::Token;
use crate::ttl::Ttl;

/// One independent lock server; the [module docs](self) are the recipe for a backend of your own.
///
/// # Errors
///
/// Every operation fails with a [`NodeError`], whose [kind](NodeErrorKind) says what may have happened. Those that have a
/// default are [`Unsupported`](NodeErrorKind::Unsupported) by default.
///
/// # Cancel safety
///
/// Every operation may be dropped at any await. Whether the request is then carried out is unknown; it must be carried
/// out as a whole or not at all, and what has not been sent by then is never sent.
#[async_trait]
pub trait LockNode: Send + Sync + 'static {
    /// What people know the node by, such as `10.0.0.1:6379`. Free of secrets, and different for every node of a
    /// [`Redlock`](crate::Redlock): two nodes with one label are refused as one server listed twice.
    fn label(&self) -> &str;

    /// Sets every resource of the claim to its token, expiring after `ttl`, if each is absent or holds this very token;
    /// otherwise changes nothing. A resource that holds the token already is left as it is.
    ///
    /// Refuses with the holder's token and the remaining time to live, where they are cheap to tell.
    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError>;

    /// Where every resource still holds the token, makes its time to live at least `ttl`; otherwise changes nothing.
    /// Never shortens a time to live, never creates a resource.
    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError>;

    /// Deletes each resource that still holds the token. Granted when at least one was deleted; refused when nothing of
    /// ours was there, also when there is something that is no lock at all.
    async fn release(&self, claim: &Claim) -> Result<Vote, NodeError>;

    /// As [`acquire`](LockNode::acquire), and counts: where something was set, the counters of all resources become the
    /// [next](FencingToken::next) of the greatest of them. Where all resources hold the token already nothing is
    /// changed, the counters included: a request that arrives twice counts once. (A counter that is gone is counted anew.)
    ///
    /// Answers [`Counted`](Vote::Counted), with the counters as they are then, or refuses. Where that number would not be
    /// [plausible](FencingToken::is_plausible), it is an error of the kind [`Rejected`](NodeErrorKind::Rejected), and nothing
    /// is changed. So it is at the end of all numbers.
    ///
    /// A backend that can says so in its [capabilities](Capabilities::fencing), for this and the two operations that
    /// follow.
    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        let _ = (claim, ttl);
        Err(NodeError::unsupported("acquire with a fencing token"))
    }

    /// As [`extend`](LockNode::extend), where no counter of the resources is greater than `fence`: they become `fence`.
    ///
    /// Answers [`Granted`](Vote::Granted); refuses where a resource does not hold the token; and where all do, and a counter
    /// is greater, answers [`Superseded`](Vote::Superseded) and changes nothing. Where all do, and `fence` or a counter is
    /// not [plausible](FencingToken::is_plausible), it is an error of the kind [`Rejected`](NodeErrorKind::Rejected), and
    /// nothing is changed.
    async fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        let _ = (claim, ttl, fence);
        Err(NodeError::unsupported("confirm a fencing token"))
    }

    /// As [`acquire`](LockNode::acquire), where no counter of the resources is greater than `fence`: they become `fence`.
    ///
    /// Answers as [`confirm`](LockNode::confirm) does, but that what is absent is no reason to refuse.
    async fn refill_fenced(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        let _ = (claim, ttl, fence);
        Err(NodeError::unsupported("refill with a fencing token"))
    }

    /// Who has a resource here, without changing anything: the token and its remaining time, as they are at one and the
    /// same moment, or `None` where it is free. A key of another type is an error.
    ///
    /// A backend that can says so in its [capabilities](Capabilities::inspect).
    async fn inspect(&self, resource: &Resource) -> Result<Option<Holding>, NodeError> {
        let _ = resource;
        Err(NodeError::unsupported("inspect"))
    }

    /// Begins to watch a resource, and says how it stands from then on: whatever changes it afterwards completes
    /// [`Watch::changed`], whoever did it. By default core asks again from time to time instead.
    ///
    /// A backend that can says so in its [capabilities](Capabilities::watch).
    async fn watch(&self, resource: &Resource) -> Result<Watch, NodeError> {
        let _ = resource;
        Err(NodeError::unsupported("watch"))
    }

    /// The ordered connection that a request sent now would use, or `None` where there is no such thing.
    ///
    /// Requests sent over one connection are carried out in the order they were sent. A number stands for one
    /// connection and never comes back, so two equal readings mean that it stood all the while. Core uses it to know
    /// that a release came after a write whose reply was lost; without it, it asks twice.
    fn connection(&self) -> Option<ConnectionId> {
        None
    }

    /// Which server this has turned out to be, where the backend can tell. Nodes with the same identity count as one.
    ///
    /// Asked with every vote, so it should be a number that is there.
    fn server(&self) -> Option<ServerId> {
        None
    }

    /// What the backend can do beyond the three operations.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Checks whether this backend can lock a resource of this name. Called before anything is sent about it. The default
    /// allows every name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the backend uses the name for something else. The caller gets this error.
    fn check(&self, resource: &Resource) -> Result<(), Error> {
        let _ = resource;
        Ok(())
    }

    /// Notifies the backend of the [node timeout](crate::Builder::node_timeout). Called when a [`Redlock`](crate::Redlock) is
    /// built. A backend that connects should allow an attempt to connect at least this long. The default ignores it.
    fn set_node_timeout(&self, timeout: Duration) {
        let _ = timeout;
    }
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// Done, on every resource.
    Granted,
    /// No, and nothing was changed.
    Refused(Refusal),
    /// Done, on every resource, and its counters are at this now: the yes of
    /// [`acquire_fenced`](LockNode::acquire_fenced), and of nothing else.
    Counted(FencingToken),
    /// The resources are ours, and one has a counter greater than our fencing token; nothing was changed. With this number a newer
    /// claim has been here, so the node never counts for ours again.
    Superseded(FencingToken),
}

/// What a node tells along with its no. Both facts are optional: a backend says what it can tell cheaply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The token in our way.
    pub holder: Option<Token>,
    /// How long it will stand if nobody extends it, by the node's clock.
    pub remaining: Option<Duration>,
}

impl Refusal {
    /// A refusal because of `holder`.
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

/// What is under a resource on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// The token under it.
    pub token: Token,
    /// How long it will stand if nobody extends it, by the node's clock; `None` where it never expires, as another
    /// program may have it.
    pub remaining: Option<Duration>,
}

impl Holding {
    /// A resource that holds `token` and never expires.
    pub fn of(token: Token) -> Self {
        Self { token, remaining: None }
    }

    /// Adds the time after which it expires.
    #[must_use]
    pub fn expiring_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}

/// A watch over one resource on one node, as it was begun. See [`LockNode::watch`].
#[non_exhaustive]
pub struct Watch {
    /// How the resource stood at a moment from which on no change is missed.
    pub availability: Availability,
    /// Completes once the resource may have become free since, or when nothing more will be heard of it (a connection was
    /// lost). A hint: it may come without a cause, and says nothing about how the resource stands now; whoever wants to
    /// know begins another watch. Expiry may be told late, or not at all. Dropping it ends the watch.
    pub changed: BoxFuture<()>,
}

/// Whether a resource could be had on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// Nobody has it.
    Free,
    /// Somebody has it, for so long by the node's clock if it is not extended; `None` where that is not known, or for ever.
    Taken(Option<Duration>),
}

impl Watch {
    /// A watch that was begun when the resource was like this.
    pub fn new(availability: Availability, changed: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { availability, changed: Box::pin(changed) }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("availability", &self.availability).finish_non_exhaustive()
    }
}

/// One connection of a node, of all that it ever had. See [`LockNode::connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u64);

/// What tells a server from all others: a number that stands for whatever it is known by, such as the `run_id` of Redis.
/// Two servers have the same by chance once in 10^19 times, and would then have one vote between them: that is the safe side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(NonZeroU64);

impl ServerId {
    /// The identity of a server that is known by this text. It means something within this process only.
    pub fn new(known_by: impl AsRef<str>) -> Self {
        let mut hasher = DefaultHasher::new();
        known_by.as_ref().hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }

    /// The number that stands for it, for a backend that keeps it in an atomic.
    pub fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// From the number that stands for it.
impl From<NonZeroU64> for ServerId {
    fn from(number: NonZeroU64) -> Self {
        Self(number)
    }
}

/// What a backend can do beyond acquire, extend and release. By default nothing: every such ability is opt-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether [`LockNode::inspect`] answers.
    pub inspect: bool,
    /// Whether [`LockNode::watch`] answers. May change with the connection: asked before each use.
    pub watch: bool,
    /// Whether [`LockNode::acquire_fenced`], [`LockNode::confirm`] and [`LockNode::refill_fenced`] answer.
    pub fencing: bool,
    /// How long the counter of a resource is kept after the last fenced lock on it has expired. The default is 24 h.
    ///
    /// It also bounds what one node can do to fencing tokens. The backend rejects numbers that are further ahead of the
    /// node's clock (see [`FencingToken::is_plausible`]), and a counter that is further away from those of the other nodes
    /// gives its node no vote. Where nodes differ, the shortest time counts. Must not change while the node is in use.
    pub fence_retention: Duration,
}

/// No ability.
impl Default for Capabilities {
    fn default() -> Self {
        let fence_retention = Duration::from_secs(24 * 60 * 60);
        Self { inspect: false, watch: false, fencing: false, fence_retention }
    }
}

impl Capabilities {
    /// Adds the ability to [`inspect`](LockNode::inspect).
    #[must_use]
    pub fn with_inspect(mut self) -> Self {
        self.inspect = true;
        self
    }

    /// Adds the ability to [`watch`](LockNode::watch).
    #[must_use]
    pub fn with_watch(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Adds the ability to give out [fencing tokens](LockNode::acquire_fenced).
    #[must_use]
    pub fn with_fencing(mut self) -> Self {
        self.fencing = true;
        self
    }

    /// Sets how long [counters are kept](Capabilities::fence_retention) after the last fenced lock has expired.
    #[must_use]
    pub fn with_fence_retention(mut self, retention: Duration) -> Self {
        self.fence_retention = retention;
        self
    }
}

/// Why a node did not answer a request. Not for a refusal, which is an answer.
///
/// Its message is for people and holds no secrets. It may have the client's own error as its source.
#[derive(Clone)]
pub struct NodeError {
    kind: NodeErrorKind,
    message: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// What may have happened to a request without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// The node cannot be reached, and the request was certainly not sent.
    Unavailable,
    /// The request may have been sent, and may have been carried out or may be later: a lost connection, a lost reply.
    Unknown,
    /// The server answered with an error and changed nothing: out of memory, read-only, not permitted.
    Rejected,
    /// What lies under the resource's key is no lock. Nothing was changed.
    WrongType,
    /// This backend cannot do that. Nothing was sent.
    Unsupported,
}

impl NodeError {
    /// The node cannot be reached; nothing was sent.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unavailable, message)
    }

    /// The request was sent, or may have been, and its outcome is unknown.
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unknown, message)
    }

    /// The server answered with an error.
    pub fn rejected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Rejected, message)
    }

    /// The key of `resource` holds something that is no lock.
    pub fn wrong_type(resource: &Resource) -> Self {
        Self::new(NodeErrorKind::WrongType, format!("the key {resource:?} holds something other than a lock"))
    }

    /// This backend cannot do `operation`.
    pub fn unsupported(operation: &'static str) -> Self {
        Self::new(NodeErrorKind::Unsupported, format!("this backend cannot {operation}"))
    }

    /// Adds the client's own error.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What may have happened to the request.
    pub fn kind(&self) -> NodeErrorKind {
        self.kind
    }

    /// Says before the message what has failed.
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
