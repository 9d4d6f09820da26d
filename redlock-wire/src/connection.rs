//! What an adapter brings: how its client connects, and how it sends a command.
//!
//! Everything else about a Redis or Valkey node (commands, scripts, reconnecting, what an answer means) is the same for
//! every client and lives in this crate.

use std::fmt;
use std::future::Future;

use crate::asked::Last;
use crate::push::Hub;
use crate::reply::published;

/// How to reach one server. Made without I/O; every call of [`connect`](Connector::connect) opens a new connection.
pub trait Connector: Send + Sync + 'static {
    /// What [`connect`](Connector::connect) opens.
    type Connection: Connection;

    /// Whether any of its connections may hear [pushes](Connection::pushes).
    const HEARS_PUSHES: bool = true;

    /// Opens one connection: authenticated, database selected, RESP3 where the server has it and RESP2 otherwise.
    ///
    /// The caller bounds the time, by dropping the future. A connection never reconnects by itself and never sends a
    /// command twice. The error's message goes into reports and logs, without the [password](Connector::password).
    ///
    /// The connection tells the hub what its server pushes, where it [can](Connection::pushes).
    ///
    /// # Errors
    ///
    /// A [`Failure`] when there is no connection, for whatever reason; another attempt is made later.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it must leave no connection and no task behind.
    fn connect(&self, hub: &Hub) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Returns the password that [`connect`](Connector::connect) logs in with, if there is one. A server or a proxy may
    /// repeat it in an error, so it is removed from every message before the message is shown.
    fn password(&self) -> Option<&str> {
        None
    }
}

/// One ordered connection. Dropping it closes it, and what it has not sent yet is never sent.
pub trait Connection: Send + Sync + 'static {
    /// A command as the client sends it. Clones are cheap.
    type Packed: Clone + Send + Sync + 'static;

    /// Whether several requests cost less in one pipeline than each by itself. Those of many tasks are then sent together,
    /// behind one another: the connection must [keep the order](Connection::keeps_order), and a
    /// [`pipeline`](Connection::pipeline) have its place in it from its first poll on. A runtime that makes busy tasks wait for
    /// their turn inside of the client (tokio's budget) must not come between.
    const BATCHES: bool = false;

    /// Makes of a command what the client sends.
    fn pack(command: Command<'_>) -> Self::Packed;

    /// Looks at what this thread has packed last, which it keeps for the other nodes of a round: in a `thread_local!` that
    /// begins with [`Last::none`], and once the thread has none any more with a [`Last::none`] for this look. It is not called
    /// again within `look`.
    fn last<T>(look: impl FnOnce(&mut Last<Self::Packed>) -> T) -> T;

    /// Sends one command behind everything sent before on this connection, and waits for its reply.
    ///
    /// No time limit of its own: the caller drops the future. An error reply of the server is an `Ok`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when there is no reply: it says whether the command may have been [sent](Sent).
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any await. The command is then sent once or never, and the connection stays usable.
    fn call(&self, command: Self::Packed) -> impl Future<Output = Result<Reply, Failure>> + Send;

    /// Sends several commands in one write, with nothing in between and behind everything sent before, and waits for all
    /// replies: as many, and in the same order. An error reply of the server stands for its command alone.
    ///
    /// Errors and cancel safety are those of [`call`](Connection::call), where a part of the commands may have been sent.
    fn pipeline(
        &self,
        requests: Vec<Self::Packed>,
    ) -> impl Future<Output = Result<Vec<Reply>, Failure>> + Send;

    /// Whether the hub is told what the server pushes: in RESP3, over a connection of the node's own. If so, tracking is
    /// switched on for this connection.
    fn pushes(&self) -> bool;

    /// Whether it is one socket for as long as it lives, so that what is sent later arrives later. A client that reconnects
    /// by itself answers `false`; a release must then be answered twice where once would do.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Completes when the connection is lost, without any command having to fail first where the client can tell.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time and called again: it changes nothing.
    fn lost(&self) -> impl Future<Output = ()> + Send;
}

/// A command to send. All of them are binary-safe.
#[derive(Clone, Copy)]
pub enum Command<'a> {
    /// `SET key value NX PX millis`, followed by `GET` where `get` is set. Apart, because a client may have a faster way
    /// for a well-known command than for an arbitrary one.
    SetIfAbsent {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The time to live in milliseconds.
        millis: u64,
        /// Whether to ask for what is there instead (from Redis 7.0 on): the old value, or nil if the key was set.
        get: bool,
    },
    /// Any other command: its name and its arguments.
    Other {
        /// The name, such as `EVALSHA`.
        name: &'static str,
        /// The arguments.
        args: &'a [&'a [u8]],
    },
}

/// What the server answered.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nil of any kind.
    Nil,
    /// An integer; booleans of RESP3 are 0 and 1.
    Int(i64),
    /// A string of any kind, status replies too.
    Bytes(Vec<u8>),
    /// An array; maps and sets of RESP3 are flattened.
    Array(Vec<Reply>),
    /// An error of the server, as it is on the wire: `OOM command not allowed ...`.
    Error(String),
}

/// Why there is no reply.
#[derive(Clone)]
pub struct Failure {
    /// Whether the command may have reached the server.
    pub sent: Sent,
    /// The client's error in its own words. It may be long, and may repeat a secret: it is cleaned before it is shown.
    pub message: String,
}

impl Failure {
    /// No reply, and the command certainly did not reach the server.
    #[must_use]
    pub fn not_sent(message: &str) -> Self {
        Self { sent: Sent::No, message: message.to_owned() }
    }

    /// No reply, and the command may have reached the server.
    #[must_use]
    pub fn maybe_sent(message: &str) -> Self {
        Self { sent: Sent::Maybe, message: message.to_owned() }
    }
}

/// Whether a command may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Certainly not.
    No,
    /// It may have.
    Maybe,
}

/// So many replies of an array are shown.
const SHOWN: usize = 4;

impl fmt::Debug for Reply {
    /// Shows the shape and the length of strings only: a reply may be somebody's token. Of an array it shows the first
    /// replies, since a server may send any number of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "a string of {} bytes", bytes.len()),
            Self::Array(replies) => {
                write!(f, "an array of {}", replies.len())?;
                for (position, reply) in replies.iter().take(SHOWN).enumerate() {
                    f.write_str(if position == 0 { ": " } else { ", " })?;
                    match reply {
                        Self::Array(nested) => write!(f, "an array of {}", nested.len())?,
                        other => write!(f, "{other:?}")?,
                    }
                }
                f.write_str(if replies.len() > SHOWN { ", ..." } else { "" })
            }
            Self::Error(message) => write!(f, "error {:?}", published(message)),
        }
    }
}

/// Shows of the message what is fit for logs, as far as that can be said without knowing the password.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sent: {:?})", published(&self.message), self.sent)
    }
}
