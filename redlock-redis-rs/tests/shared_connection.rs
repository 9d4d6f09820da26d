//! A node over a connection that the application has already.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManagerConfig};
use redis::{AsyncConnectionConfig, Client, cmd};
use redlock_redis_rs::node::{Claim, LockNode, NodeErrorKind, Token, Ttl, Vote};
use redlock_redis_rs::runtime::Runtime;
use redlock_redis_rs::{
    ErrorKind, IntoResources, Options, Redlock, ReleaseOutcome, Resource, TokioRuntime, node_with_connection,
};
use redlock_testkit::RedisServer;
use redlock_testkit::conformance::Backend;
use tokio::time::{sleep, timeout};

/// Far above what anything here takes; what runs into it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

const TTL: Duration = Duration::from_secs(10);

fn client(server: &RedisServer) -> Client {
    Client::open(server.url()).unwrap()
}

/// In RESP2, which the client has by default. Without the client's own limit of 500 ms, which a busy machine exceeds.
async fn multiplexed(server: &RedisServer) -> Arc<dyn LockNode> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    lent(server, client(server).get_multiplexed_async_connection_with_config(&config).await.unwrap())
}

/// In RESP3, and without the limit.
async fn managed(server: &RedisServer) -> Arc<dyn LockNode> {
    let client = Client::open(format!("{}/?protocol=resp3", server.url())).unwrap();
    let config = ConnectionManagerConfig::new().set_response_timeout(None);
    lent(server, client.get_connection_manager_with_config(config).await.unwrap())
}

fn lent(
    server: &RedisServer,
    connection: impl ConnectionLike + Clone + Send + Sync + 'static,
) -> Arc<dyn LockNode> {
    Arc::new(node_with_connection(format!("127.0.0.1:{}", server.port()), connection, &Options::tokio()))
}

/// The suite, with a server of its own for each case.
macro_rules! conforms {
    ($name:ident, $node:expr) => {
        mod $name {
            use super::*;

            struct Lent(RedisServer, tokio::runtime::Runtime);

            impl Lent {
                fn start() -> Self {
                    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    Self(RedisServer::start(), tokio)
                }
            }

            impl Backend for Lent {
                async fn node(&self) -> Arc<dyn LockNode> {
                    $node(&self.0).await
                }

                async fn no_lock(&self) -> Option<Resource> {
                    self.0.command(&["LPUSH", "a list", "x"]);
                    Some(Resource::new("a list").unwrap())
                }

                fn block_on(&self, case: impl Future<Output = ()>) {
                    self.1.block_on(case);
                }

                fn runtime(&self) -> Arc<dyn Runtime> {
                    Arc::new(TokioRuntime::new())
                }
            }

            redlock_testkit::conformance!(Lent::start());
        }
    };
}
conforms!(multiplexed_in_resp2, multiplexed);
conforms!(managed_in_resp3, managed);

fn claim() -> Claim {
    Claim::new("a".into_resources().unwrap(), Token::from_bytes("mine"))
}

async fn votes(node: &dyn LockNode) -> bool {
    matches!(
        timeout(Duration::from_millis(100), node.acquire(&claim(), Ttl::new(TTL).unwrap())).await,
        Ok(Ok(Vote::Granted))
    )
}

async fn until(is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it hangs");
}

#[tokio::test]
async fn the_application_and_the_locks_share_a_connection() {
    let servers = RedisServer::start_many(3);
    let mut nodes = Vec::new();
    let mut connections = Vec::new();
    for server in &servers {
        let connection = client(server).get_multiplexed_async_connection().await.unwrap();
        nodes.push(lent(server, connection.clone()));
        connections.push(connection);
    }
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build().unwrap();
    let guard = redlock.lock("a", TTL).await.unwrap();
    assert!(redlock.try_lock("a", TTL).await.unwrap().is_none());
    let (): () = cmd("SET").arg("mine").arg(1).query_async(&mut connections[0]).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    redlock.close().await;
    assert_eq!(["mine"], servers[0].keys()[..]);
    for server in &servers {
        let clients = server.command(&["CLIENT", "LIST"]);
        assert_eq!(1, clients.lines().filter(|line| !line.contains("cmd=client")).count(), "{clients}");
        let tracking = clients.lines().find(|line| !line.contains("cmd=client")).unwrap();
        assert!(tracking.contains("flags=N "), "tracking is the application's to switch on: {tracking}");
    }
}

#[tokio::test]
async fn a_manager_that_reconnects_brings_the_node_back() {
    let server = RedisServer::start();
    let node = managed(&server).await;
    assert!(votes(&*node).await);
    server.kill();
    until(async || {
        let outcome = timeout(PATIENCE, node.release(&claim())).await.expect("it hangs");
        outcome.is_err_and(|error| error.kind() == NodeErrorKind::Unavailable)
    })
    .await;
    server.restart();
    until(async || votes(&*node).await).await;
    assert_eq!(None, node.connection(), "it may be another socket at any time");
}

#[tokio::test]
async fn a_connection_that_is_lost_stays_lost() {
    let server = RedisServer::start();
    let node = multiplexed(&server).await;
    assert!(votes(&*node).await);
    server.restart();
    until(async || node.release(&claim()).await.is_err()).await;
    sleep(Duration::from_millis(500)).await;
    let error = node.acquire(&claim(), Ttl::new(TTL).unwrap()).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
}

#[tokio::test]
async fn what_a_hung_server_carries_out_late_is_undone() {
    let servers = RedisServer::start_many(3);
    let mut nodes = Vec::new();
    for server in &servers {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client(server).get_multiplexed_async_connection_with_config(&config).await.unwrap();
        nodes.push(lent(server, connection));
    }
    let redlock = Redlock::builder(TokioRuntime::new())
        .nodes(nodes)
        .node_timeout(Duration::from_millis(100))
        .build()
        .unwrap();
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
    servers[1..].iter().for_each(RedisServer::pause);
    for _ in 0..5 {
        let kind = redlock.lock("a", TTL).max_wait(Duration::ZERO).await.unwrap_err().kind();
        assert_eq!(ErrorKind::NoQuorum, kind);
    }
    servers[1..].iter().for_each(RedisServer::resume);
    timeout(PATIENCE, redlock.close()).await.expect("what hung is not undone");
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}
