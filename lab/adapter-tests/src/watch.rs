//! Watches over a real server, and locks over a server that does not support tracking.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{Availability, Claim, LockNode, NodeErrorKind, Reply, Request};
use redlock_core::runtime::BoxFuture;
use redlock_core::{IntoResource, IntoResources, Resource};
use redlock_testkit::{RedisServer, watching};
use redlock_wire::Options;
use tokio::time::timeout;

use crate::Adapter;
use crate::node::{self, minute, node_of, ttl};
use crate::scripted::{Answer, Scripted, greet};
use crate::wait::{PATIENCE, soon};

fn claim(resources: impl IntoResources) -> Claim {
    node::claim(resources, "mine")
}

fn name(name: impl IntoResource) -> Resource {
    name.into_resource().unwrap()
}

async fn watch(node: &impl LockNode, resource: impl IntoResource) -> (Availability, BoxFuture<()>) {
    let watch = watching(soon(node.call(Request::Watch(name(resource)))).await.unwrap());
    (watch.availability, watch.changed)
}

/// Returns whether the watch is pending after all pushes so far. Pushes arrive in order, so a later one is awaited.
async fn is_quiet(node: &impl LockNode, server: &RedisServer, changed: &mut BoxFuture<()>) -> bool {
    let (_, last) = watch(node, "the last").await;
    server.command(&["MSET", "the last", "x", "lock:the last", "x"]);
    soon(last).await;
    is_pending(changed).await
}

async fn is_pending(changed: &mut BoxFuture<()>) -> bool {
    poll_fn(|cx| Poll::Ready(changed.as_mut().poll(cx).is_pending())).await
}

/// Watches all names concurrently.
async fn watch_all(
    node: &Arc<impl LockNode + 'static>,
    names: &[String],
) -> Vec<(Availability, BoxFuture<()>)> {
    let watch = |name: &String| {
        let (node, name) = (Arc::clone(node), name.clone());
        tokio::spawn(async move { watch(&*node, name).await })
    };
    let arming: Vec<_> = names.iter().map(watch).collect();
    let mut watches = Vec::with_capacity(names.len());
    for armed in arming {
        watches.push(armed.await.unwrap());
    }
    watches
}

async fn locks(node: &impl LockNode) {
    let mine = claim("a");
    assert_eq!(Reply::Granted, soon(node.call(Request::Acquire(mine.clone(), minute()))).await.unwrap());
    assert_eq!(Reply::Deleted(true), soon(node.call(Request::Release(mine))).await.unwrap());
}

/// Asserts that the node locks but does not watch.
async fn only_locks(node: &impl LockNode) {
    locks(node).await;
    let error = soon(node.call(Request::Watch(name("a")))).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unsupported, error.kind());
    locks(node).await;
}

pub(crate) async fn every_change_of_a_key_completes_its_watch<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio().key_prefix("lock:")).unwrap();
    let taken = |millis: i64| millis - 20_000..=millis;
    for (before, act, expected) in [
        ("SET lock:a foreign PX 60000", "DEL lock:a", taken(60_000)),
        ("SET lock:a foreign PX 60000", "UNLINK lock:a", taken(60_000)),
        ("SET lock:a foreign PX 60000", "SET lock:a another", taken(60_000)),
        ("SET lock:a foreign PX 60000", "PEXPIRE lock:a 90000", taken(60_000)),
        ("SET lock:a foreign", "GETDEL lock:a", -1..=-1),
        ("SET lock:a foreign", "RENAME lock:a lock:b", -1..=-1),
        ("RPUSH lock:a no-lock", "DEL lock:a", -1..=-1),
        ("DEL lock:a", "SET lock:a foreign", -2..=-2),
    ] {
        let words = |line: &'static str| line.split(' ').collect::<Vec<_>>();
        server.command(&["DEL", "lock:a"]);
        server.command(&words(before));
        let (availability, mut changed) = watch(&node, "a").await;
        let millis = match availability {
            Availability::Taken(Some(left)) => i64::try_from(left.as_millis()).unwrap(),
            Availability::Taken(None) => -1,
            Availability::Free => -2,
            other => panic!("{other:?}"),
        };
        assert!(expected.contains(&millis), "{before}: {availability:?}");
        assert!(is_quiet(&node, &server, &mut changed).await, "{before}");
        server.command(&words(act));
        timeout(PATIENCE, changed).await.unwrap_or_else(|_| panic!("{act} causes no notification"));
    }
}

pub(crate) async fn an_expiry_is_notified_or_seen_by_the_next_watch<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    locks(&node).await; // connects
    server.command(&["SET", "a", "foreign", "PX", "100"]);
    // The server expires a single volatile key in time. On a slow machine it may expire before the watch begins.
    soon(async {
        loop {
            let (availability, changed) = watch(&node, "a").await;
            if availability == Availability::Free {
                return;
            }
            changed.await;
        }
    })
    .await;
}

pub(crate) async fn changes_over_the_same_connection_complete_a_watch<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim(b"\x00\xff\r\na".to_vec());
    let resource = || mine.resources()[0].clone();
    let (free, changed) = watch(&node, resource()).await;
    node.call(Request::Acquire(mine.clone(), ttl(30_000))).await.unwrap();
    soon(changed).await;
    let (taken, changed) = watch(&node, resource()).await;
    assert!(free == Availability::Free && taken != free);
    node.call(Request::Extend(mine.clone(), minute())).await.unwrap();
    soon(changed).await;
    let (_, changed) = watch(&node, resource()).await;
    node.call(Request::Release(mine.clone())).await.unwrap();
    soon(changed).await;
}

pub(crate) async fn a_lost_connection_completes_its_watches_and_the_next_one_accepts_watches<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let kill_clients = || drop(server.command(&["CLIENT", "KILL", "TYPE", "normal"]));
    let restart = || server.restart();
    let faults: [&dyn Fn(); 2] = [&kill_clients, &restart];
    for fault in faults {
        server.command(&["SET", "a", "foreign"]);
        let (availability, changed) = watch(&node, "a").await;
        assert_eq!(Availability::Taken(None), availability);
        fault();
        soon(changed).await;
        soon(async {
            while node.status().connection.is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let (_, changed) = watch(&node, "a").await;
        server.command(&["SET", "a", "another"]);
        soon(changed).await;
    }
}

pub(crate) async fn disconnecting_a_hung_server_completes_its_watches<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (_, mut changed) = watch(&node, "a").await;
    server.pause();
    for _ in 0..3 {
        assert!(is_pending(&mut changed).await);
        assert!(timeout(Duration::from_millis(110), node.call(Request::Watch(name("a")))).await.is_err());
    }
    soon(changed).await;
}

pub(crate) async fn thousands_of_keys_are_watched_over_one_connection_under_load<A: Adapter>() {
    let server = RedisServer::start();
    let node = Arc::new(node_of::<A>(&server));
    let over = Arc::new(AtomicBool::new(false));
    // A command between the two commands of a watch would leave its key without tracking.
    let hammers: Vec<_> = (0..32)
        .map(|task| {
            let (node, over) = (Arc::clone(&node), Arc::clone(&over));
            tokio::spawn(async move {
                let mine = claim(format!("hammer-{task}"));
                while !over.load(Ordering::Relaxed) {
                    node.call(Request::Acquire(mine.clone(), minute())).await.unwrap();
                    node.call(Request::Release(mine.clone())).await.unwrap();
                }
            })
        })
        .collect();
    let names: Vec<_> = (0..2000).map(|number| format!("key-{number}")).collect();
    let watches = watch_all(&node, &names).await;
    assert!(watches.iter().all(|(availability, _)| *availability == Availability::Free));
    for half in names.chunks(1000) {
        let pairs = half.iter().flat_map(|name| [name.as_str(), "x"]);
        server.command(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>());
    }
    for (number, (_, changed)) in watches.into_iter().enumerate() {
        timeout(PATIENCE, changed).await.unwrap_or_else(|_| panic!("no notification for {number}"));
    }
    over.store(true, Ordering::Relaxed);
    for hammer in hammers {
        soon(hammer).await.unwrap();
    }
    let clients = server.command(&["CLIENT", "LIST"]);
    assert_eq!(1, clients.lines().filter(|line| !line.contains("cmd=client|list")).count(), "{clients}");
}

pub(crate) async fn an_overflowing_tracking_table_completes_watches_without_a_hot_loop<A: Adapter>() {
    let server = RedisServer::start();
    server.command(&["CONFIG", "SET", "tracking-table-max-keys", "1"]);
    let node = Arc::new(node_of::<A>(&server));
    let names: Vec<_> = (0..20).map(|number| format!("key-{number}")).collect();
    let watches = watch_all(&node, &names).await;
    for (_, changed) in watches.into_iter().take(10) {
        soon(changed).await; // no client has changed a key
    }
    assert_eq!(20, server.commandstats("pttl"));
}

pub(crate) async fn a_user_without_the_right_to_track_can_lock<A: Adapter>() {
    let server = RedisServer::start();
    let set_user = |rights: &str| {
        let words = ["ACL", "SETUSER", "few"].into_iter().chain(rights.split(' '));
        assert_eq!("OK", server.command(&words.collect::<Vec<_>>()));
    };
    let node_of_few =
        || A::node(format!("redis://few:pw@127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
    set_user("on >pw ~* -@all +hello +set +get +del +pttl +pexpire +evalsha +eval +select");
    only_locks(&node_of_few()).await;
    set_user("+client|tracking");
    only_locks(&node_of_few()).await;

    set_user("+client|caching");
    let node = node_of_few();
    let (_, changed) = watch(&node, "a").await;
    server.command(&["SET", "a", "foreign"]);
    soon(changed).await;
    // A permission that is revoked later is an error reply. The connection stays.
    set_user("-client|caching");
    let error = soon(node.call(Request::Watch(name("b")))).await.unwrap_err();
    assert_eq!(NodeErrorKind::Rejected, error.kind());
    assert!(
        soon(node.call(Request::Release(claim("a")))).await.is_ok() && node.status().connection.is_some()
    );
}

pub(crate) async fn a_server_without_resp3_can_lock<A: Adapter>() {
    // In RESP2 the server replies OK to tracking and pushes nothing.
    let server = RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start();
    only_locks(&node_of::<A>(&server)).await;

    let old = Scripted::start(|command| match command.split(' ').next() {
        Some("HELLO") => Answer::Say("-ERR unknown command 'HELLO'\r\n"),
        Some("SCRIPT") => Answer::Say("+sha\r\n"),
        Some("SET") => Answer::Say("$-1\r\n"),
        Some("EVALSHA") => Answer::Say(":1\r\n"),
        _ => greet(command).unwrap_or(Answer::HangUp),
    })
    .await;
    only_locks(&A::node(format!("redis://127.0.0.1:{}", old.port()), &Options::tokio()).unwrap()).await;
    assert_eq!(0, old.seen("CLIENT TRACKING"));
}
