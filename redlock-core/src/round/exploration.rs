//! Every interleaving of the rounds in a small scope: two clients, three nodes, one resource.
//!
//! The rounds are those that ship. [`engine`] does the work of the engine without I/O, and [`node`] has the rules of nodes.
//! [`memory`] compares that node with the one of the testkit. `lab/model` contains the explorer.
//!
//! Requests and replies may be late, reordered or lost. Connections may break, requests may arrive twice, attempts may be
//! dropped, runtimes may end, and keys and validities may end, each at every possible moment within a
//! [scope](scope::Scope). In each state the [properties](property::Property) are checked. The
//! [catalog](catalog::CATALOG) contains broken rounds, with the property that detects each.
//!
//! # States
//!
//! A state is the path of steps that leads to it, because rounds cannot be packed. The world at the end of a path is
//! built from that at the end of the previous path, by a copy and a step. States are compared by a [digest]. It is exact
//! if states with one digest have the same futures. A test checks that in small scopes.
//!
//! # Time
//!
//! Time stands still, except that a step ends the validity of the earliest round of a lease
//! ([`Lapse`](step::Step::Lapse)). A key that counts for a round does not expire before this step, since it was set after
//! the start of the round. After it, and after the end of its lease, a key may expire at any moment. Every real run
//! within the assumptions on clocks has one of these orders.
//!
//! The second release of a claim is sent a node timeout after the reply to the first one. Every earlier request has been
//! carried out by then, or never is.
//!
//! # Omissions without loss
//!
//! - A release that is lost before it is carried out. It is sent again, so this equals a release that stays in flight.
//! - The arrival of replies to releases, and to claims of ended attempts. Only the next release on that node depends on
//!   it, and that may be carried out at any later time.
//! - Extensions whose calls have ended. They only prolong the life of a key, and a key that lives longer has fewer
//!   possible futures. Confirmations also raise a counter, so they are kept where keys [vanish](scope::Keys::Forgotten).
//! - Where keys vanish, the later arrival of a reply. A request may be carried out at any time, so a reply arrives at once or
//!   never.
//! - The order in which calls are heard that end together, because a validity or a connection has ended.
//!
//! # Not explored
//!
//! - The engine itself.
//! - Requests that wait for a connection before they are sent.
//! - More than two extensions of one lease.
//! - Two extensions at once while another client makes attempts: this exploration did not end in 20 CPU minutes.
//! - Extensions with different TTLs.
//! - The margin before a deadline, in which a loss is reported although the lease is valid.
//! - The queue of waiters, and the turn that a release gives to the next one.
//! - Locks that are kept, and losses of data by nodes, which have models in `lab/model`.

#![allow(clippy::needless_pass_by_value)] // rounds get what ends with them

mod apply;
mod broken;
mod catalog;
mod describe;
mod digest;
mod engine;
mod memory;
mod model;
mod node;
mod possible;
mod property;
mod scope;
mod step;
mod tests;
mod world;
