//! The real core in simulated worlds: servers and networks with faults, histories, and the invariants that they must
//! keep.
//!
//! A [`Network`](network::Network) has [servers](server::Server) with their own clocks that crash, hang and lose data.
//! It loses, delays and repeats messages. An [`Experiment`](experiment::Experiment) runs clients there and injects
//! faults by a [`Plan`](plan::Plan), drawn from a seed or written by hand. Everything is recorded in a
//! [`History`](history::History), and the [invariants](invariant) check it:
//!
//! ```
//! use std::time::Duration;
//! use redlock_simulation::experiment::Experiment;
//! use redlock_simulation::plan::{Incident, Plan};
//! use redlock_simulation::timeline::Timeline;
//!
//! let plan = Plan::new().at(Duration::from_secs(5), Incident::Hang { server: 0, lasts: Duration::from_secs(9) });
//! let report = Experiment::new(7).servers(3).plan(plan).run();
//! println!("{}", Timeline::new(&report.history, &report.violations).text(100));
//! assert!(report.defects().next().is_none(), "{report}");
//! ```
//!
//! A violation is reported with its seed, the shortest prefix of the history that shows it, and a
//! [picture](timeline::Timeline) of that window. The following picture shows an overlap that no lock with a time limit can
//! prevent. This is why a holder has to check its lease before it acts:
//!
#![doc = include_str!("../../../docs/long-pause.svg")]
//!
//! # Failing runs
//!
//! A report prints the [command](experiment::Experiment::command) that repeats exactly its run, with all settings. Most
//! incidents of a failing run have nothing to do with its violation. [`shrink`](experiment::Report::shrink) removes them, and
//! clients, servers and time, while the same invariant is violated. `scripts/simulate` does this for the first defect that it
//! finds, and with `--seed N --shrink` for any run:
//!
//! ```
//! use redlock_simulation::experiment::Experiment;
//! use redlock_simulation::plan::Faults;
//!
//! let data_loss = |seed| Experiment::new(seed).servers(3).faults(Faults::named("data-loss").expect("it exists"));
//! let report = (0..).map(|seed| data_loss(seed).run()).find(|report| !report.violations.is_empty());
//! let report = report.expect("lost data violates an invariant in most runs");
//! let smallest = report.shrink(&report.violations[0]).report;
//! assert!(smallest.plan.incidents().len() < report.plan.incidents().len());
//! println!("{}", smallest.replay());
//! ```
//!
//! # Custom experiments
//!
//! Clients behave at random unless they have [scripts](experiment::Script). The playground runs such experiments on a
//! page. It shows the [knowledge](knowledge::knowledge) of each server and client at any moment.
//!
//! # The whole stack
//!
//! By default, a simulated server receives requests of the core. With [`whole`](experiment::Experiment::whole)
//! (`scripts/simulate --whole`), the clients use the nodes of `redlock-wire`. These send commands over connections of bytes,
//! and the servers run the scripts of the library in a real Lua (`redlock-server`). Thus the code that ships is the code that
//! runs: handshakes, pipelines, pushes, probes, restart admission and scripts. The history and the invariants are the same.
//! The history of a server does not rely on the replies of the scripts: it records which keys exist after each command.
//!
//! Depending on the seed, servers are of several releases, lack rights, forget their scripts, or are unavailable for a moment.
//! Clients receive pushes in order, without an order, or not at all. A connection that breaks may do so without a notice.
//!
//! Restart admission is the same in both: the fast layer uses the state, the rules and the script of `redlock-wire`, and only
//! carries looks, notifications and clock readings itself.
//!
//! # Fencing tokens
//!
//! [`Faults::Fencing`](plan::Faults::Fencing) (`scripts/simulate --faults fencing`) selects an experiment about fencing
//! tokens. Its clients acquire locks with and without tokens, and write to resources that check tokens. Meanwhile
//! servers lose locks at any time, and clocks are set. Locks overlap there, and the report names the broken assumption.
//! The tokens must stay correct:
//!
//! - Tokens are unique (I2) and increase (I3).
//! - An older lease is not extended once a newer one was granted (I4).
//! - No resource goes backward (I5).
//!
//! ```
//! use redlock_simulation::experiment::Experiment;
//! use redlock_simulation::invariant::Invariant;
//! use redlock_simulation::plan::Faults;
//!
//! let report = Experiment::new(7).servers(3).faults(Faults::Fencing).run();
//! assert!(report.history.fenced_grants() > 0);
//! assert!(report.violations.iter().all(|violation| violation.invariant != Invariant::Order), "{report}");
//! ```
//!
//! Tokens require that servers keep the counters, or that a server that has lost them stays out for long enough:
//!
//! | Faults | Servers | I2 to I5 |
//! |---|---|---|
//! | [`Fencing`](plan::Faults::Fencing) | lose locks, and keep counters; clocks are wrong and are set | hold |
//! | [`LateRestarts`](plan::Faults::LateRestarts) | lose counters, and stay out for [six seconds](invariant::STAYS_OUT) | hold |
//! | [`Violating(CountersAreKept)`](plan::Faults::Violating) | lose counters, and are back at once | are violated; the report names the broken assumption |
//! | the second with [`counters_without_time`](experiment::Experiment::counters_without_time) | count from 1 again | are violated |
//!
//! # Losses of data
//!
//! With [`Faults::Losses`](plan::Faults::Losses) (`scripts/simulate --faults losses`), servers restart without data, with
//! a part of it or with an older copy, and at once. They are flushed, and fail over and back. The clients check whether
//! servers may have lost locks. Thus a loss of data is within the bounds, and no invariant may be violated. In runs
//! about waiting, a free lock must be granted while at most a minority of the servers is down or in quarantine.
//! [`without_admission`](experiment::Experiment::without_admission) (`--admission off`) runs the same without the check,
//! and locks overlap. [`with_admission`](experiment::Experiment::with_admission) adds the check to other faults.
//!
//! ```
//! use redlock_simulation::experiment::Experiment;
//! use redlock_simulation::plan::Faults;
//!
//! let report = Experiment::new(7).servers(3).faults(Faults::Losses).run();
//! assert!(report.defects().next().is_none(), "{report}");
//! ```
//!
//! # Clocks
//!
//! With [`Faults::Clocks`](plan::Faults::Clocks) (`scripts/simulate --faults clocks`), the wall clocks of any number of
//! servers also step forward or run fast, at any time. The clients read the clock of a server behind every vote and once a
//! second, and compare it with their own ([`ServerClock`](redlock_core::node::ServerClock)). A jump is a loss of data, so no
//! invariant may be violated. With `--admission off`, locks overlap.
//!
//! Such a run keeps within the limits of that check:
//!
//! - TTLs are at least 1.5 s, and usual messages take up to 3 ms.
//! - The clocks of clients are right within 0.05 %.
//! - No clock is set back. A step back and forward between two readings is not noticed.
//!
//! A client that starts after a jump counts the server until another client renews the stamp. The history records each such
//! vote. A violation by it is no defect, and names the broken assumption
//! [`ClocksAreWatched`](invariant::Assumption::ClocksAreWatched).
//!
//! # Resources
//!
//! I5 also requires that a holder writes its token before its first read. With
//! [`without_initial_token_write`](experiment::Experiment::without_initial_token_write), updates are lost although the
//! tokens are in perfect order.

#[macro_use]
mod names;

pub mod attempts;
mod duration;
pub mod experiment;
pub mod history;
pub mod invariant;
pub mod knowledge;
pub mod network;
pub mod plan;
pub mod server;
pub mod timeline;
