//! The handshake of a new connection: one round trip before the connection is used.
//!
//! It loads the scripts, so that the first release needs no second round trip. A server whose ACL denies one of the
//! commands is used anyway. Its identity is then unknown, and it is assumed to lack optional features. Any other error
//! means that the server is not ready, for example while it loads its data or if the login is wrong.
//!
//! A Sentinel is rejected, because it stores no keys. A server of a cluster is rejected except as a shard of the cluster:
//! it has only some of the keys, and a replica may replace it without the latest locks. Both are recognized by the mode in
//! `INFO server`. A server of a cluster whose ACL denies `INFO` is not recognized.
//!
//! A server that does not permit `EVALSHA` needs a second round trip, which tries the [native](crate::native) commands.
//! If there is none that deletes a key, the server is not used: it would grant locks that can never be released.
//!
//! On a connection that receives pushes, the handshake enables tracking for keys that are named one by one (`OPTIN`).
//! It does not use `NOLOOP`, with which a write over this connection would end a watch silently. It also checks `CLIENT
//! CACHING`, since an ACL permits the two commands separately. A server that denies tracking, for any reason, is used
//! anyway.

use redlock_core::node::ServerId;

use crate::commands;
use crate::connection::Connection;
use crate::message::{Command, Reply};
use crate::native::{self, Native};
use crate::options::Options;
use crate::secret::Secret;
use crate::text::field;

/// The properties of a connection's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The server's `run_id`.
    pub(crate) id: Option<ServerId>,
    /// Support for `SET .. NX GET`: Redis from 7.0 on, and every Valkey, which reports the Redis version that it is
    /// compatible with.
    pub(crate) set_get: bool,
    /// The command that replaces the script of a release.
    pub(crate) delete: Option<Native>,
    /// Permission to call scripts. The error is the reason why not.
    pub(crate) scripts: Result<(), String>,
    /// Support for notifications of changes. The error is the reason why not.
    pub(crate) pushes: Result<(), String>,
}

/// Runs the handshake. The error is the reason why the server is not ready, without the secret.
///
/// The commands of `look` are sent behind it. Their replies are returned.
pub(crate) async fn handshake<C: Connection>(
    connection: &C,
    options: &Options,
    look: Vec<C::Packed>,
    secret: &Secret<'_>,
) -> Result<(Server, Vec<Reply>), String> {
    let load = |text| [b"LOAD".as_slice(), str::as_bytes(text)];
    let [acquire, extend, release, inspect] = commands::scripts().map(load);
    // `CACHING` applies to the command that follows. A script over n keys would be tracked n times with all n keys, so
    // no script may follow. The server tracks nothing for `INFO`.
    let tracking =
        [Command::Other { name: "CLIENT", args: &[b"TRACKING", b"ON", b"OPTIN"] }, commands::CACHING];
    let known = [
        Command::Other { name: "INFO", args: &[b"server"] },
        Command::Other { name: "SCRIPT", args: &acquire },
        Command::Other { name: "SCRIPT", args: &extend },
        Command::Other { name: "SCRIPT", args: &release },
        Command::Other { name: "SCRIPT", args: &inspect },
        // Without keys it releases nothing.
        Command::Other { name: "EVALSHA", args: &[commands::RELEASE.sha.as_bytes(), b"0"] },
    ];
    let tracking = if connection.pushes() { &tracking[..] } else { &[] };
    let commands = tracking.iter().chain(&known).map(|command| C::pack(*command)).chain(look).collect();
    let mut replies =
        connection.pipeline(commands).await.map_err(|failure| secret.published(&failure.message))?;
    let found = replies.split_off((tracking.len() + known.len()).min(replies.len()));
    let (tracking, known) = replies.split_at(tracking.len().min(replies.len()));
    let mut server = understand(tracking, known, options.shard.is_some(), secret)?;
    if !options.native_commands {
        server.delete = None;
    }
    if let Err(reason) = &server.scripts {
        server.delete = Native::tried(connection, &options.keys.prefix).await;
        if server.delete.is_none() {
            return Err(format!("locks cannot be released: {reason}"));
        }
    }
    Ok((server, found))
}

fn understand(
    tracking: &[Reply],
    known: &[Reply],
    is_shard: bool,
    secret: &Secret<'_>,
) -> Result<Server, String> {
    let (release, known) = known.split_last().ok_or("replies are missing")?;
    let info = match known.first() {
        Some(Reply::Bytes(info)) => String::from_utf8_lossy(info),
        _ => "".into(),
    };
    match mode(&info) {
        Some("cluster") if is_shard => {}
        Some(mode) if is_shard => {
            return Err(format!("this server runs in the mode {mode}, and not in cluster mode"));
        }
        _ => unsuitable_mode(&info).map_or(Ok(()), |reason| Err(reason.to_owned()))?,
    }
    for reply in known {
        match reply {
            Reply::Error(message) if !is_forbidden(message) => return Err(secret.published(message)),
            _ => {}
        }
    }
    let scripts = match release {
        // The script could not be loaded; it is sent in full when needed.
        Reply::Error(message) if message.starts_with("NOSCRIPT") => Ok(()),
        Reply::Error(message) if native::is_unavailable(release) => Err(secret.published(message)),
        // The server cannot run scripts now, for example because it is `BUSY` with another one. The next connection attempt
        // checks again.
        Reply::Error(message) => return Err(secret.published(message)),
        _ => Ok(()),
    };
    let pushes = permitted(tracking, secret);
    Ok(Server { scripts, ..described(&info, pushes) })
}

/// Checks that the server tracks keys for this connection. The error is the reason why not.
fn permitted(tracking: &[Reply], secret: &Secret<'_>) -> Result<(), String> {
    if tracking.is_empty() {
        return Err("no push messages: the connection uses RESP2, or the application shares it".to_owned());
    }
    tracking.iter().try_for_each(|reply| match reply {
        Reply::Bytes(ok) if ok == b"OK" => Ok(()),
        Reply::Error(message) => Err(secret.published(message)),
        other => Err(format!("unexpected reply: {other:?}")),
    })
}

/// Returns whether the ACL denies the command, or the command was renamed.
pub(crate) fn is_forbidden(message: &str) -> bool {
    message.starts_with("NOPERM") || message.starts_with("ERR unknown command")
}

/// The words of [`unsuitable_mode`] by which a connection attempt is known to fail again.
pub(crate) const SENTINEL: &str = "is a Sentinel";
/// See [`SENTINEL`].
pub(crate) const CLUSTER_NODE: &str = "is a cluster node";

/// Returns why the mode of a server makes it unsuitable for locks, from its reply to `INFO server`.
pub(crate) fn unsuitable_mode(info: &str) -> Option<&'static str> {
    match mode(info)? {
        "sentinel" => {
            Some("this server is a Sentinel, which stores no locks; use redis+sentinel:// for its master")
        }
        "cluster" => Some(
            "this server is a cluster node, not an independent server; use redis+cluster:// for the whole cluster",
        ),
        _ => None,
    }
}

/// Returns the mode of a server: `standalone`, `sentinel` or `cluster`.
fn mode(info: &str) -> Option<&str> {
    // Valkey calls the field `server_mode`, except in its mode of compatibility.
    field(info, "redis_mode").or_else(|| field(info, "server_mode"))
}

/// Reads the reply to `INFO server`.
pub(crate) fn described(info: &str, pushes: Result<(), String>) -> Server {
    let field = |name: &str| field(info, name);
    let major = field("redis_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    Server {
        id: field("run_id").map(ServerId::new),
        set_get: major.is_some_and(|major| major >= 7),
        delete: Native::of_version(field),
        scripts: Ok(()),
        pushes,
    }
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

    fn error(message: &str) -> Reply {
        Reply::Error(message.into())
    }

    const RELEASED: Reply = Reply::Int(0);

    fn of(tracking: &[Reply], known: &[Reply]) -> Result<Server, String> {
        understand(tracking, known, false, &Secret::of(None))
    }

    #[test]
    fn identity_and_version_are_read() {
        let server = |version| of(&[], &[info(version), loaded(), RELEASED]).unwrap();
        assert_eq!(Some(ServerId::new("abc")), server("7.0.15").id);
        let set_get = |version| server(version).set_get;
        assert!(set_get("7.0.0") && set_get("7.2.4") && set_get("10.1"));
        assert!(!set_get("6.2.14") && !set_get("unknown"));
    }

    #[test]
    fn commands_denied_by_access_rules_are_optional() {
        for rejection in ["NOPERM this user has no permissions", "ERR unknown command 'INFO'"] {
            let unknown = of(&[], &[error(rejection), loaded(), RELEASED]).unwrap();
            assert!(!unknown.set_get && unknown.id.is_none());
            let unloaded = error("NOSCRIPT No matching script.");
            let known = of(&[], &[info("7.0.15"), error(rejection), unloaded]).unwrap();
            assert!(known.set_get && known.id.is_some());
        }
    }

    #[test]
    fn sentinels_and_cluster_nodes_are_rejected_for_what_they_are() {
        let of_mode = |mode: &str| {
            let info = Reply::Bytes(format!("redis_version:7.0.15\r\n{mode}\r\nrun_id:abc\r\n").into());
            of(&[], &[info, error("ERR unknown command 'SCRIPT'"), error("ERR unknown command 'EVALSHA'")])
        };
        for (mode, word) in [
            ("redis_mode:sentinel", SENTINEL),
            ("server_mode:sentinel", SENTINEL),
            ("redis_mode:cluster", CLUSTER_NODE),
            ("server_mode:cluster", CLUSTER_NODE),
        ] {
            let reason = of_mode(mode).unwrap_err();
            assert!(reason.contains(word), "{mode}: {reason}");
        }
        assert!(of_mode("redis_mode:standalone").is_ok() && of_mode("role:master").is_ok());
    }

    #[test]
    fn a_server_that_is_not_ready_is_unhealthy() {
        for message in [
            "LOADING Redis is loading",
            "NOAUTH Authentication required.",
            "MASTERDOWN Link",
            "BUSY Redis is busy",
            "ERR max number of clients reached",
        ] {
            let reason = of(&[], &[info("7.0.15"), error(message), RELEASED]);
            assert_eq!(Err(message.to_owned()), reason);
        }
        for message in ["BUSY Redis is busy", "OOM command not allowed", "LOADING Redis is loading"] {
            let reason = of(&[], &[info("9.0.0"), loaded(), error(message)]);
            assert_eq!(Err(message.to_owned()), reason, "the server does not forbid scripts");
        }
        assert!(of(&[], &[]).is_err());
    }

    #[test]
    fn a_server_that_forbids_scripts_is_recognized() {
        for message in ["NOPERM no permissions to run the 'evalsha' command", "ERR unknown command 'EVALSHA'"]
        {
            let server = of(&[], &[info("7.0.15"), loaded(), error(message)]).unwrap();
            assert_eq!(Err(message.to_owned()), server.scripts);
        }
        let unloaded = error("NOSCRIPT No matching script.");
        assert_eq!(Ok(()), of(&[], &[info("7.0.15"), loaded(), unloaded]).unwrap().scripts);
    }

    #[test]
    fn a_server_without_tracking_is_still_used() {
        let ok = || Reply::Bytes("OK".into());
        let pushes = |tracking: &[Reply]| of(tracking, &[info("7.0.15"), loaded(), RELEASED]).unwrap().pushes;
        assert_eq!(Ok(()), pushes(&[ok(), ok()]));
        assert!(pushes(&[]).unwrap_err().contains("RESP2"));
        assert!(pushes(&[ok(), Reply::Int(1)]).is_err());
        for rejection in ["NOPERM no permissions", "ERR unknown subcommand 'TRACKING'", "LOADING"] {
            let rejected = || error(rejection);
            assert_eq!(Err(rejection.to_owned()), pushes(&[rejected(), rejected()]));
            assert_eq!(
                Err(rejection.to_owned()),
                pushes(&[ok(), rejected()]),
                "the server may track, but cannot report names"
            );
        }
    }

    #[test]
    fn a_password_repeated_by_the_server_is_redacted() {
        let secret = Secret::of(Some("hunter2"));
        let echo = || error("ERR bad command: AUTH hunter2");
        let known = |position: usize| {
            let mut known = [info("7.0.15"), loaded(), RELEASED];
            known[position] = echo();
            known
        };
        for position in 0..2 {
            let reason = understand(&[], &known(position), false, &secret).unwrap_err();
            assert!(reason.ends_with("ERR bad command: AUTH ..."), "{reason}");
        }
        let scripts = understand(&[], &known(2), false, &secret).unwrap().scripts;
        assert_eq!(Err("ERR bad command: AUTH ...".to_owned()), scripts);
        let pushes =
            understand(&[echo()], &[info("7.0.15"), loaded(), RELEASED], false, &secret).unwrap().pushes;
        assert_eq!(Err("ERR bad command: AUTH ...".to_owned()), pushes);
    }
}
