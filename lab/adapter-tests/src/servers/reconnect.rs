//! Servers that are down at the start, and servers that recover.

use futures_util::future::join_all;
use redlock_core::ReleaseOutcome;

use super::*;
use crate::Adapter;
use crate::node::node_of;
use crate::wait::until;

/// A number of health checks. Their unanswered releases suffice to close the connection of a silent server.
const UNANSWERED: usize = 3;

pub(crate) async fn a_program_that_starts_while_a_minority_is_down_works<A: Adapter>() {
    let servers = five();
    servers[..2].iter().for_each(RedisServer::kill);
    let redlock = redlock::<A>(&servers);
    // The first call after `build`.
    let guard = redlock.lock("a", TTL).try_now().await.unwrap().expect("no other client holds the lock");
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());

    servers[..2].iter().for_each(RedisServer::restart);
    all_up(&redlock).await;
    let guard = redlock.lock("a", TTL).try_now().await.unwrap().expect("no other client holds the lock");
    granted_by_all(&guard).await;
    drop(guard);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_node_that_recovers_votes_again_before_a_request_fails<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    // A client without locks sends nothing between its health checks. The other one repeats releases.
    let nodes: Vec<_> = servers.iter().map(|server| Arc::new(node_of::<A>(server))).collect();
    let shared = nodes.iter().map(|node| Arc::clone(node) as Arc<dyn LockNode>);
    let idle =
        Redlock::builder(TokioRuntime::new()).nodes(shared).node_timeout(NODE_TIMEOUT).build().unwrap();
    all_up(&idle).await;
    let faults: [[fn(&RedisServer); 2]; 2] =
        [[RedisServer::kill, RedisServer::restart], [RedisServer::pause, RedisServer::resume]];
    for [fault, repair] in faults {
        fault(&servers[0]);
        for _ in 0..5 {
            drop(redlock.lock("a", TTL).await.unwrap());
        }
        let checks = (0..UNANSWERED).map(|_| async { idle.health().await.healthy_nodes() });
        assert_eq!([4; UNANSWERED].to_vec(), join_all(checks).await);
        until(async || nodes[0].status().connection.is_none()).await;
        repair(&servers[0]);
        // The tests `.._recovers_without_traffic` of `redlock-wire` check the duration in virtual time.
        until(async || nodes[0].status().connection.is_some()).await;
        assert_eq!(5, idle.health().await.healthy_nodes());
        all_up(&redlock).await;
    }
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn nodes_recover_when_a_wrong_password_is_corrected<A: Adapter>() {
    let servers = five();
    let urls = servers.iter().map(|server| server.url().replace("redis://", "redis://:swordfish@"));
    for server in &servers {
        server.command(&["CONFIG", "SET", "requirepass", "something-else"]);
    }
    let redlock = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    let error = redlock.lock("a", TTL).try_now().await.unwrap_err();
    assert_eq!(ErrorKind::NoQuorum, error.kind());
    for shown in [format!("{error:?}"), error.to_string(), format!("{redlock:?}")] {
        assert!(!shown.contains("swordfish"), "{shown}");
    }
    assert!(format!("{error:?}").contains("WRONGPASS"), "the error contains the reason: {error:?}");

    for server in &servers {
        server.authenticated("something-else").command(&["CONFIG", "SET", "requirepass", "swordfish"]);
    }
    // After a rejected login the reconnect delay is longer than after other failures.
    all_up(&redlock).await;
    let guard = redlock.lock("a", TTL).try_now().await.unwrap().expect("no other client holds the lock");
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
}
