//! One connection: a [`MultiplexedConnection`] that connects once and never again.
//!
//! It is not a `ConnectionManager` of the client: commands on that wait for a reconnect outside every time limit, and
//! are carried out late. The plain connection sends a command once. If the future is dropped before the driver task has
//! taken the command, it is not sent at all.
//!
//! In RESP3 a loss is detected without traffic. The client's driver task holds a push sender, which it drops when the
//! connection is lost. It also drops it when the task ends in any other way, such as together with its runtime. In
//! RESP2 the client accepts no push sender, and the next command detects the loss.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use event_listener::Event;
use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Cmd, ConnectionInfo, Pipeline, ProtocolVersion, PushInfo, RedisError};
use redlock_wire::{Command, Credentials, Failure, Hub, Reply, SocketHandle};
use tokio::task::unconstrained;

use crate::command::pack;
use crate::net::{self, Task};
use crate::tls::Tls;
use crate::{push, reply, socket};

/// The number of commands that may wait for the driver task. The client's default of 50 costs a fifth of the throughput
/// at a thousand tasks.
const BUFFER: usize = 1024;

/// The configuration for reaching one server with the redis client.
#[derive(Clone)]
pub struct Connector {
    info: ConnectionInfo,
    tls: Option<Tls>,
    label: String,
}

impl Connector {
    pub(crate) fn new(info: ConnectionInfo, tls: Option<Tls>, label: String) -> Self {
        Self { info, tls, label }
    }

    #[cfg(test)]
    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    async fn open(
        &self,
        protocol: ProtocolVersion,
        login: Option<&Credentials>,
        hub: &Hub,
    ) -> Result<Connection, RedisError> {
        let loss = Arc::new(Loss::default());
        // The caller limits the time of connecting and of each command.
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BUFFER);
        let pushes = protocol != ProtocolVersion::RESP2;
        if pushes {
            let (driver, hub) = (Driver(Arc::clone(&loss)), hub.clone());
            config = config.set_push_sender(move |info: PushInfo| {
                let Driver(_) = &driver;
                push::forward(&hub, &info);
                Ok::<(), SendError>(())
            });
        }
        let mut settings = self.info.redis_settings().clone().set_protocol(protocol);
        if let Some(login) = login {
            settings = settings.set_username(login.user()).set_password(login.password());
        }
        let handle = SocketHandle::default();
        let socket = socket::open(&self.info, self.tls.as_ref(), handle.clone(), hub).await?;
        let (client, driver) = MultiplexedConnection::new_with_config(&settings, socket, config).await?;
        Ok(Connection { client, socket: handle, loss, pushes, _driver: net::spawn(driver) })
    }
}

impl redlock_wire::Connector for Connector {
    type Connection = Connection;

    async fn connect(&self, login: Option<&Credentials>, hub: &Hub) -> Result<Connection, Failure> {
        let connection = match self.open(ProtocolVersion::RESP3, login, hub).await {
            Err(error) if reply::denies_resp3(&error) => self.open(ProtocolVersion::RESP2, login, hub).await,
            outcome => outcome,
        };
        connection.map_err(|error| reply::not_connected(&error))
    }

    /// Returns the name of the server: `10.0.0.1:6379`, or `unix:/run/redis.sock`.
    fn label(&self) -> &str {
        &self.label
    }

    fn password(&self) -> Option<&str> {
        self.info.redis_settings().password()
    }
}

/// Shows only the label; the rest may contain secrets.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.label).finish()
    }
}

/// One connection of the redis client.
///
/// Dropping it ends the client's task, which closes the socket.
pub struct Connection {
    client: MultiplexedConnection,
    socket: SocketHandle,
    loss: Arc<Loss>,
    pushes: bool,
    /// The client's task, which owns the socket.
    _driver: Task,
}

impl Connection {
    /// Records the loss if a command failed.
    fn concluded<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        if outcome.is_err() {
            self.loss.record();
        }
        outcome
    }

    /// Returns an error if the connection is lost.
    fn check(&self) -> Result<(), Failure> {
        if self.loss.is_recorded() { Err(Failure::not_sent("the connection is lost")) } else { Ok(()) }
    }
}

impl redlock_wire::Connection for Connection {
    type Packed = Cmd;

    const BATCHES: bool = true;

    fn pack(command: Command<'_>) -> Cmd {
        pack(command)
    }

    /// Boxed, because many requests go in pipelines, whose futures would otherwise reserve space for this future.
    fn call(&self, command: Cmd) -> impl Future<Output = Result<Reply, Failure>> + Send {
        Box::pin(async move {
            self.check()?;
            let outcome = self.client.clone().send_packed_command(&command).await;
            self.concluded(match outcome {
                Ok(value) => Ok(reply::of_value(value)),
                Err(error) => reply::of_error(&error),
            })
        })
    }

    async fn pipeline(&self, requests: Vec<Cmd>) -> Result<Vec<Reply>, Failure> {
        self.check()?;
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let count = requests.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for request in requests {
            pipeline.add_command(request);
        }
        let mut client = self.client.clone();
        // Without this, a task that has used up tokio's budget would not even queue for the client's channel, and later
        // requests would overtake it.
        let outcome = unconstrained(client.send_packed_commands(&pipeline, 0, count)).await;
        self.concluded(match outcome {
            Ok(values) => Ok(values.into_iter().map(reply::of_value).collect()),
            Err(error) => Err(Failure::maybe_sent(&error.to_string())),
        })
    }

    fn pushes(&self) -> bool {
        self.pushes
    }

    /// The client's task hands over a push before it reads any further reply.
    fn reports_flushes(&self) -> bool {
        self.pushes
    }

    fn socket(&self) -> Option<&SocketHandle> {
        Some(&self.socket)
    }

    async fn lost(&self) {
        self.loss.wait().await;
    }
}

/// Shows whether the connection is lost.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("lost", &self.loss.is_recorded()).finish_non_exhaustive()
    }
}

/// The flag and the event of a connection's loss.
#[derive(Default)]
struct Loss {
    recorded: AtomicBool,
    event: Event,
}

impl Loss {
    fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Acquire)
    }

    fn record(&self) {
        self.recorded.store(true, Ordering::Release);
        self.event.notify(usize::MAX);
    }

    async fn wait(&self) {
        while !self.is_recorded() {
            // Listens before it reads the flag, so that the loss is not missed.
            let event = self.event.listen();
            if !self.is_recorded() {
                event.await;
            }
        }
    }
}

/// Reports the loss when the client's driver task, which holds this, drops it.
struct Driver(Arc<Loss>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.record();
    }
}
