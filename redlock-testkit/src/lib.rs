//! For tests of locks: of services that take them, and of servers that give them.
//!
//! | to | there is |
//! |---|---|
//! | run code that locks, without any server | [`MemoryNode`] |
//! | see what it does when nodes hang, die, refuse or lose messages | [`FakeNode`], [`Fault`] |
//! | do that to any node, a real one too | [`Faulty`] |
//! | let hours of it pass in no time, and replay a run from a seed | [`sim`] |
//! | have servers and a network in it that do their worst | [`sim::Network`] |
//! | run the lock in thousands of such worlds, and check what must hold | [`experiment`], [`invariant`] |
//! | do it to real servers: kill, pause, restart | `RedisServer`, with feature `server` |
//! | prove a backend of your own | [`conformance!`] |
//! | do without an async runtime | [`ThreadRuntime`], [`block_on`] |
//!
//! # A service with fake nodes
//!
//! A service holds a [`Redlock`](redlock_core::Redlock), which has no type parameters: what a test hands in instead of
//! real nodes is up to the test. Nodes are handles, so the test keeps clones and looks at what the service did, or does
//! something to them.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use redlock_core::{Error, ErrorKind, Redlock};
//! use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
//!
//! struct Invoices {
//!     redlock: Redlock,
//! }
//!
//! impl Invoices {
//!     async fn send(&self, invoice: &str) -> Result<(), Error> {
//!         let guard = self.redlock.lock(invoice, Duration::from_secs(10)).wait(Duration::from_millis(50)).await?;
//!         // ...
//!         guard.release().await?;
//!         Ok(())
//!     }
//! }
//!
//! let nodes = fake_nodes(5, Arc::new(ThreadRuntime));
//! let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
//! let invoices = Invoices { redlock };
//!
//! // Two of five nodes may hang or crash.
//! nodes[0].inject(Fault::hang());
//! nodes[1].crash();
//! block_on(invoices.send("invoice:42"))?;
//! assert!(nodes[2..].iter().all(|node| node.inner().is_empty()), "released");
//!
//! // Three may not, and the service says why.
//! nodes[2].inject(Fault::unavailable());
//! let error = block_on(invoices.send("invoice:42")).unwrap_err();
//! assert_eq!(ErrorKind::NoQuorum, error.kind());
//! # Ok::<(), Error>(())
//! ```
//!
//! On tokio use `TokioRuntime` in place of [`ThreadRuntime`]: then `#[tokio::test(start_paused = true)]` makes hours of
//! waiting take no time, and keys expire by the same clock.
//!
//! # At a point of your choice
//!
//! Replies can be held back and let go one by one, so that a test can stop where it wants to:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use redlock_core::{Redlock, TokioRuntime};
//! use redlock_testkit::{Fault, Operation, fake_nodes};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), redlock_core::Error> {
//! let nodes = fake_nodes(3, Arc::new(TokioRuntime::new()));
//! let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
//! for node in &nodes {
//!     node.inject(Fault::hold_reply().on(Operation::Acquire));
//! }
//! let waiting = {
//!     let redlock = redlock.clone();
//!     tokio::spawn(async move { redlock.lock("a", Duration::from_secs(10)).await.is_ok() })
//! };
//! for node in &nodes {
//!     node.reached(Operation::Acquire, 1).await;
//! }
//! nodes[0].let_go().await; // one reply of three has come ...
//! waiting.abort(); // ... and the task is cancelled
//! assert!(waiting.await.is_err());
//!
//! redlock.close().await;
//! assert!(nodes.iter().all(|node| node.inner().is_empty()), "what was granted is undone");
//! # Ok(())
//! # }
//! ```
//!
//! # A world in which everything goes wrong
//!
//! [`sim::Network`] has servers with clocks of their own that crash, hang and lose data, and a network that loses, delays
//! and repeats messages. An [`Experiment`](experiment::Experiment) sends clients there and breaks things by a
//! [`Plan`](plan::Plan), drawn from a seed or written by hand; the [invariants](invariant) judge what happened:
//!
//! ```
//! use std::time::Duration;
//! use redlock_testkit::experiment::Experiment;
//! use redlock_testkit::plan::{Incident, Plan};
//! use redlock_testkit::timeline;
//!
//! let plan = Plan::new().at(Duration::from_secs(5), Incident::Hang { server: 0, lasts: Duration::from_secs(9) });
//! let report = Experiment::new(7).servers(3).plan(plan).run();
//! println!("{}", timeline::draw(&report.history, &report.violations, 100));
//! assert!(report.defects().next().is_none(), "{report}");
//! ```
//!
//! # Real servers
//!
//! With feature `server`, on Unix: `RedisServer::start_many(5)` starts five `redis-server` processes (or what the
//! environment variable `REDLOCK_SERVER` names), to be killed, paused and restarted, and looked into from outside. A test
//! that needs a server fails without one: it is not skipped.
//!
//! # A backend of your own
//!
//! See the module [`conformance`](mod@conformance).

#[cfg(all(feature = "server", not(unix)))]
compile_error!("the feature `server` of redlock-testkit starts, stops and kills processes as Unix does");

pub mod conformance;
pub mod experiment;
mod faulty;
pub mod history;
pub mod invariant;
mod memory;
pub mod plan;
#[cfg(all(feature = "server", unix))]
mod server;
pub mod sim;
mod threads;
pub mod timeline;

pub use crate::faulty::{FakeNode, Fault, Faulty, Operation, fake_nodes};
pub use crate::memory::MemoryNode;
#[cfg(all(feature = "server", unix))]
pub use crate::server::{Console, RedisServer, RedisServerBuilder, Reply};
pub use crate::threads::{ThreadRuntime, block_on};
