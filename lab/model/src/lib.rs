//! Every interleaving of the protocol in a small scope: two clients, three nodes, one resource.
//!
//! A simulation draws runs by lot and misses what needs an unlikely order of events. Here every order is looked at, within
//! a [`Scope`]: messages that are late, overtaken, lost or repeated, connections that break, keys that expire, validity
//! that ends, attempts that are given up, at every moment at which they can. States are looked at once, however they were
//! reached; the [`PROPERTIES`] are checked in each. [`CATALOGUE`] has broken variants of the protocol, and what finds
//! each: an exploration that finds nothing must be able to.
//!
//! ```
//! use redlock_model::{Protocol, Scope, Transport, explore};
//!
//! let scope = Scope { transport: Transport::Streams, attempts: [1, 1], extensions: [0, 0], faults: 0 };
//! let exploration = explore(Protocol::new(scope));
//! assert!(exploration.violation.is_none() && exploration.states > 10_000);
//! ```
//!
//! # A model, and not the real core
//!
//! The real core keeps its state in futures, which cannot be compared: driven directly, the same state would be looked at
//! once for every way that leads to it, and there are millions of ways. So the protocol is written down a second time, as
//! values. That the two agree is a test (`tests/replay`): random walks of the model, in a scope larger than can be
//! explored, are carried out with the real core, and after every step the keys on the nodes, the calls that are open and
//! what the clients were told must be the same.
//!
//! # What time is
//!
//! There are no clocks, only what they allow. Validity is a step of its own ([`Step::Lapse`]) that may come at any moment,
//! first that of a lease's first round, then that of the next. A key that counts for a round does not expire before: it
//! was set after the round had begun, and the drift allowance makes up for clocks that differ. After that it may expire at
//! any moment, and so may the key of a lease that has ended. A second release comes a node timeout after the first was
//! answered: what was sent before has arrived by then, or never does. Every real run within the assumptions on clocks and
//! networks keeps to these orders, whatever its TTLs, delays and drift; so what holds in all orders holds in it. The
//! reverse is not so, and need not be: keys of ended leases may expire sooner here than any clock would let them.
//!
//! # What is left out, and why nothing is lost
//!
//! - Which node is which: states that differ in it alone are one.
//! - A release that is lost before it is carried out: it is sent again, so it may as well be under way all the while.
//! - When the answer to a release arrives, or to a write whose attempt is lost: nothing depends on it but the next release
//!   on that node, and that may be carried out as late as one likes.
//! - Extensions whose call has ended: they cannot create a key, only let it live longer, and keys that live longer have
//!   fewer ways to go on.
//! - A request that a node rejects, or that was never sent: as if it were lost and never carried out, but for what is owed.
//!
//! Not bounded away but out of scope: more clients, nodes and resources, two extensions of one lease at once, nodes that
//! lose keys (exclusion does not hold then), what waits for its turn within a process, and several chases that wait for
//! each other on one node.
//!
//! # Fencing
//!
//! Fencing tokens have a model of their own, [`fence`], over the same explorer: what they promise does not depend on
//! clocks, so less stands in a state, and more can be explored.

mod call;
mod client;
mod explore;
pub mod fence;
mod node;
mod property;
mod protocol;
mod pursuit;
mod scope;
mod state;
mod step;
mod variant;
mod vote;

pub use crate::explore::{Exploration, Model, Violation, explore, explore_for};
pub use crate::property::{PROPERTIES, Property};
pub use crate::protocol::Protocol;
pub use crate::scope::{ATTEMPTS, CLIENTS, EXTENSIONS, NODES, Scope, Transport};
pub use crate::state::{Flight, Key, Order, State};
pub use crate::step::{Asks, Event, Request, Step};
pub use crate::variant::{Broken, CATALOGUE, Variant};
