//! A simulated Redis server: its keys, its commands, and its scripts in a real Lua 5.1.
//!
//! It does what a server does for the commands of `redlock-wire`, and no more. It has no clock, no sockets and no random
//! numbers: its owner passes the time, the bytes of a connection and the identities. The tests compare its replies
//! with those of a real server.
//!
//! ```
//! use redlock_server::{Server, Settings};
//!
//! let mut server = Server::new(Settings::default());
//! let client = server.connect();
//! server.receive(client, b"*2\r\n$4\r\nPTTL\r\n$1\r\na\r\n");
//! let command = server.next_command(client).expect("a whole command");
//! server.execute(client, &command, 1_000_000);
//! assert_eq!(b":-2\r\n".to_vec(), server.take_output(client));
//! ```

mod client;
mod command;
mod core;
mod info;
mod keyspace;
mod reply;
mod request;
mod script;
mod settings;
mod tracking;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::client::ClientId;
use self::core::Core;
pub use self::keyspace::{Keyspace, Lock, READERS};
pub use self::reply::Reply;
use self::script::Scripts;
pub use self::settings::{Release, Settings};

/// A server. The time is in microseconds since the Unix epoch by its wall clock.
pub struct Server {
    /// Scripts call commands, so it is shared with their functions.
    core: Arc<Mutex<Core>>,
    scripts: Scripts,
}

/// A command: its name and its arguments.
pub type Command = Vec<Vec<u8>>;

impl Server {
    /// Starts an empty server.
    pub fn new(settings: Settings) -> Self {
        let core = Arc::new(Mutex::new(Core::new(settings)));
        let scripts = Scripts::new(&core);
        Self { core, scripts }
    }

    /// Accepts a connection.
    pub fn connect(&mut self) -> ClientId {
        self.core().connect()
    }

    /// Forgets a connection.
    pub fn disconnect(&mut self, client: ClientId) {
        self.core().disconnect(client);
    }

    /// Receives bytes of a connection.
    pub fn receive(&mut self, client: ClientId, bytes: &[u8]) {
        if let Some(client) = self.core().clients.get_mut(&client) {
            client.input.extend_from_slice(bytes);
        }
    }

    /// Takes the next command of a connection; `None` if it has not arrived as a whole.
    pub fn next_command(&mut self, client: ClientId) -> Option<Command> {
        request::next(&mut self.core().clients.get_mut(&client)?.input)
    }

    /// Carries a command out. Returns its reply, which is also part of the output of its connection.
    pub fn execute(&mut self, client: ClientId, command: &[Vec<u8>], now: u64) -> Reply {
        // The mutex is released before a script runs, which locks it for each command.
        let outcome = self.core().begin(client, command, now);
        let reply = match outcome {
            command::Outcome::Done(reply) => reply,
            command::Outcome::Script(script) => self.scripts.run(&script, &self.core),
        };
        self.core().end(client, &reply);
        reply
    }

    /// Takes the bytes to be sent over a connection: replies and pushes.
    pub fn take_output(&mut self, client: ClientId) -> Vec<u8> {
        self.core()
            .clients
            .get_mut(&client)
            .map(|client| std::mem::take(&mut client.output))
            .unwrap_or_default()
    }

    /// Returns the connections that have output.
    pub fn with_output(&self) -> Vec<ClientId> {
        let core = self.core();
        core.clients.iter().filter(|(_, client)| !client.output.is_empty()).map(|(id, _)| *id).collect()
    }

    /// Deletes the keys that have expired, as a server does from time to time, and pushes their names.
    pub fn expire(&mut self, now: u64) {
        self.core().expire(now);
    }

    /// Reads the keys from outside.
    pub fn keys<T>(&self, read: impl FnOnce(&Keyspace) -> T) -> T {
        read(&self.core().keys)
    }

    /// Changes keys from outside, such as for a loss of data. Nothing is pushed.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Keyspace) -> T) -> T {
        change(&mut self.core().keys)
    }

    /// Forgets all scripts.
    pub fn flush_scripts(&mut self) {
        self.core().forget_scripts();
    }

    /// Pushes that all keys were deleted or replaced.
    pub fn push_loss(&mut self) {
        self.core().all_touched();
    }

    /// Starts again as another process, without connections and scripts. The keys stay.
    pub fn restart(&mut self, run_id: &str) {
        self.core().restart(run_id);
    }

    /// Changes the settings of the running server.
    pub fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.core().settings);
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        locked(&self.core)
    }
}

/// Returns the SHA-1 by which a script is called.
pub fn sha1(script: &str) -> String {
    sha1_smol::Sha1::from(script).hexdigest()
}

fn locked(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}
