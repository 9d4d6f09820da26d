//! A distributed lock over independent Redis or Valkey servers, through the [redis](https://docs.rs/redis) client.
//!
//! A client holds a lock once a majority of the servers has granted it ([Redlock]). Thus locking survives the failure
//! of any minority of the servers. A lock expires after its TTL, even if its holder crashes.
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # mod example {
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), redlock_redis_rs::Error> {
//!     let nodes = ["redis://127.0.0.1:7001", "redis://127.0.0.1:7002", "redis://127.0.0.1:7003"];
//!     let redlock = redlock_redis_rs::builder(nodes)?.build()?;
//!     let ttl = Duration::from_secs(10);
//!
//!     let guard = redlock.lock("invoice:42", ttl).await?;
//!     println!("locked for {:.1?}", guard.remaining());
//!     guard.release().await?;
//!
//!     // Renews the lock while the work runs, and cancels the work if the lock is lost.
//!     let rows = redlock.lock("report", ttl).run(async |_lease| 42).await?;
//!     println!("{rows} rows");
//!
//!     redlock.close().await; // completes pending cleanup
//!     Ok(())
//! }
//! # }
//! # fn main() {}
//! ```
//!
//! [Getting started] starts three servers for this program.
//!
//! # Common operations
//!
//! | Task | Item |
//! |---|---|
//! | Wait for a lock | [`Redlock::lock`], with [`max_wait`](LockRequest::max_wait) |
//! | Lock without a wait | [`LockRequest::try_now`] |
//! | Work under a lock that is renewed | [`LockRequest::run`], [`keep_alive`](LockRequest::keep_alive) |
//! | Detect a loss | [`Lease::is_held`], [`Lease::lost`] |
//! | Lock several resources, all or none | `redlock.lock(["a", "b"], ttl)` |
//! | Run a job once a period | [`LockRequest::once_per`] |
//! | Elect a leader | [`LockRequest::lead`] |
//! | Admit up to K holders | [`Redlock::slots`] |
//! | Admit many readers or one writer | [`Redlock::rw_lock`] |
//! | Let the resource reject stale holders | [`LockRequest::fenced`] |
//! | Find the holder | [`Redlock::inspect`] |
//! | Check the nodes | [`Redlock::health`] |
//! | Lock in a synchronous program | the module `blocking`, with the feature of this name |
//!
//! [Patterns] has complete examples. [Guarantees] states the conditions of mutual exclusion: all programs list the same
//! nodes, nodes keep keys, and clocks run evenly. After a pause longer than the TTL, a stale holder may still write.
//!
//! This crate re-exports [redlock-core](https://docs.rs/redlock-core), with its modules `kind`, `node` and `runtime`, so one
//! dependency is enough.
//!
//! [Redlock]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
//! [Getting started]: https://github.com/redlock-rs/redlock/blob/main/docs/getting-started.md
//! [Patterns]: https://github.com/redlock-rs/redlock/blob/main/docs/patterns.md
//! [Guarantees]: https://github.com/redlock-rs/redlock/blob/main/docs/guarantees.md
//!
//! # Connecting
//!
//! Every node opens its own connection. A node can also use a connection of the application, with some drawbacks: see
//! [`node_with_connection`].
//!
//! A node is configured by a URL, or by a configuration of the client ([`IntoConnector`]):
//!
//! | URL | Meaning |
//! |---|---|
//! | `redis://[[user]:password@]host[:port][/database]` | TCP; the default port is 6379, the default database 0 |
//! | `rediss://...` | the same over TLS |
//! | `valkey://...`, `valkeys://...` | aliases of the two |
//! | `unix:///path[?db=1&user=...&pass=...]` | a Unix socket |
//! | `redis+sentinel://[[user]:password@]host[:port],.../service[/database]` | the master that [sentinels](#sentinel) name |
//! | `redis+cluster://[[user]:password@]host[:port],...` | the shards of a [cluster](#cluster) |
//!
//! `build()` does not connect. A node connects on first use, in a separate task, and again whenever the connection is
//! lost. The delay before an attempt grows from 10 ms to 200 ms ([`Options::reconnect_delay`]); the attempts never end.
//! A server that comes back is therefore used again within a second, even without traffic. After a rejected login or
//! certificate the delay is 5 s, so a password that is corrected on the server takes effect as well. A password that
//! changes while the program runs comes from a callback, [`Options::credentials`].
//!
//! A request to a node that is known to be down fails at once, and no lock waits for it. If requests over a connection
//! get no reply, the node sends a `PING`. If that gets no reply for 200 ms to a second either, the node closes the
//! connection. Requests that a hung server has not read by then are discarded. A quiet connection is probed every 5 s.
//!
//! # Sentinel
//!
//! A master with replicas and sentinels is one node, with one URL that lists all sentinels:
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! let master = "redis+sentinel://:secret@s1:26379,s2:26379,s3:26379/mymaster";
//! let redlock = redlock_redis_rs::builder([master])?.build()?;
//! # drop(redlock); }
//! # Ok::<(), redlock_redis_rs::Error>(())
//! ```
//!
//! The parameters `sentinel_username` and `sentinel_password` are the login of the sentinels. A server is used while a
//! majority of the sentinels confirms it. After a failover, the votes of the promoted server do not count until all locks
//! that it may not know have ended: [`Options::longest_ttl`] is 30 s for such a node, unless you set it. See [Sentinel and
//! managed primaries].
//!
//! [Sentinel and managed primaries]: https://github.com/redlock-rs/redlock/blob/main/docs/operating.md#sentinel-and-managed-primaries
//!
//! # Cluster
//!
//! A cluster is one node, not several: each lock is on a single shard, and nobody can acquire or extend it until the locks
//! of that shard have ended after a failover. List a few servers, which name the others:
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! let cluster = "redis+cluster://:secret@c1:7000,c2:7000";
//! let redlock = redlock_redis_rs::builder([cluster])?.build()?;
//! # drop(redlock); }
//! # Ok::<(), redlock_redis_rs::Error>(())
//! ```
//!
//! A lock on several resources needs names with a common [hash tag], such as `{stock}:7` and `{stock}:8`, as does a lock of
//! readers. Requests do not keep the order in which they wait. See [Operating a cluster].
//!
//! [hash tag]: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
//! [Operating a cluster]: https://github.com/redlock-rs/redlock/blob/main/docs/operating.md#cluster
//!
//! # Features
//!
//! | Feature | Effect |
//! |---|---|
//! | `tokio` (default) | `builder`, on tokio |
//! | `smol` | `Options::smol`, for `builder_with` |
//! | `blocking` | the module `blocking`, for synchronous programs |
//! | `metrics` | counters and histograms through the `metrics` facade |
//! | `serde` | `DetachedLease` implements `Serialize` and `Deserialize` |
//! | `tls-rustls` | `rediss://` over rustls |
//! | `ring` (default) | the cryptography of rustls |
//! | `aws-lc-rs` | another cryptography of rustls, which replaces ring; its build needs a C compiler |
//! | `tls-native-tls` | `rediss://` over the platform's TLS library, unless `tls-rustls` is enabled too |
//!
//! Nodes require one of the two runtimes: without `tokio` and `smol`, this crate only re-exports `redlock-core`.
//!
//! # Servers
//!
//! The servers can be Redis from 6.2, or Valkey. Tested versions are Redis 7.0, Valkey 7.2 and 8.0. A connection uses
//! RESP3 if the server supports it, otherwise RESP2. RESP2 has two drawbacks:
//!
//! - Waiters are not notified when a lock becomes free, so they poll every 100 to 200 ms. A warning is logged once.
//! - The loss of an idle connection is detected with the next request.
//!
//! Locking itself is the same.
//!
//! # Permissions
//!
//! [Access control](https://github.com/redlock-rs/redlock/blob/main/docs/operating.md#access-control) has the line for
//! `ACL SETUSER` with the commands and keys of a node, the rules of further features, and the effects of missing rules.
//! A server that permits neither `EVALSHA` nor a newer command that deletes a lock is not used. Its locks could not be
//! released.
//!
//! # Fencing
//!
//! [Fenced](LockRequest::fenced) locks keep a counter beside each resource, a key such as `redlock:fence:{invoice:42}`.
//! It is kept for a day. [`Options::fence_prefix`] and [`Options::fence_retention`] change the name and the time. See
//! [Fencing tokens](https://github.com/redlock-rs/redlock/blob/main/docs/fencing.md).
//!
//! # Time limits
//!
//! | Operation | Default limit | Reason |
//! |---|---|---|
//! | One connection attempt: TCP, TLS, login, handshake | 300 ms, or 15/16 of the node timeout if that is longer, [`Options::connect_timeout`] | a connection takes three round trips, and more with TLS: raise the limit for distant servers |
//! | One request | the node timeout of the core, 200 ms, [`Builder::node_timeout`] | the client has no limit: the core drops a late request and cleans it up |
//!
//! # TLS
//!
//! A `rediss://` URL checks the server's certificate against the root certificates of the system. The feature
//! `tls-rustls` uses rustls, the feature `tls-native-tls` the TLS library of the platform. Without either, parsing the
//! URL fails. rustls uses the cryptography provider of the process, if the program has installed one. Otherwise, it uses
//! that of the feature `aws-lc-rs` or `ring`.
//!
//! To use a private CA or a client certificate, set [`Options::root_certificates`] and [`Options::client_identity`]
//! (`examples/tls.rs`). On Linux, the environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name other root
//! certificates of the system. A `Client` or `ConnectionInfo` that contains certificates, or that disables the check of
//! the server's certificate, is rejected.
//!
//! # Untrusted names and leases
//!
//! A lock can have at most 1,000 names. If users choose names, set an [`Options::key_prefix`]. If a [`DetachedLease`]
//! passes through a party that you do not trust, authenticate it (a MAC). A forged lease deletes any key whose value
//! its author knows. The keys of [fencing counters](#fencing) can be neither locked nor released.
//!
//! # Hostile servers
//!
//! A node closes its connection if the server sends a reply of more than 1 MiB, or with more than 8 levels of nesting.
//! It then connects again as after any loss. A server may send without end, even before the login or on an idle
//! connection. It then takes about 20 MB of memory at most, and only its own node fails. Two things follow:
//!
//! - Do not lock a name that is the key of another value of 1 MiB or more: the server may send that value.
//! - A connection of the application ([`node_with_connection`]) has only the limits of the client.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "tokio", feature = "smol"))]
mod address;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod builder;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod command;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod connection;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod net;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod reply;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod shared;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod socket;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod tls;

pub use redlock_core::{self, *};
pub use redlock_wire::{Address, Credentials, Endpoint, Options};

#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::address::IntoConnector;
#[cfg(feature = "tokio")]
pub use crate::builder::builder;
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::builder::{BorrowedNode, Node, builder_with, node, node_with_connection, nodes};
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::connection::{Connection, Connector};
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::shared::BorrowedConnection;

/// Compiles the examples of both READMEs with the doctests.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;
