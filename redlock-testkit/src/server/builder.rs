//! The options of a server, and the configuration file with them.

use std::fmt::{self, Write as _};
use std::path::Path;

use super::RedisServer;

/// The options of a [`RedisServer`].
///
/// Without any, the server has no persistence, no password, and only TCP.
#[derive(Clone, Default)]
#[must_use = "a builder starts nothing until `start`"]
pub struct RedisServerBuilder {
    pub(super) program: Option<String>,
    pub(super) persistent: bool,
    pub(super) socket: bool,
    pub(super) password: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

impl RedisServerBuilder {
    /// Sets the program to run.
    ///
    /// The default is the environment variable `REDLOCK_SERVER`, or else `redis-server`.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().program("valkey-server").start();
    /// assert!(server.command(&["INFO", "server"]).contains("valkey_version"));
    /// ```
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Sets whether every write is on disk before its reply (`appendfsync always`).
    ///
    /// The default is `false`. If set, a [`kill`](RedisServer::kill) and a [`restart`](RedisServer::restart) keep all
    /// data.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().persistent(true).start();
    /// server.command(&["SET", "orders:42", "alice"]);
    /// server.kill();
    /// server.restart();
    /// assert_eq!("alice", server.command(&["GET", "orders:42"]));
    /// ```
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Adds a Unix socket: see [`socket`](RedisServer::socket).
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().unix_socket().start();
    /// let path = server.socket().expect("it was requested");
    /// assert!(std::os::unix::net::UnixStream::connect(path).is_ok());
    /// ```
    pub fn unix_socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// Requires a password from clients. [`url`](RedisServer::url) contains it.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().password("secret").start();
    /// let denied = server.authenticated("guess").reply(&[b"PING"]);
    /// assert!(denied.text().starts_with("WRONGPASS"));
    /// ```
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a command-line argument, such as `--maxmemory` and then `1mb`.
    ///
    /// Arguments override the other options.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().arg("--maxmemory").arg("5mb").start();
    /// let limit = server.command(&["CONFIG", "GET", "maxmemory"]);
    /// assert_eq!("maxmemory\n5242880", limit);
    /// ```
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable of the server. The last value of a name counts.
    ///
    /// The server also has the other variables of this process. The values are shown by `Debug`, as those of
    /// [`arg`](Self::arg) are.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().env("TZ", "UTC").start();
    /// assert_eq!("PONG", server.command(&["PING"]));
    /// ```
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts a server and waits until it replies.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().password("secret").start();
    /// assert_eq!("PONG", server.command(&["PING"]), "it replies at once");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the program is missing, exits, or does not reply within 20 s: a test that requires a server must not
    /// pass without one.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        RedisServer::from_builder(self)
    }

    /// Returns the configuration file.
    ///
    /// The file keeps the password off the command line, which every user of the machine can read.
    pub(super) fn configuration(&self, port: u16, directory: &Path) -> String {
        let directory = quoted(&directory.to_string_lossy());
        let mut text = format!(
            "bind 127.0.0.1\nport {port}\ndir {directory}\nlogfile server.log\ndaemonize no\nsave \"\"\n"
        );
        if self.persistent {
            text.push_str("appendonly yes\nappendfsync always\n");
        } else {
            // The data that a replica has received is in a file, which the server would load after a restart.
            text.push_str("rdb-del-sync-files yes\n");
        }
        // Writing to a string cannot fail.
        if self.socket {
            let _ = writeln!(text, "unixsocket {SOCKET}");
        }
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {}", quoted(password));
        }
        text
    }
}

/// The name of the socket in the server's directory.
pub(super) const SOCKET: &str = "server.sock";

/// Shows whether there is a password, but not the password.
impl fmt::Debug for RedisServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServerBuilder")
            .field("program", &self.program)
            .field("persistent", &self.persistent)
            .field("socket", &self.socket)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("args", &self.args)
            .field("env", &self.env)
            .finish()
    }
}

/// Quotes a text for `redis.conf`: in double quotes, with special characters as `\xHH`.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = match byte {
            b'"' | b'\\' | 0..=31 | 127..=255 => write!(quoted, "\\x{byte:02x}"),
            printable => write!(quoted, "{}", char::from(printable)),
        };
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_only_in_the_configuration() {
        let builder = RedisServerBuilder::default().password("a \"b\\\u{e9}");
        assert!(builder.configuration(1, Path::new("/")).contains(r#"requirepass "a \x22b\x5c\xc3\xa9""#));
        assert!(format!("{builder:?}").contains("hidden"));
    }
}
