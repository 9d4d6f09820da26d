//! A server in memory and a client for it, to try a node without I/O.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event_listener::Event;

use crate::asked::Last;
use crate::connection::{Command, Connection, Connector, Failure, Reply};
use crate::push::Hub;

/// Far above what anything here takes; what runs into it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The server, its client, and what a test decides about them. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Inner>);

#[derive(Default)]
struct Inner {
    mood: Mutex<Mood>,
    /// Fires whenever anything here changes.
    changed: Event,
    calls: Mutex<Vec<&'static str>>,
    /// Of the last connection.
    hub: Mutex<Hub>,
    connects: AtomicUsize,
    open: AtomicUsize,
    /// Connections up to this number are lost.
    lost: AtomicUsize,
}

/// How the server behaves.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)] // a test sets one or two of them
pub(crate) struct Mood {
    /// `Err`: it refuses connections, saying so. `Ok(false)`: it leaves them hanging until that changes.
    pub(crate) accepts: Result<bool, &'static str>,
    /// Otherwise requests hang for ever.
    pub(crate) answers: bool,
    /// Requests fail at once, and only they say that the connection is lost.
    pub(crate) fails: bool,
    pub(crate) knows_scripts: bool,
    pub(crate) info: Reply,
    pub(crate) set: Reply,
    pub(crate) get: Reply,
    /// Whether it is one socket for as long as it lives.
    pub(crate) keeps_order: bool,
    /// What `CLIENT` answers; `None` where the client has no RESP3.
    pub(crate) client: Option<Reply>,
    pub(crate) pttl: Reply,
    /// A key of which the server pushes ahead of its reply to `PTTL`.
    pub(crate) pushed: &'static [u8],
}

impl Default for Mood {
    fn default() -> Self {
        let info = Reply::Bytes(b"redis_version:7.0.15\r\nrun_id:fake\r\n".to_vec());
        let client = Some(Reply::Bytes(b"OK".to_vec()));
        let (set, get, pttl) = (Reply::Nil, Reply::Nil, Reply::Int(-2));
        Self {
            accepts: Ok(true),
            answers: true,
            fails: false,
            knows_scripts: true,
            info,
            set,
            get,
            keeps_order: true,
            client,
            pttl,
            pushed: b"",
        }
    }
}

impl Fake {
    /// Changes how the server behaves from now on.
    pub(crate) fn is(&self, change: impl FnOnce(&mut Mood)) {
        change(&mut self.0.mood.lock().unwrap());
        self.0.changed.notify(usize::MAX);
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.0.lost.store(self.connects(), Ordering::SeqCst);
        self.0.changed.notify(usize::MAX);
    }

    /// How often a client has tried to connect.
    pub(crate) fn connects(&self) -> usize {
        self.0.connects.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// The hub of the last connection: what it is told, the server pushes.
    pub(crate) fn hub(&self) -> Hub {
        self.0.hub.lock().unwrap().clone()
    }

    /// The names of the commands since the last look, without those of the handshake.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.calls.lock().unwrap())
    }

    /// Waits until `is_so`, or panics.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        tokio::time::timeout(PATIENCE, self.wait(is_so)).await.expect("it hangs");
    }

    pub(crate) async fn wait(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.0.changed.listen();
            if is_so(self) {
                return;
            }
            changed.await;
        }
    }

    fn mood(&self) -> Mood {
        self.0.mood.lock().unwrap().clone()
    }
}

impl Connector for Fake {
    type Connection = FakeConnection;

    async fn connect(&self, hub: &Hub) -> Result<FakeConnection, Failure> {
        let number = self.0.connects.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.changed.notify(usize::MAX);
        self.wait(|fake| fake.mood().accepts != Ok(false)).await;
        self.mood().accepts.map_err(Failure::not_sent)?;
        *self.0.hub.lock().unwrap() = hub.clone();
        self.0.open.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify(usize::MAX);
        Ok(FakeConnection { fake: self.clone(), number })
    }
}

pub(crate) struct FakeConnection {
    fake: Fake,
    number: usize,
}

impl Drop for FakeConnection {
    fn drop(&mut self) {
        self.fake.0.open.fetch_sub(1, Ordering::SeqCst);
        self.fake.0.changed.notify(usize::MAX);
    }
}

impl FakeConnection {
    fn is_lost(&self) -> bool {
        self.number <= self.fake.0.lost.load(Ordering::SeqCst)
    }
}

impl Connection for FakeConnection {
    /// Its name.
    type Packed = &'static str;

    fn pack(command: Command<'_>) -> &'static str {
        command.name()
    }

    fn last<T>(look: impl FnOnce(&mut Last<&'static str>) -> T) -> T {
        look(&mut Last::none())
    }

    async fn call(&self, name: &'static str) -> Result<Reply, Failure> {
        if self.is_lost() {
            return Err(Failure::maybe_sent("cut"));
        }
        self.fake.0.calls.lock().unwrap().push(name);
        let mood = self.fake.mood();
        if mood.fails {
            return Err(Failure::maybe_sent("broken"));
        }
        if !mood.answers {
            return pending().await;
        }
        Ok(match name {
            "SET" => mood.set,
            "GET" => mood.get,
            "EVALSHA" if !mood.knows_scripts => Reply::Error("NOSCRIPT No matching script.".into()),
            _ => Reply::Int(1),
        })
    }

    async fn pipeline(&self, names: Vec<&'static str>) -> Result<Vec<Reply>, Failure> {
        let mood = self.fake.mood();
        if !names.contains(&"INFO") {
            if self.is_lost() {
                return Err(Failure::maybe_sent("cut"));
            }
            self.fake.0.calls.lock().unwrap().extend(&names);
            if !mood.answers {
                return pending().await;
            }
        }
        if names.contains(&"PTTL") {
            self.fake.hub().changed(mood.pushed);
        }
        let reply = |name| match name {
            "INFO" => mood.info.clone(),
            "CLIENT" => mood.client.clone().expect("asked of those that have RESP3"),
            "PTTL" => mood.pttl.clone(),
            _ => Reply::Bytes(b"sha".to_vec()),
        };
        Ok(names.into_iter().map(reply).collect())
    }

    fn pushes(&self) -> bool {
        self.fake.mood().client.is_some()
    }

    fn keeps_order(&self) -> bool {
        self.fake.mood().keeps_order
    }

    async fn lost(&self) {
        self.fake.wait(|_| self.is_lost()).await;
    }
}

impl Command<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::SetIfAbsent { .. } => "SET",
            Self::Other { name, .. } => name,
        }
    }
}
