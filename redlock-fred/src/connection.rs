//! One connection: a fred client that connects once and never again.
//!
//! By default fred reconnects and replays commands, and a replayed `SET NX` would be denied because of its own token.
//! Every connection is therefore a separate client, without a reconnect policy and with a single attempt for each
//! command. When the socket is lost, fred's task ends, everything in flight fails, and nothing is sent again.
//!
//! Invariants:
//! - fred's task lives no longer than the [`Connection`], nor than the future that opens it: both hold it by a guard
//!   that aborts it. Dropping only a fred client would leak the task and its socket.
//! - A call ends when fred's task has ended. fred leaves its queue open after that, and a command in it would wait
//!   forever. By then fred has completed every command that it took from the queue, so a pending command was not sent.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{AuthInterface, ClientLike, KeysInterface};
use fred::types::config::{
    Blocking, Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig,
};
use fred::types::{ConnectHandle, RespVersion, SetOptions, Value};
use futures_util::future::{BoxFuture, Either, FutureExt, Shared, poll_immediate, select};
use redlock_wire::{
    ClusterMembers, Command, Credentials, Endpoint, Failure, Hub, Reply, Sentinels, SocketHandle,
};
use tokio::task::AbortHandle;

use crate::command::{Packed, pack, send};
#[cfg(not(all(feature = "relay", any(target_os = "linux", target_os = "android"))))]
use crate::no_relay::Relay;
use crate::push::Pushes;
#[cfg(all(feature = "relay", any(target_os = "linux", target_os = "android")))]
use crate::relay::Relay;
use crate::reply;

/// The number of pushes that may wait for the task that passes them on.
///
/// Above this number, pushes are lost, and all watches of the connection complete. That is harmless, but each watch
/// must be armed again. One busy task would exceed fred's default of 32. fred allocates nine channels of this size in
/// advance: 0.5 MB per node, while 4096 would take 3.5 MB.
const PUSHES: usize = 512;

/// The configuration for reaching one server with fred.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    label: String,
    /// `true` if there is a relay between fred and the server.
    is_relayed: bool,
    /// The cluster that this connector leads to, if it is one.
    cluster: Option<Arc<ClusterMembers<Self>>>,
    /// The sentinels that choose the server, if there are any.
    sentinels: Option<Arc<Sentinels<Self>>>,
}

impl Connector {
    pub(crate) fn new(config: Config, label: String) -> Self {
        Self { config, label, is_relayed: false, cluster: None, sentinels: None }
    }

    /// Returns the connector of another server, with the same login, TLS and relay.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        let server = ServerConfig::Centralized { server: Server::new(host, port) };
        let label = Endpoint::tcp(host, port, self.config.uses_tls()).to_string();
        Self {
            config: Config { server, ..self.config.clone() },
            label,
            cluster: None,
            sentinels: None,
            ..*self
        }
    }

    /// Returns the connector of a server that sentinels choose.
    pub(crate) fn chosen_by(self, sentinels: Sentinels<Self>, label: String) -> Self {
        Self { label, sentinels: Some(Arc::new(sentinels)), ..self }
    }

    /// Returns the connector of a cluster.
    pub(crate) fn of_cluster(self, members: ClusterMembers<Self>, label: String) -> Self {
        Self { label, cluster: Some(Arc::new(members)), ..self }
    }

    /// Returns a connector with a relay.
    #[cfg(feature = "relay")]
    pub(crate) fn relayed(self) -> Self {
        let sentinels = self.sentinels.as_ref().map(|sentinels| Arc::new(sentinels.map(Self::relayed)));
        let cluster = self.cluster.as_ref().map(|cluster| Arc::new(cluster.map(Self::relayed)));
        Self { is_relayed: true, cluster, sentinels, ..self }
    }

    #[cfg(test)]
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Connects, authenticates and selects the database, in RESP2.
    ///
    /// It does not start in RESP3. fred would then authenticate with an inline `HELLO`, which a space or a quote in the
    /// password breaks.
    async fn open(&self, login: Option<&Credentials>, hub: &Hub) -> Result<Connection, Error> {
        let mut config = Config {
            version: RespVersion::RESP2,
            fail_fast: true,
            blocking: Blocking::Block,
            ..self.config.clone()
        };
        if let Some(login) = login {
            config.username = Some(login.user().to_owned());
            config.password = Some(login.password().to_owned());
        }
        let (config, relay) = if self.is_relayed {
            let (config, relay) = Relay::open(config, hub).await?;
            (config, Some(relay))
        } else {
            (config, None)
        };
        let connection = ConnectionConfig {
            connection_timeout: Duration::ZERO, // all zeros mean "none": the caller limits the time
            internal_command_timeout: Duration::ZERO,
            max_command_attempts: 1,
            max_command_buffer_len: 0,
            reconnect_on_auth_error: false,
            // Nagle's algorithm is off: a lock is one small write. Lingering is off: requests that a hung server has
            // not read are discarded.
            tcp: TcpConfig { nodelay: Some(true), linger: Some(Duration::ZERO), ..TcpConfig::default() },
            ..ConnectionConfig::default()
        };
        let performance = PerformanceConfig {
            default_command_timeout: Duration::ZERO,
            broadcast_channel_capacity: PUSHES,
            ..PerformanceConfig::default()
        };
        let client = Client::new(config, Some(performance), Some(connection), None);

        let mut connected = pin!(client.wait_for_connect());
        // The first poll subscribes: an event before it would be missed.
        let _not_yet = poll_immediate(connected.as_mut()).await;
        let connection = Connection::over(client.clone(), relay, hub);
        match select(connected, connection.task.ended.clone()).await {
            Either::Left((connected, _)) => connected.map(|()| connection),
            Either::Right(_) => Err(Error::new_canceled()),
        }
    }
}

impl redlock_wire::Connector for Connector {
    type Connection = Connection;

    async fn connect(&self, login: Option<&Credentials>, hub: &Hub) -> Result<Connection, Failure> {
        let connected = async {
            let mut connection = self.open(login, hub).await?;
            connection.resp3 = connection.switch_to_resp3().await?;
            Ok(connection)
        };
        connected.await.map_err(|error| reply::not_connected(&error))
    }

    /// Returns the name of the server: `10.0.0.1:6379`, `unix:/run/redis.sock`, `mymaster@10.0.0.1:26379` with
    /// sentinels, or `cluster@10.0.0.1:7000`.
    fn label(&self) -> &str {
        &self.label
    }

    fn password(&self) -> Option<&str> {
        self.config.password.as_deref()
    }

    fn cluster(&self) -> Option<&ClusterMembers<Self>> {
        self.cluster.as_deref()
    }

    fn sentinels(&self) -> Option<&Sentinels<Self>> {
        self.sentinels.as_deref()
    }
}

/// Shows only the label: fred's configuration would print the password.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.label).finish()
    }
}

/// One connection of fred.
///
/// Dropping it ends fred's task, which closes the socket.
pub struct Connection {
    client: Client,
    task: Task,
    /// The relay, if there is one.
    relay: Option<Relay>,
    resp3: bool,
    _pushes: Pushes,
}

impl Connection {
    /// Starts fred's task.
    fn over(client: Client, relay: Option<Relay>, hub: &Hub) -> Self {
        let pushes = Pushes::of(&client, hub);
        let task = Task::new(client.connect());
        Self { client, task, relay, resp3: false, _pushes: pushes }
    }

    /// Requests RESP3, and stays with RESP2 if the server denies it. Returns whether it uses RESP3.
    async fn switch_to_resp3(&self) -> Result<bool, Error> {
        // Set before fred switches, which it does within its task.
        self.relay_speaks_resp3(true);
        match select(pin!(self.client.hello(RespVersion::RESP3, None, None)), self.task.ended.clone()).await {
            Either::Left((Err(error), _)) if !reply::denies_resp3(&error) => Err(error),
            Either::Left((answer, _)) => {
                self.relay_speaks_resp3(answer.is_ok());
                Ok(answer.is_ok())
            }
            Either::Right(_) => Err(Error::new_canceled()),
        }
    }

    fn relay_speaks_resp3(&self, resp3: bool) {
        if let Some(relay) = &self.relay {
            relay.speaks_resp3(resp3);
        }
    }

    async fn send_all(&self, requests: Vec<Packed>) -> Result<Vec<Reply>, Failure> {
        let (pipeline, count) = (self.client.pipeline(), requests.len());
        for request in requests {
            let queued: Result<Value, _> = match request {
                Packed::Set { key, value, expiry, get } => {
                    pipeline.set(key, value, Some(expiry), Some(SetOptions::NX), get).await
                }
                Packed::Get { key } => pipeline.get(key).await,
                Packed::Custom { command, args } => pipeline.custom(command, args).await,
            };
            queued.map_err(|error| reply::failure(&error))?;
        }
        reply::of_pipeline(pipeline.try_all().await, count)
    }

    /// Waits for `answer` as long as fred's task lives.
    ///
    /// It takes a reference because fred's futures have about 5 KB each.
    async fn while_alive<T>(
        &self,
        answer: Pin<&mut impl Future<Output = Result<T, Failure>>>,
    ) -> Result<T, Failure> {
        let (answer, with_runtime) = match select(answer, self.task.ended.clone()).await {
            Either::Left((answer, ended)) => {
                let is_dropped = answer.as_ref().is_err_and(reply::is_dropped);
                (answer, is_dropped && ended.await)
            }
            Either::Right((with_runtime, answer)) => {
                let unsent = || Err(Failure::not_sent("the connection is lost"));
                (answer.now_or_never().unwrap_or_else(unsent), with_runtime)
            }
        };
        match answer {
            Err(failure) if with_runtime => Err(Failure::runtime_ended(failure.sent)),
            answer => answer,
        }
    }
}

impl redlock_wire::Connection for Connection {
    type Packed = Packed;

    fn pack(command: Command<'_>) -> Packed {
        pack(command)
    }

    async fn call(&self, command: Packed) -> Result<Reply, Failure> {
        self.while_alive(pin!(send(&self.client, command))).await
    }

    async fn pipeline(&self, mut requests: Vec<Packed>) -> Result<Vec<Reply>, Failure> {
        if requests.len() > 1 {
            return self.while_alive(pin!(self.send_all(requests))).await;
        }
        // fred reports a failed pipeline as one error, which for a single command looks like the server's reply.
        match requests.pop() {
            Some(request) => self.call(request).await.map(|reply| vec![reply]),
            None => Ok(Vec::new()),
        }
    }

    /// fred's queue has no limit, and the client is never blocked. So the first poll queues a command.
    fn queues_at_first_poll(&self) -> bool {
        true
    }

    fn pushes(&self) -> bool {
        self.resp3
    }

    fn socket(&self) -> Option<&SocketHandle> {
        self.relay.as_ref().map(Relay::socket)
    }

    async fn lost(&self) {
        self.task.ended.clone().await;
    }
}

/// Shows whether the connection is lost.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.task.ended.peek().is_some();
        f.debug_struct("Connection").field("lost", &lost).finish_non_exhaustive()
    }
}

/// fred's task, which owns the socket.
///
/// It is aborted on drop; the socket closes when the runtime next runs the task.
struct Task {
    abort: AbortHandle,
    /// Completes when the task has ended. `true` if its runtime has dropped it.
    ended: Shared<BoxFuture<'static, bool>>,
}

impl Task {
    fn new(handle: ConnectHandle) -> Self {
        let abort = handle.abort_handle();
        let ended = handle.map(|ended| ended.is_err_and(|error| error.is_cancelled()));
        Self { abort, ended: ended.boxed().shared() }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
