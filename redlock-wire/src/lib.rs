//! What the Redis adapters of redlock share: the wire format, and a node that keeps its connection healthy.

mod connection;

pub use crate::connection::{Command, Connection, Connector, Failure, Reply, Sent};
