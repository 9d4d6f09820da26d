//! Waiting for other clients.

pub(crate) mod node_watch;
pub(crate) mod watcher;
pub(crate) mod watches;
