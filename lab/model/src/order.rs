//! A separate model of the order of waiters in different processes, with every interleaving.
//!
//! ```
//! use redlock_model::{Rule, explore};
//! use redlock_model::order::{SMALL, Turns};
//!
//! let exploration = explore(Turns::new(SMALL));
//! assert!(exploration.violation.is_none() && exploration.states > 10_000);
//! ```
//!
//! # The rule
//!
//! A request that waits has a *place* on each node. Its score is the time at which the request began, as the node sees it.
//!
//! - *Acquire* with a place: if the key is absent and another place has the smallest score, the key is reserved for that
//!   place. Otherwise, an absent key, or one that is reserved for the own place, is set. Each denial enters the place.
//! - *Acquire* without a place: sets the key if it is absent.
//! - *Release*: deletes its own key, and reserves it for the place with the smallest score.
//! - *A failed attempt* is released at once, where it has been answered. This release enters the place, unless the key is
//!   reserved for it already. A node whose denial has entered the place receives a release without it, if no node
//!   granted. The nodes that answer later receive a release without a place. If too few nodes are usable, the request
//!   gives its place up, and attempts without one until it is denied.
//! - *A lock* ends its place on each node that denies it. Its release may enter the next request of its process.
//! - *The end* of a place removes it, and releases its reservation.
//! - *Ready*: a client attempts if a quorum of nodes is absent or reserved for it. If the nodes are reserved for several
//!   requests, those with the most nodes attempt.
//! - *Penalty*: an attempt with split votes may raise its score. The votes are split if some node granted, and no quorum
//!   denied because of one and the same key.
//! - *Again*: a request that waits may enter its place again on a node where its reservation has ended unused.
//! - *Oblivion*: a place of a request that has ended, and that no message enters or removes, ends at some time.
//!
//! The first attempt of a request has no place in the core. To save steps, it has one in most scopes.
//!
//! # Abstraction of time
//!
//! There are no clocks. Requests begin in *epochs*. A delay or a penalty changes the order of requests of one epoch, but
//! not that of two epochs. Without a fault, a reservation does not expire as long as its client is ready or a request is
//! in flight: it lives longer than a message travels. A lock does not expire before its release arrives.
//!
//! Progress is not a property of paths here. Each state has several quiet futures: all requests arrive, holders do
//! nothing more, and the waiters attempt one after another. The model counts the ends of reservations in the best of
//! them, in which any choice of the clients is moved by a split. Thus unlucky repetitions of split votes are not limited.
//!
//! # Omissions
//!
//! - The end of a place whose request still makes attempts, but none for so long that a node forgets it.
//! - Releases that cannot change a node, and repeated releases except the first.
//! - Extensions. Messages that two faults make late on one connection.
//! - The wait of a client before it uses absent keys: an attempt may begin at any moment.

mod client;
mod fault;
mod possible;
mod progress;
mod property;
mod protocol;
mod rule;
mod scope;
mod state;
mod step;
mod turns;
mod variant;

use crate::catalog::Explored;
pub use crate::order::property::Property;
pub use crate::order::protocol::Turns;
pub use crate::order::scope::{Fault, Role, SCOPES, SMALL, Scope};
pub use crate::order::state::{Key, Place, Request, State};
pub use crate::order::step::Step;
pub use crate::order::variant::{CATALOG, Variant};

/// The explorations of this model.
pub const EXPLORED: Explored<Turns> =
    Explored { title: "The order of waiters", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: &[] };
