//! A node over a client of the application.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is a failed test

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::RespVersion;
use fred::types::config::{Config, ReconnectPolicy, ServerConfig};
use redlock_adapter_tests::wait::{PATIENCE, until};
use redlock_fred::node::{Claim, LockNode, NodeErrorKind, Reply, Request, Token, Ttl};
use redlock_fred::{
    ErrorKind, IntoResources, Options, Redlock, ReleaseOutcome, TokioRuntime, node_with_connection,
};
use redlock_testkit::RedisServer;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(10);

/// Connects as an application does, with a reconnect policy and fred's default replays.
async fn client(server: &RedisServer, version: RespVersion) -> Client {
    let config = Config {
        server: ServerConfig::new_centralized("127.0.0.1", server.port()),
        version,
        ..Config::default()
    };
    let client = Client::new(config, None, None, Some(ReconnectPolicy::new_constant(0, 20)));
    client.init().await.unwrap();
    client
}

async fn in_resp2(server: &RedisServer) -> Arc<dyn LockNode> {
    borrowed(server, &client(server, RespVersion::RESP2).await)
}

async fn in_resp3(server: &RedisServer) -> Arc<dyn LockNode> {
    borrowed(server, &client(server, RespVersion::RESP3).await)
}

fn borrowed(server: &RedisServer, client: &Client) -> Arc<dyn LockNode> {
    Arc::new(node_with_connection(format!("127.0.0.1:{}", server.port()), client, &Options::tokio()))
}

mod in_resp2 {
    redlock_testkit::conformance!(
        redlock_adapter_tests::Server::start(super::in_resp2),
        without: [watch, admission]
    );
}

mod in_resp3 {
    redlock_testkit::conformance!(
        redlock_adapter_tests::Server::start(super::in_resp3),
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
async fn the_application_and_the_locks_share_a_client() {
    let servers = RedisServer::start_many(3);
    let (mut nodes, mut clients) = (Vec::new(), Vec::new());
    for server in &servers {
        let client = client(server, RespVersion::RESP2).await;
        nodes.push(borrowed(server, &client));
        clients.push(client);
    }
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build().unwrap();
    let guard = redlock.lock("a", TTL).await.unwrap();
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());
    let (): () = clients[0].set("mine", 1, None, None, false).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    redlock.close().await;
    assert_eq!(["mine"], servers[0].keys()[..]);
    for server in &servers {
        let clients = server.command(&["CLIENT", "LIST"]);
        assert_eq!(1, clients.lines().filter(|line| !line.contains("cmd=client")).count(), "{clients}");
        let tracking = clients.lines().find(|line| !line.contains("cmd=client")).unwrap();
        assert!(tracking.contains("flags=N "), "only the application may enable tracking: {tracking}");
    }
}

#[tokio::test]
async fn a_client_that_reconnects_brings_the_node_back_and_replays_nothing() {
    let server = RedisServer::start();
    let client = client(&server, RespVersion::RESP2).await;
    let node = borrowed(&server, &client);
    assert!(votes(&*node).await);
    server.kill();
    until(async || {
        let outcome =
            timeout(PATIENCE, node.call(Request::Release(claim()))).await.expect("the request hangs");
        outcome.is_err_and(|error| error.kind() == NodeErrorKind::Unavailable)
    })
    .await;
    server.restart();
    until(async || client.is_connected()).await;
    assert_eq!(
        (0, 0),
        (server.commandstats("set"), server.commandstats("eval")),
        "no request of the node was replayed"
    );
    until(async || votes(&*node).await).await;
    assert_eq!(None, node.status().connection, "the connection may use another socket at any time");
}

#[tokio::test]
async fn requests_in_flight_when_the_server_dies_are_not_sent_again() {
    let server = RedisServer::start();
    let client = client(&server, RespVersion::RESP2).await;
    let node = borrowed(&server, &client);
    assert!(votes(&*node).await);
    server.pause();
    let mine = claim();
    let (outcome, ()) = tokio::join!(
        timeout(PATIENCE, node.call(Request::Acquire(mine.clone(), Ttl::new(TTL).unwrap()))),
        async {
            sleep(Duration::from_millis(50)).await; // after this it is in flight
            server.restart();
        }
    );
    assert_eq!(NodeErrorKind::Unknown, outcome.expect("the request hangs").unwrap_err().kind());
    until(async || client.is_connected()).await;
    assert_eq!(0, server.commandstats("set"));
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn requests_that_a_hung_server_carries_out_late_are_cleaned_up() {
    let servers = RedisServer::start_many(3);
    let mut nodes = Vec::new();
    for server in &servers {
        nodes.push(borrowed(server, &client(server, RespVersion::RESP2).await));
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
