//! The contract of a backend: one independent lock server.
//!
//! # Custom backends
//!
//! Implement [`LockNode`] for any store that can set an absent value with an expiry, and can compare a value before it
//! deletes it. [`label`](LockNode::label) returns the name of the node, and [`call`](LockNode::call) carries out a
//! [`Request`]. Three requests are required. Each has a [`Claim`] (resources and a token), and is atomic on its node:
//!
//! | Request | Effect | Reply |
//! |---|---|---|
//! | [`Acquire`] | sets every resource to the token with the TTL, or none of them | granted or denied |
//! | [`Extend`] | makes each TTL at least `ttl`, if all resources still hold the token | granted or denied |
//! | [`Release`] | deletes each resource that still holds the token, no others | deleted: `true` if any was |
//!
//! All others are optional. [`capabilities`](LockNode::capabilities) returns the supported requests:
//!
//! - [`Inspect`](Request::Inspect) returns the holder of a resource.
//! - [`Watch`](Request::Watch) notifies waiters when a resource may be free.
//! - [`Keep`](Request::Keep) sets the remaining time of a lock that its owner no longer uses.
//! - [`AcquireShared`] lets many readers hold a resource: see [below](self#readers).
//! - [`connection`](LockNode::connection) lets the core finish its cleanup sooner.
//! - [`server`](LockNode::server) lets the core detect two names of one server.
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
//! - [`Vouch`](Request::Vouch), with which an operator ends a quarantine.
//!
//! Every request is sent to a node in quarantine, and carried out there. The core only does not count its votes. Thus
//! all clients of a server need a backend that takes part, with the same bound.
//!
//! # Fencing
//!
//! A backend can issue [fencing tokens](crate::FencingToken) if it keeps a counter for each resource, separately and for
//! longer than the resource. It then has three more operations, each of them atomic. *Token* is the fencing token here:
//!
//! | Request | Effect | Reply |
//! |---|---|---|
//! | [`AcquireFenced`] | `Acquire`, and raises all counters to the [next] of the greatest | counted or denied |
//! | [`Confirm`] | `Extend`, if no counter is above the token; sets all to it | granted, denied or superseded |
//! | [`Refill`] | `Acquire`, if no counter is above the token; sets all to it | granted, denied or superseded |
//!
//! `Acquire`, `Extend` and `Release` do not change the counters. Plain and fenced locks exclude each other, and only
//! fenced locks are ordered. All checks come before the first change. An unused counter may be forgotten after a day,
//! or after the [time that the backend states](Capabilities::fence_retention).
//!
//! A counter or a number to be written that is [too far ahead](crate::FencingToken::is_plausible) of the node's clock is an
//! error. Nothing is changed then.
//!
//! # Readers
//!
//! A backend can let many readers hold a resource. Under the resource it then keeps a set of readers, each with a
//! separate expiry. The set holds no token as a lock does, so it excludes every other claim. Its operations are:
//!
//! | Request | Effect | Reply |
//! |---|---|---|
//! | [`AcquireShared`] | adds the token to the readers, unless the resource or the gate is locked | granted or denied |
//! | `Extend` | makes the time of this reader at least `ttl`, if it still reads | granted or denied |
//! | `Release` | removes this reader; the last one removes the resource | deleted: `true` if it still read |
//! | [`WatchShared`] | `Watch`, except that readers count as free | [`Watch`] |
//!
//! The *gate* is a second resource, which a waiting writer locks. For all other operations, readers are another holder:
//! a denial and an inspection name [`Token::of_readers`]. A resource has no readers if the time of the last one is over.
//!
//! # Denials and errors
//!
//! A denial is a reply, [`Reply::Denied`]. A [`NodeError`] means that there is no vote. Its kind states the
//! possible effects of the request: see [`NodeErrorKind`].
//!
//! The core handles timeouts, quorum, retries and cleanup. It drops calls that exceed the node timeout, so it must be
//! safe to drop a call. The core assumes that a dropped request may or may not be carried out.
//!
//! The conformance suite of `redlock-testkit` verifies a backend. It has one test for each sentence of these docs.
//!
//! [`Acquire`]: Request::Acquire
//! [`Extend`]: Request::Extend
//! [`Release`]: Request::Release
//! [`AcquireFenced`]: Request::AcquireFenced
//! [`Confirm`]: Request::Confirm
//! [`Refill`]: Request::Refill
//! [`AcquireShared`]: Request::AcquireShared
//! [`WatchShared`]: Request::WatchShared
//! [next]: crate::FencingToken::next
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//!
//! use redlock_core::Resource;
//! use redlock_core::node::{Denial, LockNode, NodeError, Reply, Request, Token, async_trait};
//! use redlock_core::runtime::{Instant, suspend_aware_now};
//!
//! struct InProcess(Mutex<HashMap<Resource, (Token, Instant)>>);
//!
//! #[async_trait]
//! impl LockNode for InProcess {
//!     fn label(&self) -> &str {
//!         "in-process"
//!     }
//!
//!     async fn call(&self, request: Request) -> Result<Reply, NodeError> {
//!         let mut held = self.0.lock().unwrap();
//!         let now = suspend_aware_now();
//!         held.retain(|_, (_, deadline)| *deadline > now);
//!         match request {
//!             Request::Acquire(claim, ttl) => {
//!                 let is_foreign =
//!                     |name| held.get(name).is_some_and(|(token, _)| token != claim.token());
//!                 if claim.resources().iter().any(is_foreign) {
//!                     return Ok(Reply::Denied(Denial::default()));
//!                 }
//!                 for resource in claim.resources() {
//!                     let entry = (claim.token().clone(), now + ttl.as_duration());
//!                     held.entry(resource.clone()).or_insert(entry);
//!                 }
//!                 Ok(Reply::Granted)
//!             }
//!             Request::Extend(claim, ttl) => {
//!                 let is_owned =
//!                     |name| held.get(name).is_some_and(|(token, _)| token == claim.token());
//!                 if !claim.resources().iter().all(is_owned) {
//!                     return Ok(Reply::Denied(Denial::default()));
//!                 }
//!                 for resource in claim.resources() {
//!                     let (_, deadline) = held.get_mut(resource).expect("checked above");
//!                     *deadline = (*deadline).max(now + ttl.as_duration());
//!                 }
//!                 Ok(Reply::Granted)
//!             }
//!             Request::Release(claim) => {
//!                 let before = held.len();
//!                 held.retain(|resource, (token, _)| {
//!                     token != claim.token() || !claim.resources().contains(resource)
//!                 });
//!                 Ok(Reply::Deleted(held.len() < before))
//!             }
//!             other => Err(NodeError::unsupported(&other)),
//!         }
//!     }
//! }
//! ```

mod admission;
mod capabilities;
mod denial;
mod entry;
mod error;
mod identity;
mod reply;
mod request;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use async_trait::async_trait;

pub use self::admission::{Admission, AdmissionId, Quarantine, QuarantineReason};
pub use self::capabilities::Capabilities;
pub use self::denial::Denial;
pub use self::entry::LockEntry;
pub use self::error::{NodeError, NodeErrorKind};
pub use self::identity::{ConnectionId, ServerId};
pub use self::reply::Reply;
pub use self::request::{Operation, Request};
pub use self::watch::{Availability, Watch};
pub use crate::types::claim::Claim;
pub use crate::types::token::Token;
pub use crate::types::ttl::Ttl;

use crate::types::error::Error;
use crate::types::resource::Resource;

/// One independent lock server.
///
/// The [module docs](self) describe how to implement a custom backend.
///
/// # Errors
///
/// A request fails with a [`NodeError`], whose [kind](NodeErrorKind) states the possible effects.
///
/// # Cancel safety
///
/// If the future of a request is dropped, at any await, it is unknown whether the request is carried out. It must be
/// carried out completely or not at all. A request that has not been sent by then must never be sent.
#[async_trait]
pub trait LockNode: Send + Sync + 'static {
    /// Returns a human-readable name of the node, such as `10.0.0.1:6379`.
    ///
    /// The name contains no secrets. It differs between all nodes of a [`Redlock`](crate::Redlock): two nodes with the
    /// same label are rejected, as one server that is listed twice.
    fn label(&self) -> &str;

    /// Carries out a request.
    ///
    /// [`Request`] states the effect of each operation and its replies. A node that does not support an operation
    /// returns [`NodeError::unsupported`].
    async fn call(&self, request: Request) -> Result<Reply, NodeError>;

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
    /// [`Keep`](Request::Keep) is not limited, so a key that is kept longer than this is not protected.
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
