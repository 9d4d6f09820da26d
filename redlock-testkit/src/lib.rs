//! Testing utilities for services that use locks and for lock backends.
//!
//! | Task | Item | Section |
//! |---|---|---|
//! | Run code that locks, without any server | [`fake_redlock`] | [Fake nodes](#fake-nodes) |
//! | Test the behavior when nodes hang, crash, deny or lose messages | [`Fault`] | [Scripted faults](#scripted-faults) |
//! | Check which requests were sent | [`RequestLog`] | [Request log](#request-log) |
//! | Inject faults into any node, including a real one | [`Faulty`] | [Scripted faults](#scripted-faults) |
//! | Write a wrapper with other faults | [`Request`], [`Operation`] | [Custom faults](#custom-faults) |
//! | Simulate hours in milliseconds, and replay a run from a seed | [`sim`] | [Simulated time](#simulated-time) |
//! | Test a whole service | `examples/billing.rs` | [Service tests](#service-tests) |
//! | Verify a custom backend | [`conformance!`] | [Backend conformance](#backend-conformance) |
//! | Verify a custom runtime | [`runtime_conformance!`] | [Runtime conformance](#runtime-conformance) |
//! | Kill, pause and restart real servers | `RedisServer`, with feature `server` | [Real servers](#real-servers) |
//! | Test without an async runtime | [`ThreadRuntime`], [`block_on`] | [Fake nodes](#fake-nodes) |
//!
//! # Fake nodes
//!
//! [`fake_redlock`] returns a `Redlock` for the code under test, and its nodes for the test:
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_core::node::{Token, Ttl};
//! use redlock_testkit::{block_on, fake_redlock};
//!
//! let (redlock, nodes) = fake_redlock(3);
//! let ttl = Duration::from_secs(10);
//!
//! let guard = block_on(redlock.lock("invoice:42", ttl))?;
//! let held = nodes.iter().filter(|node| node.inner().holder("invoice:42").is_some());
//! assert!(held.count() >= 2, "a quorum");
//! block_on(guard.release())?;
//!
//! // Another client holds the lock.
//! for node in &nodes {
//!     node.inner().set_holder("invoice:42", Token::from_bytes("another"), Ttl::MAX);
//! }
//! assert!(block_on(redlock.lock("invoice:42", ttl).try_now())?.is_none());
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! Each node is a [`FakeNode`]: a [`MemoryNode`], which is a lock server in memory, behind a [`Faulty`], which injects
//! the faults of networks and machines. All three are handles: a clone is another client of the same server.
//! [`fake_redlock_on`] takes a runtime, and [`fake_nodes`] returns nodes for a builder with other options.
//!
//! # Scripted faults
//!
//! A [`Fault`] affects all later requests, those of one operation or resource, or a number of them. [`Faulty`] also
//! wraps any other node.
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_core::ErrorKind;
//! use redlock_testkit::{Fault, Operation, block_on, fake_redlock};
//!
//! let (redlock, nodes) = fake_redlock(3);
//! let ttl = Duration::from_secs(10);
//!
//! nodes[0].crash(); // a minority: the lock works without it
//! let guard = block_on(redlock.lock("invoice:42", ttl))?;
//!
//! // And a majority, once.
//! nodes[1].inject(Fault::disconnect().on(Operation::Extend).once());
//! assert_eq!(ErrorKind::NoQuorum, block_on(guard.extend(ttl)).unwrap_err().kind());
//! assert!(guard.is_held(), "a failed extension takes nothing away");
//! block_on(guard.extend(ttl))?;
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! The available faults:
//!
//! | Fault | Method |
//! |---|---|
//! | A node hangs, and carries all requests out when it resumes | [`Fault::hang`], [`resume`](Faulty::resume) |
//! | A node cannot be reached for a time | [`crash`](Faulty::crash), [`restart`](Faulty::restart) |
//! | A node crashes, and its server restarts with or without its data | [`crash`](Faulty::crash), [`restart_with_data`](FakeNode::restart_with_data), [`restart_empty`](FakeNode::restart_empty) |
//! | Requests or replies are lost, late, or denied | the other [`Fault`]s, [`on`](Fault::on) one operation, [`of`](Fault::of) one resource, [`once`](Fault::once) or [`times`](Fault::times) |
//! | A node loses its data, and does not count for a time | [`MemoryNode::set_longest_ttl`], [`flush`](MemoryNode::flush), [`restore`](MemoryNode::restore) |
//! | The clock of a node steps forward or runs fast | [`MemoryNode::step_clock`], [`set_clock_rate`](MemoryNode::set_clock_rate) |
//! | Another client holds the lock | [`MemoryNode::set_holder`] |
//! | A machine is paused or suspended, or crashes | [`pause`](sim::Process::pause), [`suspend`](sim::Process::suspend), [`kill`](sim::Process::kill) |
//! | Clocks differ | [`sim::Clock`] |
//!
//! ## Held replies
//!
//! A node can hold replies back and send them one by one, so that a test can stop at a chosen point:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use redlock_core::TokioRuntime;
//! use redlock_testkit::{Fault, Operation, fake_redlock_on};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), redlock_core::Error> {
//! let (redlock, nodes) = fake_redlock_on(3, Arc::new(TokioRuntime::new()));
//! for node in &nodes {
//!     node.inject(Fault::hold_reply().on(Operation::Acquire));
//! }
//! let waiting = {
//!     let redlock = redlock.clone();
//!     tokio::spawn(async move { redlock.lock("a", Duration::from_secs(10)).await.is_ok() })
//! };
//! for node in &nodes {
//!     node.wait_for_requests(Operation::Acquire, 1).await;
//! }
//! nodes[0].step().await; // one reply of three has come ...
//! waiting.abort(); // ... and the task is canceled
//! assert!(waiting.await.is_err());
//!
//! redlock.close().await;
//! let are_empty = nodes.iter().all(|node| node.inner().is_empty());
//! assert!(are_empty, "the granted keys are cleaned up");
//! # Ok(())
//! # }
//! ```
//!
//! ## Clocks
//!
//! Keys expire by the clock of the node. If it steps forward or runs fast, they expire early. With a longest TTL, such a
//! node has no vote:
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_core::Redlock;
//! use redlock_core::node::QuarantineReason;
//! use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
//!
//! let ttl = Duration::from_secs(10);
//! let nodes = ["fake-0", "fake-1", "fake-2"].map(MemoryNode::new);
//! nodes.iter().for_each(|node| node.set_longest_ttl(ttl));
//! let builder = || Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into));
//! let (redlock, other) = (builder().build()?, builder().build()?);
//!
//! let guard = block_on(redlock.lock("invoice:42", ttl))?;
//! nodes[0].step_clock(ttl);
//! nodes[1].set_clock_rate(83_333); // by 8.3 %
//!
//! let second = block_on(other.lock("invoice:42", ttl).try_now());
//! assert!(!matches!(second, Ok(Some(_))), "there is no second holder");
//! let health = block_on(redlock.health());
//! let reason = health.nodes()[0].quarantine().map(|quarantine| quarantine.reason);
//! assert_eq!(Some(QuarantineReason::ClockJumped), reason);
//! assert!(health.nodes()[1].is_clock_fast());
//! # drop(guard);
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! ## Custom faults
//!
//! A node begins every [`Request`] in [one method](redlock_core::node::LockNode::begin), and an [`Operation`] is the
//! kind of a request. A wrapper around a node can therefore record, delay, reorder, drop or repeat requests. [`Faulty`]
//! is written in this way.
//!
//! ```
//! use redlock_core::IntoResources;
//! use redlock_core::node::{Claim, LockNode, Token, Ttl};
//! use redlock_testkit::{MemoryNode, Request, block_on};
//!
//! let node = MemoryNode::new("fake-1");
//! let claim = Claim::new("orders:42".into_resources()?, Token::from_bytes("alice"));
//! let sent = [Request::Acquire(claim.clone(), Ttl::MAX), Request::Release(claim)];
//! for request in sent.into_iter().rev() {
//!     block_on(node.call(request))?; // the release overtakes the acquisition
//! }
//! assert!(node.holder("orders:42").is_some(), "a key is left behind");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Request log
//!
//! A node logs its [requests](Faulty::requests). A test selects those of a resource or of an operation, and a failed
//! assertion can show the others:
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_testkit::{Operation, block_on, fake_redlock};
//!
//! let (redlock, nodes) = fake_redlock(3);
//! let guard = block_on(redlock.lock("invoice:42", Duration::from_secs(10)))?;
//! block_on(guard.release())?;
//! let log = nodes[0].requests();
//! assert_eq!(1, log.of("invoice:42").on(Operation::Release).len(), "{log}");
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! # Simulated time
//!
//! A [`Simulation`](sim::Simulation) runs code in virtual time. Time does not move while a task can run, and jumps to
//! the next timer when none can. The order of ready tasks and every random byte are drawn from a seed. Hours therefore
//! pass in milliseconds, and a run can be replayed:
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock_core::KeepAlive;
//! use redlock_core::runtime::Runtime;
//! use redlock_testkit::sim::Simulation;
//! use redlock_testkit::{Fault, fake_redlock_on};
//!
//! let simulation = Simulation::new(42);
//! let service = simulation.process("service");
//! let (redlock, nodes) = fake_redlock_on(3, service.runtime());
//!
//! simulation.block_on(&service.clone(), async move {
//!     let request = redlock.lock("nightly", Duration::from_secs(30));
//!     let guard = request.keep_alive(KeepAlive::new()).await?;
//!     service.sleep(Duration::from_secs(8 * 3600)).await;
//!     assert!(guard.is_held(), "it was kept alive all night");
//!
//!     nodes[..2].iter().for_each(|node| node.inject(Fault::hang()));
//!     let _why = guard.lost().await;
//!     assert!(!guard.remaining().is_zero(), "reported before the lock expires");
//!     Ok::<(), redlock_core::Error>(())
//! })?;
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! [`for_each_seed`](sim::for_each_seed) repeats a test with many seeds, and reports the seed of a failure.
//!
//! The simulated runtime is for code that takes its time from a [`Runtime`](redlock_core::runtime::Runtime), as
//! everything in `redlock-core` does. Test code that calls tokio on `TokioRuntime`, with the same nodes.
//! `#[tokio::test(start_paused = true)]` makes hours of waiting take no time, and keys expire by the same clock. It
//! requires the feature `test-util` of tokio, for example in the dev-dependencies.
//!
//! # Service tests
//!
//! A service holds a [`Redlock`](redlock_core::Redlock), which has no type parameters, so a test can pass fake nodes
//! instead of real ones. Nodes are handles: the test keeps clones to inspect the service's locks and to inject faults.
//!
//! The example runs on several machines and charges each invoice once. Its tests hang a majority of the lock servers
//! and revoke the lock during a charge. They also stop a machine for longer than the TTL, and kill one. All of them
//! together take some milliseconds. The file is `examples/billing.rs`; copy it.
//!
//! ```
#![doc = include_str!("../examples/billing.rs")]
//! ```
//!
//! # Fencing tokens
//!
//! A lock with a [fencing token](redlock_core::LockRequest::fenced) guarantees order rather than time. Tokens grow with
//! every grant. A resource that has seen a newer token rejects a stale holder. [`MemoryNode`] issues them. A test can read its
//! [`fencing_counter`](MemoryNode::fencing_counter), [set or delete](MemoryNode::set_counter) it, and make the tokens
//! [predictable](MemoryNode::count_from_one).
//!
//! # Backend conformance
//!
//! A backend is a [`LockNode`](redlock_core::node::LockNode), or an `Arc` of a
//! [`node::Backend`](redlock_core::node::Backend). It has three required operations, and the documentation of the module
//! [`node`](redlock_core::node) states their contract. The conformance suite has a test for each sentence of it. Implement
//! [`Backend`](conformance::Backend), which creates a client of your server. The macro [`conformance!`] then generates a
//! `#[test]` for each case, in a file under `tests`:
//!
//! ```
//! use std::sync::Arc;
//!
//! use redlock_core::node::LockNode;
//! use redlock_testkit::MemoryNode;
//! use redlock_testkit::conformance::Backend;
//!
//! /// A separate server for each case: here, one in memory.
//! struct MyBackend(MemoryNode);
//!
//! impl Backend for MyBackend {
//!     /// Another client of the same server at each call.
//!     async fn node(&self) -> Arc<dyn LockNode> {
//!         self.0.clone().into()
//!     }
//! }
//!
//! redlock_testkit::conformance!(
//!     MyBackend(MemoryNode::new("a")),
//!     without: [admission, non_lock_values]
//! );
//! # fn main() {
//! # use redlock_testkit::conformance;
//! # conformance::cases().for_each(|case| { conformance::run(&MyBackend(MemoryNode::new("a")), case); });
//! # }
//! ```
//!
//! The suite checks:
//!
//! | Subject | Checks |
//! |---|---|
//! | acquire | sets all resources or none; never overrides another holder; the same token again changes nothing; a denial is accurate |
//! | extend | raises the TTL to at least the given one, never lowers it; only if every resource still holds the token; creates and restores nothing |
//! | release | deletes the keys with the token, and nothing else; returns `Deleted(false)` if there is none |
//! | names | any bytes in resources and tokens, up to the longest; several names differ from their concatenation |
//! | expiry | keys disappear when their TTL is over; the longest TTL is not short |
//! | concurrency | one of many is granted, all get a reply, two clients exclude each other |
//! | dropped calls | take effect as a whole or not at all, and the node stays usable |
//! | restart admission | a reply after a loss has no vote, for all clients; nor has a reply after a jump of the server's clock |
//! | fencing | a grant counts by one or goes to the time; a denial or a second copy counts nothing; a superseded request changes nothing; plain locks and releases leave counters alone |
//!
//! A complete backend with the suite (`examples/own_backend.rs`):
//!
//! ```
#![doc = include_str!("../examples/own_backend.rs")]
//! ```
//!
//! Optional features of a backend are checked only if it has them. Some are capabilities: `without` must list those that
//! the backend lacks, or their cases fail. See [all of them](mod@conformance#optional-capabilities).
//!
//! | Left at its default | Unchecked rule | Capability |
//! |---|---|---|
//! | [`Exchange::connection`](redlock_core::node::Exchange::connection) | requests keep their order; the core then sends a release twice instead of once | |
//! | [`Exchange::server`](redlock_core::node::Exchange::server) | two clients recognize that they use one server | |
//! | the holder in a [`Denial`](redlock_core::node::Denial) | it is the right one | |
//! | [`Profile::fencing`](redlock_core::node::Profile::fencing) | the counters; locks with fencing tokens then ignore the node | `fencing` |
//! | [`Backend::loss`](conformance::Backend::loss) | a loss of the server's data takes the votes away | `admission` |
//! | [`Backend::clock`](conformance::Backend::clock) | a jump of the server's clock takes the votes away | `clock` |
//! | [`Backend::no_lock`](conformance::Backend::no_lock) | a key of another type is an error for acquire, and nothing for release | `non_lock_values` |
//!
//! A backend that requires an async runtime overrides two more methods; see the module
//! [`conformance`](mod@conformance). A failed case reports the violated sentence of the contract.
//!
//! # Runtime conformance
//!
//! A [`Runtime`](redlock_core::runtime::Runtime) provides time, tasks and random numbers. The suite for it works the
//! same way:
//!
//! ```
//! redlock_testkit::runtime_conformance!(redlock_testkit::ThreadRuntime);
//! # fn main() {}
//! ```
//!
//! It checks that timers fire in order and not early, and that the clock never goes back. It also checks that tasks
//! run without a handle, that dropped timers and tasks leave the others alone, and that random numbers differ. A
//! runtime that must be driven overrides a method; see the module
//! [`runtime_conformance`](mod@runtime_conformance).
//!
//! # Real servers
//!
//! Feature `server`, on Unix, runs `redis-server` processes, or the program in the environment variable
//! `REDLOCK_SERVER`. Each has a free port of the loopback interface and a private directory. A test can kill, pause,
//! restart and inspect them. They end when the value that owns them is dropped. A test that requires a server fails
//! without one: it is not skipped.
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
//! servers[1].pause(); // as by SIGSTOP: it accepts connections, and replies to none
//! // ... what still works? ...
//! servers[1].resume();
//! servers[0].restart();
//! assert_eq!("PONG", servers[0].command(&["PING"]));
//! assert!(servers.iter().all(|server| server.keys().is_empty()), "nothing is left behind");
//! ```
//!
//! A [`Faulty`] wrapper around a node of a real server loses its replies at a chosen point.
//!
//! # Features
//!
//! `server` adds real servers, on Unix only. It is not enabled by default.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "server", not(unix)))]
compile_error!("the feature `server` of redlock-testkit starts, stops and kills processes as Unix does");

pub mod conformance;
#[doc(hidden)]
pub mod example;
mod faulty;
mod memory;
mod reply;
pub mod runtime_conformance;
#[cfg(all(feature = "server", unix))]
mod server;
pub mod sim;
mod threads;

pub use crate::faulty::{FakeNode, Fault, Faulty, RequestLog, fake_nodes, fake_redlock, fake_redlock_on};
pub use crate::memory::{MemoryNode, Snapshot};
pub use crate::reply::{holder, watching};
#[cfg(all(feature = "server", unix))]
pub use crate::server::{Console, RedisServer, RedisServerBuilder, Reply};
pub use crate::threads::{ThreadRuntime, block_on};
pub use redlock_core::node::{Operation, Request};

/// Compiles the examples of the README with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the examples of the chapter with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/custom-backends.md")]
struct OwnBackend;
