//! Locks for synchronous programs: no `async`, and no runtime to set up.
//!
//! ```no_run
//! use std::time::Duration;
//! use redlock_redis_rs::{KeepAlive, blocking};
//!
//! let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
//! let redlock = blocking::builder(nodes)?.build()?;
//! let request = redlock.lock("invoice:42", Duration::from_secs(5));
//! let request = request.max_wait(Duration::from_secs(1)).keep_alive(KeepAlive::new());
//! let guard = blocking::acquire(request)?;
//! guard.check()?; // a loss becomes an error
//! guard.release()?;
//! # Ok::<(), redlock_redis_rs::Error>(())
//! ```
//!
//! Connections, renewals and cleanup run on a thread of the library. See [`redlock_core::blocking`], which this module
//! re-exports.

pub use redlock_core::blocking::*;
use redlock_core::{Builder, Error};
use redlock_wire::Options;

use crate::address::IntoConnector;
use crate::builder::builder_with;

/// Starts a [`Redlock`](crate::Redlock) whose connections run on the thread of the library.
///
/// Its nodes are the servers at `addresses`. It does no I/O: nodes connect on first use. For other
/// options of the nodes, pass [`Options::dedicated`] to [`builder_with`].
///
/// ```
/// # use std::time::Duration;
/// # use redlock_redis_rs::blocking;
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let builder = blocking::builder(servers)?;
/// let redlock = builder.node_timeout(Duration::from_secs(1)).build()?;
/// # drop(redlock);
/// # Ok::<(), redlock_redis_rs::Error>(())
/// ```
///
/// # Errors
///
/// Same as [`builder_with`].
pub fn builder<A: IntoConnector>(addresses: impl IntoIterator<Item = A>) -> Result<Builder, Error> {
    builder_with(addresses, &Options::dedicated())
}
