//! Real servers for tests, which can be killed, paused and restarted.
//!
//! Every server is a separate process on the loopback interface, with a free port and a private directory. It ends when
//! the value that owns it is dropped, even if a test panics or the server is paused. A value is not dropped if the test
//! process ends by a signal, by `std::process::exit` or with `panic = "abort"`, or if it is in a `static`. The server
//! then keeps running.

mod builder;
mod console;
mod directory;
mod port;
mod process;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::builder::RedisServerBuilder;
pub use self::console::{Console, Reply};
use self::directory::Directory;
use self::port::Port;
use self::process::{Failed, Process};

/// A `redis-server` or `valkey-server` process for a test.
///
/// Dropping it kills it and removes its data. If the test process ends without dropping it, such as by a signal or by
/// `std::process::exit`, the server keeps running.
///
/// ```no_run
/// use redlock_testkit::RedisServer;
///
/// let servers = RedisServer::start_many(5);
/// servers[0].kill();
/// servers[1].pause();
/// // ... what still works? ...
/// servers[1].resume();
/// servers[0].restart();
/// assert_eq!("PONG", servers[0].command(&["PING"]));
/// ```
pub struct RedisServer {
    // Dropped in this order: the server first, then its directory and its port.
    process: Mutex<Option<Process>>,
    directory: Directory,
    builder: RedisServerBuilder,
    port: Port,
}

impl RedisServer {
    /// Starts a server and waits until it replies.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::start();
    /// assert_eq!("PONG", server.command(&["PING"]));
    /// assert!(server.keys().is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// Same as [`RedisServerBuilder::start`].
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts several servers.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let servers = RedisServer::start_many(3);
    /// let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    /// // ... let redlock = redlock_redis_rs::builder(urls)?.build()?; ...
    /// ```
    ///
    /// # Panics
    ///
    /// Same as [`RedisServerBuilder::start`].
    #[track_caller]
    pub fn start_many(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::start()).collect()
    }

    /// Returns a builder with the default options.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().password("secret").persistent(true).start();
    /// let url = format!("redis://:secret@127.0.0.1:{}", server.port());
    /// assert_eq!(url, server.url());
    /// ```
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    #[track_caller]
    fn from_builder(builder: RedisServerBuilder) -> Self {
        let directory = Directory::new();
        // Another process may take a port between the check and the server's start: the next one is tried.
        for _ in 0..20 {
            let port = Port::reserve();
            match Process::start(&builder, port.number(), directory.path()) {
                Ok(process) => return Self { process: Mutex::new(Some(process)), directory, builder, port },
                Err(Failed::PortTaken) => {}
                Err(Failed::Otherwise(message)) => panic!("{message}"),
            }
        }
        panic!("cannot start the server: 20 free ports in a row were taken by other processes");
    }

    /// Returns the port on 127.0.0.1. It stays the same across restarts.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// let address = ("127.0.0.1", server.port());
    /// assert!(std::net::TcpStream::connect(address).is_ok());
    /// ```
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns `redis://127.0.0.1:port`, with the password if there is one.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().password("sword fish").start();
    /// assert!(server.url().starts_with("redis://:sword%20fish@127.0.0.1:"));
    /// ```
    pub fn url(&self) -> String {
        let login =
            self.builder.password.as_deref().map(|password| format!(":{}@", percent_encoded(password)));
        format!("redis://{}127.0.0.1:{}", login.unwrap_or_default(), self.port())
    }

    /// Returns the path of its Unix socket.
    ///
    /// `None` if it was started [without one](RedisServerBuilder::unix_socket).
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().unix_socket().start();
    /// let path = server.socket().expect("it was requested");
    /// let url = format!("unix://{}", path.display());
    /// ```
    pub fn socket(&self) -> Option<PathBuf> {
        self.builder.socket.then(|| self.directory.path().join(builder::SOCKET))
    }

    /// Kills the server with `SIGKILL` and waits for its end. A dead server stays dead.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.kill();
    /// let address = ("127.0.0.1", server.port());
    /// assert!(std::net::TcpStream::connect(address).is_err(), "connection refused");
    /// ```
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Stops the server with `SIGSTOP`: connections stay open, and get no replies.
    ///
    /// When this returns, the server does nothing any more.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.pause();
    /// let address = ("127.0.0.1", server.port());
    /// assert!(std::net::TcpStream::connect(address).is_ok(), "but no reply follows");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server was killed or has ended by itself.
    #[track_caller]
    pub fn pause(&self) {
        self.process().as_mut().expect(DEAD).pause();
    }

    /// Continues a paused server with `SIGCONT`.
    ///
    /// It carries out the requests that it received.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.pause();
    /// // ... the code under test works without this server ...
    /// server.resume();
    /// assert_eq!("PONG", server.command(&["PING"]));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server was killed or has ended by itself.
    #[track_caller]
    pub fn resume(&self) {
        self.process().as_mut().expect(DEAD).resume();
    }

    /// Restarts the server on the same port, and waits until it replies.
    ///
    /// It kills the server first if it runs. The data is kept if the server is
    /// [`persistent`](RedisServerBuilder::persistent). Otherwise it is lost, even the data that it has received as a
    /// replica, unless an [argument](RedisServerBuilder::arg) switches persistence on.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.command(&["SET", "orders:42", "alice", "PX", "60000"]);
    /// server.restart();
    /// assert!(server.keys().is_empty(), "without persistence the lock is lost");
    /// ```
    ///
    /// # Panics
    ///
    /// Same as [`RedisServerBuilder::start`]. Also panics if another process has taken the port.
    #[track_caller]
    pub fn restart(&self) {
        self.start_again(|| ());
    }

    /// Same as [`restart`](RedisServer::restart), but never keeps the data.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// let server = RedisServer::builder().persistent(true).start();
    /// server.command(&["SET", "orders:42", "alice", "PX", "60000"]);
    /// server.restart_empty();
    /// assert!(server.keys().is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// Same as [`restart`](RedisServer::restart).
    #[track_caller]
    pub fn restart_empty(&self) {
        self.start_again(|| self.directory.forget_data());
    }

    /// Sends a command from outside, as [`Console::command`] does.
    ///
    /// ```no_run
    /// # let server = redlock_testkit::RedisServer::start();
    /// server.command(&["SET", "a", "somebody", "PX", "60000"]);
    /// assert_eq!("somebody", server.command(&["GET", "a"]));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached, does not reply within 10 s, or replies with an error.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> String {
        self.console().command(words)
    }

    /// Sends a command of arbitrary bytes, and returns its reply or error reply.
    ///
    /// ```no_run
    /// # use redlock_testkit::{RedisServer, Reply};
    /// # let server = RedisServer::start();
    /// server.reply(&[b"SET", b"orders:42", b"\x00\xff"]);
    /// let value = server.reply(&[b"GET", b"orders:42"]);
    /// assert_eq!(Reply::Bytes(b"\x00\xff".to_vec()), value);
    /// assert_eq!(Reply::Nil, server.reply(&[b"GET", b"orders:43"]));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached or does not reply within 10 s.
    #[track_caller]
    pub fn reply(&self, words: &[&[u8]]) -> Reply {
        self.console().reply(words)
    }

    /// Returns a console with another password.
    ///
    /// Use it after a `CONFIG SET requirepass`.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.command(&["CONFIG", "SET", "requirepass", "rotated"]);
    /// assert_eq!("PONG", server.authenticated("rotated").command(&["PING"]));
    /// ```
    pub fn authenticated(&self, password: impl Into<String>) -> Console {
        Console { port: self.port(), password: Some(password.into()) }
    }

    /// Returns all keys, sorted. Characters that are not printable ASCII are escaped.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.command(&["MSET", "stock:7", "bob", "orders:42", "alice"]);
    /// assert_eq!(["orders:42", "stock:7"], server.keys()[..]);
    /// ```
    ///
    /// # Panics
    ///
    /// Same as [`command`](RedisServer::command).
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let Reply::Array(keys) = self.reply(&[b"KEYS", b"*"]) else { panic!("KEYS returns an array") };
        let mut keys: Vec<_> = keys
            .into_iter()
            .map(|key| match key {
                Reply::Bytes(name) => name.escape_ascii().to_string(),
                other => panic!("a key is a string, not {other:?}"),
            })
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Returns how often a command was executed since the start: `commandstats("set")`.
    ///
    /// Executions within scripts count as well.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.command(&["SET", "orders:42", "alice", "NX"]);
    /// server.command(&["SET", "orders:42", "bob", "NX"]); // denied, but executed
    /// assert_eq!(2, server.commandstats("set"));
    /// ```
    ///
    /// # Panics
    ///
    /// Same as [`command`](RedisServer::command).
    #[track_caller]
    pub fn commandstats(&self, command: &str) -> u64 {
        let start = format!("cmdstat_{}:calls=", command.to_ascii_lowercase());
        let stats = self.command(&["INFO", "commandstats"]);
        let calls = stats.lines().find_map(|line| line.strip_prefix(&start)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("the server counts in integers"))
    }

    #[track_caller]
    fn start_again(&self, before: impl FnOnce()) {
        let mut process = self.process();
        *process = None;
        before();
        match Process::start(&self.builder, self.port(), self.directory.path()) {
            Ok(started) => *process = Some(started),
            Err(Failed::PortTaken) => {
                panic!("cannot restart the server: port {} was taken by another process", self.port())
            }
            Err(Failed::Otherwise(message)) => panic!("{message}"),
        }
    }

    fn console(&self) -> Console {
        Console { port: self.port(), password: self.builder.password.clone() }
    }

    /// The process either exists or not, so a poisoned lock is safe to use.
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the port, and whether the server runs.
impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alive = self.process().is_some();
        f.debug_struct("RedisServer")
            .field("port", &self.port())
            .field("alive", &alive)
            .finish_non_exhaustive()
    }
}

const DEAD: &str = "the server was killed; restart it first";

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}
