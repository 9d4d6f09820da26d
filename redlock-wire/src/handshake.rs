//! What a new connection asks before it is used, and what it learns: one round trip.
//!
//! The scripts are loaded, so that the first release needs no second round trip. A server whose access rules forbid a
//! question is used all the same: its identity is then unknown, and what it can do is taken to be little. Any other error
//! means that it is not ready yet (loading its data, a login that is not right): it would only refuse to vote.
//!
//! A connection that hears pushes has tracking switched on, for keys that are named one by one (`OPTIN`), and without
//! `NOLOOP`, by which a write over this very connection would end a watch in silence. It says whether it may watch in the
//! same breath: the two commands are permitted apart. A server that refuses, for whatever reason, is used all the same.

use redlock_core::ServerId;

use crate::commands;
use crate::connection::{Command, Connection, Reply};
use crate::reply::published;

/// What is known about the server of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its `run_id`.
    pub(crate) id: Option<ServerId>,
    /// Whether it has `SET .. NX GET`: Redis from 7.0 on, and every Valkey, which states the Redis it stems from.
    pub(crate) set_get: bool,
    /// Whether it tells of changes. The error says why not.
    pub(crate) pushes: Result<(), String>,
}

/// Asks the server. The error says why it is not ready.
pub(crate) async fn greet<C: Connection>(connection: &C) -> Result<Server, String> {
    let load = |text| [b"LOAD".as_slice(), str::as_bytes(text)];
    let [acquire, extend, release, inspect] = commands::scripts().map(load);
    let known = [
        Command::Other { name: "INFO", args: &[b"server"] },
        Command::Other { name: "SCRIPT", args: &acquire },
        Command::Other { name: "SCRIPT", args: &extend },
        Command::Other { name: "SCRIPT", args: &release },
        Command::Other { name: "SCRIPT", args: &inspect },
    ];
    let tracking = [
        Command::Other { name: "CLIENT", args: &[b"TRACKING", b"ON", b"OPTIN"] },
        // It is for the command that follows, whichever that is: a push that nobody waits for is passed over.
        commands::CACHING,
    ];
    let questions = if connection.pushes() { [&known[..], &tracking].concat() } else { known.to_vec() };
    let replies = connection
        .pipeline(questions.into_iter().map(C::pack).collect())
        .await
        .map_err(|failure| published(&failure.message))?;
    let (known, tracking) = replies.split_at(known.len().min(replies.len()));
    understand(known, tracking)
}

fn understand(known: &[Reply], tracking: &[Reply]) -> Result<Server, String> {
    for reply in known {
        match reply {
            Reply::Error(message) if !is_forbidden(message) => return Err(published(message)),
            _ => {}
        }
    }
    let pushes = permitted(tracking);
    match known.first() {
        Some(Reply::Bytes(info)) => Ok(described(&String::from_utf8_lossy(info), pushes)),
        _ => Ok(described("", pushes)),
    }
}

/// Whether the server tracks keys for this connection; the error says why not.
fn permitted(tracking: &[Reply]) -> Result<(), String> {
    if tracking.is_empty() {
        return Err("its connection hears no pushes: it speaks RESP2, or is shared".to_owned());
    }
    tracking.iter().try_for_each(|reply| match reply {
        Reply::Bytes(ok) if ok == b"OK" => Ok(()),
        Reply::Error(message) => Err(published(message)),
        other => Err(format!("its reply makes no sense: {other:?}")),
    })
}

/// No permission, or no such command, as it was renamed away.
fn is_forbidden(message: &str) -> bool {
    message.starts_with("NOPERM") || message.starts_with("ERR unknown command")
}

/// Reads the reply to `INFO server`.
pub(crate) fn described(info: &str, pushes: Result<(), String>) -> Server {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let major = field("redis_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    Server { id: field("run_id").map(ServerId::new), set_get: major.is_some_and(|major| major >= 7), pushes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str) -> Reply {
        let text = format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\nrun_id:abc\r\n");
        Reply::Bytes(text.into())
    }

    fn loaded() -> Reply {
        Reply::Bytes("sha".into())
    }

    #[test]
    fn identity_and_version_are_read() {
        let server = |version| understand(&[info(version), loaded()], &[]).unwrap();
        assert_eq!(Some(ServerId::new("abc")), server("7.0.15").id);
        let set_get = |version| server(version).set_get;
        assert!(set_get("7.0.0") && set_get("7.2.4") && set_get("10.1"));
        assert!(!set_get("6.2.14") && !set_get("unknown"));
    }

    #[test]
    fn what_access_rules_forbid_is_done_without() {
        for refusal in ["NOPERM this user has no permissions", "ERR unknown command 'INFO'"] {
            let unknown = understand(&[Reply::Error(refusal.into()), loaded()], &[]).unwrap();
            assert!(!unknown.set_get && unknown.id.is_none());
            let known = understand(&[info("7.0.15"), Reply::Error(refusal.into())], &[]).unwrap();
            assert!(known.set_get && known.id.is_some());
        }
    }

    #[test]
    fn a_server_that_is_not_ready_is_not_up() {
        for error in [
            "LOADING Redis is loading",
            "NOAUTH Authentication required.",
            "MASTERDOWN Link",
            "BUSY Redis is busy",
            "ERR max number of clients reached",
        ] {
            let reason = understand(&[info("7.0.15"), Reply::Error(error.into())], &[]);
            assert_eq!(Err(error.to_owned()), reason);
        }
    }

    #[test]
    fn a_server_that_does_not_track_is_used_all_the_same() {
        let ok = || Reply::Bytes("OK".into());
        let pushes = |tracking: &[Reply]| understand(&[info("7.0.15"), loaded()], tracking).unwrap().pushes;
        assert_eq!(Ok(()), pushes(&[ok(), ok()]));
        assert!(pushes(&[]).unwrap_err().contains("RESP2"));
        assert!(pushes(&[ok(), Reply::Int(1)]).is_err());
        for refusal in ["NOPERM no permissions", "ERR unknown subcommand 'TRACKING'", "LOADING"] {
            let refused = || Reply::Error(refusal.into());
            assert_eq!(Err(refusal.to_owned()), pushes(&[refused(), refused()]));
            assert_eq!(
                Err(refusal.to_owned()),
                pushes(&[ok(), refused()]),
                "it may track, but nothing by name"
            );
        }
    }
}
