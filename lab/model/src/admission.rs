//! A separate model of the admission rule: servers may lose their data, and two leases are never valid at once.
//!
//! A server that has lost its data grants locks that other clients still hold. The rule keeps such a server from
//! counting until every lost key would have expired. The model contains what the rule depends on, over the same
//! explorer.
//!
//! ```
//! use redlock_model::admission::{Admission, SMALL};
//! use redlock_model::{Rule, explore};
//!
//! let exploration = explore(Admission::new(SMALL));
//! assert!(exploration.violation.is_none());
//! assert_eq!(2_362, exploration.states); // the first row of the table of explored scopes
//! ```
//!
//! # The rule
//!
//! Each node has a *stamp*: the identity of the server, and the time at which its wait began. No TTL is longer than the
//! wait.
//!
//! - *Look*: the first request on every connection reads the stamp. If it does not describe the server as it is, a new
//!   one replaces it, and the wait begins.
//! - *Admitted*: a node counts for a client if the client has looked over the present connection, and the wait is over.
//! - *Vote*: a reply counts only if its node is admitted, for extensions as for locks. A quorum is one of all nodes.
//! - *Notification*: a flush makes a connection unchecked before it delivers any later reply.
//!
//! Requests are sent to nodes that are not admitted as well, and their writes take effect.
//!
//! # Why it holds
//!
//! Let two leases X and Y be valid at time t. Some node n is in both quorums, and granted X before Y. When it granted Y,
//! the key of X was gone. It was not released and had not expired, so the node had lost it, at a time L between the two
//! grants. The vote for Y counts, so the wait that began after L was over by t. The wait is as long as the longest TTL.
//! Thus X, granted before L, has ended by t, which is a contradiction.
//!
//! The argument needs no induction and is the same for locks and extensions. The model shows which details it depends
//! on: see [`CATALOG`].
//!
//! # Time
//!
//! All clocks run evenly here, in ticks, and events within a tick have any order. A lease of one attempt ends after as
//! many ticks as its TTL, counted from the beginning of the round. A key expires after as many ticks, counted from the
//! moment at which it was set. The real wait is longer by the drift allowance. [`clocks`](crate::clocks) contains scopes
//! with clocks that step or run fast.
//!
//! # Omissions without loss
//!
//! - The names of the nodes, and those of two clients with equal bounds: states that differ only in them are one state.
//! - Denials, and keys of ended attempts and other clients: they only prevent grants.
//! - The arrival of replies. An earlier reply leads to a lease that is valid at least as long.
//! - Stamps of earlier servers, if no look reads anything in them.
//! - Everything that follows once a client has neither a lease nor an attempt left.
//!
//! The library counts fewer votes than this model. It rejects a vote if the node was not admitted when the request was
//! sent. Here the vote of an acquire that was carried out during the wait counts when the wait is over.

mod client;
mod clock;
mod description;
mod loss;
mod property;
mod protocol;
mod rule;
mod scope;
mod state;
mod step;
mod variant;

pub use self::clock::{Clocks, FirstLook};
pub use self::loss::Loss;
pub use self::property::Property;
pub use self::protocol::Admission;
pub use self::scope::{SCOPES, SMALL, Scope, Start, Transport};
pub use self::state::State;
pub use self::step::Step;
pub use self::variant::{CATALOG, HARMLESS, Variant};
use crate::catalog::Explored;

/// The explorations of this model.
pub const EXPLORED: Explored<Admission> =
    Explored { title: "The admission rule", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: HARMLESS };
