//! For tests of locks: of services that take them, and of servers that give them.
//!
//! | to | there is | in |
//! |---|---|---|
//! | run code that locks, without any server | [`MemoryNode`] | [Fake nodes](#fake-nodes) |
//! | see what it does when nodes hang, die, refuse or lose messages | [`FakeNode`], [`Fault`] | [Faults by a script](#faults-by-a-script) |
//! | do that to any node, a real one too | [`Faulty`] | the same |
//! | let hours of it pass in no time, and replay a run from a seed | [`sim`] | [Simulated time](#simulated-time) |
//! | test a service with all of that | `examples/billing.rs` | [A whole service](#a-whole-service) |
//! | run the lock in thousands of worlds in which servers and networks do their worst, and check what must hold | [`sim::Network`], [`experiment`], [`invariant`] | [A world in which everything goes wrong](#a-world-in-which-everything-goes-wrong) |
//! | see what happened in one of them | [`timeline`]; as a picture, with feature `svg` | the same |
//! | prove a backend of your own | [`conformance!`] | [Proving a backend](#proving-a-backend) |
//! | do things to real servers: kill, pause, restart | `RedisServer`, with feature `server` | [Real servers](#real-servers) |
//! | do without an async runtime | [`ThreadRuntime`], [`block_on`] | the next example |
//!
//! # Fake nodes
//!
//! A [`MemoryNode`] is a lock server in memory, and a handle: its clones are clients of the same server. The code under test
//! gets some, and the test keeps others, to look at what was locked, and to be somebody else:
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_core::{Redlock, Token, Ttl};
//! use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
//!
//! let nodes = ["one", "two", "three"].map(MemoryNode::new);
//! let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
//! let ttl = Duration::from_secs(10);
//!
//! let guard = block_on(redlock.lock("invoice:42", ttl))?;
//! assert!(nodes.iter().filter(|node| node.holder("invoice:42").is_some()).count() >= 2, "a quorum");
//! block_on(guard.release())?;
//!
//! nodes.iter().for_each(|node| node.put("invoice:42", Token::from_bytes("somebody else"), Ttl::MAX));
//! assert!(block_on(redlock.try_lock("invoice:42", ttl))?.is_none());
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! # Faults by a script
//!
//! A [`FakeNode`] is a [`MemoryNode`] behind a [`Faulty`], which does to requests what networks and machines do; it stands in
//! front of any other node as well. A [`Fault`] strikes all requests from then on, those of one operation, or so many:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use redlock_core::{ErrorKind, Redlock};
//! use redlock_testkit::{Fault, Operation, ThreadRuntime, block_on, fake_nodes};
//!
//! let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
//! let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
//! let ttl = Duration::from_secs(10);
//!
//! nodes[0].crash(); // a minority: the lock works without it
//! let guard = block_on(redlock.lock("invoice:42", ttl))?;
//!
//! nodes[1].inject(Fault::disconnect().on(Operation::Extend).once()); // and a majority, once
//! assert_eq!(ErrorKind::NoQuorum, block_on(guard.extend(ttl)).unwrap_err().kind());
//! assert!(guard.is_held(), "a failed extension takes nothing away");
//! block_on(guard.extend(ttl))?;
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! What there is to break:
//!
//! | what | how |
//! |---|---|
//! | a node hangs, and carries everything out when it goes on | [`Fault::hang`], [`resume`](Faulty::resume) |
//! | a node dies, and comes back with its data or without | [`crash`](Faulty::crash), [`MemoryNode::clear`], [`restart`](Faulty::restart) |
//! | requests or replies are lost, late, or refused | the other [`Fault`]s, [`on`](Fault::on) one operation, [`once`](Fault::once) or [`times`](Fault::times) |
//! | somebody else has the lock | [`MemoryNode::put`] |
//! | a machine is stopped, suspended, or dies | [`pause`](sim::Process::pause), [`suspend`](sim::Process::suspend), [`kill`](sim::Process::kill) |
//! | clocks run apart | [`sim::Clock`] |
//!
//! ## At a point of your choice
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
//! # Simulated time
//!
//! A [`Simulation`](sim::Simulation) runs code whose time stands still while there is something to do, and jumps where there
//! is not; which of several ready tasks comes first, and every random byte, is drawn from a seed. So hours pass in
//! milliseconds, and what happened once happens again:
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_core::{KeepAlive, Redlock, Runtime};
//! use redlock_testkit::{Fault, fake_nodes, sim::Simulation};
//!
//! let simulation = Simulation::new(42);
//! let service = simulation.process("service");
//! let nodes = fake_nodes(3, service.runtime());
//! let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
//!
//! simulation.block_on(&service.clone(), async move {
//!     let guard = redlock.lock("nightly", Duration::from_secs(30)).keep_alive(KeepAlive::new()).await?;
//!     service.sleep(Duration::from_secs(8 * 3600)).await;
//!     assert!(guard.is_held(), "it was kept alive all night");
//!
//!     nodes[..2].iter().for_each(|node| node.inject(Fault::hang()));
//!     let _why = guard.lost().await;
//!     assert!(!guard.remaining().is_zero(), "told before it is too late");
//!     Ok::<(), redlock_core::Error>(())
//! })?;
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! The simulated runtime is for code that takes time from a [`Runtime`](redlock_core::Runtime), as everything in
//! `redlock-core` does. Code that calls tokio is tested on `TokioRuntime`, with the same nodes:
//! `#[tokio::test(start_paused = true)]` makes hours of waiting take no time, and keys expire by the same clock.
//!
//! # A whole service
//!
//! A service holds a [`Redlock`](redlock_core::Redlock), which has no type parameters: what a test hands in instead of
//! real nodes is up to the test. Nodes are handles, so the test keeps clones, looks at what the service did, and does
//! something to them.
//!
//! This one runs on several machines and charges each invoice once. Its tests hang a majority of the lock servers, take
//! the lock away while it charges, stop a machine for longer than the lock lives, and kill one; all of them together take
//! some milliseconds. In the kit it is `examples/billing.rs`; copy it.
//!
//! ```
#![doc = include_str!("../examples/billing.rs")]
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
//! use redlock_testkit::timeline::Timeline;
//!
//! let plan = Plan::new().at(Duration::from_secs(5), Incident::Hang { server: 0, lasts: Duration::from_secs(9) });
//! let report = Experiment::new(7).servers(3).plan(plan).run();
//! println!("{}", Timeline::new(&report.history, &report.violations).text(100));
//! assert!(report.defects().next().is_none(), "{report}");
//! ```
//!
//! A violation is told with its seed, the shortest prefix of the history that shows it, and a picture of that window.
//! With feature `svg` the picture is a file too ([`Timeline`](timeline::Timeline)). This is what no lock with a time limit
//! can prevent, and why a holder has to look at its lease before it acts:
//!
#![doc = include_str!("../docs/long-pause.svg")]
//!
//! ## Fencing tokens
//!
//! A lock with a [fencing token](redlock_core::LockRequest::fenced) promises less about time and more about order: tokens
//! grow with every grant, and a resource that checks them refuses who comes too late. [`MemoryNode`] gives them out; a test
//! looks at its [`counter`](MemoryNode::counter), and [sets or loses](MemoryNode::set_counter) it.
//!
//! An experiment about them ([`Faults::Fencing`](plan::Faults::Fencing), `scripts/simulate --faults fencing`) has its clients
//! take locks with and without, and write to resources that check tokens, while servers lose locks at any time and clocks
//! are set. Locks overlap there, and the report says so with the assumption that was broken. Their tokens may not suffer:
//! they stay unique (I2) and grow (I3), an older lease is not extended once a newer one was granted (I4), and no resource
//! goes backward (I5).
//!
//! ```
//! use redlock_testkit::experiment::Experiment;
//! use redlock_testkit::invariant::Invariant;
//! use redlock_testkit::plan::Faults;
//!
//! let report = Experiment::new(7).servers(3).faults(Faults::Fencing).run();
//! assert!(report.history.fenced_grants() > 0);
//! assert!(report.violations.iter().all(|violation| violation.invariant != Invariant::Order), "{report}");
//! ```
//!
//! What tokens do take for granted is that the counters are kept, or that a server that has lost them stays out for long
//! enough:
//!
//! | faults | servers | so that I2 to I5 |
//! |---|---|---|
//! | [`Fencing`](plan::Faults::Fencing) | lose locks, and keep counters; clocks are wrong and are set | hold |
//! | [`LateRestarts`](plan::Faults::LateRestarts) | lose counters, and stay out for [six seconds](invariant::STAYS_OUT) | hold |
//! | [`Breaking(CountersAreKept)`](plan::Faults::Breaking) | lose counters, and are back at once | break, and the report names that |
//! | the second with [`counters_without_time`](experiment::Experiment::counters_without_time) | count up from 1 again | break |
//!
//! And I5 takes for granted that a holder writes its token before it first reads: with
//! [`reading_first`](experiment::Experiment::reading_first) updates are lost, tokens in perfect order.
//!
//! # Proving a backend
//!
//! A backend is a [`LockNode`](redlock_core::LockNode): three operations, whose contract the trait's docs state. The
//! conformance suite has a test for each sentence of it. Say how a client of your server is made, in an implementation of
//! [`Backend`](conformance::Backend), and let the macro make a `#[test]` of each case, in a file under `tests`:
//!
//! ```
//! use std::sync::Arc;
//!
//! use redlock_core::LockNode;
//! use redlock_testkit::MemoryNode;
//! use redlock_testkit::conformance::Backend;
//!
//! /// A server of its own for each case: here, one in memory.
//! struct Mine(MemoryNode);
//!
//! impl Backend for Mine {
//!     /// Another client of the same server at each call.
//!     async fn node(&self) -> Arc<dyn LockNode> {
//!         self.0.clone().into()
//!     }
//! }
//!
//! redlock_testkit::conformance!(Mine(MemoryNode::new("mine")));
//! # fn main() {
//! # use redlock_testkit::conformance;
//! # conformance::cases().for_each(|case| conformance::run(&Mine(MemoryNode::new("mine")), case));
//! # }
//! ```
//!
//! What it checks:
//!
//! | of | that |
//! |---|---|
//! | acquire | all resources or none; never what another holds; its own token again changes nothing; a refusal tells the truth |
//! | extend | at least the TTL, never less; only where every resource still has the token; creates nothing, revives nothing |
//! | release | what has the token, and nothing else; nothing of ours is an answer, not an error |
//! | names | any bytes in resources and tokens, up to the longest; several are not one that is joined |
//! | expiry | keys go when their TTL is over, the longest TTL is no short one |
//! | many at once | one of many is granted, all are answered, two clients exclude each other |
//! | calls that are dropped | whole or nothing, and the node stays usable |
//! | fencing | a grant counts by one or goes to the time; a refusal or a second copy counts nothing; what is superseded changes nothing; plain locks and releases leave counters alone |
//!
//! A whole backend, and the suite on it (`examples/own_backend.rs`):
//!
//! ```
#![doc = include_str!("../examples/own_backend.rs")]
//! ```
//!
//! What a backend does not claim is not held against it:
//!
//! | left at its default | then there is no check that |
//! |---|---|
//! | [`LockNode::connection`](redlock_core::LockNode::connection) | requests keep their order; core then releases twice where once would do |
//! | [`Capabilities::fencing`](redlock_core::Capabilities::fencing) | it counts; locks with fencing tokens then send it nothing |
//! | [`LockNode::server`](redlock_core::LockNode::server) | two clients know that they talk to one server |
//! | the holder in a [`Refusal`](redlock_core::Refusal) | it is the right one |
//! | [`Backend::no_lock`](conformance::Backend::no_lock) | a key of another type is an error to acquire, and nothing to release |
//!
//! A backend that needs an async runtime around it says so in two more methods; the module
//! [`conformance`](mod@conformance) shows that. A case that fails names the sentence
//! that is broken.
//!
//! # Real servers
//!
//! With feature `server`, on Unix: `redis-server` processes (or what the environment variable `REDLOCK_SERVER` names), each
//! on a free port of the loopback interface and with a directory of its own; killed, paused, restarted, looked into from
//! outside, and gone with the value that owns them. A test that needs a server fails without one: it is not skipped.
//!
#![cfg_attr(all(feature = "server", unix), doc = "```")]
#![cfg_attr(not(all(feature = "server", unix)), doc = "```ignore")]
//! use redlock_testkit::RedisServer;
//!
//! let servers = RedisServer::start_many(3);
//! let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
//! // ... let redlock = redlock_redis_rs::builder(urls)?.build()?; ...
//!
//! servers[0].kill(); // at once, as by SIGKILL
//! servers[1].pause(); // as by SIGSTOP: it accepts connections, and answers nobody
//! // ... what still works? ...
//! servers[1].resume();
//! servers[0].restart();
//! assert_eq!("PONG", servers[0].command(&["PING"]));
//! assert!(servers.iter().all(|server| server.keys().is_empty()), "nothing is left behind");
//! ```
//!
//! A real server under a [`Faulty`] node is a real server whose replies are lost at a point of your choice.
//!
//! # Features
//!
//! `server` adds real servers, on Unix only; `svg` adds timelines as SVG files. None is on by default.

#![cfg_attr(docsrs, feature(doc_cfg))]

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

/// The chapter's examples are compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/own-backend.md")]
struct OwnBackend;
