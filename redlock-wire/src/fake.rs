//! An in-memory server and a client for it, to test a node without I/O.

use std::future::{pending, poll_fn};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use event_listener::Event;
use redlock_core::TokioRuntime;
use redlock_core::runtime::Runtime;

use crate::cluster_members::ClusterMembers;
use crate::connection::{Connection, Connector};
use crate::credentials::Credentials;
use crate::message::{Command, Failure, Reply};
use crate::push::Hub;
use crate::sentinels::Sentinels;
use crate::socket::SocketHandle;
use crate::stamp::STAMP;

/// The limit on every wait. It is far longer than any step takes, so reaching it means a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The server, its client, and the behavior that a test sets. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Inner>, Option<Arc<Sentinels<Fake>>>, Option<Arc<ClusterMembers<Fake>>>);

#[derive(Default)]
struct Inner {
    behavior: Mutex<Behavior>,
    /// Notified when anything here changes.
    changed: Event,
    calls: Mutex<Vec<&'static str>>,
    /// The logins of the connection attempts that had one.
    logins: Mutex<Vec<Credentials>>,
    /// The hub of the last connection.
    hub: Mutex<Hub>,
    /// The socket of the last connection.
    socket: Mutex<SocketHandle>,
    connects: AtomicUsize,
    open: AtomicUsize,
    /// Connections up to this number are lost.
    lost: AtomicUsize,
}

/// The behavior of the server.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)] // a test sets one or two of them
pub(crate) struct Behavior {
    /// `Err`: refuses connections with this message. `Ok(false)`: connection attempts hang until this changes.
    pub(crate) accepts: Result<bool, &'static str>,
    /// If `false`, requests hang forever.
    pub(crate) replies: bool,
    /// If `false`, the client does not read replies, as if its task were not scheduled.
    pub(crate) looks: bool,
    /// If `true`, replies wait until this changes, except those of the handshake.
    pub(crate) holds: bool,
    /// If `true`, requests fail at once. Only these failures reveal the lost connection.
    pub(crate) fails: bool,
    pub(crate) knows_scripts: bool,
    /// The error of a comparison or a look.
    pub(crate) check_error: Option<&'static str>,
    /// True if the client gives up a comparison or a look that is sent alone, before it sends it.
    pub(crate) gives_up_scripts: bool,
    pub(crate) info: Reply,
    pub(crate) set: Reply,
    pub(crate) get: Reply,
    /// The reply of `Connection::keeps_order`.
    pub(crate) keeps_order: bool,
    /// The reply of `Connection::queues_at_first_poll`.
    pub(crate) queues_at_first_poll: bool,
    /// The reply of `Connection::reports_flushes`.
    pub(crate) reports_flushes: bool,
    /// The reply to `CLIENT`; `None` if the client has no RESP3.
    pub(crate) client: Option<Reply>,
    pub(crate) pttl: Reply,
    /// The stamp of the server, which is old enough for an admission. If it is `None`, each look fails.
    pub(crate) stamp: Option<&'static str>,
    /// The reply to `CLUSTER`.
    pub(crate) cluster: Reply,
    /// The reply to `SENTINEL`.
    pub(crate) sentinel: Reply,
    /// The time by which the clock of the server is ahead. If it is `None`, the server does not permit `TIME`.
    pub(crate) ahead: Option<Duration>,
    /// A key that the server pushes ahead of its reply to `PTTL`.
    pub(crate) pushed: &'static [u8],
}

impl Default for Behavior {
    fn default() -> Self {
        let info = Reply::Bytes(b"redis_version:7.0.15\r\nrun_id:fake\r\n".to_vec());
        let client = Some(Reply::Bytes(b"OK".to_vec()));
        let (set, get, pttl) = (Reply::Nil, Reply::Nil, Reply::Int(-2));
        Self {
            accepts: Ok(true),
            replies: true,
            looks: true,
            holds: false,
            fails: false,
            knows_scripts: true,
            check_error: None,
            gives_up_scripts: false,
            info,
            set,
            get,
            keeps_order: true,
            queues_at_first_poll: false,
            reports_flushes: false,
            client,
            pttl,
            stamp: None,
            cluster: Reply::Nil,
            sentinel: Reply::Nil,
            ahead: Some(Duration::ZERO),
            pushed: b"",
        }
    }
}

impl Fake {
    /// Returns a connector whose server these sentinels choose.
    pub(crate) fn chosen_by(sentinels: Sentinels<Self>) -> Self {
        Self(Arc::default(), Some(Arc::new(sentinels)), None)
    }

    /// Returns a connector that leads to a cluster.
    pub(crate) fn of_cluster(members: ClusterMembers<Self>) -> Self {
        Self(Arc::default(), None, Some(Arc::new(members)))
    }

    /// Changes the behavior of the server from now on.
    pub(crate) fn is(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut self.0.behavior.lock().unwrap());
        self.0.changed.notify(usize::MAX);
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.0.lost.store(self.connects(), Ordering::SeqCst);
        self.0.changed.notify(usize::MAX);
    }

    /// Returns the number of connection attempts.
    pub(crate) fn connects(&self) -> usize {
        self.0.connects.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// Returns the hub of the last connection. Calling it acts as a push of the server.
    pub(crate) fn hub(&self) -> Hub {
        self.0.hub.lock().unwrap().clone()
    }

    /// Returns the socket of the last connection.
    pub(crate) fn socket(&self) -> SocketHandle {
        self.0.socket.lock().unwrap().clone()
    }

    /// Returns the logins of the connection attempts so far that had one.
    pub(crate) fn logins(&self) -> Vec<Credentials> {
        self.0.logins.lock().unwrap().clone()
    }

    /// Returns the names of the commands since the last call, without the handshake.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.calls.lock().unwrap())
    }

    /// Waits until `is_so` holds, or panics.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        tokio::time::timeout(PATIENCE, self.wait(is_so)).await.expect("the condition does not hold in time");
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

    fn behavior(&self) -> Behavior {
        self.0.behavior.lock().unwrap().clone()
    }
}

impl Connector for Fake {
    type Connection = FakeConnection;

    fn label(&self) -> &'static str {
        "fake"
    }

    fn cluster(&self) -> Option<&ClusterMembers<Self>> {
        self.2.as_deref()
    }

    fn sentinels(&self) -> Option<&Sentinels<Self>> {
        self.1.as_deref()
    }

    async fn connect(&self, login: Option<&Credentials>, hub: &Hub) -> Result<FakeConnection, Failure> {
        let number = self.0.connects.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.logins.lock().unwrap().extend(login.cloned());
        self.0.changed.notify(usize::MAX);
        self.wait(|fake| fake.behavior().accepts != Ok(false)).await;
        self.behavior().accepts.map_err(Failure::not_sent)?;
        *self.0.hub.lock().unwrap() = hub.clone();
        let socket = SocketHandle::default();
        *self.0.socket.lock().unwrap() = socket.clone();
        self.0.open.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify(usize::MAX);
        Ok(FakeConnection { fake: self.clone(), number, socket })
    }
}

pub(crate) struct FakeConnection {
    fake: Fake,
    number: usize,
    socket: SocketHandle,
}

impl Drop for FakeConnection {
    fn drop(&mut self) {
        self.fake.0.open.fetch_sub(1, Ordering::SeqCst);
        self.fake.0.changed.notify(usize::MAX);
    }
}

impl FakeConnection {
    /// Sends, and waits for a reply that never comes.
    async fn wait_for_reply<T>(&self) -> T {
        let _ = self.socket.write(|| Poll::Ready(Ok(())));
        let nothing = |cx: &mut Context<'_>| self.socket.read(cx, |_| Poll::<io::Result<()>>::Pending);
        if self.fake.behavior().looks {
            poll_fn(|cx| nothing(cx).map(drop)).await;
        }
        pending().await
    }

    fn is_lost(&self) -> bool {
        self.number <= self.fake.0.lost.load(Ordering::SeqCst)
    }
}

impl Connection for FakeConnection {
    /// The name of the command.
    type Packed = &'static str;

    fn pack(command: Command<'_>) -> &'static str {
        match command {
            Command::Other { name, args: [_, _, stamp, arguments @ ..] } if stamp.starts_with(STAMP) => {
                match (name, arguments) {
                    ("EVALSHA", [_]) => SHORT_COMPARE,
                    (_, [_]) => COMPARE,
                    ("EVALSHA", _) => SHORT_LOOK,
                    _ => LOOK,
                }
            }
            command => command.name(),
        }
    }

    async fn call(&self, name: &'static str) -> Result<Reply, Failure> {
        if self.is_lost() {
            return Err(Failure::maybe_sent("cut"));
        }
        self.fake.0.calls.lock().unwrap().push(name);
        let behavior = self.fake.behavior();
        if behavior.fails {
            return Err(Failure::maybe_sent("broken"));
        }
        if !behavior.replies {
            return self.wait_for_reply().await;
        }
        self.fake.wait(|fake| !fake.behavior().holds).await;
        Ok(match name {
            "SET" => behavior.set,
            "TIME" => behavior.time(),
            "GET" => behavior.get,
            "EVALSHA" if !behavior.knows_scripts => Reply::Error("NOSCRIPT No matching script.".into()),
            COMPARE | LOOK if behavior.gives_up_scripts => return Err(Failure::not_sent("gone")),
            COMPARE => behavior.compared(),
            LOOK => behavior.found(),
            _ => Reply::Int(1),
        })
    }

    async fn pipeline(&self, names: Vec<&'static str>) -> Result<Vec<Reply>, Failure> {
        let behavior = self.fake.behavior();
        let is_handshake = names.contains(&"SCRIPT");
        if !is_handshake {
            if self.is_lost() {
                return Err(Failure::maybe_sent("cut"));
            }
            self.fake.0.calls.lock().unwrap().extend(&names);
            if !behavior.replies {
                return self.wait_for_reply().await;
            }
            self.fake.wait(|fake| !fake.behavior().holds).await;
        }
        if names.contains(&"PTTL") {
            self.fake.hub().changed(behavior.pushed);
        }
        let sha = || Reply::Bytes(b"sha".to_vec());
        let reply = |name| match name {
            SHORT_COMPARE | SHORT_LOOK if !behavior.knows_scripts => {
                Reply::Error("NOSCRIPT No matching script.".into())
            }
            LOOK | SHORT_LOOK => behavior.found(),
            SHORT_COMPARE => behavior.compared(),
            "GET" => behavior.stamp.map_or_else(sha, bytes),
            "CLUSTER" => behavior.cluster.clone(),
            "SENTINEL" => behavior.sentinel.clone(),
            "SET" => behavior.set.clone(),
            "INFO" => behavior.info.clone(),
            "CLIENT" => behavior.client.clone().expect("only clients with RESP3 send it"),
            "PTTL" => behavior.pttl.clone(),
            "TIME" => behavior.time(),
            _ => sha(),
        };
        Ok(names.into_iter().map(reply).collect())
    }

    fn pushes(&self) -> bool {
        self.fake.behavior().client.is_some()
    }

    fn keeps_order(&self) -> bool {
        self.fake.behavior().keeps_order
    }

    fn queues_at_first_poll(&self) -> bool {
        self.fake.behavior().queues_at_first_poll
    }

    fn reports_flushes(&self) -> bool {
        self.fake.behavior().reports_flushes
    }

    fn socket(&self) -> Option<&SocketHandle> {
        Some(&self.socket)
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

/// The commands of restart admission.
const COMPARE: &str = "EVAL compare";
const SHORT_COMPARE: &str = "EVALSHA compare";
const LOOK: &str = "EVAL look";
const SHORT_LOOK: &str = "EVALSHA look";

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.into())
}

impl Behavior {
    /// Returns the reply to a look.
    fn found(&self) -> Reply {
        if let Some(error) = self.check_error {
            return Reply::Error(error.into());
        }
        let stamp =
            |text| Reply::Array(vec![Reply::Int(0), Reply::Int(60_000), Reply::Int(1000), bytes(text)]);
        self.stamp.map_or_else(|| bytes("sha"), stamp)
    }

    /// Returns the reply to a comparison.
    fn compared(&self) -> Reply {
        if let Some(error) = self.check_error {
            return Reply::Error(error.into());
        }
        Reply::Array(vec![self.stamp.map_or(Reply::Nil, bytes), bytes("master"), bytes("0"), self.time()])
    }

    /// Returns the reply to `TIME`.
    fn time(&self) -> Reply {
        self.ahead.map_or_else(|| Reply::Error("NOPERM".into()), time)
    }
}

/// Returns the reply to `TIME` of a clock that is ahead of the client's.
fn time(ahead: Duration) -> Reply {
    let time = TokioRuntime::new().now().elapsed_since_origin() + ahead;
    let part = |number: u64| Reply::Bytes(number.to_string().into());
    Reply::Array(vec![part(time.as_secs()), part(time.subsec_micros().into())])
}
