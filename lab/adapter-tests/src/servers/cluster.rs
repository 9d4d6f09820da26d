//! A cluster as one node: locks on its shards, slots that move, and a failover.
#![allow(clippy::print_stdout)] // the figures of a longer run

use std::sync::atomic::Ordering;

use redlock_core::KeepAlive;
use redlock_core::node::QuarantineReason;
use redlock_doctor::{PreflightSettings, preflight};

use super::admission::{LONGEST, QUARANTINE_LIMIT, guarded, guarded_for, reasons, vouch};
use super::losses::{Witness, contend};
use super::*;
use crate::shards::Cluster;

/// A name in each third of the slots.
const NAMES: [&str; 3] = ["b", "c", "a"];

async fn client<A: Adapter>(cluster: &Cluster) -> Redlock {
    let client = guarded::<A>([cluster.url()]);
    vouch(&client, 1).await;
    client
}

/// Returns the keys of all servers that are no stamps.
fn locks_of(cluster: &Cluster) -> Vec<String> {
    let mut keys = keys(&cluster.servers);
    keys.retain(|key| !key.starts_with("redlock:"));
    keys
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn each_shard_grants_locks_that_exclude_other_clients<A: Adapter>() {
    let cluster = Cluster::start();
    let new = guarded::<A>([cluster.url()]);
    let error = new.lock("a", LONGEST).try_now().await.unwrap_err();
    assert!(error.quarantine().is_some(), "restart admission is enabled: {error}");
    let error = A::builder([cluster.url()]).unwrap().build().unwrap().lock("a", Duration::from_secs(31));
    assert_eq!(
        ErrorKind::InvalidInput,
        error.await.unwrap_err().kind(),
        "the default of longest_ttl is 30 s"
    );
    vouch(&new, 1).await;
    let other = client::<A>(&cluster).await;
    for (index, name) in NAMES.iter().enumerate() {
        let guard = new.lock(*name, LONGEST).await.unwrap();
        assert_eq!("1", cluster.servers[index].command(&["EXISTS", name]), "{name}");
        assert!(other.lock(*name, LONGEST).try_now().await.unwrap().is_none(), "{name} has a second holder");
        guard.extend(LONGEST).await.unwrap();
        let waiter = tokio::spawn(other.lock(*name, LONGEST).max_wait(PATIENCE).into_future());
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = cluster.servers[index].commandstats("set");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let attempts = cluster.servers[index].commandstats("set") - before;
        assert!(attempts < 5, "it waits for a notification, and does not poll: {attempts} attempts");
        guard.release().await.unwrap();
        let guard = waiter.await.unwrap().expect("the waiter acquires it");
        let inspection = new.inspect(*name).await.unwrap();
        assert_eq!(Some(&guard.fingerprint()), inspection.holder());
        guard.release().await.unwrap();
    }
    for name in NAMES {
        let guard = new.lock(name, LONGEST).fenced().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let next = other.lock(name, LONGEST).fenced().await.unwrap();
        assert!(next.token() > token, "{name}");
        next.release().await.unwrap();
    }
    for client in [new, other] {
        assert_eq!(0, client.close().await);
    }
    assert_eq!(Vec::<String>::new(), locks_of(&cluster));
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn several_resources_need_a_common_hash_tag<A: Adapter>() {
    let cluster = Cluster::start();
    let redlock = client::<A>(&cluster).await;
    let evals = || -> u64 { cluster.servers.iter().map(|server| server.commandstats("evalsha")).sum() };
    let before = evals();
    let error = redlock.lock(["a", "b"], LONGEST).await.unwrap_err();
    assert_eq!(ErrorKind::InvalidInput, error.kind());
    assert!(error.to_string().contains("give the names a common hash tag"), "{error}");
    let error = redlock.rw_lock("catalog").unwrap().read(LONGEST).await.unwrap_err();
    assert!(error.to_string().contains("\"catalog\" and \"catalog:writer\""), "{error}");
    assert_eq!(before, evals(), "nothing was sent");

    let guard = redlock.lock(["{stock}:1", "{stock}:2"], LONGEST).fenced().await.unwrap();
    assert!(redlock.lock("{stock}:2", LONGEST).try_now().await.unwrap().is_none());
    guard.release().await.unwrap();
    let catalog = redlock.rw_lock("{catalog}").unwrap();
    let readers = [catalog.read(LONGEST).await.unwrap(), catalog.read(LONGEST).await.unwrap()];
    assert!(catalog.write(LONGEST).try_now().await.unwrap().is_none());
    drop(readers);
    catalog.write(LONGEST).await.unwrap().release().await.unwrap();
    let slots = redlock.slots("workers", 3).unwrap();
    for _ in 0..3 {
        let guard = slots.acquire(LONGEST).await.expect("each slot is a lock of its own");
        drop(guard.detach().await);
    }
    assert_eq!(0, redlock.close().await);
}

/// The steps are those of `redis-cli --cluster reshard`.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_held_lock_moves_with_its_slot<A: Adapter>() {
    let cluster = Cluster::start();
    let (redlock, other) = (client::<A>(&cluster).await, client::<A>(&cluster).await);
    let (from, to, slot) = (2, 0, cluster.slot("a"));
    let guard = redlock.lock("{a}1", LONGEST).await.unwrap();
    let no_second = async |step: &str| {
        if let Ok(Some(second)) = other.lock("{a}1", LONGEST).try_now().await {
            panic!("{step}: a second holder, {second:?}");
        }
    };
    cluster.begin_move(slot, from, to);
    guard.extend(LONGEST).await.expect("the key is there");
    no_second("before its key has moved").await;
    let error = other.lock("{a}2", LONGEST).try_now().await.unwrap_err();
    assert!(error.to_string().contains("is being moved to another master (ASK"), "{error}");
    cluster.move_keys(slot, from, to);
    let error = guard.extend(LONGEST).await.unwrap_err();
    assert!(error.to_string().contains("is being moved to another master (ASK"), "{error}");
    assert!(guard.is_held());
    no_second("after its key has moved").await;
    cluster.end_move(slot, from, to);
    let follows = async || guard.extend(LONGEST).await.is_ok();
    eventually("the clients follow the slot", LONGEST, follows).await;
    no_second("at the new master").await;
    assert_eq!("1", cluster.servers[to].command(&["EXISTS", "{a}1"]));
    guard.release().await.unwrap();
    other.lock("{a}1", LONGEST).max_wait(PATIENCE).await.unwrap().release().await.unwrap();
    for client in [redlock, other] {
        assert_eq!(0, client.close().await);
    }
    assert_eq!(Vec::<String>::new(), locks_of(&cluster));
}

/// A renewal that fails while its key is moved is repeated in time. The TTL is long, for a busy machine.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_lock_is_kept_alive_while_its_slot_moves_to_and_fro<A: Adapter>() {
    let cluster = Cluster::start();
    let redlock = guarded_for::<A>(2 * TTL, [cluster.url()]);
    vouch(&redlock, 1).await;
    let guard = redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
    let end = || Instant::now() + guard.remaining();
    for (from, to) in [(2, 0), (0, 1), (1, 2)] {
        let before = end();
        cluster.move_slot(cluster.slot("a"), from, to);
        let is_renewed = async || end() > before + TTL / 10;
        eventually("it is renewed at the new master", PATIENCE, is_renewed).await;
        assert_eq!("1", cluster.servers[to].command(&["EXISTS", "a"]));
    }
    guard.release().await.unwrap();
}

pub(crate) async fn a_server_that_is_in_no_cluster_is_rejected_as_such<A: Adapter>() {
    let server = RedisServer::start();
    let redlock = guarded::<A>([server.url().replace("redis://", "redis+cluster://")]);
    let error = redlock.lock("a", LONGEST).try_now().await.unwrap_err();
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
    assert_eq!(0, server.commandstats("set"));
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn programs_that_list_other_servers_of_a_cluster_agree<A: Adapter>() {
    let cluster = Cluster::start();
    let client = |listed: &[usize]| {
        let options = Options::tokio().longest_ttl(LONGEST);
        let builder = A::builder_with([cluster.url_of(listed)], &options).unwrap().node_timeout(NODE_TIMEOUT);
        builder.node_lists_must_agree(true).build().unwrap()
    };
    let (one, other) = (client(&[0, 1]), client(&[2]));
    let vouches = async || one.health().await.nodes().len() == 1 && one.vouch(0).await.is_ok();
    eventually("an operator vouches", PATIENCE, vouches).await;
    for name in NAMES {
        for client in [&one, &other] {
            // After the quarantine, the lists are compared first.
            let is_locked = async || match client.lock(name, LONGEST).max_wait(PATIENCE).await {
                Ok(guard) => guard.release().await.is_ok(),
                Err(error) => {
                    assert!(error.to_string().contains("node list not compared"), "{error}");
                    false
                }
            };
            eventually("the lists agree", PATIENCE, is_locked).await;
        }
    }
    assert_eq!(None, other.health().await.node_list_difference());
}

/// The stamp is a key of its shard. The shard that it leaves has none, and the other one finds a foreign one.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_shard_whose_stamp_moves_is_in_quarantine<A: Adapter>() {
    let cluster = Cluster::start();
    let redlock = client::<A>(&cluster).await;
    let [left, taken] = [2, 0].map(|index: usize| {
        let mut keys = cluster.servers[index].keys();
        keys.retain(|key| key.starts_with("redlock:admission:{"));
        assert_eq!(1, keys.len(), "{keys:?}");
        keys.remove(0)
    });
    assert!(cluster.servers[2].command(&["GET", &left]).starts_with("1 "));
    let guard = redlock.lock("a", LONGEST).await.unwrap();
    cluster.move_slot(cluster.slot(&left), 2, 0);
    let is_out = async || {
        redlock.lock("{a}2", LONGEST).try_now().await.is_err_and(|error| error.quarantine().is_some())
    };
    eventually("the shard that lost its stamp is in quarantine", PATIENCE, is_out).await;
    drop(guard);
    assert_ne!(left, taken);
    for name in NAMES {
        let grants = async || matches!(redlock.lock(name, LONGEST).try_now().await, Ok(Some(_)));
        eventually("all shards grant locks again", 2 * QUARANTINE_LIMIT, grants).await;
    }
}

/// The servers have run for longer than a quarantine, so only the first client needs to vouch for them.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_promoted_replica_grants_no_lock_that_the_former_master_has_granted<A: Adapter>() {
    let cluster = Cluster::with_replicas();
    let (holder, other) = (client::<A>(&cluster).await, client::<A>(&cluster).await);
    let master = cluster.master_of("a").unwrap();
    cluster.cut_off_replicas(master);
    let guard = holder.lock("a", LONGEST).await.unwrap();
    let lease = guard.lease();
    cluster.servers[master].kill();
    let promoted = cluster.wait_for_another("a", master);
    other.lock("b", LONGEST).await.expect("another shard").release().await.unwrap();

    let set = || cluster.servers[promoted].reply(&[b"SET", b"a", b"second", b"NX", b"PX", b"1"]);
    let is_set = async || set() == Reply::Bytes("OK".into());
    eventually("without restart admission, there is a second holder", PATIENCE, is_set).await;
    assert!(lease.is_held(), "the failover took longer than the lock: the machine is too busy");
    while lease.is_held() {
        if let Ok(Some(second)) = other.lock("a", LONGEST).try_now().await {
            panic!("a second holder: {second:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Data counts as lost if the replica had not received the stamp before it was cut off.
    let is_promoted = async || {
        let error = other.lock("a", LONGEST).try_now().await.unwrap_err();
        let reason = error.node_reports()[0].quarantine().map(|quarantine| quarantine.reason);
        matches!(
            reason,
            Some(
                QuarantineReason::PromotedOrRestarted
                    | QuarantineReason::Promoted
                    | QuarantineReason::Recent
                    | QuarantineReason::DataLost
            )
        )
    };
    eventually("the promoted server is in quarantine", QUARANTINE_LIMIT, is_promoted).await;
    let again = async || matches!(other.lock("a", LONGEST).try_now().await, Ok(Some(_)));
    eventually("the promoted server grants locks", 2 * QUARANTINE_LIMIT, again).await;
    assert_eq!([None], reasons(&other.health().await)[..]);
}

/// The TTL of the locks that clients contend for.
const HELD: Duration = Duration::from_secs(2);

/// The environment variable for the duration of a run in seconds.
const SECONDS: &str = "REDLOCK_RESHARDING_SECONDS";

/// Moves the slot of the lock from shard to shard, until the time is over or there is an overlap. Returns the number of
/// moves, of grants and of overlaps.
fn moves<A: Adapter>(time: Duration, with_keys: bool) -> [u64; 3] {
    let cluster = Cluster::start();
    let witness = Arc::new(Witness::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clients: Vec<_> = (0..4).map(|_| guarded_for::<A>(HELD, [cluster.url()])).collect();
    runtime.block_on(vouch(&clients[0], 1));
    let contending = clients.iter().map(|redlock| contend(redlock.clone(), HELD, Arc::clone(&witness)));
    let tasks: Vec<_> = contending.map(|task| runtime.spawn(task)).collect();
    let (slot, end) = (cluster.slot("a"), Instant::now() + time);
    let pause = || std::thread::sleep(Duration::from_millis(fastrand::u64(0..200)));
    let (mut at, mut moves) = (2, 0);
    let overlaps = || witness.overlaps.load(Ordering::Relaxed);
    while Instant::now() < end && overlaps() == 0 {
        let to = (at + fastrand::usize(1..3)) % 3;
        cluster.begin_move(slot, at, to);
        pause();
        if with_keys {
            cluster.move_keys(slot, at, to);
        } else {
            cluster.delete_keys(slot, at);
        }
        pause();
        cluster.end_move(slot, at, to);
        (at, moves) = (to, moves + 1);
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..2000)));
    }
    witness.end(&runtime, tasks);
    [moves, witness.grants.load(Ordering::Relaxed), overlaps()]
}

/// A slot that is moved without its keys leads to overlaps, so the witness would see any.
pub(crate) fn leases_never_overlap_while_their_slot_moves<A: Adapter>() {
    let seconds = std::env::var(SECONDS).map_or(15, |text| text.parse().unwrap());
    let [count, grants, overlaps] = moves::<A>(Duration::from_secs(seconds), true);
    println!("{seconds} s: {count} moves, {grants} grants, {overlaps} overlaps");
    assert_eq!(0, overlaps);
    assert!(count > seconds / 5 && grants > seconds / 5, "{count} moves, {grants} grants");
    let [count, grants, overlaps] = moves::<A>(PATIENCE, false);
    println!("without keys: {count} moves, {grants} grants, {overlaps} overlaps");
    assert!(overlaps > 0, "{count} moves, {grants} grants");
}

pub(crate) async fn a_check_looks_at_each_master_of_a_cluster<A: Adapter>() {
    let cluster = Cluster::start();
    cluster.servers[1].command(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]);
    let settings = PreflightSettings::new(LONGEST).observe(Duration::ZERO);
    let options = Options::tokio().connect_timeout(PATIENCE); // for a busy machine
    let found = preflight([A::connector(cluster.url())], &options, settings).await.unwrap();
    assert!(found.is_available(), "{found:?}");
    let label = |server: &RedisServer| format!("127.0.0.1:{}", server.port());
    let evicts = format!("error: {}: maxmemory-policy is allkeys-lru; ", label(&cluster.servers[1]));
    let findings: Vec<_> = found.findings().iter().map(ToString::to_string).collect();
    assert!(findings[0].starts_with(&evicts), "{findings:#?}");
    let without_replicas =
        found.findings().iter().find(|finding| finding.problem().contains("has no replicas"));
    assert_eq!(Some(3), without_replicas.map(|finding| finding.nodes().len()), "{findings:#?}");
    assert_eq!(3, findings.len(), "also: a single node; {findings:#?}");
}
