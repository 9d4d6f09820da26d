//! The contract of a backend: one independent lock server.
//!
//! # Custom backends
//!
//! Implement [`Backend`] for any store that can set an absent value with an expiry, and can compare a value before it
//! deletes it. [`label`](Backend::label) returns the name of the node, and [`reply_to`](Backend::reply_to) carries out a
//! [`Request`]. Three requests are required. Each has a [`Claim`] (resources and a token), and is atomic on its node:
//!
//! | Request | Effect | Reply |
//! |---|---|---|
//! | [`Acquire`] | sets every resource to the token with the TTL, or none of them | granted or denied |
//! | [`Extend`] | makes each TTL at least `ttl`, if all resources still hold the token | granted or denied |
//! | [`Release`] | deletes each resource that still holds the token, no others | deleted: `true` if any was |
//!
//! All others are optional. [`profile`](Backend::profile) returns the supported requests:
//!
//! - [`Inspect`](Request::Inspect) returns the holder of a resource.
//! - [`Watch`](Request::Watch) notifies waiters when a resource may be free.
//! - [`Keep`](Request::Keep) sets the remaining time of a lock that its owner no longer uses.
//! - [`AcquireShared`] lets many readers hold a resource: see [below](self#readers).
//!
//! # Connections
//!
//! A backend with connections implements [`LockNode`] instead. [`begin`](LockNode::begin) chooses the connection of a
//! request, once, and states it:
//!
//! - [`Exchange::connection`] lets the core finish its cleanup sooner.
//! - [`Exchange::server`] lets the core detect two names of one server.
//! - [`Begun::Connecting`] states that nothing was sent yet. A request that ends before it is sent needs no cleanup.
//!
//! A node that wraps another one, to record requests or to inject faults, forwards `begin`, and thus every operation.
//!
//! # Restart admission
//!
//! A server that comes back without its keys grants locks that other clients still hold. A backend that can detect this
//! excludes such a server until the lost locks have expired. Otherwise operators must do so. It has:
//!
//! - [`Profile::longest_ttl`], the bound of all TTLs. The core rejects longer ones.
//! - An [`Admission`], read when a request is sent and when its reply is read. [`Admission::judge`] takes votes away. A
//!   node is [quarantined](Quarantine) for the [time](Quarantine::duration) that follows from this bound, from the last
//!   loss that is possible.
//! - [`Status::quarantine`], so that waiting clients make no attempts meanwhile.
//! - [`Vouch`](Request::Vouch), with which an operator ends a quarantine.
//! - [`ServerClock`], with which a backend notices that the clock of its server has jumped ahead, so that keys have
//!   expired early. A [`ClockMeter`] measures the rate of the clock for [health checks](crate::NodeHealth::clock_rate).
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
//! or after the [time that the backend states](Profile::fence_retention).
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
//! # Order of waiters
//!
//! A backend can keep the [places](Place) of the requests that wait for a resource, in the order of the time that they have
//! waited. It states this in its [profile](Profile::places). A release then reserves the resource for the first of them.
//! The order is only fair, and not safe: a reservation is no vote, and a backend may forget places at any time. It may also
//! state the number of places ([`LockEntry::waiters`], [`Reply::Free`]), and the [position](Denial::position) of a place.
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
//! use redlock_core::node::{Backend, Denial, NodeError, Reply, Request, Token, async_trait};
//! use redlock_core::runtime::{Instant, suspend_aware_now};
//!
//! struct InProcess(Mutex<HashMap<Resource, (Token, Instant)>>);
//!
//! #[async_trait]
//! impl Backend for InProcess {
//!     fn label(&self) -> &str {
//!         "in-process"
//!     }
//!
//!     async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
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
//!             other => Err(NodeError::unsupported(other)),
//!         }
//!     }
//! }
//! ```

mod admission;
mod backend;
mod begun;
mod clock_meter;
mod profile;
mod reply;
mod request;
mod server_clock;
mod status;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use async_trait::async_trait;

pub use self::admission::{Admission, AdmissionId};
pub use self::backend::Backend;
pub use self::begun::{Begun, Connecting, Exchange};
pub use self::clock_meter::ClockMeter;
pub use self::profile::Profile;
pub use self::reply::Reply;
pub use self::request::{Operation, Request};
pub use self::server_clock::{ClockReading, ServerClock};
pub use self::status::Status;
pub use self::watch::{Availability, Watch};
pub use crate::types::claim::Claim;
pub use crate::types::denial::Denial;
pub use crate::types::entry::LockEntry;
pub use crate::types::identity::{ConnectionId, ServerId};
pub use crate::types::node_error::{NodeError, NodeErrorKind};
pub use crate::types::place::Place;
pub use crate::types::quarantine::{Quarantine, QuarantineReason};
pub use crate::types::token::Token;
pub use crate::types::ttl::Ttl;

use crate::types::error::Error;
use crate::types::resource::Resource;

/// One independent lock server.
///
/// The [module docs](self) describe how to implement a custom backend.
pub trait LockNode: Send + Sync + 'static {
    /// Returns a human-readable name of the node, such as `10.0.0.1:6379`.
    ///
    /// The name contains no secrets. It differs between all nodes of a [`Redlock`](crate::Redlock): two nodes with the
    /// same label are rejected, as one server that is listed twice.
    fn label(&self) -> &str;

    /// Returns the constant facts about the node. The default supports no optional operation.
    fn profile(&self) -> Profile {
        Profile::default()
    }

    /// Returns the present state, for hints and for display. The default knows nothing.
    fn status(&self) -> Status {
        Status::default()
    }

    /// Begins a request.
    ///
    /// [`Request`] states the effect of each operation and its replies. A node that does not support an operation
    /// replies with [`NodeError::unsupported`]. This function does not block, and sends nothing: the request is sent
    /// when its reply is first polled.
    ///
    /// The connection is chosen here, so the facts in the returned value belong to this request. Without a connection,
    /// nothing is sent: the core waits for the connection attempt, then begins the request again, if it still wants it.
    fn begin(&self, request: &Request) -> Begun;

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

    /// Checks whether this backend can lock these resources with one request.
    ///
    /// The core calls this before it sends anything about several resources, and with the gate of a reader. A cluster
    /// locks only resources whose keys are in one hash slot. The default allows all resources.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the resources are not together. The caller gets this error.
    fn check_together(&self, resources: &[Resource]) -> Result<(), Error> {
        let _ = resources;
        Ok(())
    }

    /// Notifies the backend of the [node timeout](crate::Builder::node_timeout).
    ///
    /// The core calls this when a [`Redlock`](crate::Redlock) is built. A backend with connections should allow at
    /// least this time for one connection attempt. The default ignores it.
    fn set_node_timeout(&self, timeout: Duration) {
        let _ = timeout;
    }

    /// Notifies the backend of the [clock drift factor](crate::Builder::clock_drift_factor).
    ///
    /// The core calls this when a [`Redlock`](crate::Redlock) is built. A backend that measures the rate of its server's
    /// clock logs a warning if the rate [exceeds](crate::ClockRate::exceeds) the factor. The default ignores it.
    fn set_clock_drift_factor(&self, factor: f64) {
        let _ = factor;
    }

    /// Carries out a request, and waits for the reply. For tests and tools: the core calls [`begin`](Self::begin).
    ///
    /// ```
    /// # use redlock_core::IntoResource;
    /// # use redlock_core::node::{LockNode, Reply, Request};
    /// # use redlock_testkit::{MemoryNode, block_on};
    /// let node = MemoryNode::new("a");
    /// let request = Request::Inspect("orders:42".into_resource()?);
    /// assert_eq!(Reply::Free { waiters: Some(0) }, block_on(node.call(request))?);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn call(&self, request: Request) -> Pin<Box<dyn Future<Output = Result<Reply, NodeError>> + Send + '_>> {
        Box::pin(async move {
            loop {
                match self.begin(&request) {
                    Begun::Sent(exchange) => return exchange.reply.await,
                    Begun::Connecting(attempt) => attempt.await,
                }
            }
        })
    }
}
