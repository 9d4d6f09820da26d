//! Real servers, to do to them what operators and accidents do.
//!
//! Every server is a process of its own on the loopback interface, with a free port and a directory that nobody shares.
//! It ends with the value that owns it, also when a test panics and also when it is paused. A process that is itself
//! killed (`SIGKILL`), or a server in a `static`, leaves its servers running.

mod builder;
mod console;
mod directory;
mod process;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::builder::RedisServerBuilder;
pub use self::console::{Console, Reply};
use self::directory::Directory;
use self::process::{Failed, Process, free_port};

/// A `redis-server` or `valkey-server` of a test's own. Dropping it kills it and removes its data.
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
    // Dropped in this order: the server first, then its directory.
    process: Mutex<Option<Process>>,
    directory: Directory,
    builder: RedisServerBuilder,
    port: u16,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// As of [`RedisServerBuilder::start`].
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts several servers.
    ///
    /// # Panics
    ///
    /// As of [`RedisServerBuilder::start`].
    #[track_caller]
    pub fn start_many(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::start()).collect()
    }

    /// Options to start with.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    #[track_caller]
    fn from_builder(builder: RedisServerBuilder) -> Self {
        let directory = Directory::new();
        // Somebody may take a port between our look and the server's start: then there is another.
        for _ in 0..20 {
            let port = free_port();
            match Process::start(&builder, port, directory.path()) {
                Ok(process) => return Self { process: Mutex::new(Some(process)), directory, builder, port },
                Err(Failed::PortTaken) => {}
                Err(Failed::Otherwise(message)) => panic!("{message}"),
            }
        }
        panic!("20 ports in a row were taken before the server could have them");
    }

    /// The port on 127.0.0.1. It stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:port`, with the password where there is one.
    pub fn url(&self) -> String {
        let login =
            self.builder.password.as_deref().map(|password| format!(":{}@", percent_encoded(password)));
        format!("redis://{}127.0.0.1:{}", login.unwrap_or_default(), self.port)
    }

    /// The path of its Unix socket, if it was started with [one](RedisServerBuilder::unix_socket).
    pub fn socket(&self) -> Option<PathBuf> {
        self.builder.socket.then(|| self.directory.path().join(builder::SOCKET))
    }

    /// Kills the server with `SIGKILL` and waits for its end. What is dead stays dead.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Stops the server with `SIGSTOP`: its connections stand, and nothing is answered. When this returns it does
    /// nothing any more.
    ///
    /// # Panics
    ///
    /// When the server was killed.
    #[track_caller]
    pub fn pause(&self) {
        self.process().as_mut().expect(DEAD).pause();
    }

    /// Continues a paused server with `SIGCONT`: it carries out what it had been sent meanwhile.
    ///
    /// # Panics
    ///
    /// When the server was killed.
    #[track_caller]
    pub fn resume(&self) {
        self.process().as_mut().expect(DEAD).resume();
    }

    /// Kills the server if it runs, starts it on the same port, and waits until it answers. It has its data if it is
    /// [`persistent`](RedisServerBuilder::persistent), else none.
    ///
    /// # Panics
    ///
    /// As of [`RedisServerBuilder::start`], and when somebody has taken its port meanwhile.
    #[track_caller]
    pub fn restart(&self) {
        self.start_again(|| ());
    }

    /// As [`restart`](RedisServer::restart), without any data in any case.
    ///
    /// # Panics
    ///
    /// As of [`restart`](RedisServer::restart).
    #[track_caller]
    pub fn restart_empty(&self) {
        self.start_again(|| self.directory.forget_data());
    }

    /// Sends a command from outside, as of [`Console::command`].
    ///
    /// ```no_run
    /// # let server = redlock_testkit::RedisServer::start();
    /// server.command(&["SET", "a", "somebody", "PX", "60000"]);
    /// assert_eq!("somebody", server.command(&["GET", "a"]));
    /// ```
    ///
    /// # Panics
    ///
    /// When the server cannot be reached, does not answer within 10 s, or answers with an error.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> String {
        self.console().command(words)
    }

    /// Sends a command with any bytes from outside, and answers also errors.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached or does not answer within 10 s.
    #[track_caller]
    pub fn reply(&self, words: &[&[u8]]) -> Reply {
        self.console().reply(words)
    }

    /// As seen with another password than the one it was started with: after a `CONFIG SET requirepass`.
    pub fn authenticated(&self, password: impl Into<String>) -> Console {
        Console { port: self.port, password: Some(password.into()) }
    }

    /// All its keys, sorted. What is not printable ASCII is escaped.
    ///
    /// # Panics
    ///
    /// As of [`command`](RedisServer::command).
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let Reply::Array(keys) = self.reply(&[b"KEYS", b"*"]) else { panic!("KEYS answers an array") };
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

    /// How often a command was executed since the start, also within scripts: `commandstats("set")`.
    ///
    /// # Panics
    ///
    /// As of [`command`](RedisServer::command).
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
        match Process::start(&self.builder, self.port, self.directory.path()) {
            Ok(started) => *process = Some(started),
            Err(Failed::PortTaken) => panic!("somebody has taken port {} meanwhile", self.port),
            Err(Failed::Otherwise(message)) => panic!("{message}"),
        }
    }

    fn console(&self) -> Console {
        Console { port: self.port, password: self.builder.password.clone() }
    }

    /// The process is there or it is not, whatever panicked.
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The port, and whether it runs.
impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alive = self.process().is_some();
        f.debug_struct("RedisServer").field("port", &self.port).field("alive", &alive).finish_non_exhaustive()
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
