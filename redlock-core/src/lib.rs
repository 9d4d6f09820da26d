//! Redlock over N independent lock servers, for any transport and any async runtime.
//!
//! Most programs want an adapter crate, which brings the transport and re-exports this one: `redlock-redis-rs` or
//! `redlock-fred`. This crate is the algorithm: it knows no Redis, no sockets and no runtime.
//!
//! # Safety limits first
//!
//! A lock with a time limit is no fence. At most one valid holder exists at a time **if** no node loses a key within its
//! TTL, and no clock steps or runs beyond the drift factor. And a holder that is paused past its validity (a stopped
//! process, a suspended machine) may go on as if it still held the lock: ask [`Lease::remaining`] before an effect, and
//! where doing something twice would be a catastrophe, let the resource itself check, with a
//! [fencing token](LockRequest::fenced).
//!
//! # The words
//!
//! - A **node** is one independent lock server; a **quorum** is more than half of all nodes.
//! - A **resource** is the name that is locked; a **token** is the random value that stands for its holder.
//! - The **TTL** is how long a node keeps a lock when nothing more is heard of its holder. The **validity** is how long
//!   the holder may rely on it: TTL - elapsed - **drift**.
//! - A node *grants*, or it *refuses*: both are answers, its **vote**. A server that answers with an error *rejects*.
//! - A **lease** is what a holder has; a **guard** owns a lease and releases it.
//!
//! # Locking
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! # use std::sync::Arc;
//! # use redlock_testkit::MemoryNode;
//! use std::time::Duration;
//! use redlock_core::{LockNode, Redlock, Released, TokioRuntime};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
//! # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
//! let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
//! let ttl = Duration::from_secs(10);
//!
//! let guard = redlock.lock("invoice:42", ttl).await?;
//! assert!(guard.is_held() && guard.remaining() > Duration::from_secs(9));
//!
//! // Someone else has it: `None` from one attempt, an error once the wait is over.
//! assert!(redlock.try_lock("invoice:42", ttl).await?.is_none());
//! assert!(redlock.lock("invoice:42", ttl).wait(Duration::from_millis(5)).await.is_err());
//!
//! // Several resources, all or none, in any order.
//! let both = redlock.lock(["account:2", "account:1"], ttl).await?;
//!
//! guard.extend(ttl).await?;
//! assert_eq!(Released::Held, guard.release().await?);
//! drop(both); // released in the background
//! redlock.close().await; // waits for that
//! # Ok(()) }
//! ```
//!
//! # Holding
//!
//! [`Redlock::run`] keeps the lock alive while some work runs, and stops the work when the lock is lost. By hand: ask for
//! [keep-alive](LockRequest::keep_alive), and watch the lease: [`Lease::state`] says at each call how it stands,
//! [`Lease::lost`] tells the loss, with its reason, before the validity has passed. For that nothing has to run but the
//! task that waits: not the renewals, not the nodes. A lock goes to another process with [`Guard::detach`] and
//! [`Redlock::resume`].
//!
//! # Fencing
//!
//! A [fenced](LockRequest::fenced) lock has a [`FencingToken`]: a number that grows with every grant. A resource that refuses
//! smaller numbers than it has seen cannot be written by a holder that comes too late. `docs/fencing.md` in the repository
//! has the rule by which independent nodes agree on such numbers, its conditions, and how a resource checks.
//!
//! # How it decides
//!
//! An attempt asks all nodes at once, with a fresh token, and is decided at the first moment when it can be: won as soon
//! as a quorum granted and validity is left; lost as soon as a quorum has become impossible. A slow, hung or dead minority
//! costs nothing. A lost attempt, for whatever reason, is undone on all nodes in the background, and retried when
//! nodes tell that the lock may be free, or after a random delay. A write whose outcome is unknown is chased with releases until it cannot take effect any more.
//!
//! # Why it is safe
//!
//! 1. Two quorums of the same nodes share a node, and a node gives a resource to one token at a time. So two holders at
//!    once need a node whose key of the first was gone while the first still relied on it.
//! 2. The first relies on it until TTL - elapsed - drift after it had *begun* to ask, by a clock that counts suspension.
//!    No node started to count the TTL before it was asked; so no key can be gone by then, unless a node lost it, or
//!    counted the TTL faster than the drift allows.
//! 3. An extension counts only nodes that still hold the token, a quorum of all; it begins a new validity as an
//!    acquisition does, and one that fails leaves the old validity as it was.
//! 4. Each attempt has a token of its own, and a release deletes nothing but its token: undoing one attempt, however late,
//!    touches no other.
//!
//! What is assumed: nodes are independent of each other and keep keys until their TTL is over; the speed of clocks is right
//! to within the drift factor, and the servers' clocks are not stepped; a holder looks at its lease before an effect.
//! Nothing is assumed of messages: they may be lost, late, out of order or repeated. The repository checks this by
//! simulation, and by exploring every interleaving in small scopes (`docs/exhaustive.md`); what each assumption means in
//! operation stands in `docs/is-redlock-right.md` and `docs/running-the-nodes.md`.
//!
//! # Defaults
//!
//! | what | default | why |
//! |---|---|---|
//! | wait for someone else | 10 s | a critical section or two; [`wait`](LockRequest::wait) |
//! | retry delay, where nodes do not tell | random, 100 to 200 ms | as the reference; [`retry_delay`](LockRequest::retry_delay) |
//! | node timeout | 200 ms, at most half of the TTL | two round trips around the world; [`node_timeout`](Builder::node_timeout) |
//! | clock drift | 1 % of the TTL + 2 ms | as the reference, 20 times NTP's; [`clock_drift_factor`](Builder::clock_drift_factor) |
//! | rounds without a usable quorum | 3 in a row | beyond that it is an outage, not bad luck |
//! | renewals of keep-alive | when two thirds of the TTL are left | late or failed ones can be made up for; [`KeepAlive`] |
//! | loss is told before the deadline | TTL / 50, in 1 to 500 ms | time to be woken and to stop; [`Lease::state`] |
//! | attempts | not counted: the time is | an attempt may take 1 ms or 200; [`attempts`](LockRequest::attempts) |
//! | attempts in flight | 256, and as many renewals | enough to keep servers busy, few enough to read all replies in time; [`max_concurrent_attempts`](Builder::max_concurrent_attempts) |
//! | queue among the tasks of a process | on | a mutex is cheaper than a lock server, and it is fair; [`local_queue`](Builder::local_queue) |
//! | look again while nodes are watched | 5 s, or when the key expires | in case a node tells nothing; rare enough to cost nothing |
//! | owner's label | none | it goes to the servers, so it is asked for; [`owner`](Builder::owner) |
//! | keep-alive | off for `lock`, on for `run` | a lock that nobody looks after must end; work in `run` is looked after |
//! | TTL | none: explicit everywhere | it is the price of a crash, and only the caller knows it |
//!
//! # Features
//!
//! `tokio` and `smol` add a ready-made [`Runtime`] each; `serde` makes a [`DetachedLease`] serialisable; `metrics`
//! counts and times through the `metrics` facade. Features add items, and never change what others do.
//!
//! Spans and events go to `tracing` in any case; `docs/observability.md` in the repository has all names.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod attempts;
mod background;
#[cfg(redlock_broken)]
#[doc(hidden)]
pub mod broken;
#[cfg(not(redlock_broken))]
mod broken;
mod builder;
mod calls;
mod chase;
mod claim;
mod clock;
mod decide;
mod detached;
mod error;
mod extend;
mod fencing;
mod guard;
mod health;
mod inspect;
mod keepalive;
mod lease;
mod limiter;
pub mod node;
mod observe;
mod owner;
mod redlock;
mod release;
mod report;
mod request;
mod resource;
mod resume;
mod round;
mod run;
mod run_error;
pub mod runtime;
mod shared;
mod state;
mod throttle;
mod token;
mod ttl;
mod votes;
mod wait;

pub use async_trait::async_trait;

pub use crate::builder::Builder;
pub use crate::claim::Claim;
pub use crate::clock::{Instant, boot_time};
pub use crate::decide::hold::{LeaseState, Loss};
pub use crate::detached::DetachedLease;
pub use crate::error::{Error, ErrorKind};
pub use crate::fencing::{FencingToken, NoFencingToken};
pub use crate::guard::Guard;
pub use crate::health::{Health, NodeHealth};
pub use crate::inspect::{Finding, Inspection};
pub use crate::keepalive::KeepAlive;
pub use crate::lease::Lease;
pub use crate::node::{
    Availability, Capabilities, ConnectionId, Holding, LockNode, NodeError, NodeErrorKind, Refusal, ServerId,
    Vote, Watch,
};
#[cfg(feature = "metrics")]
pub use crate::observe::describe_metrics;
pub use crate::redlock::Redlock;
pub use crate::release::Released;
pub use crate::report::{NodeReport, Outcome};
pub use crate::request::{LockRequest, TryLockRequest};
pub use crate::resource::{IntoResource, IntoResources, Resource, Resources};
pub use crate::run_error::RunError;
#[cfg(feature = "smol")]
pub use crate::runtime::SmolRuntime;
#[cfg(feature = "tokio")]
pub use crate::runtime::TokioRuntime;
pub use crate::runtime::{BoxFuture, Runtime};
pub use crate::token::{Fingerprint, Token};
pub use crate::ttl::Ttl;
