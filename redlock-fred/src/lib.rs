//! Redlock over independent Redis or Valkey servers, through the [fred] client.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), redlock_fred::Error> {
//! let redlock = redlock_fred::builder(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?.build()?;
//! let guard = redlock.lock("invoice:42", Duration::from_secs(10)).await?;
//! // ... work that nobody else does meanwhile ...
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! All of [`redlock_core`] is here too: one dependency is enough. Every node opens a connection of its own; a client that
//! the application has already is not shared, since it may reconnect and replay, which is unsafe for a lock.
//!
//! To be woken when a lock becomes free, a node has the server tell it of changes: in RESP3, and where its user may
//! `+client|tracking +client|caching` and `+pttl`. Otherwise waiters ask again from time to time; a warning says so once.
//! fred does not tell of a `FLUSHALL`: those who wait then find out when they next ask.
//!
//! | feature | does |
//! |---|---|
//! | `tokio` (default) | [`builder`], on tokio |
//! | `metrics` | counters and histograms through the `metrics` facade |
//! | `serde` | a lease that travels: `DetachedLease` is serialisable |
//! | `tls-rustls` | `rediss://` over rustls |
//! | `tls-native-tls` | `rediss://` over the platform's TLS library, unless `tls-rustls` is on too |
//!
//! fred runs on tokio alone, so the runtime of [`Options`] must be a tokio one.

mod address;
mod builder;
mod connection;
mod push;
mod reply;
mod tls;

pub use redlock_core::{self, *};
pub use redlock_wire::{Address, Options};

pub use crate::address::IntoConnector;
#[cfg(feature = "tokio")]
pub use crate::builder::builder;
pub use crate::builder::{Node, builder_with, node};
pub use crate::connection::{Connection, Connector};
