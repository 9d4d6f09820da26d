//! The values that all other modules use.

pub(crate) mod claim;
pub(crate) mod clock_rate;
pub(crate) mod denial;
pub(crate) mod detached;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod fencing_token;
pub(crate) mod identity;
pub(crate) mod instant;
pub(crate) mod lease_state;
pub(crate) mod node_error;
pub(crate) mod node_list;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod position;
pub(crate) mod quarantine;
pub(crate) mod report;
pub(crate) mod resource;
#[cfg(feature = "serde")]
pub(crate) mod serialized;
pub(crate) mod stable_hash;
pub(crate) mod token;
pub(crate) mod ttl;

use std::future::Future;
use std::pin::Pin;

/// A boxed future that owns its data and may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
