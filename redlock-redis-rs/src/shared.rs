//! A node over a connection that the application has already.
//!
//! What stands in the way of a lock, and what is done about it: the connection may be another socket at the next command,
//! so it [keeps no order](redlock_wire::Connection::keeps_order); it hears no pushes, since nobody could [rely on
//! them](crate::shared_node#being-woken); and that it is lost is found out by the next command. Nothing is sent late all the
//! same: a command that waits for a reconnect waits in the future of the call, which core drops when its time is over.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline};
use redlock_wire::{Command, Failure, Hub, Last, Reply};

use crate::command::{last, pack};
use crate::reply;

/// A connection of the application's, lent to a node: a [`MultiplexedConnection`](redis::aio::MultiplexedConnection), a
/// `ConnectionManager`, or anything else that is cheap to clone and talks to one server.
#[derive(Clone)]
pub struct Shared<C>(C);

impl<C> Shared<C> {
    pub(crate) fn new(connection: C) -> Self {
        Self(connection)
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> redlock_wire::Connector for Shared<C> {
    type Connection = Self;

    const HEARS_PUSHES: bool = false;

    /// There is nothing to open. Whether it works is found out by the questions that a node asks first.
    async fn connect(&self, _hub: &Hub) -> Result<Self, Failure> {
        Ok(self.clone())
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> redlock_wire::Connection for Shared<C> {
    type Packed = Arc<Cmd>;

    fn pack(command: Command<'_>) -> Arc<Cmd> {
        Arc::new(pack(command))
    }

    fn last<T>(look: impl FnOnce(&mut Last<Arc<Cmd>>) -> T) -> T {
        last(look)
    }

    async fn call(&self, command: Arc<Cmd>) -> Result<Reply, Failure> {
        match self.0.clone().req_packed_command(&command).await {
            Ok(value) => Ok(reply::of_value(value)),
            Err(error) => reply::of_error(&error),
        }
    }

    async fn pipeline(&self, requests: Vec<Arc<Cmd>>) -> Result<Vec<Reply>, Failure> {
        let count = requests.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for request in requests {
            pipeline.add_command(Arc::unwrap_or_clone(request));
        }
        match self.0.clone().req_packed_commands(&pipeline, 0, count).await {
            Ok(values) => Ok(values.into_iter().map(reply::of_value).collect()),
            Err(error) => Err(Failure::maybe_sent(&error.to_string())),
        }
    }

    fn pushes(&self) -> bool {
        false
    }

    fn keeps_order(&self) -> bool {
        false
    }

    /// It does not tell.
    async fn lost(&self) {
        pending::<()>().await;
    }
}

/// Shows nothing of the connection.
impl<C> fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
