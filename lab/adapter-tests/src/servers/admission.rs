//! Servers that lose their data: their grants do not count until the lost locks have expired.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use redlock_core::Health;
use redlock_core::node::QuarantineReason;
use redlock_testkit::Reply;

use super::*;

/// The longest TTL with the shortest quarantine, which is 6 s.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// The maximum time until a quarantine ends. It is generous, because the tests do not measure the exact time.
pub(super) const QUARANTINE_LIMIT: Duration = Duration::from_secs(20);

fn three() -> Vec<RedisServer> {
    RedisServer::start_many(3)
}

pub(super) fn guarded<A: Adapter>(urls: impl IntoIterator<Item = String>) -> Redlock {
    guarded_for::<A>(LONGEST, urls)
}

/// Returns a client with restart admission for TTLs of up to `longest`.
pub(super) fn guarded_for<A: Adapter>(longest: Duration, urls: impl IntoIterator<Item = String>) -> Redlock {
    let options = Options::tokio().longest_ttl(longest);
    A::builder_with(urls, &options).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// Waits until all three servers of a client count.
pub(super) async fn all_count(client: &Redlock) {
    let all = async || client.health().await.healthy_nodes() == 3;
    eventually("all servers count", QUARANTINE_LIMIT, all).await;
}

/// Returns a client of servers whose grants count at once.
async fn vouched<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    let redlock = guarded::<A>(servers.iter().map(RedisServer::url));
    vouch(&redlock, servers.len()).await;
    redlock
}

pub(crate) async fn vouch(redlock: &Redlock, nodes: usize) {
    for index in 0..nodes {
        redlock.vouch(index).await.unwrap();
    }
    all_up(redlock).await;
}

/// Returns the reasons why the grants of nodes do not count.
pub(super) fn reasons(health: &Health) -> Vec<Option<QuarantineReason>> {
    health.nodes().iter().map(|node| node.quarantine().map(|quarantine| quarantine.reason)).collect()
}

/// Asserts that a quorum of the servers is in quarantine, so that there is no second holder.
pub(super) async fn no_second_holder(other: &Redlock, lost: &str) {
    match other.lock("a", LONGEST).try_now().await {
        Err(error) if error.kind() == ErrorKind::NoQuorum => {}
        other => panic!("after {lost}: {other:?}"),
    }
}

pub(crate) async fn new_servers_count_after_the_wait_or_when_vouched_for<A: Adapter>() {
    let servers = three();
    let redlock = guarded::<A>(servers.iter().map(RedisServer::url));
    let error = redlock.lock("a", LONGEST).max_wait(Duration::ZERO).await.unwrap_err();
    assert_eq!(ErrorKind::NoQuorum, error.kind());
    assert!(error.to_string().contains("may have lost locks (server without its data"), "{error}");
    assert!(error.quarantine().is_some_and(|time| time <= Duration::from_secs(6)), "{error:?}");
    redlock.vouch(0).await.unwrap();
    redlock.vouch(1).await.unwrap();
    let guard = redlock.lock("a", LONGEST).await.unwrap();
    assert_eq!(ErrorKind::InvalidInput, redlock.vouch(3).await.unwrap_err().kind());

    // Another program sees it too, and the third server counts after its wait.
    let other = guarded::<A>(servers.iter().map(RedisServer::url));
    let health = other.health().await;
    assert_eq!([None, None], reasons(&health)[..2], "{health:?}");
    assert!(reasons(&health)[2].is_some() && health.is_available());
    guard.release().await.unwrap();
    for client in [&other, &redlock] {
        all_count(client).await;
    }
    for server in &servers {
        assert!(server.command(&["GET", "redlock:admission"]).starts_with("1 "));
        assert_eq!("-1", server.command(&["PTTL", "redlock:admission"]));
    }
}

/// Causes the same loss with and without restart admission: there is a second holder only without it.
async fn a_majority_that_loses<A: Adapter>(
    servers: &[RedisServer],
    lose: impl Fn(&RedisServer),
    reason: QuarantineReason,
) {
    let clients = [vouched::<A>(servers).await, vouched::<A>(servers).await];
    a_majority_loses_between::<A>(clients, servers, lose, reason).await;
}

/// Same as [`a_majority_that_loses`], with a holder and another client that connect in any way.
pub(super) async fn a_majority_loses_between<A: Adapter>(
    [holder, other]: [Redlock; 2],
    servers: &[RedisServer],
    lose: impl Fn(&RedisServer),
    reason: QuarantineReason,
) {
    let guard = holder.lock("a", LONGEST).await.unwrap();
    granted_by_all(&guard).await;
    servers[..2].iter().for_each(&lose);
    let connected = async || {
        let health = other.health().await;
        health.nodes().iter().all(|node| node.is_healthy() || node.quarantine().is_some())
    };
    no_second_holder(&other, "the loss").await;
    eventually("all are connected", QUARANTINE_LIMIT, connected).await;
    no_second_holder(&other, "the loss").await;
    let error = other.lock("a", LONGEST).try_now().await.unwrap_err();
    assert!(error.quarantine().is_some_and(|time| time <= Duration::from_secs(6)), "{error}");
    assert_eq!([Some(reason), Some(reason), None], reasons(&other.health().await)[..]);
    let unguarded = redlock::<A>(servers);
    // The attempts of the other client may not be cleaned up yet.
    let second = async || unguarded.lock("a", LONGEST).try_now().await.unwrap().is_some();
    eventually("without restart admission, there is a second holder", LONGEST, second).await;
    unguarded.close().await;

    // The holder cannot extend its lock, but it keeps the lock until the validity ends.
    let error = guard.extend(LONGEST).await.unwrap_err();
    // A busy machine may have taken longer than the TTL.
    assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::TooSlow), "{error}");
    drop(guard);
    all_count(&other).await;
    other.lock("a", LONGEST).await.unwrap().release().await.unwrap();
    holder.close().await;
    other.close().await;
}

pub(crate) async fn a_majority_that_restarts_empty_grants_no_second_lock<A: Adapter>() {
    let servers = three();
    a_majority_that_loses::<A>(&servers, RedisServer::restart_empty, QuarantineReason::Restarted).await;
}

pub(crate) async fn a_majority_that_restarts_from_a_snapshot_grants_no_second_lock<A: Adapter>() {
    let servers = three();
    drop(vouched::<A>(&servers).await);
    // The snapshot contains the stamp, and no lock.
    for server in &servers {
        server.command(&["SAVE"]);
    }
    a_majority_that_loses::<A>(&servers, RedisServer::restart, QuarantineReason::Restarted).await;
}

/// Returns the file to which a server appends its writes, after it has written all that it has received.
fn log_of(server: &RedisServer) -> PathBuf {
    let has_written = || {
        let info = server.command(&["INFO", "persistence"]);
        ["aof_buffer_length:0", "aof_rewrite_in_progress:0"].iter().all(|field| info.contains(field))
    };
    while !has_written() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let Reply::Array(setting) = server.reply(&[b"CONFIG", b"GET", b"dir"]) else { panic!("no array") };
    let directory = PathBuf::from(setting[1].text());
    // Before Redis 7.0, the log was a single file.
    let parts = fs::read_dir(directory.join("appendonlydir")).into_iter().flatten();
    let mut parts = parts.map(|part| part.unwrap().path());
    let last = parts.find(|path| path.to_string_lossy().ends_with(".incr.aof"));
    last.unwrap_or_else(|| directory.join("appendonly.aof"))
}

/// The machine loses its power: with `appendfsync everysec`, the last writes are not on the disk yet.
pub(crate) async fn a_majority_that_loses_the_end_of_its_log_grants_no_second_lock<A: Adapter>() {
    let server = || RedisServer::builder().persistent(true).arg("--appendfsync").arg("everysec").start();
    let servers: Vec<_> = (0..3).map(|_| server()).collect();
    drop(vouched::<A>(&servers).await);
    // The file on the disk contains the stamp, and no lock.
    let disks: HashMap<_, _> = servers
        .iter()
        .map(|server| {
            let log = log_of(server);
            let length = fs::metadata(&log).unwrap().len();
            (server.port(), (log, length))
        })
        .collect();
    let lose = |server: &RedisServer| {
        server.kill();
        let (log, length) = &disks[&server.port()];
        let log = fs::OpenOptions::new().write(true).open(log).unwrap();
        log.set_len(*length).unwrap();
        server.restart();
        assert!(server.command(&["GET", "redlock:admission"]).starts_with("1 "), "the stamp was kept");
    };
    a_majority_that_loses::<A>(&servers, lose, QuarantineReason::Restarted).await;
}

pub(crate) async fn a_majority_that_is_flushed_grants_no_second_lock<A: Adapter>() {
    let servers = three();
    let flush = |server: &RedisServer| drop(server.command(&["FLUSHALL"]));
    a_majority_that_loses::<A>(&servers, flush, QuarantineReason::DataLost).await;
}

/// Returns a client to which servers push nothing.
async fn without_pushes<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    for server in servers {
        server.command(&["ACL", "SETUSER", "old", "on", ">secret", "~*", "&*", "+@all", "-client|tracking"]);
    }
    let redlock = guarded::<A>(servers.iter().map(|server| server.url().replace("//", "//old:secret@")));
    all_up(&redlock).await;
    redlock
}

pub(crate) async fn a_flush_is_noticed_without_pushes<A: Adapter>() {
    let servers = three();
    let (holder, vouching) = (vouched::<A>(&servers).await, vouched::<A>(&servers).await);
    let other = without_pushes::<A>(&servers).await;
    for round in 0..10 {
        let guard = holder.lock("a", LONGEST).await.unwrap();
        granted_by_all(&guard).await;
        servers[..2].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
        no_second_holder(&other, &format!("flush {round}")).await;
        drop(guard);
        vouch(&vouching, 3).await;
        for client in [&holder, &other] {
            all_count(client).await;
        }
    }
}

pub(crate) async fn a_majority_that_fails_over_and_back_grants_no_second_lock<A: Adapter>() {
    let servers = three();
    let clients = [vouched::<A>(&servers).await, vouched::<A>(&servers).await];
    a_majority_fails_back_between(clients, &servers).await;
}

pub(crate) async fn a_failover_and_back_is_noticed_without_pushes<A: Adapter>() {
    let servers = three();
    let clients = [vouched::<A>(&servers).await, without_pushes::<A>(&servers).await];
    a_majority_fails_back_between(clients, &servers).await;
}

/// A replica that has not synchronized keeps its keys, so the server pushes nothing.
pub(crate) async fn a_replica_that_is_promoted_before_it_has_synchronized_is_noticed<A: Adapter>() {
    let servers = three();
    // The quarantine lasts until the test ends it, however slow the machine is.
    let redlock = guarded_for::<A>(Duration::from_secs(600), servers.iter().map(RedisServer::url));
    vouch(&redlock, servers.len()).await;
    for server in &servers[..2] {
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        server.command(&["REPLICAOF", "NO", "ONE"]);
    }
    let promoted = Some(QuarantineReason::Promoted);
    let noticed = async || reasons(&redlock.health().await) == [promoted, promoted, None];
    eventually("the promotions are noticed", QUARANTINE_LIMIT, noticed).await;
    no_second_holder(&redlock, "the promotions").await;
    vouch(&redlock, servers.len()).await;
    redlock.lock("a", LONGEST).await.unwrap().release().await.unwrap();
}

/// Temporarily makes a server the replica of another one. Afterwards it has the data of that server.
fn copy(to: &RedisServer, from: &RedisServer) {
    to.command(&["REPLICAOF", "127.0.0.1", &from.port().to_string()]);
    while !to.command(&["INFO", "replication"]).contains("master_link_status:up") {
        std::thread::sleep(Duration::from_millis(5));
    }
    to.command(&["REPLICAOF", "NO", "ONE"]);
}

/// Turns a majority into replicas and back into masters.
pub(super) async fn a_majority_fails_back_between([holder, other]: [Redlock; 2], servers: &[RedisServer]) {
    let replicas = RedisServer::start_many(2);
    for server in servers.iter().chain(&replicas) {
        server.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    }
    // The replicas have the stamps, and not the lock.
    for (server, replica) in servers.iter().zip(&replicas) {
        copy(replica, server);
    }
    let guard = holder.lock("a", LONGEST).await.unwrap();
    granted_by_all(&guard).await;
    for (server, replica) in servers.iter().zip(&replicas) {
        copy(server, replica);
        assert_eq!(["redlock:admission"], server.keys()[..], "the stamp only");
    }
    no_second_holder(&other, "the failback").await;
    let are_masters = async || {
        let reasons = reasons(&other.health().await);
        let passing = |reason: &QuarantineReason| {
            matches!(reason, QuarantineReason::Replica | QuarantineReason::NotChecked)
        };
        !reasons.iter().flatten().any(passing)
    };
    eventually("the servers are masters again", QUARANTINE_LIMIT, are_masters).await;
    no_second_holder(&other, "the failback").await;
    drop(guard);
}

pub(crate) async fn servers_may_restart_one_after_another<A: Adapter>() {
    let servers = three();
    let redlock = vouched::<A>(&servers).await;
    for server in &servers {
        server.restart_empty();
        let guard = redlock.lock("a", LONGEST).await.unwrap();
        guard.extend(LONGEST).await.unwrap();
        guard.release().await.unwrap();
        all_count(&redlock).await;
    }
}

pub(crate) async fn without_rights_to_the_stamp_the_uptime_counts<A: Adapter>() {
    let user = ["--user", "few", "on", ">secret", "~a", "~redlock-health-*", "&*", "+@all"];
    let mut server = RedisServer::builder();
    for word in user {
        server = server.arg(word);
    }
    let server = server.start();
    let redlock = guarded::<A>([server.url().replace("//", "//few:secret@")]);
    let health = redlock.health().await;
    assert_eq!([Some(QuarantineReason::NoPermission)], reasons(&health)[..]);
    let up = async || redlock.health().await.is_available();
    eventually("the server counts", QUARANTINE_LIMIT, up).await;
    for _ in 0..3 {
        redlock.lock("a", LONGEST).try_now().await.unwrap().unwrap().release().await.unwrap();
    }
    assert!(redlock.vouch(0).await.unwrap_err().to_string().contains("no permission"));
    server.restart_empty();
    let back =
        async || !matches!(reasons(&redlock.health().await)[..], [None | Some(QuarantineReason::NotChecked)]);
    eventually("the server is back", QUARANTINE_LIMIT, back).await;
    assert_eq!([Some(QuarantineReason::NoPermission)], reasons(&redlock.health().await)[..]);
}

pub(crate) async fn a_stamp_of_a_later_version_is_not_overwritten<A: Adapter>() {
    let server = RedisServer::start();
    server.command(&["SET", "redlock:admission", "2 later"]);
    let redlock = guarded::<A>([server.url()]);
    assert_eq!([Some(QuarantineReason::LaterVersion)], reasons(&redlock.health().await)[..]);
    assert!(redlock.vouch(0).await.is_err());
    assert_eq!("2 later", server.command(&["GET", "redlock:admission"]));
}

pub(crate) async fn ttls_above_longest_ttl_send_nothing<A: Adapter>() {
    let servers = three();
    let redlock = vouched::<A>(&servers).await;
    let (long, sets) = (2 * LONGEST, || servers[0].commandstats("set"));
    let guard = redlock.lock("a", LONGEST).await.unwrap();
    let before = sets();
    let error = redlock.lock("b", long).await.unwrap_err();
    assert_eq!("the TTL of 10s is longer than longest_ttl, 5s", error.to_string());
    assert_eq!(ErrorKind::InvalidInput, error.kind());
    assert_eq!(ErrorKind::InvalidInput, redlock.lock("b", long).try_now().await.unwrap_err().kind());
    assert_eq!(ErrorKind::InvalidInput, guard.extend(long).await.unwrap_err().kind());
    let foreign = redlock_core::DetachedLease::new("b", "token", long).unwrap();
    assert_eq!(ErrorKind::InvalidInput, redlock.resume(&foreign).await.unwrap_err().kind());
    for name in ["redlock:admission", "redlock:admission:x"] {
        let error = redlock.lock(name, LONGEST).await.unwrap_err();
        assert!(error.to_string().contains("reserved for the restart check"), "{error}");
    }
    assert_eq!(before, sets());
}

/// The steps of *A shorter longest TTL* in `docs/operating.md`.
pub(crate) async fn a_longer_ttl_of_another_program_is_shown_until_it_is_lowered<A: Adapter>() {
    let server = RedisServer::start();
    let options = Options::tokio().longest_ttl(2 * LONGEST);
    let other = A::builder_with([server.url()], &options).unwrap().build().unwrap();
    vouch(&other, 1).await;
    let redlock = guarded::<A>([server.url()]);
    vouch(&redlock, 1).await;
    eventually("the node counts", QUARANTINE_LIMIT, async || redlock.health().await.is_available()).await;
    let health = redlock.health().await;
    assert_eq!(Some(2 * LONGEST), health.nodes()[0].longer_ttl());
    assert!(health.to_string().contains("keeps a longest TTL of 10s of another program"), "{health}");
    assert_eq!(None, other.health().await.nodes()[0].longer_ttl(), "its own");
    drop(other);

    assert_eq!("1", server.command(&["DEL", "redlock:admission"]));
    let is_out = async || reasons(&redlock.health().await)[0] == Some(QuarantineReason::DataLost);
    eventually("the server is in quarantine", QUARANTINE_LIMIT, is_out).await;
    assert_eq!(None, redlock.health().await.nodes()[0].longer_ttl());
    let stamp = server.command(&["GET", "redlock:admission"]);
    assert!(stamp.ends_with(" 5000"), "{stamp}");
    // A program that has seen the longer value still applies it.
    let started_later = guarded::<A>([server.url()]);
    // On a busy computer, the server may reply too late for a single health check.
    let remaining = async |client: &Redlock| {
        let mut left = None;
        eventually("the remaining time is known", QUARANTINE_LIMIT, async || {
            let health = client.health().await;
            left = health.nodes()[0].quarantine().and_then(|quarantine| quarantine.remaining);
            left.is_some()
        })
        .await;
        left.unwrap()
    };
    let longer = remaining(&redlock).await;
    assert!(remaining(&started_later).await + Duration::from_secs(2) < longer);
    for client in [&started_later, &redlock] {
        eventually("it counts", QUARANTINE_LIMIT, async || client.health().await.is_available()).await;
    }
}

pub(crate) async fn without_longest_ttl_nothing_is_checked<A: Adapter>() {
    let servers = three();
    let redlock = warm::<A>(&servers).await;
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
    // The script of a release reads the key.
    let reads = || servers.iter().map(|server| server.commandstats("get")).collect::<Vec<_>>();
    let before = reads();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(before, reads());
    assert!(servers.iter().all(|server| server.commandstats("eval") == 0));
    assert_eq!(ErrorKind::Unsupported, redlock.vouch(0).await.unwrap_err().kind());
    nothing_left(&redlock, &servers).await;
}
