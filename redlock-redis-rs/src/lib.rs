//! Redlock over independent Redis or Valkey servers, through the [redis] client.
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # async fn example() -> Result<(), redlock_redis_rs::Error> {
//! use std::time::Duration;
//!
//! let redlock = redlock_redis_rs::builder(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?.build()?;
//! let guard = redlock.lock("invoice:42", Duration::from_secs(10)).await?;
//! // ... work that nobody else does meanwhile ...
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! All of [`redlock_core`] is here too: one dependency is enough, and its front page is the guide to locking. Every node
//! opens a connection of its own; one that the application has already can be lent to it, with drawbacks: [`shared_node`].
//!
//! # Connecting
//!
//! A node is named by a URL, or by a configuration of the client ([`IntoConnector`]):
//!
//! | URL | is |
//! |---|---|
//! | `redis://[[user]:password@]host[:port][/database]` | TCP; port 6379 and database 0 if not given |
//! | `rediss://...` | the same over TLS |
//! | `valkey://...`, `valkeys://...` | other names of the two |
//! | `unix:///path[?db=1&user=...&pass=...]` | a Unix socket |
//!
//! `build()` connects to nothing. A node connects when it is first used, in a task of its own, and again whenever the
//! connection is lost: after 10 ms, then after longer and longer pauses up to 200 ms ([`Options::reconnect_delay`]), forever. So
//! a server that comes back votes again within a second, also without traffic. After a login or a certificate was refused the
//! pause is 5 s, so a password that is corrected on the server heals as well. A node that is known to be down answers at once
//! and holds nobody up. A connection over which requests fail without a reply is given up if a `PING` over it stays unanswered
//! as well, for 200 ms to a second: requests that a hung server has not read by then are discarded. A quiet connection is
//! probed every 5 s.
//!
//! # TLS
//!
//! A `rediss://` URL checks the server's certificate against the authorities that the system trusts, over rustls with the
//! feature `tls-rustls`, or over the platform's library with `tls-native-tls`. Without either it is refused when it is
//! parsed. rustls takes the cryptography provider of the process, and ring if there is none. A private authority, or a certificate for the client, is given beside the URL: `(url, TlsCertificates)`
//! (`examples/tls.rs`). A `Client` or `ConnectionInfo` that contains certificates, or that skips the check of the server's,
//! is rejected.
//!
//! # Hostile servers
//!
//! A node gives its connection up when the server sends a reply of more than 1 MiB, or one that is nested more than 8 deep,
//! and connects again as after any loss. So a server that sends without end, before the login or on an idle connection,
//! takes about 20 MB of memory at most, and its own vote. Two things follow:
//!
//! - Do not lock a name that is the key of something else with a value of 1 MiB or more: the server may send that value.
//! - A connection of the application's ([`shared_node`]) has only the bounds that the client gives it.
//!
//! # Names and leases from elsewhere
//!
//! A lock can have 1,000 names at most. If users choose names, set an [`Options::key_prefix`]. If a [`DetachedLease`] passes
//! through hands that you do not trust, authenticate it (a MAC): a forged lease deletes any key whose value its author
//! knows. The keys of [fencing counters](#fencing) can be neither locked nor released.
//!
//! # Time limits
//!
//! | limit | default | why |
//! |---|---|---|
//! | one attempt to connect: TCP, TLS, login, handshake | 300 ms, or the node timeout if that is longer, [`Options::connect_timeout`] | some four round trips around the world |
//! | one request | core's node timeout, 200 ms, [`Builder::node_timeout`] | none of the client's own: core drops a request that is late, and undoes it |
//!
//! # Fencing
//!
//! [Fenced](LockRequest::fenced) locks have a counter beside each resource, a key such as `redlock:fence:{invoice:42}` that is
//! kept for a day; [`Options::fence_prefix`] and [`Options::fence_retention`] change that. `docs/fencing.md` in the repository
//! has the whole.
//!
//! # Rights
//!
//! What a node asks of its server; `docs/running-the-nodes.md` in the repository has the line for `ACL SETUSER`. A server
//! that does not permit `EVALSHA` is not used: its locks could not be released.
//!
//! | for | commands |
//! |---|---|
//! | locking | `SET`, `GET`, `EVAL`, `EVALSHA`, and in scripts `SET`, `GET`, `PTTL`, `PEXPIRE`, `DEL` |
//! | knowing the server; without it a refused attempt takes two commands | `INFO` |
//! | fenced locks | `TIME`, in scripts; and the keys of the counters, `redlock:fence:*` |
//! | short requests; without it scripts are sent whole | `SCRIPT LOAD` |
//! | being woken; without it waiters poll | `CLIENT TRACKING`, `CLIENT CACHING`, `PTTL`, and RESP3 by `HELLO` |
//! | probing a quiet connection; without it the server logs a denial every 5 s | `PING` |
//!
//! # Servers
//!
//! Redis from 6.2 and Valkey; tested with Redis 7.0, Valkey 7.2 and 8.0. RESP3 where the server has it, otherwise RESP2.
//! What RESP2 loses: nobody is told when a lock becomes free, so waiters ask again every 100 to 200 ms (a warning says so
//! once), and a connection that is lost without traffic is noticed with the next request. Locking itself is the same.
//!
//! # Features
//!
//! | feature | does |
//! |---|---|
//! | `tokio` (default) | `builder`, on tokio |
//! | `smol` | `Options::smol`, for `builder_with` |
//! | `metrics` | counters and histograms through the `metrics` facade |
//! | `serde` | a lease that travels: `DetachedLease` is serialisable |
//! | `tls-rustls` | `rediss://` over rustls |
//! | `tls-native-tls` | `rediss://` over the platform's TLS library, unless `tls-rustls` is on too |
//!
//! Nodes need one of the two runtimes: without `tokio` and `smol` only [`redlock_core`] is here.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "tokio", feature = "smol"))]
mod address;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod builder;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod command;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod connection;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod net;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod push;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod reply;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod shared;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod socket;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod tls;

pub use redlock_core::{self, *};
pub use redlock_wire::{Address, Options};

#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::address::IntoConnector;
#[cfg(feature = "tokio")]
pub use crate::builder::builder;
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::builder::{Node, SharedNode, builder_with, node, shared_node};
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::connection::{Connection, Connector};
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::shared::Shared;

/// The README's example is compiled with the doctests.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../README.md")]
struct Readme;
