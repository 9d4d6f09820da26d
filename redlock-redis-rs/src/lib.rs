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
//! All of [`redlock_core`] is here too: one dependency is enough. Every node opens a connection of its own; a connection
//! that the application has already is not shared, since it may wait where a lock must not.
//!
//! To be woken when a lock becomes free, a node has the server tell it of changes: in RESP3, and where its user may
//! `+client|tracking +client|caching` and `+pttl`. Otherwise waiters ask again from time to time; a warning says so once.
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

#[cfg(any(feature = "tokio", feature = "smol"))]
mod address;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod builder;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod connection;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod push;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod reply;
#[cfg(any(feature = "tokio", feature = "smol"))]
mod tls;

pub use redlock_core::{self, *};
pub use redlock_wire::{Address, Options};

#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::address::IntoConnector;
#[cfg(feature = "tokio")]
pub use crate::builder::builder;
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::builder::{Node, builder_with, node};
#[cfg(any(feature = "tokio", feature = "smol"))]
pub use crate::connection::{Connection, Connector};

/// The README's example is compiled with the doctests.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../README.md")]
struct Readme;
