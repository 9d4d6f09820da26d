//! The connector of `redlock-wire` over simulated sockets, as `redlock-redis-rs` does it over real ones.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redlock_core::runtime::Runtime;
use redlock_wire::{Command, Credentials, Failure, Hub, Pipeline, Reply, SocketHandle};

use super::Connection;
use super::socket::Socket;
use crate::network::Network;
use crate::server::Server;

pub(super) struct Connector {
    network: Network,
    client: usize,
    server: Server,
    runtime: Arc<dyn Runtime>,
    pushes: Pushes,
    label: String,
}

pub(super) struct Connected {
    pipeline: Pipeline,
    socket: SocketHandle,
    pushes: Pushes,
    driver: Arc<Stop>,
}

/// The pushes that a connection receives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushes {
    /// It uses RESP2.
    None,
    /// The node does not rely on their order.
    Unordered,
    InOrder,
}

/// Ends the task of a connection, which then never runs again.
#[derive(Default)]
struct Stop {
    is_stopped: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Connector {
    pub(super) fn new(
        network: Network,
        client: usize,
        server: Server,
        runtime: Arc<dyn Runtime>,
        pushes: Pushes,
    ) -> Self {
        let label = format!("n{}", server.number());
        Self { network, client, server, runtime, pushes, label }
    }
}

impl redlock_wire::Connector for Connector {
    type Connection = Connected;

    async fn connect(&self, _: Option<&Credentials>, hub: &Hub) -> Result<Connected, Failure> {
        let opened = Connection::open(self.network.clone(), self.client, self.server.clone()).await;
        let connection = opened.map_err(|error| Failure::not_sent(&error.to_string()))?;
        let socket = SocketHandle::default();
        let (pipeline, driver) = Pipeline::new(Socket { connection, handle: socket.clone() }, hub);
        let stop = Arc::<Stop>::default();
        self.runtime.spawn(Box::pin(until_stopped(driver, Arc::clone(&stop))));
        let connected = Connected { pipeline, socket, pushes: self.pushes, driver: stop };
        let mut commands = Vec::new();
        if self.pushes != Pushes::None {
            commands.push(encode([b"HELLO".as_slice(), b"3"]));
        }
        commands.push(encode([b"CLIENT".as_slice(), b"SETINFO", b"LIB-NAME", b"redlock"]));
        let replies = connected.pipeline.call_all(commands).await?;
        match replies.first() {
            Some(Reply::Error(message)) if self.pushes != Pushes::None => Err(Failure::not_sent(message)),
            _ => Ok(connected),
        }
    }

    fn label(&self) -> &str {
        &self.label
    }
}

impl redlock_wire::Connection for Connected {
    type Packed = Vec<u8>;

    fn pack(command: Command<'_>) -> Vec<u8> {
        match command {
            Command::SetIfAbsent { key, value, millis, get } => {
                let millis = millis.to_string();
                let words = [b"SET", key, value, b"NX", b"PX", millis.as_bytes(), b"GET"];
                encode(words.into_iter().take(if get { 7 } else { 6 }))
            }
            Command::Other { name, args } => {
                encode([name.as_bytes()].into_iter().chain(args.iter().copied()))
            }
        }
    }

    fn call(&self, command: Vec<u8>) -> impl Future<Output = Result<Reply, Failure>> + Send {
        self.pipeline.call(command)
    }

    fn pipeline(&self, commands: Vec<Vec<u8>>) -> impl Future<Output = Result<Vec<Reply>, Failure>> + Send {
        self.pipeline.call_all(commands)
    }

    fn timed(
        &self,
        commands: Vec<Vec<u8>>,
    ) -> impl Future<Output = Result<(Vec<Reply>, Option<Duration>), Failure>> + Send {
        self.pipeline.timed(commands)
    }

    fn timed_call(
        &self,
        command: Vec<u8>,
    ) -> impl Future<Output = Result<(Reply, Option<Duration>), Failure>> + Send {
        self.pipeline.timed_call(command)
    }

    fn pushes(&self) -> bool {
        self.pushes != Pushes::None
    }

    fn reports_flushes(&self) -> bool {
        self.pushes == Pushes::InOrder
    }

    fn socket(&self) -> Option<&SocketHandle> {
        Some(&self.socket)
    }

    async fn lost(&self) {
        self.pipeline.lost().await;
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.driver.is_stopped.store(true, Ordering::Relaxed);
        let waker = self.driver.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Runs a task until it is stopped.
async fn until_stopped(task: impl Future<Output = ()>, stop: Arc<Stop>) {
    let mut task = pin!(task);
    poll_fn(|cx: &mut Context<'_>| {
        *stop.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if stop.is_stopped.load(Ordering::Relaxed) { Poll::Ready(()) } else { task.as_mut().poll(cx) }
    })
    .await;
}

fn encode<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let words: Vec<_> = words.into_iter().collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes().chain(word.iter().copied()).chain(*b"\r\n"));
    }
    bytes
}
