//! One lock: its state, the waits for a change of it, and the handles of its owner.

pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod keep_alive;
mod peers;
pub(crate) mod record;
pub(crate) mod watch;
