//! The queues of a process: the turns of its tasks, and the limit of rounds in flight.

pub(crate) mod limiter;
pub(crate) mod local_queue;
