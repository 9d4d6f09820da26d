//! Clients contend for a lock while masters fail and replicas are promoted. A witness counts leases that overlap.
//!
//! `scripts/failovers` runs this for minutes, and prints the figures.
#![allow(clippy::print_stdout)] // the figures

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use redlock_core::Lease;

use super::admission::guarded_for;
use super::failover::Follower;
use super::losses::Witness;
use super::*;
use crate::sentinels::{Monitored, Replicated, until};
use crate::shards::Cluster;

/// The TTL of the locks. The resulting quarantine is 14 s.
const HELD: Duration = Duration::from_secs(5);

/// The environment variable for the number of failovers, which `scripts/failovers` sets.
const FAILOVERS: &str = "REDLOCK_FAILOVERS";

/// The lifetime of the clients that connect again and again.
const LIFETIME: Duration = Duration::from_secs(3);

/// The end of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It is killed, and restarts without its data after the failover.
    Killed,
    /// It is stopped, and goes on as a master after the failover.
    Paused,
    /// An operator starts the failover.
    Manual,
    /// Clients can reach it. Sentinels cannot, so it stays a master until the next one grants locks. In a cluster, its
    /// replica takes over without the votes of the masters.
    CutOff,
}

const ENDS: [End; 4] = [End::Killed, End::Paused, End::Manual, End::CutOff];

/// The master is that of the lock's slot.
impl Replicated for Cluster {
    fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    fn wait_until_whole(&self) {
        self.wait_until_whole();
    }

    fn master(&self) -> Option<usize> {
        self.master_of(LOCK)
    }

    fn wait_for_another(&self, before: usize) -> usize {
        self.wait_for_another(LOCK, before)
    }

    fn cut_off_replicas(&self, master: usize) {
        self.cut_off_replicas(master);
    }

    fn replace(&self, master: usize) {
        self.fail_over(master, "TAKEOVER");
    }

    fn reconnect(&self, server: usize) {
        self.reconnect(server);
    }

    fn fail_over(&self) {
        let master = self.master_of(LOCK).unwrap();
        self.fail_over(master, "FORCE");
    }
}

/// The name of the lock, and of one in its slot that is free most of the time.
const LOCK: &str = "a";
const PROBE: &str = "{a}probe";

/// The counts of a run.
#[derive(Default)]
struct Seen {
    /// The times of the grants of another resource, which a task requests all the time.
    probes: Mutex<Vec<Instant>>,
    /// The time without a grant and the number of overlaps of each failover, for each end of a master.
    failovers: Mutex<BTreeMap<End, Vec<(Duration, u64)>>>,
}

/// Acquires the lock repeatedly and holds it. Some locks are not released and expire.
async fn contend(mut client: impl FnMut() -> Redlock, lifetime: Duration, witness: Arc<Witness>) {
    while !witness.is_over() {
        let (redlock, start) = (client(), Instant::now());
        while !witness.is_over() && start.elapsed() < lifetime {
            let Ok(Some(guard)) = redlock.lock(LOCK, HELD).try_now().await else {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(5..50))).await;
                continue;
            };
            let lease: Lease = guard.lease();
            witness.record(&lease);
            tokio::time::sleep(HELD / 10 * fastrand::u32(1..9)).await;
            if fastrand::bool() {
                drop(guard.release().await);
            } else {
                drop(guard.detach().await);
            }
        }
        redlock.close().await;
    }
}

/// Acquires and releases another lock, and records the times.
///
/// A client that fails is replaced from time to time: one that trusts the master that a server names does not notice that
/// its connection leads to a replica of a cluster.
async fn probe(client: impl Fn() -> Redlock, seen: Arc<Seen>, witness: Arc<Witness>) {
    let (mut redlock, mut start) = (client(), Instant::now());
    while !witness.is_over() {
        match redlock.lock(PROBE, HELD).try_now().await {
            Ok(Some(guard)) => {
                seen.probes.lock().unwrap().push(Instant::now());
                drop(guard.release().await);
            }
            Err(_) if start.elapsed() > LIFETIME => {
                redlock.close().await;
                (redlock, start) = (client(), Instant::now());
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets the master fail in this way, and waits until locks are granted again.
fn fail(monitored: &impl Replicated, end: End, seen: &Seen, witness: &Witness) {
    monitored.wait_until_whole();
    let granted_after = |time: Instant| seen.probes.lock().unwrap().last().is_some_and(|last| *last > time);
    // Some holders of the contended lock let it expire.
    let granted_more = || {
        let earlier = witness.grants.load(Ordering::Relaxed);
        move || witness.grants.load(Ordering::Relaxed) > earlier
    };
    let whole = Instant::now();
    until("the contended lock is granted", granted_more());
    until("locks are granted", || granted_after(whole));
    let master = monitored.master().unwrap();
    let before = witness.overlaps.load(Ordering::Relaxed);
    // The locks of this time are lost with the master.
    monitored.cut_off_replicas(master);
    std::thread::sleep(Duration::from_millis(fastrand::u64(500..2500)));
    let failed = Instant::now();
    match end {
        End::Killed => monitored.servers()[master].kill(),
        End::Paused => monitored.servers()[master].pause(),
        End::Manual => monitored.fail_over(),
        End::CutOff => monitored.replace(master),
    }
    monitored.wait_for_another(master);
    let promoted = Instant::now();
    match end {
        End::Killed => monitored.servers()[master].restart(),
        End::Paused => monitored.servers()[master].resume(),
        End::Manual | End::CutOff => {}
    }
    // A client may use the former master for about three seconds, which is no risk until the quarantine is over.
    until("locks are granted after the failover", || granted_after(promoted + Duration::from_secs(4)));
    until("the contended lock is granted after the failover", granted_more());
    if end == End::CutOff {
        // The former master grants locks for as long as a quarantine, to clients that are still connected to it.
        let time = Duration::from_secs(16);
        std::thread::sleep((promoted + time).saturating_duration_since(Instant::now()));
    }
    if end != End::Killed {
        monitored.reconnect(master);
    }
    let probes = seen.probes.lock().unwrap();
    let first = probes.partition_point(|time| *time < failed).saturating_sub(1);
    let gap = probes[first..].windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    drop(probes);
    let overlaps = witness.overlaps.load(Ordering::Relaxed) - before;
    seen.failovers.lock().unwrap().entry(end).or_default().push((gap, overlaps));
}

/// Ends the tasks of a run, even if a failover panics.
struct Over<'a>(&'a Witness);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// Runs failovers of one group of servers.
fn group<S: Replicated>(
    servers: &(dyn Fn() -> S + Sync),
    client: &(dyn Fn(&S) -> Redlock + Sync),
    failovers: u64,
    start: usize,
) -> (Arc<Witness>, Arc<Seen>) {
    let monitored = servers();
    let (witness, seen) = (Arc::new(Witness::default()), Arc::new(Seen::default()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let new = || client(&monitored);
    std::thread::scope(|scope| {
        let _over = Over(&witness);
        runtime.block_on(async {
            let first = new();
            if first.health().await.nodes().iter().any(|node| node.quarantine().is_some()) {
                first.vouch(0).await.unwrap();
            }
            first.close().await;
        });
        let (witness, seen, new) = (&witness, &seen, &new);
        for lifetime in [Duration::MAX, Duration::MAX, LIFETIME, LIFETIME] {
            let handle = runtime.handle().clone();
            scope.spawn(move || handle.block_on(contend(new, lifetime, Arc::clone(witness))));
        }
        let handle = runtime.handle().clone();
        scope.spawn(move || handle.block_on(probe(new, Arc::clone(seen), Arc::clone(witness))));
        for failover in 0..failovers {
            let end = ENDS[(start + usize::try_from(failover).unwrap()) % ENDS.len()];
            fail(&monitored, end, seen, witness);
        }
    });
    (witness, seen)
}

/// Returns the number of overlaps. The environment sets the number of failovers, and of groups of servers.
fn overlaps<S: Replicated>(servers: &(dyn Fn() -> S + Sync), client: &(dyn Fn(&S) -> Redlock + Sync)) -> u64 {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (failovers, groups) = (number(FAILOVERS, 1), number("REDLOCK_FAILOVERS_GROUPS", 1));
    let all: Vec<_> = std::thread::scope(|scope| {
        let share = |group: u64| failovers / groups + u64::from(group < failovers % groups);
        let run = |index: u64| {
            let start = usize::try_from(index).unwrap();
            scope.spawn(move || group(servers, client, share(index), start))
        };
        let runs: Vec<_> = (0..groups).map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let sum = |part: fn(&Witness) -> u64| -> u64 { all.iter().map(|(witness, _)| part(witness)).sum() };
    let grants = sum(|witness| witness.grants.load(Ordering::Relaxed));
    let overlaps = sum(|witness| witness.overlaps.load(Ordering::Relaxed));
    println!("{failovers} failovers, {groups} groups of servers: {grants} grants, {overlaps} overlaps");
    for end in ENDS {
        let of_end = |seen: &Seen| seen.failovers.lock().unwrap().get(&end).cloned();
        let mut failovers: Vec<_> = all.iter().filter_map(|(_, seen)| of_end(seen)).flatten().collect();
        failovers.sort_unstable();
        let with_overlaps = failovers.iter().filter(|(_, overlaps)| *overlaps > 0).count();
        let count = failovers.len();
        if let (Some((longest, _)), Some((median, _))) = (failovers.last(), failovers.get(count / 2)) {
            println!(
                "  {end:?}: {count} failovers, {with_overlaps} with overlaps; \
                 no locks for {median:.1?} (median), {longest:.1?} (longest)"
            );
        }
    }
    assert!(grants > failovers, "{grants} grants");
    overlaps
}

/// Leases never overlap, and with `scripts/failovers` those of clients that trust the master that a sentinel names do.
///
/// A single failover does not always lead to an overlap. The tests of `failover` cause one for certain.
pub(crate) fn leases_never_overlap_while_masters_fail<A: Adapter>() {
    let client = |monitored: &Monitored| guarded_for::<A>(HELD, [monitored.url()]);
    assert_eq!(0, overlaps(&Monitored::start, &client));
    if std::env::var_os(FAILOVERS).is_some() {
        println!("without restart admission:");
        assert!(overlaps(&Monitored::start, &|monitored| Follower::<A>::client(monitored)) > 0);
    }
}

/// Same as the last one, for the masters of a shard. The tests of `cluster` show the second holder that there would be.
pub(crate) fn leases_never_overlap_while_shards_fail_over<A: Adapter>() {
    let client = |cluster: &Cluster| guarded_for::<A>(HELD, [cluster.url()]);
    assert_eq!(0, overlaps(&Cluster::with_replicas, &client));
}
