//! Nodes of one `Redlock` with different prefixes: each receives requests with its own keys.

use redlock_core::node::{Claim, Request, Token, Ttl};
use redlock_core::{IntoResources, ReleaseOutcome, Resource};

use super::*;
use crate::Adapter;
use crate::node::inspected;

const RETENTIONS: [u64; 5] = [1_000, 2_000, 3_000, 3_000, 3_000];
const KEYS: [&str; 5] = ["", "p:", "p:", "q:", "q:"];
const FENCES: [&str; 5] = ["f:", "f:", "g:", "g:", "g:"];

fn options(index: usize) -> Options {
    Options::tokio()
        .key_prefix(KEYS[index])
        .fence_prefix(FENCES[index])
        .fence_retention(Duration::from_secs(RETENTIONS[index]))
}

fn with_prefixes<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    let node = |(index, server): (usize, &RedisServer)| {
        Arc::new(A::node(server.url(), &options(index)).unwrap()) as Arc<dyn LockNode>
    };
    let nodes = servers.iter().enumerate().map(node);
    Builder::new(Arc::new(TokioRuntime::new())).nodes(nodes).node_timeout(NODE_TIMEOUT).build().unwrap()
}

fn assert_keys(server: &RedisServer, index: usize, names: &[&str]) {
    let mut expected: Vec<_> = names.iter().map(|name| format!("{}{name}", KEYS[index])).collect();
    let mut keys = server.keys();
    keys.retain(|key| !key.starts_with(FENCES[index]));
    keys.sort();
    expected.sort();
    assert_eq!(expected, keys, "server {index}");
}

pub(crate) async fn every_node_receives_keys_with_its_prefix<A: Adapter>() {
    let servers = five();
    let redlock = with_prefixes::<A>(&servers);
    all_up(&redlock).await;
    for names in [vec!["a"], vec!["a", "b"]] {
        let guard = redlock.lock(names.clone(), TTL).await.unwrap();
        granted_by_all(&guard).await;
        servers.iter().enumerate().for_each(|(index, server)| assert_keys(server, index, &names));
        guard.extend(2 * TTL).await.unwrap();
        assert_eq!(5, redlock.inspect("a").await.unwrap().node_reports().len());
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        eventually("all keys are released", TTL, async || keys(&servers).is_empty()).await;
    }
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn counters_have_the_prefix_and_retention_of_their_node<A: Adapter>() {
    let servers = five();
    let redlock = with_prefixes::<A>(&servers);
    all_up(&redlock).await;
    let guard = redlock.lock(["a", "b"], TTL).fenced().await.unwrap();
    guard.extend(TTL).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    redlock.close().await;
    for (index, server) in servers.iter().enumerate() {
        assert_keys(server, index, &[]);
        let counters = ["a", "b"].map(|name| format!("{}{{{}{name}}}", FENCES[index], KEYS[index]));
        let mut keys = server.keys();
        keys.sort();
        assert_eq!(counters[..], keys, "server {index}");
        let left = crate::node::pttl(server, &keys[0]);
        let most = i64::try_from(RETENTIONS[index]).unwrap() * 1_000 + 10_000;
        assert!((most - 20_000..=most).contains(&left), "server {index}: {left} ms");
    }
}

pub(crate) async fn nodes_with_different_prefixes_on_one_server_do_not_exclude_each_other<A: Adapter>() {
    let server = RedisServer::start();
    let node = |index| A::node(server.url(), &options(index)).unwrap();
    let (nodes, ttl) = ([node(0), node(1), node(3)], Ttl::new(TTL).unwrap());
    let claim = |token: &str| Claim::new("a".into_resources().unwrap(), Token::from_bytes(token));
    let (one, other) = (claim("one"), claim("other"));
    for node in &nodes {
        node.call(Request::Acquire(one.clone(), ttl)).await.unwrap();
        node.call(Request::Acquire(other.clone(), ttl)).await.unwrap();
    }
    assert_eq!(3, server.keys().len());
    for node in &nodes {
        let holding = inspected(node, Resource::new("a").unwrap()).await.unwrap();
        assert_eq!(&holding.token, one.token());
        node.call(Request::Release(other.clone())).await.unwrap();
    }
    assert_eq!(3, server.keys().len());
    nodes[1].call(Request::Release(one.clone())).await.unwrap();
    let mut left = server.keys();
    left.sort();
    assert_eq!(["a", "q:a"], left[..]);
}

/// Runs claims on the same resources concurrently. No node may receive the token or the prefix of another claim or node.
async fn interleaved<A: Adapter>(tasks: usize) {
    let servers = five();
    let (one, other) = (warm::<A>(&servers).await, with_prefixes::<A>(&servers));
    all_up(&other).await;
    let cycle = |redlock: Redlock, number: usize| async move {
        for cycle in 0..20 {
            let name = format!("{}", (number + cycle) % 4);
            let wait = Duration::from_secs(30);
            let guard =
                redlock.lock(name, TTL).max_wait(wait).retry_delay(Duration::from_millis(5)).await.unwrap();
            assert!(guard.is_held());
            guard.extend(TTL).await.unwrap();
            assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        }
    };
    let all: Vec<_> = (0..tasks)
        .map(|number| tokio::spawn(cycle(if number % 2 == 0 { one.clone() } else { other.clone() }, number)))
        .collect();
    for task in all {
        task.await.unwrap();
    }
    one.close().await;
    nothing_left(&other, &servers).await;
}

pub(crate) async fn claims_interleave_on_one_thread<A: Adapter>() {
    interleaved::<A>(8).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn claims_interleave_on_many_threads<A: Adapter>() {
    interleaved::<A>(16).await;
}
