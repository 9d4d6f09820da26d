//! A separate model of the order of waiters in different processes, with every interleaving.
//!
//! ```
//! use redlock_model::explore;
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
//! - *Acquire* with a place: if the key is absent and another place has a smaller score, the key is reserved for that
//!   place. Otherwise, an absent key, or one that is reserved for the own place, is set. Each denial enters the place.
//! - *Acquire* without a place: sets the key if it is absent.
//! - *Release*: deletes its own key, and reserves it for the place with the smallest score. A failed attempt keeps its
//!   place. The release of a lock, and of a request that gives up, removes the place and its reservation.
//! - *Ready*: a client attempts if any node is reserved for it, or if a quorum of nodes is absent.
//! - *Penalty*: an attempt with split votes may raise its score.
//!
//! # Abstraction of time
//!
//! There are no clocks. Requests begin in *epochs*. A delay or a penalty changes the order of requests of one epoch, but
//! not that of two epochs. Without a fault, a reservation does not expire as long as its client is ready or a request is
//! in flight: it lives longer than a message travels. A lock does not expire before its release arrives.
//!
//! Progress is not a property of paths here. Each state has several quiet futures: all requests arrive, holders do
//! nothing more, and the waiters attempt one after another. The model counts the ends of reservations in the best of
//! them. Thus unlucky repetitions of split votes are not limited.
//!
//! # Omissions
//!
//! - The end of places that were not renewed: the place of an ended request stays until a node reserves the key for it.
//! - Extensions. Messages that two faults make late on one connection.
//! - The wait of a client before it uses absent keys: an attempt may begin at any moment.

mod progress;
mod property;
mod protocol;
mod rule;
mod scope;
mod state;
mod step;
mod variant;

pub use crate::order::property::Property;
pub use crate::order::protocol::Turns;
pub use crate::order::scope::{Fault, Role, SCOPES, SMALL, Scope};
pub use crate::order::state::State;
pub use crate::order::step::Step;
pub use crate::order::variant::{Broken, CATALOG, HARMLESS, Variant};
