//! Commands, their replies, and the failures without a reply.

use std::fmt;

use crate::text::sanitize;

/// A command to send. All commands are binary-safe.
#[derive(Clone, Copy)]
pub enum Command<'a> {
    /// `SET key value NX PX millis`, followed by `GET` if `get` is set. A client may have a faster way for this
    /// well-known command than for an arbitrary one.
    SetIfAbsent {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The time to live in milliseconds.
        millis: u64,
        /// `true` to request the old value (from Redis 7.0 on). The reply is then nil if the key was set.
        get: bool,
    },
    /// Any other command.
    Other {
        /// The name, such as `EVALSHA`.
        name: &'static str,
        /// The arguments.
        args: &'a [&'a [u8]],
    },
}

/// The server's reply.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nil of any kind.
    Nil,
    /// An integer. RESP3 booleans are 0 and 1.
    Int(i64),
    /// A string of any kind, including status replies.
    Bytes(Vec<u8>),
    /// An array. RESP3 maps and sets are flattened.
    Array(Vec<Reply>),
    /// An error reply, as it is on the wire: `OOM command not allowed ...`.
    Error(String),
}

/// The reason why there is no reply.
#[derive(Clone)]
pub struct Failure {
    /// The possible delivery of the command.
    pub sent: Sent,
    /// The text of the client's error.
    ///
    /// It may be long and may repeat a secret, so it is sanitized before it is shown.
    pub message: String,
}

impl Failure {
    /// Returns a failure of a command that certainly did not reach the server.
    #[must_use]
    pub fn not_sent(message: &str) -> Self {
        Self { sent: Sent::No, message: message.to_owned() }
    }

    /// Returns a failure of a command that may have reached the server.
    #[must_use]
    pub fn maybe_sent(message: &str) -> Self {
        Self { sent: Sent::Maybe, message: message.to_owned() }
    }

    /// Returns a failure of a command whose connection ended because the runtime of its task has shut down.
    #[must_use]
    pub fn runtime_ended(sent: Sent) -> Self {
        Self { sent, message: RUNTIME_ENDED.to_owned() }
    }

    /// Returns this failure as that of another command, which may have been sent although this one was not.
    pub(crate) fn of_another_command(self) -> Self {
        Self { sent: Sent::Maybe, ..self }
    }
}

/// The reason of a failure whose connection ended together with its runtime.
pub(crate) const RUNTIME_ENDED: &str = "the runtime that opened the connection has shut down";

/// The possible delivery of a command without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It certainly did not reach the server.
    No,
    /// It may have reached the server.
    Maybe,
}

/// The number of replies of an array that are shown.
const SHOWN: usize = 4;

impl fmt::Debug for Reply {
    /// Shows only the shape and the length of strings: a reply may be another client's token. Only the first
    /// replies of an array are shown, since a server may send any number of them.
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
            Self::Error(message) => write!(f, "error {:?}", sanitize(message)),
        }
    }
}

/// Shows the sanitized message. The password is not known here and may remain.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sent: {:?})", sanitize(&self.message), self.sent)
    }
}
