//! Commands in the form of fred.

use fred::bytes::Bytes;
use fred::interfaces::KeysInterface;
use fred::types::{CustomCommand, Expiration, Key, SetOptions, Value};
use redlock_wire::{Command, Failure, Reply};

use crate::reply;

/// A command in the form of fred.
///
/// fred flushes each custom command by itself. The most frequent commands are not custom, so many of them share one write.
pub enum Packed {
    /// `SET`.
    Set {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
        /// The time to live.
        expiry: Expiration,
        /// `true` to request the old value.
        get: bool,
    },
    /// `GET`.
    Get {
        /// The key.
        key: Key,
    },
    /// Any other command.
    Custom {
        /// The name.
        command: CustomCommand,
        /// The arguments.
        args: Vec<Value>,
    },
}

/// Packs a command. Its arguments share one buffer: fred takes a reference to each.
pub(crate) fn pack(command: Command<'_>) -> Packed {
    match command {
        Command::SetIfAbsent { key, value, millis, get } => {
            // A TTL is a few weeks at most, so the limit is never reached; the server would reject such a number.
            let expiry = Expiration::PX(i64::try_from(millis).unwrap_or(i64::MAX));
            let mut rest = Bytes::from([key, value].concat());
            let key = rest.split_to(key.len());
            Packed::Set { key: key.into(), value: rest.into(), expiry, get }
        }
        Command::Other { name: "GET", args: [key] } => Packed::Get { key: (*key).into() },
        Command::Other { name, args } => {
            let mut rest = Bytes::from(args.concat());
            Packed::Custom {
                command: CustomCommand::new_static(name, None::<u16>, false),
                args: args.iter().map(|arg| rest.split_to(arg.len()).into()).collect(),
            }
        }
    }
}

/// Sends a command over a client and waits for its reply.
pub(crate) async fn send(client: &impl KeysInterface, command: Packed) -> Result<Reply, Failure> {
    match command {
        Packed::Set { key, value, expiry, get } => {
            reply::of_value(client.set(key, value, Some(expiry), Some(SetOptions::NX), get).await)
        }
        Packed::Get { key } => reply::of_value(client.get(key).await),
        Packed::Custom { command, args } => {
            let reply = client.custom_raw(command, args).await;
            reply.map(reply::of_frame).map_err(|error| reply::failure(&error))
        }
    }
}
