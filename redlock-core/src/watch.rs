//! Waiting for other clients.

pub(crate) mod pause;
pub(crate) mod watcher;
