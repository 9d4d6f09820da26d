//! The calls of applications: building a client, requesting locks, and looking at nodes and resources.

// First, so that its options come first in the documentation of a request.
pub(crate) mod request;

pub(crate) mod announced;
pub(crate) mod attempts;
mod break_lock;
pub(crate) mod builder;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod health;
pub(crate) mod held;
pub(crate) mod inspect;
pub(crate) mod keep_alive;
pub(crate) mod kind;
pub(crate) mod lead;
pub(crate) mod lease;
mod listed;
pub(crate) mod node_lists;
pub(crate) mod observe;
pub(crate) mod once_per;
pub(crate) mod redlock;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod run_error;
pub(crate) mod rw_lock;
#[cfg(feature = "serde")]
mod serialized;
pub(crate) mod slots;
mod until_state;
pub(crate) mod vouch;
mod waiter;
