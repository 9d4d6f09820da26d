//! One or two of five servers hung or killed: no operation waits for them.

use redlock_core::ReleaseOutcome;

use super::*;
use crate::Adapter;

async fn cycles_do_not_wait<A: Adapter>(fault: fn(&RedisServer), down: usize) {
    let (servers, redlock) = warm_five::<A>().await;
    servers[..down].iter().for_each(fault);
    for cycle in 0..5 {
        let guard = within_node_timeout("acquire", redlock.lock("a", TTL)).await.unwrap();
        within_node_timeout("extend", guard.extend(TTL)).await.unwrap();
        assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none(), "cycle {cycle}");
        let released = within_node_timeout("release", guard.release()).await.unwrap();
        assert_eq!(ReleaseOutcome::Released, released, "cycle {cycle}");
    }
}

pub(crate) async fn one_hung<A: Adapter>() {
    cycles_do_not_wait::<A>(RedisServer::pause, 1).await;
}

pub(crate) async fn two_hung<A: Adapter>() {
    cycles_do_not_wait::<A>(RedisServer::pause, 2).await;
}

pub(crate) async fn one_killed<A: Adapter>() {
    cycles_do_not_wait::<A>(RedisServer::kill, 1).await;
}

pub(crate) async fn two_killed<A: Adapter>() {
    cycles_do_not_wait::<A>(RedisServer::kill, 2).await;
}

/// Tests a server that hangs from the start. Nothing was sent to it, so `close` has nothing to clean up there.
pub(crate) async fn hung_from_the_start<A: Adapter>() {
    let servers = five();
    servers[0].pause();
    let redlock = redlock::<A>(&servers);
    let guard = redlock.lock("a", TTL).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    // Cleanup of a request that may have been sent would last for as long as the server hangs, up to a minute.
    let closed = tokio::time::timeout(Duration::from_secs(30), redlock.close()).await;
    assert_eq!(Ok(0), closed);
    servers[0].resume();
    assert_eq!(Vec::<String>::new(), keys(&servers));
}

pub(crate) async fn killed_and_hung_while_a_lock_is_held<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    servers[0].kill();
    servers[1].pause();
    within_node_timeout("extend", guard.extend(TTL)).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, within_node_timeout("release", guard.release()).await.unwrap());
    servers[0].restart();
    servers[1].resume();
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_slow_node_leaves_no_key_behind_in_200_cycles<A: Adapter>() {
    let servers = five();
    let (redlock, nodes) = faulty::<A>(&servers);
    all_up(&redlock).await;
    nodes[4].inject(Fault::apply_late(Duration::from_millis(20)));
    for _ in 0..200 {
        let guard = redlock.lock("a", TTL).retry_delay(Duration::from_millis(2)).await;
        assert_eq!(ReleaseOutcome::Released, guard.unwrap().release().await.unwrap());
    }
    assert!(nodes[4].request_count(Operation::Acquire) >= 200);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn cold_connections_to_a_hung_node_delay_ten_locks_no_more_than_one<A: Adapter>() {
    let servers = five();
    servers[2].pause();
    let redlock = redlock::<A>(&servers);
    let lock = |name: String| within_node_timeout("ten cold acquires", redlock.lock(name, TTL).into_future());
    let names = (0..10).map(|number| format!("resource-{number}"));
    let locks: Vec<_> = names.map(|name| tokio::spawn(lock(name))).collect();
    for lock in locks {
        drop(lock.await.unwrap().unwrap());
    }
    servers[2].resume();
    nothing_left(&redlock, &servers).await;
}
