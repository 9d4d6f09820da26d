//! A separate model of readers and writers over a quorum, with every interleaving.
//!
//! Many readers or one writer hold a resource. Both need a majority of the nodes. Cleanup, connections and several
//! attempts of one client are those of locks, so the explored rounds of the core cover them. This model checks that a writer is the
//! only holder, and that readers do not change the entries of other readers. See [`Property`].
//!
//! ```
//! use redlock_model::{Rule, explore};
//! use redlock_model::share::{Role, Scope, Sharing};
//!
//! let scope = Scope {
//!     roles: [Role::Reader, Role::Writer, Role::Absent],
//!     extensions: [0; 3],
//!     faults: 0,
//! };
//! let exploration = explore(Sharing::new(scope));
//! assert!(exploration.violation.is_none() && exploration.states > 1_000);
//! ```
//!
//! # The rule
//!
//! Under the resource, a node has nothing, the entry of one writer, or the entries of readers. Each entry has a separate
//! expiry.
//!
//! - *Acquire*: if the entry exists already, the node grants and changes nothing. A writer is granted if the node has
//!   nothing. A reader is granted if the node has no writer. The node may deny a reader for any other reason.
//! - *Extend*: granted if the entry still exists. Then it expires later.
//! - *Release*: removes the entry, and nothing else. It is carried out any number of times.
//! - *Grant*: a majority of all nodes. A node that denies an extension may be refilled afterwards by an acquire that
//!   does not count.
//!
//! # Why it holds
//!
//! Let a writer and another client be valid at once. A majority has counted for the validity of each, so one node has
//! counted for both. An entry that counts exists until the validity has ended: it expires later, and only its own
//! release removes it, which ends the lease first. Thus the node had both entries when it counted the second time. But
//! it grants no entry beside that of a writer, and no writer beside an entry.
//!
//! The last step only needs denials, so a node may deny more than that. A waiting writer precedes new readers because
//! nodes deny them while it waits. This precedence cannot break exclusion, no matter when it begins and ends.
//!
//! # Reduction of the states
//!
//! Time is abstracted as in most models: see the [crate](crate#time). In addition:
//!
//! - *Releases* are not part of the state. Once a lease or an attempt has ended, its release may be carried out on each
//!   node at any time, never, or again.
//! - *Crashes* of clients are not part of the state. A client without further steps is one that has crashed.
//! - *Replies* to refills do not matter, since refills do not count.

mod property;
mod protocol;
mod rule;
mod scope;
mod state;
mod step;
mod variant;

use crate::catalog::Explored;
pub use crate::share::property::Property;
pub use crate::share::protocol::Sharing;
pub use crate::share::scope::{Role, SCOPES, Scope};
pub use crate::share::state::State;
pub use crate::share::step::{Request, RequestKind, Step};
pub use crate::share::variant::{CATALOG, Variant};

/// The explorations of this model.
pub const EXPLORED: Explored<Sharing> =
    Explored { title: "Readers and writers", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: &[] };
