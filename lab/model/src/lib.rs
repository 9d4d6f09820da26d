//! Every interleaving of a rule in a small scope.
//!
//! A simulation draws runs at random and misses errors that require an unlikely order of events. An exploration covers every
//! order within a scope. Messages may be late, reordered, lost or repeated, connections may break, and keys and validities
//! may end, each at every possible moment.
//!
//! [`explore`] visits each state of a [`Model`] once, and checks its properties there. Each model has a catalog of
//! [broken](Broken) variants with the property that detects each, since a check that cannot fail proves nothing.
//!
//! ```
//! use redlock_model::order::{SMALL, Turns};
//! use redlock_model::{Rule, explore};
//!
//! let exploration = explore(Turns::new(SMALL));
//! assert!(exploration.violation.is_none() && exploration.states > 10_000);
//! ```
//!
//! # Explored rules
//!
//! Locks, readers and fencing tokens have no model. The explorer drives the rounds that ship
//! (`redlock-core/src/round/exploration`). The following rules have models, which implement them again with plain values.
//! The core has no round for them, or the world of a round is too large.
//!
//! | Module | Rule |
//! |---|---|
//! | [`admission`], [`clocks`] | the votes of nodes that may have lost keys, without and with clocks that step or run fast |
//! | [`keep`] | a lock that lasts for the rest of a period after its guard has ended |
//! | [`change`] | programs with the old node list, both lists, and the new list |
//! | [`order`] | the order in which waiters of different processes acquire a lock |
//!
//! The test `tests/core_runs` binds the models to the code: histories of the real core are translated into steps of the
//! models, which must allow them. Walks of the model of restart admission are carried out with the rule of `redlock-wire`.
//! Clocks are not compared. See `docs/internals/explored-scopes.md`.
//!
//! # Time
//!
//! Most models have no clocks, only the orders of events that they allow. The end of a validity is a step that may come at
//! any moment, in the order of the rounds of a lease. A key that counts for a round does not expire before this step, since
//! it was set after the start of the round, and the drift allowance compensates for different clocks. After the step it may
//! expire at any moment, and so may the key of a lease that has ended.
//!
//! Every real run within the assumptions on clocks has one of these orders, for all TTLs, delays and drifts. Thus a property
//! that holds in all orders holds in it. The reverse is not true and not needed: keys of ended leases may expire sooner here
//! than any clock would allow.

#[macro_use]
mod catalog;

pub mod admission;
pub mod change;
pub mod clocks;
mod decision;
mod explore;
pub mod keep;
mod lease;
pub mod order;
mod pack;
mod page;

pub use crate::catalog::{Broken, Detected, Explored, Harmless, Rule};
pub use crate::explore::{Exploration, Model, Violation, explore, explore_for};
pub use crate::page::Selection;
