//! One connection: a [`Pipeline`] over a socket of this crate. It connects once and never again.
//!
//! The connections of the client are not used. `MultiplexedConnection` takes most of the CPU time of a lock, for two
//! channels and a future of 1.1 KB for each request. On a `ConnectionManager`, commands wait for a reconnect outside
//! every time limit, and are carried out late.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo};
use redlock_wire::{
    ClusterMembers, Command, Credentials, Endpoint, Failure, Hub, Pipeline, Reply, Sentinels, SocketHandle,
};

use crate::command::{encode, words};
use crate::net::{self, Task};
use crate::socket;
use crate::tls::Tls;

/// The configuration for reaching one server with the redis client.
#[derive(Clone)]
pub struct Connector {
    info: ConnectionInfo,
    tls: Option<Tls>,
    label: String,
    /// The cluster that this connector leads to, if it is one.
    cluster: Option<Arc<ClusterMembers<Self>>>,
    /// The sentinels that choose the server, if there are any.
    sentinels: Option<Arc<Sentinels<Self>>>,
}

impl Connector {
    pub(crate) fn new(info: ConnectionInfo, tls: Option<Tls>, label: String) -> Self {
        Self { info, tls, label, cluster: None, sentinels: None }
    }

    /// Returns the connector of another server, with the same login and TLS.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        let host_name = host.to_owned();
        let address = match self.tls {
            Some(_) => ConnectionAddr::TcpTls { host: host_name, port, insecure: false, tls_params: None },
            None => ConnectionAddr::Tcp(host_name, port),
        };
        let label = Endpoint::tcp(host, port, self.tls.is_some()).to_string();
        Self::new(self.info.clone().set_addr(address), self.tls.clone(), label)
    }

    /// Returns the connector of a server that sentinels choose.
    pub(crate) fn chosen_by(self, sentinels: Sentinels<Self>, label: String) -> Self {
        Self { label, sentinels: Some(Arc::new(sentinels)), ..self }
    }

    /// Returns the connector of a cluster.
    pub(crate) fn of_cluster(self, members: ClusterMembers<Self>, label: String) -> Self {
        Self { label, cluster: Some(Arc::new(members)), ..self }
    }

    #[cfg(test)]
    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Connects, logs in and selects the database.
    async fn open(
        &self,
        protocol: Protocol,
        login: Option<&Credentials>,
        hub: &Hub,
    ) -> Result<Connection, Refused> {
        let handle = SocketHandle::default();
        let socket = socket::open(&self.info, self.tls.as_ref(), handle.clone(), hub).await;
        let socket = socket.map_err(|error| Failure::not_sent(&error.to_string()))?;
        let (pipeline, driver) = Pipeline::new(socket, hub);
        let connection = Connection { pipeline, socket: handle, protocol, _driver: net::spawn(driver) };

        let settings = self.info.redis_settings();
        let (user, password) = match login {
            Some(login) => (Some(login.user()), Some(login.password())),
            None => (settings.username(), settings.password()),
        };
        let mut commands = Vec::new();
        match (protocol, password) {
            (Protocol::Resp3, None) => commands.push(words(&["HELLO", "3"])),
            (Protocol::Resp3, Some(password)) => {
                commands.push(words(&["HELLO", "3", "AUTH", user.unwrap_or("default"), password]));
            }
            (Protocol::Resp2, None) => {}
            (Protocol::Resp2, Some(password)) => commands.push(match user {
                Some(user) => words(&["AUTH", user, password]),
                None => words(&["AUTH", password]),
            }),
        }
        let database = settings.db();
        if database != 0 {
            commands.push(words(&["SELECT", &database.to_string()]));
        }
        let checked = commands.len();
        if !settings.skip_set_lib_name() {
            let name = settings.lib_name().unwrap_or(env!("CARGO_PKG_NAME"));
            let version = settings.lib_ver().unwrap_or(env!("CARGO_PKG_VERSION"));
            // The replies do not matter: servers before Redis 7.2 do not know the command.
            commands.push(words(&["CLIENT", "SETINFO", "LIB-NAME", name]));
            commands.push(words(&["CLIENT", "SETINFO", "LIB-VER", version]));
        }
        let replies = connection.pipeline.call_all(commands).await?;
        for (position, reply) in replies.iter().take(checked).enumerate() {
            let Reply::Error(message) = reply else { continue };
            return Err(match protocol {
                Protocol::Resp3 if position == 0 && denies_resp3(message) => Refused::Resp3,
                Protocol::Resp2 if position == 0 && password.is_some() => {
                    Failure::not_sent(&format!("Password authentication failed: {message}")).into()
                }
                _ => Failure::not_sent(message).into(),
            });
        }
        Ok(connection)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Resp2,
    Resp3,
}

/// The reason why there is no connection.
enum Refused {
    /// The server has no RESP3, or denies it to this user.
    Resp3,
    Other(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

/// Returns whether the error reply to `HELLO` means that there is no RESP3.
fn denies_resp3(message: &str) -> bool {
    ["NOPROTO", "NOPERM", "ERR unknown command"].iter().any(|start| message.starts_with(start))
}

impl redlock_wire::Connector for Connector {
    type Connection = Connection;

    async fn connect(&self, login: Option<&Credentials>, hub: &Hub) -> Result<Connection, Failure> {
        let opened = match self.open(Protocol::Resp3, login, hub).await {
            Err(Refused::Resp3) => self.open(Protocol::Resp2, login, hub).await,
            opened => opened,
        };
        opened.map_err(|refused| match refused {
            // Nothing that was sent matters.
            Refused::Other(failure) => Failure::not_sent(&failure.message),
            Refused::Resp3 => Failure::not_sent("RESP3 denied"),
        })
    }

    /// Returns the name of the server: `10.0.0.1:6379`, `unix:/run/redis.sock`, `mymaster@10.0.0.1:26379` with
    /// sentinels, or `cluster@10.0.0.1:7000`.
    fn label(&self) -> &str {
        &self.label
    }

    fn password(&self) -> Option<&str> {
        self.info.redis_settings().password()
    }

    fn cluster(&self) -> Option<&ClusterMembers<Self>> {
        self.cluster.as_deref()
    }

    fn sentinels(&self) -> Option<&Sentinels<Self>> {
        self.sentinels.as_deref()
    }
}

/// Shows only the label; the rest may contain secrets.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.label).finish()
    }
}

/// One connection.
///
/// Dropping it ends its task, which closes the socket.
pub struct Connection {
    pipeline: Pipeline,
    socket: SocketHandle,
    protocol: Protocol,
    /// The task that owns the socket.
    _driver: Task,
}

impl redlock_wire::Connection for Connection {
    /// The bytes on the wire.
    type Packed = Vec<u8>;

    fn pack(command: Command<'_>) -> Vec<u8> {
        encode(command)
    }

    fn call(&self, command: Vec<u8>) -> impl Future<Output = Result<Reply, Failure>> + Send {
        self.pipeline.call(command)
    }

    fn timed(
        &self,
        requests: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<(Vec<Reply>, Option<Duration>), Failure>> + Send {
        self.pipeline.timed(requests)
    }

    fn timed_call(
        &self,
        request: Vec<u8>,
    ) -> impl Future<Output = Result<(Reply, Option<Duration>), Failure>> + Send {
        self.pipeline.timed_call(request)
    }

    fn pipeline(&self, requests: Vec<Vec<u8>>) -> impl Future<Output = Result<Vec<Reply>, Failure>> + Send {
        self.pipeline.call_all(requests)
    }

    fn pushes(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Pushes and replies are read in their order.
    fn reports_flushes(&self) -> bool {
        self.pushes()
    }

    fn socket(&self) -> Option<&SocketHandle> {
        Some(&self.socket)
    }

    async fn lost(&self) {
        self.pipeline.lost().await;
    }
}

/// Shows whether the connection is lost.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("lost", &self.pipeline.is_lost()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_reply_about_resp3_counts_as_its_denial() {
        assert!(denies_resp3("ERR unknown command 'HELLO', with args beginning with: '3'"));
        assert!(denies_resp3("NOPROTO unsupported protocol version"));
        assert!(denies_resp3("NOPERM this user has no permissions to run the 'hello' command"));
        assert!(!denies_resp3("WRONGPASS invalid username-password pair"));
        assert!(!denies_resp3("NOAUTH HELLO must be called with the client already authenticated"));
        assert!(!denies_resp3("ERR max number of clients reached"));
    }
}
