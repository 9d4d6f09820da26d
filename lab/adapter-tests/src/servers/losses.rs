//! Clients contend for a lock while servers lose their data, and a witness counts leases that overlap.
//!
//! `scripts/losses` runs this for minutes, and prints the figures.
#![allow(clippy::print_stdout)] // the figures

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redlock_core::Lease;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::*;

/// The resulting quarantine is 6 s.
const HELD: Duration = Duration::from_secs(5);

/// The time between two losses. The quarantine of the first loss ends within it.
const BETWEEN: Duration = Duration::from_secs(8);

/// The environment variable for the duration of a run, which `scripts/losses` sets.
const SECONDS: &str = "REDLOCK_LOSSES_SECONDS";

/// The witness of one lock: the leases that were granted last, and what it has counted.
#[derive(Default)]
pub(super) struct Witness {
    leases: Mutex<Vec<Lease>>,
    pub(super) grants: AtomicU64,
    pub(super) overlaps: AtomicU64,
    losses: AtomicU64,
    pub(super) over: AtomicBool,
}

impl Witness {
    /// Records a lease that was granted or extended just now, and counts the others that are valid.
    pub(super) fn record(&self, lease: &Lease) {
        let mut leases = self.leases.lock().unwrap();
        // A loss is reported before the validity ends, and others are excluded until then.
        let is_valid = |lease: &Lease| !lease.remaining().is_zero();
        leases.retain(is_valid);
        let others = leases.iter().filter(|other| other.fingerprint() != lease.fingerprint());
        let overlaps = others.filter(|other| is_valid(other) && is_valid(lease)).count();
        self.overlaps.fetch_add(overlaps as u64, Ordering::Relaxed);
        self.grants.fetch_add(1, Ordering::Relaxed);
        leases.push(lease.clone());
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends a run, and waits for its tasks.
    pub(super) fn end(&self, runtime: &Runtime, tasks: Vec<JoinHandle<()>>) {
        self.over.store(true, Ordering::Relaxed);
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

/// Acquires the lock repeatedly and holds it for most of this TTL. Some locks are extended, and some expire.
pub(super) async fn contend(redlock: Redlock, ttl: Duration, witness: Arc<Witness>) {
    while !witness.is_over() {
        let Ok(Some(guard)) = redlock.lock("a", ttl).try_now().await else {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(5..50))).await;
            continue;
        };
        witness.record(&guard.lease());
        tokio::time::sleep(ttl / 10 * fastrand::u32(1..9)).await;
        if fastrand::bool() && guard.extend(ttl).await.is_ok() {
            witness.record(&guard.lease());
            tokio::time::sleep(ttl / 2).await;
        }
        if fastrand::bool() {
            drop(guard.release().await);
        } else {
            drop(guard.detach().await);
        }
    }
}

/// Makes two of three servers lose their data.
fn lose(servers: &[RedisServer], copies: &[RedisServer]) {
    let first = fastrand::usize(0..3);
    for (server, copy) in [first, (first + 1) % 3].into_iter().map(|index| &servers[index]).zip(copies) {
        match fastrand::u8(0..5) {
            0 => server.restart_empty(),
            1 => server.restart(), // from the last snapshot
            2 => drop(server.command(&["FLUSHALL"])),
            3 => {
                server.command(&["REPLICAOF", "127.0.0.1", &copy.port().to_string()]);
                while !server.command(&["INFO", "replication"]).contains("master_link_status:up") {
                    std::thread::sleep(Duration::from_millis(5));
                }
                server.command(&["REPLICAOF", "NO", "ONE"]);
            }
            _ => {
                server.pause();
                std::thread::sleep(Duration::from_millis(300));
                server.resume();
                server.restart_empty();
            }
        }
    }
    // A later restart uses this snapshot, which is older than the locks at that time.
    for server in servers {
        server.reply(&[b"SAVE"]);
    }
}

/// Returns the number of overlaps. The environment sets the duration in seconds and the number of concurrent clusters.
fn overlaps<A: Adapter>(options: &Options) -> u64 {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let time = Duration::from_secs(number(SECONDS, 20));
    let clusters = number("REDLOCK_LOSSES_CLUSTERS", 1);
    let all: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..clusters).map(|_| scope.spawn(|| cluster::<A>(options, time))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let sum = |part: fn(&Witness) -> &AtomicU64| -> u64 {
        all.iter().map(|witness| part(witness).load(Ordering::Relaxed)).sum()
    };
    let (grants, overlaps, losses) = (sum(|w| &w.grants), sum(|w| &w.overlaps), sum(|w| &w.losses));
    let seconds = time.as_secs();
    println!("{clusters} clusters, {seconds} s: {losses} losses, {grants} grants, {overlaps} overlaps");
    // Two servers lose their data about every 8 s, and the lock is usually acquired again after each of these losses.
    assert!(losses >= clusters * seconds / 10, "{losses} losses");
    assert!(grants > losses / 4, "{grants} grants, {losses} losses");
    overlaps
}

fn cluster<A: Adapter>(options: &Options, time: Duration) -> Arc<Witness> {
    let start = || RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0").start();
    let servers: Vec<_> = (0..3).map(|_| start()).collect();
    let copies: Vec<_> = (0..2).map(|_| start()).collect();
    let witness = Arc::new(Witness::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let clients: Vec<_> = (0..4)
        .map(|_| A::builder_with(servers.iter().map(RedisServer::url), options).unwrap().build().unwrap())
        .collect();
    runtime.block_on(async {
        if clients[0].health().await.nodes().iter().any(|node| node.quarantine().is_some()) {
            for index in 0..3 {
                clients[0].vouch(index).await.unwrap();
            }
        }
    });
    let contending = clients.iter().map(|redlock| contend(redlock.clone(), HELD, Arc::clone(&witness)));
    let tasks: Vec<_> = contending.map(|task| runtime.spawn(task)).collect();
    let end = Instant::now() + time;
    std::thread::sleep(Duration::from_secs(2));
    while Instant::now() < end {
        lose(&servers, &copies);
        witness.losses.fetch_add(2, Ordering::Relaxed);
        std::thread::sleep(BETWEEN.mul_f64(0.8 + 0.4 * fastrand::f64()).min(end - Instant::now().min(end)));
    }
    witness.end(&runtime, tasks);
    witness
}

pub(crate) fn leases_never_overlap_while_servers_lose_data<A: Adapter>() {
    assert_eq!(0, overlaps::<A>(&Options::tokio().longest_ttl(HELD)));
}

/// Without restart admission, a second client acquires the lock after a loss, and the witness counts the overlap.
///
/// Random losses do not always lead to an overlap, so only `scripts/losses` requires one of them.
pub(crate) fn leases_overlap_without_restart_admission<A: Adapter>() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let client = || A::builder(servers.iter().map(RedisServer::url)).unwrap().build().unwrap();
    let witness = Witness::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (one, other) = (client(), client());
        let first = one.lock("a", Duration::from_secs(60)).await.unwrap();
        witness.record(&first.lease());
        for server in &servers {
            server.command(&["FLUSHALL"]);
        }
        let second = other.lock("a", Duration::from_secs(60)).await.unwrap();
        witness.record(&second.lease());
    });
    assert_eq!(1, witness.overlaps.into_inner());
    if std::env::var_os(SECONDS).is_some() {
        assert!(overlaps::<A>(&Options::tokio()) > 0);
    }
}
