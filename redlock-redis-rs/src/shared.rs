//! A node over an existing connection of the application.
//!
//! Such a connection differs from one of the node:
//!
//! - It may be another socket at the next command, so it [keeps no order](redlock_wire::Connection::keeps_order).
//! - It receives no pushes, since their loss [could not be detected](crate::node_with_connection#notifications).
//! - The next command detects its loss.
//!
//! No command is sent late. A command that waits for a reconnect waits in the future of the call, which the core drops
//! at its time limit.

use std::fmt;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline};
use redlock_wire::{Command, Credentials, Failure, Hub, Reply};

use crate::command::pack;
use crate::reply;

/// A connection of the application that a node uses.
///
/// It can be a [`MultiplexedConnection`](redis::aio::MultiplexedConnection), a `ConnectionManager`, or any other
/// connection to one server that is cheap to clone.
#[derive(Clone)]
pub struct BorrowedConnection<C> {
    label: String,
    connection: C,
}

impl<C> BorrowedConnection<C> {
    pub(crate) fn new(label: String, connection: C) -> Self {
        Self { label, connection }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> redlock_wire::Connector for BorrowedConnection<C> {
    type Connection = Self;

    const RECEIVES_PUSHES: bool = false;

    /// Returns the connection; there is nothing to open. The handshake of the node checks that it works.
    async fn connect(&self, _login: Option<&Credentials>, _hub: &Hub) -> Result<Self, Failure> {
        Ok(self.clone())
    }

    fn label(&self) -> &str {
        &self.label
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> redlock_wire::Connection for BorrowedConnection<C> {
    type Packed = Cmd;

    fn pack(command: Command<'_>) -> Cmd {
        pack(command)
    }

    async fn call(&self, command: Cmd) -> Result<Reply, Failure> {
        match self.connection.clone().req_packed_command(&command).await {
            Ok(value) => Ok(reply::of_value(value)),
            Err(error) => reply::of_error(&error),
        }
    }

    async fn pipeline(&self, requests: Vec<Cmd>) -> Result<Vec<Reply>, Failure> {
        let count = requests.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for request in requests {
            pipeline.add_command(request);
        }
        match self.connection.clone().req_packed_commands(&pipeline, 0, count).await {
            Ok(values) => Ok(values.into_iter().map(reply::of_value).collect()),
            Err(error) => Err(Failure::maybe_sent(&error.to_string())),
        }
    }

    fn keeps_order(&self) -> bool {
        false
    }
}

/// Shows only the label.
impl<C> fmt::Debug for BorrowedConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedConnection").field("label", &self.label).finish_non_exhaustive()
    }
}
