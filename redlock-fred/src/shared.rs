//! A node over an existing client of the application.
//!
//! Such a client differs from one of the node:
//!
//! - fred replays commands after a reconnect. Thus each command has a single attempt, and none is queued in a client that
//!   is not connected.
//! - The client may use another socket at the next command, so it [keeps no
//!   order](redlock_wire::Connection::keeps_order).
//! - It receives no pushes, since their loss [could not be detected](crate::node_with_connection#notifications).
//! - fred does not cancel a command whose caller is gone. But it sends in order, so a later release is sent later.

use std::fmt;

use fred::clients::{Client, WithOptions};
use fred::interfaces::ClientLike;
use fred::types::config::Options;
use futures_util::future::try_join_all;
use redlock_wire::{Command, Credentials, Failure, Hub, Reply};

use crate::command::{Packed, pack, send};

/// A client of the application that a node uses.
#[derive(Clone)]
pub struct BorrowedConnection {
    label: String,
    client: WithOptions<Client>,
}

impl BorrowedConnection {
    pub(crate) fn new(label: String, client: &Client) -> Self {
        let options = Options { max_attempts: Some(1), fail_fast: true, ..Options::default() };
        Self { label, client: client.with_options(&options) }
    }
}

impl redlock_wire::Connector for BorrowedConnection {
    type Connection = Self;

    const RECEIVES_PUSHES: bool = false;

    /// Returns the client; there is nothing to open. The handshake of the node checks that it works.
    async fn connect(&self, _login: Option<&Credentials>, _hub: &Hub) -> Result<Self, Failure> {
        Ok(self.clone())
    }

    fn label(&self) -> &str {
        &self.label
    }
}

impl redlock_wire::Connection for BorrowedConnection {
    type Packed = Packed;

    fn pack(command: Command<'_>) -> Packed {
        pack(command)
    }

    async fn call(&self, command: Packed) -> Result<Reply, Failure> {
        send(&self.client, command).await
    }

    /// Sends the requests one behind the other, each with the options, and then waits for all replies.
    ///
    /// Other commands of the application may come between them. That is permitted, because a borrowed client receives no
    /// pushes. fred queues a command at its first poll, so the order is kept.
    async fn pipeline(&self, requests: Vec<Packed>) -> Result<Vec<Reply>, Failure> {
        let calls = requests.into_iter().enumerate().map(|(index, request)| async move {
            let reply = self.call(request).await;
            // The commands before one that was not sent may have been sent.
            if index == 0 { reply } else { reply.map_err(|failure| Failure::maybe_sent(&failure.message)) }
        });
        try_join_all(calls).await
    }

    fn keeps_order(&self) -> bool {
        false
    }
}

/// Shows only the label.
impl fmt::Debug for BorrowedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedConnection").field("label", &self.label).finish_non_exhaustive()
    }
}
