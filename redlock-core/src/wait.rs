//! Waiting: for the turn among the tasks of this process, for a permit, and for other clients.

pub(crate) mod limiter;
pub(crate) mod local_queue;
pub(crate) mod pause;
pub(crate) mod watcher;
