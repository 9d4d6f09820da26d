//! The state of a server that scripts and connections share, and the frame of each command.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::client::{Client, ClientId};
use crate::command::{self, Outcome};
use crate::keyspace::Keyspace;
use crate::reply::{Reply, encode_invalidation};
use crate::settings::Settings;
use crate::tracking::Tracked;

/// A script, and the SHA-1 by which it is called.
pub(crate) struct Script {
    pub(crate) sha: String,
    pub(crate) text: String,
}

pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) keys: Keyspace,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) tracked: Tracked,
    /// The scripts by their SHA-1.
    pub(crate) scripts: BTreeMap<String, Arc<Script>>,
    /// The same by their text, so that each SHA-1 is computed once.
    texts: HashMap<Vec<u8>, Arc<Script>>,
    /// The connection whose command is in progress.
    pub(crate) executing: Option<ClientId>,
    /// True once the script in progress has written.
    pub(crate) is_dirty: bool,
    /// The time of the command in progress.
    pub(crate) now: u64,
    next: u64,
}

impl Core {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            keys: Keyspace::default(),
            clients: BTreeMap::new(),
            tracked: Tracked::new(),
            scripts: BTreeMap::new(),
            texts: HashMap::new(),
            executing: None,
            is_dirty: false,
            now: 0,
            next: 0,
        }
    }

    pub(crate) fn connect(&mut self) -> ClientId {
        self.next += 1;
        let is_authenticated = self.settings.password.is_none();
        self.clients.insert(ClientId(self.next), Client { is_authenticated, ..Client::default() });
        ClientId(self.next)
    }

    pub(crate) fn disconnect(&mut self, client: ClientId) {
        self.clients.remove(&client);
        for readers in self.tracked.values_mut() {
            readers.remove(&client);
        }
    }

    pub(crate) fn restart(&mut self, run_id: &str) {
        self.clients.clear();
        self.tracked.clear();
        self.forget_scripts();
        run_id.clone_into(&mut self.settings.run_id);
    }

    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
        self.texts.clear();
    }

    /// Makes a script known.
    pub(crate) fn load(&mut self, text: &[u8]) -> Arc<Script> {
        if let Some(script) = self.texts.get(text) {
            return Arc::clone(script);
        }
        let shown = String::from_utf8_lossy(text).into_owned();
        let script = Arc::new(Script { sha: crate::sha1(&shown), text: shown });
        self.texts.insert(text.to_vec(), Arc::clone(&script));
        self.scripts.insert(script.sha.clone(), Arc::clone(&script));
        script
    }

    pub(crate) fn flush(&mut self) {
        self.keys.clear();
        self.all_touched();
    }

    pub(crate) fn expire(&mut self, now: u64) {
        for key in self.keys.take_expired(now) {
            self.touched(&key);
        }
    }

    /// Begins a command. A script is left to the caller, because it calls commands.
    pub(crate) fn begin(&mut self, client: ClientId, command: &[Vec<u8>], now: u64) -> Outcome {
        self.now = now;
        self.executing = Some(client);
        self.is_dirty = false;
        self.expire(now);
        command::begin(self, client, command)
    }

    /// Ends the tracking of keys that the script has read.
    pub(crate) fn end_script(&mut self) {
        if let Some(client) = self.executing.and_then(|id| self.clients.get_mut(&id)) {
            client.caches = false;
        }
    }

    /// Ends a command: its reply, then the changes that it has made itself.
    pub(crate) fn end(&mut self, id: ClientId, reply: &Reply) {
        self.executing = None;
        let Some(client) = self.clients.get_mut(&id) else { return };
        reply.encode(client.resp3, &mut client.output);
        for key in std::mem::take(&mut client.pending) {
            encode_invalidation(key.as_deref(), &mut client.output);
        }
    }
}
