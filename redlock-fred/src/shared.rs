//! A node over a client that the application has already.
//!
//! What stands in the way of a lock, and what is done about it: fred replays commands after a reconnect, so each goes out
//! with a single attempt, and none into the queue of a client that is not connected; the client may be another socket at
//! the next command, so it [keeps no order](redlock_wire::Connection::keeps_order); it hears no pushes, since nobody could
//! [rely on them](crate::shared_node#being-woken). fred does not take back a command whose caller has gone; but it sends in
//! order, so a release that is asked for later is sent later.

use std::fmt;
use std::future::pending;

use fred::clients::{Client, WithOptions};
use fred::interfaces::ClientLike;
use fred::types::config::Options;
use redlock_wire::{Command, Failure, Hub, Last, Reply};

use crate::command::{Packed, last, pack, send};

/// A client of the application's, lent to a node.
#[derive(Clone)]
pub struct Shared(WithOptions<Client>);

impl Shared {
    pub(crate) fn new(client: &Client) -> Self {
        let options = Options { max_attempts: Some(1), fail_fast: true, ..Options::default() };
        Self(client.with_options(&options))
    }
}

impl redlock_wire::Connector for Shared {
    type Connection = Self;

    const HEARS_PUSHES: bool = false;

    /// There is nothing to open. Whether it works is found out by the questions that a node asks first.
    async fn connect(&self, _hub: &Hub) -> Result<Self, Failure> {
        Ok(self.clone())
    }
}

impl redlock_wire::Connection for Shared {
    type Packed = Packed;

    fn pack(command: Command<'_>) -> Packed {
        pack(command)
    }

    fn last<T>(look: impl FnOnce(&mut Last<Packed>) -> T) -> T {
        last(look)
    }

    async fn call(&self, command: Packed) -> Result<Reply, Failure> {
        send(&self.0, command).await
    }

    /// One by one, each with the options: nothing here depends on being sent at once.
    async fn pipeline(&self, requests: Vec<Packed>) -> Result<Vec<Reply>, Failure> {
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            replies.push(self.call(request).await?);
        }
        Ok(replies)
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

/// Shows nothing of the client.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
