//! Every interleaving of the protocol in a small scope: two clients, three nodes, one resource.
//!
//! A simulation draws runs at random and misses errors that require an unlikely order of events. The model covers every
//! order within a [`Scope`]. Messages may be late, reordered, lost or repeated. Connections may break, keys and
//! validities end, and attempts may be dropped, each at every possible moment.
//!
//! Each state is visited once, and the [`PROPERTIES`] are checked in it. [`CATALOG`] contains broken variants of the
//! protocol with the property that detects each, since a check that cannot fail proves nothing.
//!
//! ```
//! use redlock_model::{Protocol, Rule, Scope, Transport, explore};
//!
//! let (attempts, extensions) = ([1, 1], [0, 0]);
//! let scope = Scope { transport: Transport::Streams, attempts, extensions, faults: 0, quarantine: false };
//! let exploration = explore(Protocol::new(scope));
//! assert!(exploration.violation.is_none() && exploration.states > 10_000);
//! ```
//!
//! # A model beside the real core
//!
//! The explorer of this crate also drives the rounds of `redlock-core` themselves (`round/exploration` there): acquire,
//! confirm, extend, refill, release and cleanup, with the same properties and broken rounds of its own. Its states are
//! paths of steps, which are built again to be compared, so its scopes are smaller. What it proves of the code does not
//! rest on this model any more. The model remains for larger scopes, for quarantine in them, and for the replay below; it
//! implements the protocol again, with plain values.
//!
//! The test `tests/replay` verifies that the two agree. It carries out random walks of the model with the real core, in
//! a scope larger than can be explored. After every step, the keys on the nodes, the open calls and the results of the
//! clients must be the same.
//!
//! The test `tests/core_runs` binds the other models in the other direction: histories of the real core are translated
//! into steps of the models, which must allow them. See `docs/internals/explored-scopes.md`.
//!
//! # Time
//!
//! The model has no clocks, only the orders of events that they allow. The end of a validity is a step
//! ([`Step::Lapse`]) that may come at any moment, in the order of the rounds of a lease.
//!
//! A key that counts for a round does not expire before this step, since it was set after the start of the round. The
//! drift allowance compensates for different clocks. After the step it may expire at any moment, and so may the key of
//! a lease that has ended.
//!
//! A second release is sent a node timeout after the reply to the first one. Every earlier message has arrived by then
//! or never does.
//!
//! Every real run within the assumptions on clocks and networks has one of these orders, for all TTLs, delays and
//! drifts. Thus a property that holds in all orders holds in it. The reverse is not true and not needed: keys of ended
//! leases may expire sooner here than any clock would allow.
//!
//! # Omissions without loss
//!
//! - The names of the nodes: states that differ only in them are one state.
//! - A release that is lost before it is carried out. It is sent again, so this equals a release that stays in flight.
//! - The arrival of replies to releases, and to writes of failed attempts. Only the next release on that node depends
//!   on it, and that may be carried out at any later time.
//! - Extensions whose call has ended. They cannot create a key but only prolong its life, and a key that lives longer
//!   has fewer possible futures.
//! - Requests that a node rejects or that were never sent. They are equal to lost ones, except for the pending cleanup.
//!
//! Out of scope are more clients, nodes and resources, and concurrent extensions of one lease. The same holds for the
//! queue of waiters within a process, several cleanups that wait for each other on one node, and nodes that lose keys.
//!
//! # Fencing
//!
//! Fencing tokens have a separate model, [`fence`], over the same explorer. Their guarantees do not depend on clocks,
//! so a state contains less, and more can be explored.
//!
//! # Losses of data
//!
//! Mutual exclusion requires more if nodes lose keys. The rule for this case has a separate model, [`admission`]. Its
//! scopes with clocks that step or run fast are in [`clocks`].
//!
//! # Readers and writers
//!
//! Locks that many readers share have a separate model, [`share`].
//!
//! # Kept locks
//!
//! A lock that lasts for the rest of a period after its guard has ended has a separate model, [`keep`].
//!
//! # Changes of the nodes
//!
//! Programs with the old node list, both lists, and the new list have a separate model, [`change`].
//!
//! # Order of waiters
//!
//! The order in which waiters of different processes acquire a lock has a separate model, [`order`].

pub mod admission;
mod call;
mod catalog;
pub mod change;
mod cleanup;
mod client;
pub mod clocks;
mod decision;
mod explore;
pub mod fence;
pub mod keep;
mod lease;
mod node;
pub mod order;
mod pack;
mod property;
mod protocol;
mod scope;
pub mod share;
mod state;
mod step;
mod variant;
mod vote;

pub use crate::catalog::{Broken, Explored, Harmless, Rule};
pub use crate::explore::{Exploration, Model, Violation, explore, explore_for};
pub use crate::property::{PROPERTIES, Property};
pub use crate::protocol::Protocol;
pub use crate::scope::{ATTEMPTS, CLIENTS, EXTENSIONS, NODES, SCOPES, Scope, Transport};
pub use crate::state::{Flight, Key, Order, State};
pub use crate::step::{Event, Request, RequestKind, Step};
pub use crate::variant::{CATALOG, Variant};

/// The explorations of locks.
pub const EXPLORED: Explored<Protocol> =
    Explored { title: "Locks", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: &[] };
