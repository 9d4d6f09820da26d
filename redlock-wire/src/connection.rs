//! The interface of an adapter: connecting, and sending commands.
//!
//! Everything else about a Redis or Valkey node is the same for every client, and is in this crate: commands, scripts,
//! reconnecting, and the interpretation of replies.

use std::future::{Future, pending};
use std::time::Duration;

use futures_util::future::{TryFutureExt, try_join};

use crate::clock;
use crate::cluster_members::ClusterMembers;
use crate::credentials::Credentials;
use crate::message::{Command, Failure, Reply};
use crate::push::Hub;
use crate::sentinels::Sentinels;
use crate::socket::SocketHandle;

/// A factory for connections to one server.
///
/// Creating it does no I/O. Every call of [`connect`](Connector::connect) opens a new connection.
pub trait Connector: Send + Sync + 'static {
    /// The type of connection that [`connect`](Connector::connect) opens.
    type Connection: Connection;

    /// `false` if its connections can never receive [pushes](Connection::pushes).
    ///
    /// The default is `true`.
    const RECEIVES_PUSHES: bool = true;

    /// Opens one connection.
    ///
    /// The connection is authenticated, its database is selected, and it uses RESP3 if the server supports it,
    /// otherwise RESP2. It never reconnects by itself and never sends a command twice. It reports the server's pushes
    /// to `hub`, if it [can](Connection::pushes). `login` replaces user and password of the address.
    ///
    /// The caller limits the time by dropping the future. The error's message appears in reports and logs, with the
    /// password removed.
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: there is no connection, for any reason. The node tries again later.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, it must leave no connection and no task behind.
    fn connect(
        &self,
        login: Option<&Credentials>,
        hub: &Hub,
    ) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Returns the human-readable name of the server, which is the label of its node.
    ///
    /// It is normalized like the `Display` of an [`Endpoint`](crate::Endpoint), so that a server listed twice is
    /// noticed.
    fn label(&self) -> &str;

    /// Returns the password of the address, if there is one.
    ///
    /// A server or a proxy may repeat it in an error, so it is removed from every message before the message is shown.
    fn password(&self) -> Option<&str> {
        None
    }

    /// Returns the cluster that this connector leads to, if it is one.
    ///
    /// The node then connects to the masters of the shards, and never calls [`connect`](Connector::connect) of this
    /// connector. The default is `None`.
    fn cluster(&self) -> Option<&ClusterMembers<Self>>
    where
        Self: Sized,
    {
        None
    }

    /// Returns the sentinels that choose the server, if there are any.
    ///
    /// The node then connects to the server that they name, and never calls [`connect`](Connector::connect) of this
    /// connector. The default is `None`.
    fn sentinels(&self) -> Option<&Sentinels<Self>>
    where
        Self: Sized,
    {
        None
    }
}

/// One ordered connection.
///
/// Dropping it closes it. Requests that are not sent by then are never sent.
pub trait Connection: Send + Sync + 'static {
    /// A command in the client's packed form.
    type Packed: Send + 'static;

    /// Converts a command to the client's packed form.
    fn pack(command: Command<'_>) -> Self::Packed;

    /// Sends one command and waits for its reply.
    ///
    /// The command follows everything sent before on this connection. The method has no time limit: the caller drops
    /// the future. An error reply of the server is an `Ok`.
    ///
    /// # Errors
    ///
    /// - A [`Failure`]: there is no reply. It states whether the command may have been [sent](crate::Sent).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the command is sent once or never, and the connection stays usable.
    fn call(&self, command: Self::Packed) -> impl Future<Output = Result<Reply, Failure>> + Send;

    /// Sends several commands and waits for all replies.
    ///
    /// The server receives them in their order, behind everything sent before. If the connection receives
    /// [pushes](Connection::pushes), no other command comes between them: `CLIENT CACHING` applies to the next command of
    /// the connection. One write for all of them is best. There are as many replies as commands, in the same order. An
    /// error reply belongs to its command alone.
    ///
    /// Errors and cancel safety are those of [`call`](Connection::call), except that a part of the commands may have
    /// been sent.
    fn pipeline(
        &self,
        requests: Vec<Self::Packed>,
    ) -> impl Future<Output = Result<Vec<Reply>, Failure>> + Send;

    /// Sends several commands as [`pipeline`](Connection::pipeline) does, and reads the clock of the server behind them.
    ///
    /// Returns the replies, and the time since the Unix epoch; `None` if the server does not permit `TIME`. One reading
    /// may serve several requests that are sent together, if it is behind all of them. The default sends `TIME` as the
    /// last command. If [`queues_at_first_poll`](Connection::queues_at_first_poll) permits it, `TIME` is a separate
    /// [`call`](Connection::call).
    ///
    /// Errors and cancel safety are those of [`pipeline`](Connection::pipeline).
    fn timed(
        &self,
        mut requests: Vec<Self::Packed>,
    ) -> impl Future<Output = Result<(Vec<Reply>, Option<Duration>), Failure>> + Send {
        async {
            if self.queues_at_first_poll() {
                let time = self.call(Self::pack(clock::TIME)).map_err(Failure::of_another_command);
                let (replies, time) = try_join(self.pipeline(requests), time).await?;
                return Ok((replies, clock::time(&time)));
            }
            requests.push(Self::pack(clock::TIME));
            let mut replies = self.pipeline(requests).await?;
            let time = replies.pop().as_ref().and_then(clock::time);
            Ok((replies, time))
        }
    }

    /// Sends one command as [`timed`](Connection::timed) does. Returns its reply and the time.
    ///
    /// Votes that need only the clock behind them are sent in this way, so a method that allocates less makes locks cheaper.
    /// The default is [`timed`](Connection::timed).
    ///
    /// Errors and cancel safety are those of [`timed`](Connection::timed).
    fn timed_call(
        &self,
        request: Self::Packed,
    ) -> impl Future<Output = Result<(Reply, Option<Duration>), Failure>> + Send {
        async {
            let (replies, time) = self.timed(vec![request]).await?;
            let [reply] = <[Reply; 1]>::try_from(replies)
                .map_err(|_| Failure::maybe_sent("unexpected number of replies"))?;
            Ok((reply, time))
        }
    }

    /// Returns whether the hub receives the server's pushes.
    ///
    /// That requires RESP3 and a connection that the node owns. If so, the node enables tracking on this connection.
    /// The default is `false`.
    fn pushes(&self) -> bool {
        false
    }

    /// Returns whether the hub learns of a [flush](Hub::flushed) before the reply to any later request is returned.
    ///
    /// The server sends the push of a flush before such a reply. A client that hands pushes to another task, or drops
    /// this one, returns `false`. A check whether the server has lost data then follows each vote. The default is `false`.
    fn reports_flushes(&self) -> bool {
        false
    }

    /// Returns whether the first poll of a [`call`](Connection::call) queues its command.
    ///
    /// It is then behind all commands that were queued before. If so, several votes that are checked by commands behind
    /// them have one check in common. The default is `false`: a check follows each vote, in the same
    /// [pipeline](Connection::pipeline).
    fn queues_at_first_poll(&self) -> bool {
        false
    }

    /// Returns whether the connection is a single socket for its whole life.
    ///
    /// If so, later requests arrive later. The default is `true`. A client that reconnects by itself returns `false`; a
    /// release then needs two replies instead of one.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Returns the handle through which this connection's socket is read and written.
    ///
    /// The node closes the socket when it gives the connection up, so that nothing is sent over it later. The default
    /// is `None`: the adapter does not own the socket. If the client then sends a request after the node has
    /// reconnected, a key may stay until its TTL expires.
    fn socket(&self) -> Option<&SocketHandle> {
        None
    }

    /// Completes when the connection is lost. No command has to fail first, if the client can detect the loss.
    ///
    /// The default never completes: the next command detects the loss.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing changes. The method may be called again.
    fn lost(&self) -> impl Future<Output = ()> + Send {
        pending()
    }
}
