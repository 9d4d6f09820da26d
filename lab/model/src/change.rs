//! A separate model of a change of the nodes, with every interleaving.
//!
//! A program has the old node list, both lists, or the new list. With both, it needs a quorum of each. The model checks
//! that programs of neighbouring steps exclude each other while messages are late or lost, clients crash, and servers lose
//! their data. See [`Property`].
//!
//! ```
//! use redlock_model::change::{Changing, Lists, Program, Scope};
//! use redlock_model::{Rule, explore};
//!
//! let scope = Scope {
//!     lists: Lists::new(&[0], &[0, 1, 2]),
//!     programs: [Program::Old, Program::Both, Program::Absent],
//!     extensions: [0; 3],
//!     faults: 0,
//!     losses: 0,
//! };
//! let exploration = explore(Changing::new(scope));
//! assert!(exploration.violation.is_none() && exploration.states > 300);
//! ```
//!
//! # The rule
//!
//! - *Step 1* is the old list, *step 2* is both, and *step 3* is the new list. No attempt of step 3 begins before the
//!   attempts and leases of step 1 have ended, and none of step 1 afterwards.
//! - *Requests* go to all nodes of the lists of a program. A node in both lists receives each once.
//! - *Grant*: for an attempt and for an extension, a majority of each list of the program. A node in both lists counts in
//!   both.
//! - *Loss*: a node that has lost a key has no vote until the validity of its lease has ended. This is restart admission,
//!   which has [a model of its own](crate::admission).
//!
//! # Why it holds
//!
//! Two programs of steps 1 and 2, or 2 and 3, or of one step, have a list in common. Both need a majority of it, so one node
//! has counted for both. From there on, the argument is that of a single list.
//!
//! # Reduction of the states
//!
//! Time is abstracted as in most models: see the [crate](crate#time). In addition:
//!
//! - *Replies* arrive at once, as in the model of [kept locks](crate::keep).
//! - *Releases* are not part of the state. Once a lease or an attempt has ended, its key may be removed from each node at
//!   any time, or stay until it expires.
//! - *Crashes* are not part of the state. A client without further steps is one that has crashed. A program that is
//!   restarted with other lists is another client.
//! - *Partitions* are not part of the state. A request that is cut off is one that is carried out late, or never.
//! - *Quarantines* end as soon as the leases have ended whose keys were lost. They last longer in reality.

mod property;
mod protocol;
mod rule;
mod scope;
mod state;
mod step;
mod variant;

use crate::catalog::Explored;
pub use crate::change::property::Property;
pub use crate::change::protocol::Changing;
pub use crate::change::scope::{Lists, Program, SCOPES, Scope};
pub use crate::change::state::State;
pub use crate::change::step::{Request, RequestKind, Step};
pub use crate::change::variant::{CATALOG, Variant};

/// The explorations of this model.
pub const EXPLORED: Explored<Changing> =
    Explored { title: "Changes of the nodes", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: &[] };
