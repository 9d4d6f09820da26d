//! Commands that compare a value on the server before they delete it, and so replace the script of a release.
//!
//! A native release takes about a third of the server time of the script. It is used with `Options::native_commands`,
//! if the version of the server has the command. A server that rejects the command anyway, for example because of its
//! ACL, receives the script instead, and from then on only scripts.
//!
//! If a server forbids scripts, the handshake tries the commands themselves, with or without the option. Such a server
//! extends no lock: `SET .. IFEQ` can shorten a TTL if it is carried out late, and no other command compares the token.
//! A claim on several resources is not sent to it: the server could not release it.

use redlock_core::node::{self, NodeError};

use crate::connection::Connection;
use crate::message::{Command, Reply};
use crate::reply;

/// A command that deletes a key if it holds a given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    /// `DELIFEQ`, of Valkey from 9.0 on.
    DelIfEq,
    /// `DELEX .. IFEQ`, of Redis from 8.4 on.
    DelEx,
}

impl Native {
    /// Returns the command of a server by the fields of `INFO server`.
    ///
    /// Servers that are compatible with Redis report a Redis version, too. Only Valkey is distinguished from them; it
    /// reports Redis 7.2.
    pub(crate) fn of_version<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let valkey = field("valkey_version").and_then(version);
        let redis = field("redis_version").and_then(version);
        match (valkey, redis) {
            (Some(valkey), _) => (valkey >= (9, 0)).then_some(Self::DelIfEq),
            (None, redis) => redis.filter(|redis| *redis >= (8, 4)).map(|_| Self::DelEx),
        }
    }

    /// Returns the command that a server without scripts carries out.
    ///
    /// Both are tried on a key that should not exist, with a value that no lock has. Thus nothing is changed.
    pub(crate) async fn tried<C: Connection>(connection: &C, prefix: &[u8]) -> Option<Self> {
        let key = [prefix, b"redlock:probe"].concat();
        let both = [Self::DelIfEq, Self::DelEx];
        let requests = both.map(|native| native.pack::<C>(&key, b"")).into();
        let replies = connection.pipeline(requests).await.unwrap_or_default();
        let works = |reply: &Reply| !matches!(reply, Reply::Error(message) if !concerns_key(message));
        both.into_iter().zip(&replies).find_map(|(native, reply)| works(reply).then_some(native))
    }

    /// Packs the command that deletes a key that holds `token`.
    pub(crate) fn pack<C: Connection>(self, key: &[u8], token: &[u8]) -> C::Packed {
        match self {
            Self::DelIfEq => C::pack(Command::Other { name: "DELIFEQ", args: &[key, token] }),
            Self::DelEx => C::pack(Command::Other { name: "DELEX", args: &[key, b"IFEQ", token] }),
        }
    }
}

/// Returns whether the server rejected a native command without an effect.
///
/// The script must then be sent instead.
///
/// A key of another type is not a rejection, because the reply is about the key.
pub(crate) fn is_rejected(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(message) if !message.starts_with("WRONGTYPE"))
}

/// Returns whether the server will always reject this command: it does not know it, or forbids it.
pub(crate) fn is_unavailable(reply: &Reply) -> bool {
    let is_final = |message: &str| message.starts_with("ERR") || message.starts_with("NOPERM");
    matches!(reply, Reply::Error(message) if is_final(message))
}

/// Interprets the reply to a native deletion.
pub(crate) fn deleted(reply: &Reply) -> Result<node::Reply, NodeError> {
    match reply {
        // Without scripts there are no readers, and a release leaves a key of another type as it is.
        Reply::Error(message) if message.starts_with("WRONGTYPE") => Ok(node::Reply::Deleted(false)),
        _ => reply::deleted(reply),
    }
}

/// Returns whether an error is about a key, not about the command.
///
/// The user may not use this key, it has another type, or it is in another slot.
fn concerns_key(message: &str) -> bool {
    message.starts_with("NOPERM") && message.contains("permissions to access")
        || ["WRONGTYPE", "MOVED"].iter().any(|code| message.starts_with(code))
}

/// Reads the first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides() {
        let of = |fields: &'static [(&str, &str)]| {
            Native::of_version(|name| {
                fields.iter().find_map(|(field, value)| (*field == name).then_some(*value))
            })
        };
        assert_eq!(None, of(&[]));
        assert_eq!(None, of(&[("redis_version", "8.2.9")]));
        assert_eq!(Some(Native::DelEx), of(&[("redis_version", "8.4.0")]));
        assert_eq!(Some(Native::DelEx), of(&[("redis_version", "10.0.0")]));
        let compatible = ("redis_version", "7.2.4");
        for (valkey, expected) in [
            ("8.1.0", None),
            ("9.0.0", Some(Native::DelIfEq)),
            ("9.1.2", Some(Native::DelIfEq)),
            ("unstable", None),
        ] {
            let fields: &'static [_] = vec![compatible, ("valkey_version", valkey)].leak();
            assert_eq!(expected, of(fields), "{valkey}");
        }
    }

    #[test]
    fn a_key_of_another_type_is_no_rejection() {
        let error = |text: &str| Reply::Error(text.into());
        for (message, is_final) in [
            ("ERR unknown command 'DELIFEQ'", true),
            ("ERR syntax error", true),
            ("NOPERM User few has no permissions to run the 'delifeq' command", true),
            ("OOM command not allowed when used memory > 'maxmemory'.", false),
        ] {
            let reply = error(message);
            assert!(is_rejected(&reply), "{message}");
            assert_eq!(is_final, is_unavailable(&reply), "{message}");
        }
        for reply in [error("WRONGTYPE Operation against a key"), Reply::Int(0), Reply::Nil] {
            assert!(!is_rejected(&reply) && !is_unavailable(&reply), "{reply:?}");
        }
    }

    #[test]
    fn replies_are_those_of_the_script() {
        assert_eq!(Ok(node::Reply::Deleted(true)), deleted(&Reply::Int(1)).map_err(|error| error.kind()));
        assert_eq!(Ok(node::Reply::Deleted(false)), deleted(&Reply::Int(0)).map_err(|error| error.kind()));
        let wrong_type = Reply::Error("WRONGTYPE Operation against a key".into());
        assert_eq!(Ok(node::Reply::Deleted(false)), deleted(&wrong_type).map_err(|error| error.kind()));
    }
}
