//! A node over a connection of the application.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is a failed test

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManagerConfig};
use redis::{AsyncConnectionConfig, Client, cmd};
use redlock_adapter_tests::wait::{PATIENCE, until};
use redlock_redis_rs::node::{Claim, LockNode, NodeErrorKind, Reply, Request, Token, Ttl};
use redlock_redis_rs::{
    ErrorKind, IntoResources, Options, Redlock, ReleaseOutcome, TokioRuntime, node_with_connection,
};
use redlock_testkit::RedisServer;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(10);

fn client(server: &RedisServer) -> Client {
    Client::open(server.url()).unwrap()
}

/// Connects in RESP2, the default. The limit of the client, 500 ms, is off, since a busy machine exceeds it.
async fn multiplexed(server: &RedisServer) -> Arc<dyn LockNode> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    borrowed(server, client(server).get_multiplexed_async_connection_with_config(&config).await.unwrap())
}

/// Connects in RESP3, without the limit.
async fn managed(server: &RedisServer) -> Arc<dyn LockNode> {
    let client = Client::open(format!("{}/?protocol=resp3", server.url())).unwrap();
    let config = ConnectionManagerConfig::new().set_response_timeout(None);
    borrowed(server, client.get_connection_manager_with_config(config).await.unwrap())
}

fn borrowed(
    server: &RedisServer,
    connection: impl ConnectionLike + Clone + Send + Sync + 'static,
) -> Arc<dyn LockNode> {
    Arc::new(node_with_connection(format!("127.0.0.1:{}", server.port()), connection, &Options::tokio()))
}

mod multiplexed_in_resp2 {
    redlock_testkit::conformance!(
        redlock_adapter_tests::Server::start(super::multiplexed),
        without: [watch, admission]
    );
}

mod managed_in_resp3 {
    redlock_testkit::conformance!(
        redlock_adapter_tests::Server::start(super::managed),
        without: [watch, admission]
    );
}

fn claim() -> Claim {
    Claim::new("a".into_resources().unwrap(), Token::from_bytes("mine"))
}

async fn votes(node: &dyn LockNode) -> bool {
    matches!(
        timeout(Duration::from_millis(100), node.call(Request::Acquire(claim(), Ttl::new(TTL).unwrap())))
            .await,
        Ok(Ok(Reply::Granted))
    )
}

#[tokio::test]
async fn the_application_and_the_locks_share_a_connection() {
    let servers = RedisServer::start_many(3);
    let mut nodes = Vec::new();
    let mut connections = Vec::new();
    for server in &servers {
        let connection = client(server).get_multiplexed_async_connection().await.unwrap();
        nodes.push(borrowed(server, connection.clone()));
        connections.push(connection);
    }
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build().unwrap();
    let guard = redlock.lock("a", TTL).await.unwrap();
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());
    let (): () = cmd("SET").arg("mine").arg(1).query_async(&mut connections[0]).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    redlock.close().await;
    assert_eq!(["mine"], servers[0].keys()[..]);
    for server in &servers {
        // The connections of this test's own commands are closed, which the server may notice later.
        let mut others = Vec::new();
        until(async || {
            let clients = server.command(&["CLIENT", "LIST"]);
            others = clients.lines().filter(|line| !line.contains("cmd=client")).map(str::to_owned).collect();
            others.len() == 1
        })
        .await;
        let tracking = &others[0];
        assert!(tracking.contains("flags=N "), "only the application may enable tracking: {tracking}");
    }
}

#[tokio::test]
async fn a_manager_that_reconnects_brings_the_node_back() {
    let server = RedisServer::start();
    let node = managed(&server).await;
    assert!(votes(&*node).await);
    server.kill();
    until(async || {
        let outcome =
            timeout(PATIENCE, node.call(Request::Release(claim()))).await.expect("the request hangs");
        outcome.is_err_and(|error| error.kind() == NodeErrorKind::Unavailable)
    })
    .await;
    server.restart();
    until(async || votes(&*node).await).await;
    assert_eq!(None, node.status().connection, "the connection may use another socket at any time");
}

#[tokio::test]
async fn a_connection_that_is_lost_stays_lost() {
    let server = RedisServer::start();
    let node = multiplexed(&server).await;
    assert!(votes(&*node).await);
    server.restart();
    until(async || node.call(Request::Release(claim())).await.is_err()).await;
    sleep(Duration::from_millis(500)).await;
    let error = node.call(Request::Acquire(claim(), Ttl::new(TTL).unwrap())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
}

#[tokio::test]
async fn requests_that_a_hung_server_carries_out_late_are_cleaned_up() {
    let servers = RedisServer::start_many(3);
    let mut nodes = Vec::new();
    for server in &servers {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client(server).get_multiplexed_async_connection_with_config(&config).await.unwrap();
        nodes.push(borrowed(server, connection));
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
    timeout(PATIENCE, redlock.close()).await.expect("requests to the hung servers are not cleaned up");
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}
