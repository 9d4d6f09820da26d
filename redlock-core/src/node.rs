//! The contract of a backend: one independent lock server.
//!
//! # Custom backends
//!
//! Implement [`LockNode`] for any store that can set an absent value with an expiry, and can compare a value before it
//! deletes it. Three operations are required. Each has a [`Claim`] (resources and a token), and is atomic on its node:
//!
//! | Operation | Effect | Reply |
//! |---|---|---|
//! | [`acquire`] | sets every resource to the token with the TTL, or none of them | [`Vote`] |
//! | [`extend`] | makes each TTL at least `ttl`, if all resources still hold the token | [`Vote`] |
//! | [`release`] | deletes each resource that still holds the token, no others | `true` if any was deleted |
//!
//! [`label`](LockNode::label) returns the name of the node. All other methods have a default and are optional:
//!
//! - [`inspect`](LockNode::inspect) returns the holder of a resource.
//! - [`watch`](LockNode::watch) notifies waiters when a resource may be free.
//! - [`connection`](LockNode::connection) lets the core finish its cleanup sooner.
//! - [`server`](LockNode::server) lets the core detect two names of one server.
//! - [`keep_for`](LockNode::keep_for) sets the remaining time of a lock that its owner no longer uses.
//! - [`acquire_shared`](LockNode::acquire_shared) lets many readers hold a resource: see [below](self#readers).
//! - [`capabilities`](LockNode::capabilities) returns the supported operations.
//! - [`admission`](LockNode::admission) protects locks against a server that has lost its data.
//!
//! # Restart admission
//!
//! A server that comes back without its keys grants locks that other clients still hold. A backend that can detect this
//! excludes such a server until the lost locks have expired. Otherwise operators must do so. It implements:
//!
//! - [`longest_ttl`](LockNode::longest_ttl), the bound of all TTLs. The core rejects longer ones.
//! - [`admission`](LockNode::admission), which returns whether votes count. A node is [quarantined](Quarantine) for the
//!   [time](Quarantine::duration) that follows from this bound, from the last loss that is possible.
//! - [`connected`](LockNode::connected), if the node connects on first use.
//! - [`vouch`](LockNode::vouch), with which an operator ends a quarantine.
//!
//! Every request is sent to a node in quarantine, and carried out there. The core only does not count its votes. Thus
//! all clients of a server need a backend that takes part, with the same bound.
//!
//! # Fencing
//!
//! A backend can issue [fencing tokens](FencingToken) if it keeps a counter for each resource, separately and for
//! longer than the resource. It then has three more operations, each of them atomic. *Token* is the fencing token here:
//!
//! | Operation | Effect | Reply |
//! |---|---|---|
//! | [`acquire_fenced`] | `acquire`, and raises all counters to the [next] of the greatest | [`FencedVote`] |
//! | [`confirm`] | `extend`, if no counter is above the token; sets all to it | [`ConfirmVote`] |
//! | [`refill_fenced`] | `acquire`, if no counter is above the token; sets all to it | [`ConfirmVote`] |
//!
//! `acquire`, `extend` and `release` do not change the counters. Plain and fenced locks exclude each other, and only
//! fenced locks are ordered. All checks come before the first change. An unused counter may be forgotten after a day,
//! or after the [time that the backend states](Capabilities::fence_retention).
//!
//! A counter or a number to be written that is [too far ahead](FencingToken::is_plausible) of the node's clock is an
//! error. Nothing is changed then.
//!
//! # Readers
//!
//! A backend can let many readers hold a resource. Under the resource it then keeps a set of readers, each with a
//! separate expiry. The set holds no token as a lock does, so it excludes every other claim. Its operations are:
//!
//! | Operation | Effect | Reply |
//! |---|---|---|
//! | [`acquire_shared`] | adds the token to the readers, unless the resource or the gate is locked | [`Vote`] |
//! | `extend` | makes the time of this reader at least `ttl`, if it still reads | [`Vote`] |
//! | `release` | removes this reader; the last one removes the resource | `true` if it still read |
//! | [`watch_shared`] | [`watch`](LockNode::watch), except that readers count as free | [`Watch`] |
//!
//! The *gate* is a second resource, which a waiting writer locks. For all other operations, readers are another holder:
//! a denial and an inspection name [`Token::of_readers`]. A resource has no readers if the time of the last one is over.
//!
//! # Denials and errors
//!
//! A denial is a reply, for example [`Vote::Denied`]. A [`NodeError`] means that there is no vote. Its kind states the
//! possible effects of the request: see [`NodeErrorKind`].
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
//! [`acquire_shared`]: LockNode::acquire_shared
//! [`watch_shared`]: LockNode::watch_shared
//! [next]: FencingToken::next
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//!
//! use redlock_core::Resource;
//! use redlock_core::node::{Claim, Denial, LockNode, NodeError, Token, Ttl, Vote, async_trait};
//! use redlock_core::runtime::{Instant, suspend_aware_now};
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
//!             let holds = |resource| held.get(resource).is_some_and(|(token, _)| token == claim.token());
//!             if !claim.resources().iter().all(holds) {
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
//!     async fn release(&self, claim: &Claim) -> Result<bool, NodeError> {
//!         self.with(|held| {
//!             let before = held.len();
//!             held.retain(|resource, (token, _)| token != claim.token() || !claim.resources().contains(resource));
//!             Ok(held.len() < before)
//!         })
//!     }
//! }
//! ```

mod admission;
mod capabilities;
mod entry;
mod error;
mod identity;
mod vote;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use async_trait::async_trait;

pub use self::admission::{Admission, AdmissionId, Quarantine, QuarantineReason};
pub use self::capabilities::Capabilities;
pub use self::entry::LockEntry;
pub use self::error::{NodeError, NodeErrorKind};
pub use self::identity::{ConnectionId, ServerId};
pub use self::vote::{ConfirmVote, Denial, FencedVote, Vote};
pub use self::watch::{Availability, Watch};
pub use crate::types::claim::Claim;
pub use crate::types::token::Token;
pub use crate::types::ttl::Ttl;

use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::resource::Resource;

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
    /// Returns `true` if at least one was deleted, and `false` if no resource holds the token. Neither is an error. A
    /// key with a value that is not a lock is left as it is, and is not an error here.
    async fn release(&self, claim: &Claim) -> Result<bool, NodeError>;

    /// Acquires the claim, and raises the counters of its resources.
    ///
    /// Same as [`acquire`](LockNode::acquire). In addition, if something was set, the counters of all resources become
    /// the [next](FencingToken::next) of the greatest of them. If all resources hold the token already, nothing is
    /// changed, including the counters: a request that arrives twice counts once. (If a counter is gone by then, it is
    /// counted again.)
    ///
    /// Returns [`FencedVote::Granted`] with the value of the counters, or denies. If the next number would not be
    /// [plausible](FencingToken::is_plausible), the result is an error of the kind
    /// [`Rejected`](NodeErrorKind::Rejected), and nothing is changed. A counter is an error of the kind
    /// [`DamagedCounter`](NodeErrorKind::DamagedCounter) if it is not plausible, not a number, or at its maximum.
    ///
    /// A backend that supports this states it in its [capabilities](Capabilities::fencing), for this operation and the
    /// next two.
    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<FencedVote, NodeError> {
        let _ = (claim, ttl);
        Err(NodeError::unsupported("acquire with a fencing token"))
    }

    /// Extends the claim, and sets the counters of its resources to `fence`.
    ///
    /// Same as [`extend`](LockNode::extend), if no counter of the resources is greater than `fence`: then all of them
    /// become `fence`.
    ///
    /// - Returns [`Granted`](ConfirmVote::Granted) in this case.
    /// - Denies if a resource does not hold the token.
    /// - Returns [`Superseded`](ConfirmVote::Superseded) if all resources hold the token and a counter is greater.
    ///   Nothing is changed.
    /// - If all resources hold the token, fails with [`Rejected`](NodeErrorKind::Rejected) if `fence` is not
    ///   [plausible](FencingToken::is_plausible), and with [`DamagedCounter`](NodeErrorKind::DamagedCounter) if a
    ///   counter is not plausible. Nothing is changed.
    async fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<ConfirmVote, NodeError> {
        let _ = (claim, ttl, fence);
        Err(NodeError::unsupported("confirm a fencing token"))
    }

    /// Acquires the claim, and sets the counters of its resources to `fence`.
    ///
    /// Same as [`acquire`](LockNode::acquire), if no counter of the resources is greater than `fence`: then all of them
    /// become `fence`. The replies are those of [`confirm`](LockNode::confirm), except that an absent resource does not
    /// cause a denial.
    async fn refill_fenced(
        &self,
        claim: &Claim,
        ttl: Ttl,
        fence: FencingToken,
    ) -> Result<ConfirmVote, NodeError> {
        let _ = (claim, ttl, fence);
        Err(NodeError::unsupported("refill with a fencing token"))
    }

    /// Sets the TTL of each resource to `ttl`, even if it is shorter, if all resources hold the token.
    ///
    /// It is the last operation of a client on its claim. A backend that supports it states so in its
    /// [capabilities](Capabilities::keep).
    async fn keep_for(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        let _ = (claim, ttl);
        Err(NodeError::unsupported("keep a lock for a time"))
    }

    /// Adds the token to the readers of every resource of the claim, or of none of them.
    ///
    /// Granted if `gate` is absent, and each resource is absent or has readers. The time of this reader is `ttl` then.
    /// If the token reads all resources already, the request is granted, nothing is changed, and `gate` does not matter.
    ///
    /// Otherwise denied, and nothing is changed.
    ///
    /// A backend that supports this states it in its [capabilities](Capabilities::shared), for this operation and for
    /// [`watch_shared`](LockNode::watch_shared).
    async fn acquire_shared(&self, claim: &Claim, gate: &Resource, ttl: Ttl) -> Result<Vote, NodeError> {
        let _ = (claim, gate, ttl);
        Err(NodeError::unsupported("share a lock among readers"))
    }

    /// Begins to watch a resource for a reader. Same as [`watch`](LockNode::watch), except that readers count as free.
    async fn watch_shared(&self, resource: &Resource) -> Result<Watch, NodeError> {
        let _ = resource;
        Err(NodeError::unsupported("watch a lock for a reader"))
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
    /// belongs to one connection and is never reused. Thus two equal readings mean that the connection was the same all
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

    /// Returns the longest TTL that clients may request, if locks are protected against [lost data](Admission).
    ///
    /// The core rejects longer TTLs with [`InvalidInput`](crate::ErrorKind::InvalidInput), before it sends anything. The
    /// shortest of all nodes applies. It must not change while the node is in use. The time of
    /// [`keep_for`](LockNode::keep_for) is not limited, so a key that is kept longer than this is not protected.
    ///
    /// The default is `None`: there is no limit.
    fn longest_ttl(&self) -> Option<Duration> {
        None
    }

    /// Returns whether a vote counts on a request that is sent now, or whose reply is read now.
    ///
    /// The core calls this twice for every vote, so it should return a stored value. The vote counts if both values are
    /// equal, and not [`Quarantined`](Admission::Quarantined). Thus the identifier of an admission must have changed by
    /// the time when the reply to a request is returned, in each of these cases:
    ///
    /// - The request was sent over another connection.
    /// - The server had lost locks before it carried out the request.
    ///
    /// The default is [`Unchecked`](Admission::Unchecked): the votes always count.
    fn admission(&self) -> Admission {
        Admission::Unchecked
    }

    /// Waits until the connection attempt has ended that a request would wait for.
    ///
    /// The core calls this before it sends a request to a node that has no [connection](Self::connection), or that is not
    /// [checked](QuarantineReason::NotChecked). If the time limit of the request ends first, the request is never sent.
    /// Thus nothing has to be released there. The default returns at once.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing changes.
    // As `#[async_trait]` would write it, but without an allocation.
    fn connected<'a, 'f>(&'a self) -> Pin<Box<dyn Future<Output = ()> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(Connected)
    }

    /// Ends the quarantine of the server, for all clients: the caller asserts that no lock was lost.
    ///
    /// See [`Redlock::vouch`](crate::Redlock::vouch).
    async fn vouch(&self) -> Result<(), NodeError> {
        Err(NodeError::unsupported("vouch for its data"))
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

/// The default of [`LockNode::connected`].
struct Connected;

impl Future for Connected {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
