//! A distributed lock over N independent servers, for any transport and runtime.
//!
//! Most programs use an adapter crate, which adds the transport and re-exports this crate: `redlock-redis-rs` or
//! `redlock-fred`. This crate contains the [Redlock] algorithm, and nothing that is specific to Redis, sockets or a
//! runtime.
//!
//! The root of this crate is for applications: a [`Redlock`] makes a [`LockRequest`], which results in a [`Guard`], which
//! is also a [`Lease`]. The module [`node`] is the contract of a backend, and the module [`runtime`] is the contract of a
//! runtime.
//!
//! # Safety
//!
//! At most one client holds a valid lease on a resource, on three conditions. All clients have the same list of nodes.
//! No node loses keys within their TTL. Clocks of nodes do not step forward, and clocks of nodes and clients do not
//! drift apart by more than the [drift factor](Builder::clock_drift_factor).
//!
//! A lease cannot stop its holder: after a pause past the validity, a stale holder may still write. Check
//! [`Lease::remaining`] before each effect, or work inside [`LockRequest::run`]. If a second write would be a catastrophe,
//! let the resource check a [fencing token](LockRequest::fenced).
//!
//! [Guarantees] lists every guarantee with its conditions, explains why mutual exclusion holds, and describes the
//! checks.
//!
//! # Terminology
//!
//! - A **node** is one independent lock server. A **quorum** is more than half of all nodes.
//! - A **resource** is the name that is locked. A **token** is the random value that identifies its holder.
//! - The **TTL** is the time for which a node keeps a lock without an extension. The **validity** is the time for which
//!   the holder may rely on the lock: TTL - elapsed - **drift**.
//! - A node *grants* or *denies* a request. Both are replies, and count as its **vote**. An *error reply* is not a
//!   vote.
//! - A **lease** is a view of a held lock. A **guard** owns a lease and releases it.
//!
//! # Locking
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! use std::time::Duration;
//! use redlock_core::{Redlock, ReleaseOutcome, TokioRuntime};
//! use redlock_testkit::MemoryNode;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
//! // Three nodes in memory. The builder of an adapter takes addresses instead.
//! let redlock = Redlock::builder(TokioRuntime::new())
//!     .node(MemoryNode::new("10.0.0.1:6379"))
//!     .node(MemoryNode::new("10.0.0.2:6379"))
//!     .node(MemoryNode::new("10.0.0.3:6379"))
//!     .build()?;
//! let ttl = Duration::from_secs(10);
//!
//! let guard = redlock.lock("invoice:42", ttl).await?;
//! assert!(guard.is_held() && guard.remaining() > Duration::from_secs(9));
//!
//! // While the lock is held: `None` at once, or an error after the wait.
//! assert!(redlock.lock("invoice:42", ttl).try_now().await?.is_none());
//! assert!(redlock.lock("invoice:42", ttl).max_wait(Duration::from_millis(5)).await.is_err());
//!
//! // Several resources, all or none, in any order.
//! let both = redlock.lock(["account:2", "account:1"], ttl).await?;
//!
//! guard.extend(ttl).await?;
//! assert_eq!(ReleaseOutcome::Released, guard.release().await?);
//! drop(both); // released in the background
//! redlock.close().await; // waits for the release
//! # Ok(()) }
//! ```
//!
//! # Holding
//!
//! [`LockRequest::run`] keeps the lock alive while some work runs, and cancels the work if the lock is lost. Without it,
//! request [keep-alive](LockRequest::keep_alive) and watch the lease:
//!
//! - [`Lease::state`] returns the present state.
//! - [`Lease::lost`] returns the reason of a loss before the validity ends.
//! - [`Lease::ending`] comes a [grace period](LockRequest::grace) earlier, so that the work can stop in an orderly way.
//!
//! Loss detection requires only that the waiting task is polled. It depends neither on the renewals nor on the nodes.
//! To move a lock to another process, use [`Guard::detach`] and [`Redlock::resume`].
//!
//! # Looking
//!
//! [`Redlock::inspect`] returns the present holder of a lock, and [`Redlock::observe`] each new one. [`Redlock::health`]
//! returns the nodes that accept locks.
//!
//! # Readers and writers
//!
//! [`Redlock::rw_lock`] returns a lock that many readers or one writer hold. A writer has a plain lock.
//!
//! # Fencing
//!
//! A [fenced](LockRequest::fenced) lock has a [`FencingToken`]: a number that increases with every grant. A resource
//! that rejects smaller numbers than it has seen rejects the writes of a stale holder once it has seen a newer number.
//! See [Fencing tokens].
//!
//! # Algorithm
//!
//! An attempt sends requests to all nodes at once, with a new token. It is won as soon as a quorum has granted and
//! validity is left. It is lost as soon as a quorum is impossible. Thus no attempt waits for a slow, hung or dead
//! minority.
//!
//! A lost attempt is cleaned up on all nodes in the background. It is retried when nodes signal that the lock may be
//! free, or after a random delay. If the outcome of a write is unknown, releases are repeated until it can no longer
//! take effect.
//!
//! # Defaults
//!
//! | Option | Default | Reason |
//! |---|---|---|
//! | [`max_wait`] | 10 s | enough for one or two critical sections |
//! | [`retry_delay`], without notifications | random, 100 ms to 200 ms | the reference's value |
//! | [`node_timeout`] | 200 ms, at most half of the TTL | two round trips around the world |
//! | [`clock_drift_factor`] | 1 % of the TTL, plus 2 ms | the reference's value, for clocks that are corrected slowly |
//! | rounds without a usable quorum | 3 in a row | more of them are an outage, not bad luck |
//! | renewals of [`KeepAlive`] | when two thirds of the TTL are left | time for retries |
//! | report of a loss ([`Lease::state`]) | TTL / 50 early, 1 ms to 500 ms | time to wake up and stop |
//! | [`max_attempts`] | unlimited | an attempt takes 1 ms or 200 ms, so time is limited instead |
//! | [`max_concurrent_attempts`] | 256, and as many renewals | keeps servers busy, and replies are read in time |
//! | [`local_queue`] | on | a mutex is cheaper than a lock server, and the queue is fair |
//! | attempt while nodes are watched | after 5 s, or when the key expires | covers lost notifications, costs little |
//! | [`owner`] label | none | it is sent to the servers, so it is opt-in |
//! | keep-alive | off for `lock`, on for `run` | an unsupervised lock must expire; `run` supervises its work |
//! | TTL | none: always explicit | the time that others wait after a crash; only the caller knows it |
//!
//! # Features
//!
//! - `blocking` adds the module `blocking`, for synchronous programs. It enables `tokio`.
//! - `tokio` and `smol` add a ready-made [`Runtime`](runtime::Runtime) each.
//! - `serde` makes a [`DetachedLease`] serializable and deserializable, and [`Health`], [`Inspection`], [`NodeReport`] and
//!   [`Error`] serializable.
//! - `metrics` adds counters and histograms through the `metrics` facade.
//!
//! Features add items, and never change the behavior of others. Spans and events are always emitted through `tracing`.
//! See [Monitoring] for all names.
//!
//! [Redlock]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
//! [Guarantees]: https://github.com/redlock-rs/redlock/blob/main/docs/guarantees.md
//! [Fencing tokens]: https://github.com/redlock-rs/redlock/blob/main/docs/fencing.md
//! [Monitoring]: https://github.com/redlock-rs/redlock/blob/main/docs/monitoring.md
//! [`max_wait`]: LockRequest::max_wait
//! [`retry_delay`]: LockRequest::retry_delay
//! [`node_timeout`]: Builder::node_timeout
//! [`clock_drift_factor`]: Builder::clock_drift_factor
//! [`max_attempts`]: LockRequest::max_attempts
//! [`max_concurrent_attempts`]: Builder::max_concurrent_attempts
//! [`local_queue`]: Builder::local_queue
//! [`owner`]: Builder::owner

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod decide;
pub mod kind {
    //! The kinds of locks, which are the parameters of a [`LockRequest`](crate::LockRequest) and its
    //! [`Guard`](crate::Guard).
    //!
    //! Most programs do not name a kind: the compiler infers it. Name it in the field of a struct, or in a signature:
    //!
    //! ```
    //! use redlock_core::kind::{Fenced, Owned, Slot};
    //! use redlock_core::{Error, Guard, LockRequest};
    //!
    //! struct Download {
    //!     connection: Guard<Fenced<Slot>>,
    //! }
    //!
    //! /// Acquires a lock of any kind except that of readers.
    //! async fn labeled<K: Owned>(request: LockRequest<K>) -> Result<Guard<K>, Error> {
    //!     request.owner("host-1").await
    //! }
    //! ```

    pub use crate::client::kind::{Exclusive, Fenceable, Fenced, Indexed, Kind, Owned, Sole};
    pub use crate::client::rw_lock::{Read, Write};
    pub use crate::client::slots::Slot;
}
mod lease;
#[cfg(all(test, loom))]
mod loom_fixtures;
pub mod node;
mod queue;
mod round;
pub mod runtime;
pub mod supervise {
    //! For programs that stop work themselves before its lock ends, such as a supervisor of processes.
    //!
    //! Work inside this library needs none of it: see [`LockRequest::grace`](crate::LockRequest::grace).

    pub use crate::decide::grace::Grace;
}
mod sync;
mod telemetry;
mod types;
mod watch;

pub use crate::client::announced::{AnnouncedList, AnnouncedLists};
pub use crate::client::builder::Builder;
pub use crate::client::guard::Guard;
pub use crate::client::health::{Health, ListHealth, NodeHealth};
pub use crate::client::inspect::{Inspection, LockStatus};
pub use crate::client::keep_alive::KeepAlive;
pub use crate::client::lead::{Candidate, Leadership, LeadershipState};
pub use crate::client::lease::Lease;
pub use crate::client::observe::Observer;
pub use crate::client::once_per::JobOutcome;
pub use crate::client::redlock::Redlock;
pub use crate::client::request::LockRequest;
pub use crate::client::run_error::RunError;
pub use crate::client::rw_lock::RwLock;
pub use crate::client::slots::{SlotToken, Slots};
#[cfg(feature = "smol")]
pub use crate::runtime::smol::SmolRuntime;
#[cfg(feature = "tokio")]
pub use crate::runtime::tokio::TokioRuntime;
#[cfg(feature = "metrics")]
pub use crate::telemetry::describe_metrics;
pub use crate::types::clock_rate::ClockRate;
pub use crate::types::detached::DetachedLease;
pub use crate::types::error::{Error, ErrorKind};
pub use crate::types::fencing_token::{FencingToken, InvalidFencingToken};
pub use crate::types::lease_state::{LeaseState, Loss};
pub use crate::types::node_list::NodeListDifference;
pub use crate::types::position::Position;
pub use crate::types::report::{NodeReport, Outcome, ReleaseOutcome};
pub use crate::types::resource::{IntoResource, IntoResources, Resource, Resources};
pub use crate::types::token::Fingerprint;

/// Compiles the examples of the README with the doctests.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;
