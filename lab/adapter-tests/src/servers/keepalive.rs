//! Automatic renewal: its duration, and the loss that the holder sees when it fails.

use std::future::pending;

use redlock_core::{KeepAlive, Lease, LeaseState, Loss, ReleaseOutcome};

use super::*;
use crate::Adapter;

/// The tests run for several TTLs in real time, so it is short. Its margin, a fiftieth, is still measurable.
const SHORT: Duration = Duration::from_secs(4);

async fn lock_with_keep_alive(redlock: &Redlock, resource: &str, ttl: Duration) -> Guard {
    let guard = redlock.lock(resource, ttl).keep_alive(KeepAlive::new()).await.unwrap();
    granted_by_all(&guard).await;
    guard
}

/// Returns all further states, and whether the lease was still valid when the loss was reported.
async fn remaining_states(lease: Lease) -> (Vec<LeaseState>, bool) {
    let mut states = Vec::new();
    loop {
        let state = lease.changed().await;
        let still_held = lease.is_held();
        states.push(state);
        if let Some(LeaseState::Lost(_)) = states.last() {
            return (states, still_held);
        }
    }
}

/// Returns the number of extensions that each server has carried out.
fn extensions(servers: &[RedisServer]) -> Vec<u64> {
    servers.iter().map(|server| server.commandstats("pexpire")).collect()
}

fn sorted(mut counts: Vec<u64>) -> Vec<u64> {
    counts.sort_unstable();
    counts
}

pub(crate) async fn work_several_times_as_long_as_the_ttl_keeps_the_lock<A: Adapter>() {
    let servers = five();
    let (redlock, stranger) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let ttl = SHORT;
    let work = async |lease: Lease| {
        let start = Instant::now();
        while start.elapsed() < 4 * ttl {
            assert_eq!(LeaseState::Held, lease.state());
            assert!(stranger.lock("a", ttl).try_now().await.unwrap().is_none());
            tokio::time::sleep(ttl / 50).await;
        }
        extensions(&servers)
    };
    let extended = redlock.lock("a", ttl).run(work).await.unwrap();
    let counts = sorted(extended.clone());
    // Three renewals per TTL are intended. A busy machine makes fewer, but four TTLs on a majority need at least three.
    assert!(counts[4] <= 16, "{counts:?}, three a TTL");
    assert!(counts[2] >= 3, "{counts:?}, too few to hold the lock throughout");
    assert_eq!(Vec::<String>::new(), keys(&servers));

    // There is no renewal after the release. Otherwise one would be due by now.
    tokio::time::sleep(ttl).await;
    assert_eq!(extended, extensions(&servers));
    let scripts = servers[0].commandstats("evalsha");
    nothing_left(&redlock, &servers).await;
    assert_eq!(scripts, servers[0].commandstats("evalsha"));
}

pub(crate) async fn sixty_locks_are_kept_at_once<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let ttl = SHORT;
    let mut guards = Vec::new();
    for number in 0..60 {
        guards.push(lock_with_keep_alive(&redlock, &number.to_string(), ttl).await);
    }
    let watched: Vec<_> = guards.iter().map(|guard| tokio::spawn(remaining_states(guard.lease()))).collect();
    let before = extensions(&servers);
    tokio::time::sleep(3 * ttl).await;
    let counts =
        sorted(extensions(&servers).iter().zip(before).map(|(after, before)| after - before).collect());
    assert!(counts[4] <= 12 * 60, "{counts:?}, three a TTL and lock");
    assert!(counts[2] >= 2 * 60, "{counts:?}, too few to hold the lock throughout");
    for guard in guards {
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    }
    for states in watched {
        assert_eq!(vec![LeaseState::Lost(Loss::Released)], states.await.unwrap().0);
    }
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_majority_that_hangs_is_reported_before_the_deadline_and_stops_the_work<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = lock_with_keep_alive(&redlock, "a", SHORT).await;
    let work = async |lease: Lease| -> () {
        loop {
            assert!(lease.is_held(), "polled without the lock");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let hang = async {
        // All nodes hold both locks.
        let all = async || keys(&servers).len() == 10;
        eventually("both resources are locked", Duration::from_secs(30), all).await;
        servers[..3].iter().for_each(RedisServer::pause);
    };
    // The waiting future runs in a separate task, which nothing else wakes.
    let reported = tokio::spawn(remaining_states(guard.lease()));
    let (worked, ()) = tokio::join!(redlock.lock("b", SHORT).run(work), hang);
    let reported = tokio::time::timeout(SHORT, reported).await.expect("the loss is reported");
    let (states, still_held) = reported.unwrap();
    let error = worked.unwrap_err();
    assert_eq!(ErrorKind::Lost, error.kind());
    assert!(error.to_string().contains("too few nodes responded"), "{error}");
    assert_eq!(vec![LeaseState::AtRisk, LeaseState::Lost(Loss::Unreachable)], states);
    assert!(still_held, "reported too late");

    drop(guard);
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn keys_deleted_on_a_majority_are_reported_by_the_next_renewal<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = lock_with_keep_alive(&redlock, "a", SHORT).await;
    let start = Instant::now();
    servers[..3].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    let work = redlock.lock("a", SHORT).run(async |_| pending::<()>().await);
    assert_eq!(Loss::Revoked { holder: None }, guard.lost().await);
    let reported = start.elapsed();
    assert!(reported < SHORT * 2 / 3, "reported after {reported:?}, with the next renewal but one");
    assert!(!guard.is_held());
    assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());

    // The same with `run`.
    let delete = async {
        eventually("the resource is locked", Duration::from_secs(30), async || keys(&servers).len() == 5)
            .await;
        servers[2..].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    };
    let (worked, ()) = tokio::join!(work, delete);
    let error = worked.unwrap_err();
    assert!(error.to_string().contains("keys gone on a quorum of nodes"), "{error}");
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn the_new_holder_is_reported_by_name_and_keeps_its_lock<A: Adapter>() {
    let servers = five();
    let (redlock, thief) =
        (warm::<A>(&servers).await, builder::<A>(&servers).owner("thief-1").build().unwrap());
    let guard = lock_with_keep_alive(&redlock, "a", SHORT).await;
    servers[1..4].iter().for_each(|server| drop(server.command(&["DEL", "a"])));
    let new_holder = thief.lock("a", TTL).await.unwrap();
    let loss = guard.lost().await;
    assert_eq!(Loss::Revoked { holder: Some(new_holder.fingerprint()) }, loss);
    assert!(loss.to_string().contains("thief-1"), "{loss}");

    drop(guard);
    redlock.close().await;
    let held: Vec<_> =
        servers.iter().filter(|server| !server.keys().is_empty()).map(RedisServer::port).collect();
    let ports: Vec<_> = servers[1..4].iter().map(RedisServer::port).collect();
    assert_eq!((ports, true), (held, new_holder.is_held()));
    drop(new_holder);
    nothing_left(&thief, &servers).await;
}

pub(crate) async fn the_next_renewal_repairs_a_failed_one<A: Adapter>() {
    let servers = five();
    let timeout = SHORT / 8;
    let redlock = builder::<A>(&servers).node_timeout(timeout).build().unwrap();
    all_up(&redlock).await;
    let guard = lock_with_keep_alive(&redlock, "a", SHORT).await;
    let reported = tokio::spawn(remaining_states(guard.lease()));

    servers[..3].iter().for_each(RedisServer::pause);
    assert_eq!(LeaseState::AtRisk, guard.changed().await);
    assert!(guard.is_held());
    servers[..3].iter().for_each(RedisServer::resume);
    assert_eq!(LeaseState::Held, guard.changed().await);
    assert!(guard.remaining() > SHORT * 2 / 3);
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    let expected = [LeaseState::AtRisk, LeaseState::Held, LeaseState::Lost(Loss::Released)];
    assert_eq!((expected.to_vec(), false), reported.await.unwrap());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_release_during_a_renewal_leaves_no_key<A: Adapter>() {
    let servers = five();
    let (redlock, nodes) = faulty::<A>(&servers);
    all_up(&redlock).await;
    // Some renewals are in flight to stopped servers, others are not due yet.
    let mut guards = Vec::new();
    for number in 0..20 {
        guards.push(lock_with_keep_alive(&redlock, &number.to_string(), SHORT).await);
    }
    servers[..3].iter().for_each(RedisServer::pause);
    nodes[0].wait_for_requests(Operation::Extend, 10).await;
    drop(guards);
    let sent: Vec<_> = nodes.iter().map(|node| node.request_count(Operation::Extend)).collect();
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
    // The renewals in flight were the last ones.
    tokio::time::sleep(SHORT / 2).await;
    assert_eq!(sent, nodes.iter().map(|node| node.request_count(Operation::Extend)).collect::<Vec<_>>());
    assert_eq!(Vec::<String>::new(), keys(&servers));
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn no_task_remains_after_the_last_guard_and_handle<A: Adapter>() {
    let servers = five();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    {
        let redlock = warm::<A>(&servers).await;
        let mut guards = Vec::new();
        for number in 0..10 {
            guards.push(lock_with_keep_alive(&redlock, &number.to_string(), SHORT).await);
        }
        assert!(tasks() >= before + 10, "{} tasks, one for each lock at least", tasks());
        let (mut guards, work) = (guards.into_iter(), async |lease: Lease| lease.is_held());
        assert!(redlock.lock("work", SHORT).run(work).await.unwrap());
        guards.next().unwrap().release().await.unwrap();
        drop(guards.next().unwrap().detach().await);
        drop(guards.next().unwrap().forget());
        // A lost lock whose guard still exists.
        let lost = guards.next().unwrap();
        for server in &servers {
            server.command(&["DEL", "3"]);
        }
        lost.lost().await;
        // A guard that is dropped outside the runtime.
        let outside = guards.next().unwrap();
        std::thread::spawn(move || drop(outside)).join().unwrap();
    }
    eventually("all tasks end", Duration::from_secs(30), async || tasks() == before).await;
    // Only the detached lock and the forgotten one remain.
    assert!(keys(&servers).iter().all(|key| key == "1" || key == "2"), "{:?}", keys(&servers));
}
