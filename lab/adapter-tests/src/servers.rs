//! Locks over five real servers that hang, die and restart.

pub(crate) mod admission;
pub(crate) mod bad_input;
pub(crate) mod borrowed;
pub(crate) mod cancelled;
pub(crate) mod change;
pub(crate) mod clocks;
pub(crate) mod cluster;
pub(crate) mod contention;
pub(crate) mod costs;
pub(crate) mod crowd;
pub(crate) mod extension;
pub(crate) mod failover;
pub(crate) mod failovers;
pub(crate) mod fencing;
pub(crate) mod forgotten;
pub(crate) mod grace;
pub(crate) mod grants;
pub(crate) mod healthy;
pub(crate) mod interop;
pub(crate) mod jumps;
pub(crate) mod keepalive;
pub(crate) mod limits;
pub(crate) mod losses;
pub(crate) mod majority_down;
pub(crate) mod minority_down;
pub(crate) mod node_lists;
pub(crate) mod observing;
pub(crate) mod outages;
pub(crate) mod pauses;
pub(crate) mod positions;
pub(crate) mod prefixes;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod readers;
pub(crate) mod reconnect;
pub(crate) mod rights;
pub(crate) mod runtimes;
pub(crate) mod split_votes;
pub(crate) mod stale;
pub(crate) mod waiting;
pub(crate) mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redlock_core::node::LockNode;
use redlock_core::runtime::Runtime;
use redlock_core::{Builder, ErrorKind, Guard, Outcome, Redlock, TokioRuntime};
use redlock_testkit::{Fault, Faulty, Operation, RedisServer, Reply};
use redlock_wire::{Node, Options};

use crate::Adapter;
use crate::wait::{PATIENCE, eventually};
use crate::warnings::Warnings;

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Long enough for a busy machine. Operations that must not wait for a node take a small fraction of it.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn five() -> Vec<RedisServer> {
    RedisServer::start_many(5)
}

pub(crate) fn builder<A: Adapter>(servers: &[RedisServer]) -> Builder {
    A::builder(servers.iter().map(RedisServer::url)).unwrap()
}

pub(crate) fn redlock<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    builder::<A>(servers).node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// Returns a `Redlock` over real nodes behind injected faults.
pub(crate) fn faulty<A: Adapter>(servers: &[RedisServer]) -> (Redlock, Vec<Faulty<Node<A::Connector>>>) {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    let options = Options::new(runtime.clone());
    let node = |server: &RedisServer| A::node(server.url(), &options).unwrap();
    let nodes: Vec<_> = servers.iter().map(|server| Faulty::wrap(node(server), runtime.clone())).collect();
    let clones = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    (Builder::new(runtime).nodes(clones).node_timeout(NODE_TIMEOUT).build().unwrap(), nodes)
}

/// Returns a `Redlock` with open connections.
pub(crate) async fn warm<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    let redlock = redlock::<A>(servers);
    all_up(&redlock).await;
    redlock
}

/// Returns five servers, and a `Redlock` with open connections.
pub(crate) async fn warm_five<A: Adapter>() -> (Vec<RedisServer>, Redlock) {
    let servers = five();
    let redlock = warm::<A>(&servers).await;
    (servers, redlock)
}

/// Waits until every node replies. On a busy machine, a connection may take longer than the node timeout.
pub(crate) async fn all_up(redlock: &Redlock) {
    let all = async || {
        let health = redlock.health().await;
        health.nodes().len() == health.healthy_nodes()
    };
    eventually("all nodes reply", PATIENCE, all).await;
}

/// Returns a runtime with a single thread.
pub(crate) fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns the keys of all servers.
pub(crate) fn keys(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().flat_map(RedisServer::keys).collect()
}

/// Waits for all background work, and asserts that no server has any keys.
pub(crate) async fn nothing_left(redlock: &Redlock, servers: &[RedisServer]) {
    nothing_left_of(std::slice::from_ref(redlock), servers).await;
}

/// Waits for all background work of several clients, and asserts that no server has any keys.
///
/// All clients are closed before the first check: a release returns at a quorum, and the keys on the other nodes are
/// deleted afterwards.
pub(crate) async fn nothing_left_of(clients: &[Redlock], servers: &[RedisServer]) {
    for redlock in clients {
        let closed = tokio::time::timeout(Duration::from_secs(30), redlock.close()).await;
        assert_eq!(Ok(0), closed, "close() hangs, or cleanup was abandoned");
    }
    assert_eq!(Vec::<String>::new(), locks(servers));
    // A reservation for a waiter that has gone ends after a node timeout. A place that is not left stays for 12 s.
    eventually("no server has any keys", 3 * NODE_TIMEOUT, async || keys(servers).is_empty()).await;
}

/// Returns the keys of all servers that are no places of waiters and no reservations for them.
fn locks(servers: &[RedisServer]) -> Vec<String> {
    let is_lock = |server: &RedisServer, key: &String| {
        let is_reservation = |value: &[u8]| value.starts_with(b"next#") || value.starts_with(b"read##");
        let value = server.reply(&[b"GET", key.as_bytes()]);
        let reserved = matches!(value, Reply::Bytes(value) if is_reservation(&value));
        !reserved && !key.ends_with("#waiting")
    };
    let of = |server: &RedisServer| {
        let mut keys = server.keys();
        keys.retain(|key| is_lock(server, key));
        keys
    };
    servers.iter().flat_map(of).collect()
}

/// Returns the kind of an error, and the outcome of every node as text.
pub(crate) fn kind_and_outcomes<T: std::fmt::Debug>(
    result: Result<T, redlock_core::Error>,
) -> (ErrorKind, Vec<&'static str>) {
    let error = result.unwrap_err();
    let outcomes = error.node_reports().iter().enumerate().map(|(index, node)| {
        assert_eq!(index, node.index());
        match node.outcome() {
            Outcome::Granted => "granted",
            Outcome::Denied(_) => "denied",
            Outcome::Failed(_) => "failed",
            Outcome::TimedOut => "timed out",
            Outcome::Pending => "pending",
            other => panic!("{other:?}"),
        }
    });
    (error.kind(), outcomes.collect())
}

/// Runs an operation that must complete within the node timeout.
pub(crate) async fn within_node_timeout<T>(what: &str, work: impl IntoFuture<Output = T>) -> T {
    let start = Instant::now();
    let result = work.await;
    let took = start.elapsed();
    assert!(took < NODE_TIMEOUT, "{what} took {took:?}");
    result
}

pub(crate) async fn granted_by_all(guard: &Guard) {
    let all = async || guard.node_reports().iter().all(|node| matches!(node.outcome(), Outcome::Granted));
    eventually("all nodes grant", Duration::from_secs(30), all).await;
}
