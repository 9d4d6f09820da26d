//! A separate model of a lock that is kept for a time after its guard has ended, with every interleaving.
//!
//! A client that has finished a job keeps its lock for the rest of a period. It ends its renewals, waits for its writes,
//! and then sets the life of its keys, even to a shorter one. The model checks that no other client acquires the lock
//! before the promised end. Acquisition, cleanup and several attempts are those of locks, so the explored
//! rounds of the core cover them. See [`Property`].
//!
//! ```
//! use redlock_model::{Rule, explore};
//! use redlock_model::keep::{Keeping, Scope};
//!
//! let exploration = explore(Keeping::new(Scope { extensions: 0, faults: 0 }));
//! assert!(exploration.violation.is_none() && exploration.states > 1_000);
//! ```
//!
//! # The rule
//!
//! - *Keep*: sent to all nodes. A node that has the key of the client sets its life to the promised time and grants.
//!   Without this key, it denies. A majority of all nodes is a success.
//! - *Before*: no extension begins, and the calls of an open one are dropped. An acquire or a refill is awaited until its
//!   call has ended.
//! - *After*: the client sends nothing more. If too few nodes grant, the keys expire. If the client drops the operation
//!   while it waits for writes, it releases the lock.
//! - *Extend*: raises the life of a key, and never shortens it.
//!
//! # Why it holds
//!
//! A majority has counted for the success. Each of these nodes has set the life of the key after the promise began, so
//! the key cannot expire before the promised end. Acquires, refills and extensions that are carried out later do not
//! shorten it, and the client sends no release. Thus a majority of the nodes denies all other clients until the end.
//!
//! Late requests cannot lengthen the life either. All of them were sent before the keep, and each node carries out the
//! requests of one connection in their order. If their connection broke, they may be carried out afterwards,
//! and a key then lives for up to the TTL of the lock. This delays other clients, but does not break exclusion.
//!
//! # Reduction of the states
//!
//! Time is abstracted as in most models: see the [crate](crate#time). The promised end is another such step,
//! before or after the ends of the rounds. In addition:
//!
//! - *Replies* arrive at once. A later arrival only shortens the time in which a client relies on its grants. Otherwise, it
//!   equals a later call of the operation that waits for it.
//! - *The other client* makes one attempt, which it may drop at any moment. Its requests are carried out at any later
//!   moment, or never.
//! - *Keys* of a client that has ended may disappear at any moment, by their expiry or a release.

mod client;
mod property;
mod protocol;
mod rule;
mod scope;
mod state;
mod step;
mod variant;

use crate::catalog::Explored;
pub use crate::keep::property::Property;
pub use crate::keep::protocol::Keeping;
pub use crate::keep::scope::{SCOPES, Scope};
pub use crate::keep::state::State;
pub use crate::keep::step::{Request, RequestKind, Step};
pub use crate::keep::variant::{CATALOG, Variant};

/// The explorations of this model.
pub const EXPLORED: Explored<Keeping> =
    Explored { title: "Locks that are kept", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: &[] };
