//! All servers restart without their data: one after the other under load, and all at once.
//!
//! The tests print the quarantine of each node.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redlock_core::node::QuarantineReason;
use redlock_core::{Error, KeepAlive, ReleaseOutcome};
use tokio::time::sleep;

use super::admission::{LONGEST, QUARANTINE_LIMIT, no_second_holder, reasons, vouch};
use super::*;

/// The shortest quarantine, which is longer than [`LONGEST`].
const QUARANTINE: Duration = Duration::from_secs(6);

/// The number of tasks that lock.
const TASKS: usize = 8;

/// The time between two locks of a task.
const REST: Duration = Duration::from_millis(40);

/// Returns the client of a program that has just started.
fn program<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    let options = Options::tokio().longest_ttl(LONGEST);
    let builder = A::builder_with(servers.iter().map(RedisServer::url), &options).unwrap();
    builder.node_timeout(LONGEST / 2).build().unwrap()
}

/// Tasks that lock again and again. They rest between their locks, so that most of the machine is left to other tests.
#[derive(Default)]
struct Load {
    locks: AtomicU64,
    failures: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Load {
    fn locks(&self) -> u64 {
        self.locks.load(Ordering::Relaxed)
    }

    async fn run(&self, redlock: &Redlock, name: &str) {
        while !self.over.load(Ordering::Relaxed) {
            match cycle(redlock, name).await {
                Ok(ReleaseOutcome::Released) => drop(self.locks.fetch_add(1, Ordering::Relaxed)),
                Ok(other) => self.fail(format!("{other:?}")),
                Err(error) => self.fail(error.to_string()),
            }
            sleep(REST).await;
        }
    }

    fn fail(&self, failure: String) {
        self.failures.lock().unwrap().push(failure);
    }
}

async fn cycle(redlock: &Redlock, name: &str) -> Result<ReleaseOutcome, Error> {
    let guard = redlock.lock(name, LONGEST).await?;
    guard.extend(LONGEST).await?;
    guard.release().await
}

/// Returns whether all servers count for a program that has just started, as `redlock health --all` does.
async fn all_count<A: Adapter>(servers: &[RedisServer]) -> bool {
    let redlock = program::<A>(servers);
    let healthy = redlock.health().await.healthy_nodes();
    redlock.close().await;
    sleep(Duration::from_millis(100)).await;
    healthy == servers.len()
}

/// Follows the guide: the next server restarts when the grants of all servers count.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_rolling_restart_under_load_fails_no_lock<A: Adapter>() {
    let servers = five();
    let redlock = program::<A>(&servers);
    vouch(&redlock, servers.len()).await;
    let load = Arc::new(Load::default());
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (load, redlock) = (Arc::clone(&load), redlock.clone());
            tokio::spawn(async move { load.run(&redlock, &format!("task-{number}")).await })
        })
        .collect();
    let kept = redlock.lock("kept", LONGEST).keep_alive(KeepAlive::new()).await.unwrap();

    for (index, server) in servers.iter().enumerate() {
        server.restart_empty();
        let in_quarantine = async || {
            let health = redlock.health().await;
            let is_out = reasons(&health)[index] == Some(QuarantineReason::Restarted);
            if is_out {
                println!("{}", health.nodes()[index]);
            }
            is_out
        };
        eventually("the server is in quarantine", QUARANTINE_LIMIT, in_quarantine).await;
        let before = load.locks();
        eventually("every task acquires locks", QUARANTINE_LIMIT, async || {
            load.locks() >= before + TASKS as u64
        })
        .await;
        eventually("all servers count again", QUARANTINE_LIMIT, async || all_count::<A>(&servers).await)
            .await;
    }

    load.over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    println!("{} locks", load.locks());
    assert_eq!(Vec::<String>::new(), *load.failures.lock().unwrap());
    assert_eq!(ReleaseOutcome::Released, kept.release().await.unwrap(), "the lock was held throughout");
    redlock.close().await;
}

/// Restarts all servers without their data, as after a power cut. Returns a time before the first of them runs again.
fn cut_power(servers: &[RedisServer]) -> Instant {
    servers.iter().for_each(RedisServer::kill);
    let off = Instant::now();
    servers.iter().for_each(RedisServer::restart_empty);
    off
}

pub(crate) async fn after_a_power_cut_locks_are_granted_when_the_quarantine_is_over<A: Adapter>() {
    let servers = five();
    let before = program::<A>(&servers);
    vouch(&before, servers.len()).await;
    before.lock("a", LONGEST).await.unwrap().release().await.unwrap();
    let off = cut_power(&servers);
    let after = program::<A>(&servers);
    for redlock in [&before, &after] {
        let mut out = BTreeSet::new();
        let granted = async || match redlock.lock("a", LONGEST).try_now().await {
            Ok(guard) => {
                guard.expect("no other client locks").release().await.unwrap();
                true
            }
            Err(error) => {
                assert_eq!(ErrorKind::NoQuorum, error.kind(), "{error}");
                for node in error.node_reports().iter().filter(|node| node.quarantine().is_some()) {
                    if out.insert(node.index()) {
                        println!("{node}");
                    }
                }
                false
            }
        };
        eventually("locks are granted again", QUARANTINE_LIMIT, granted).await;
        assert!(off.elapsed() >= QUARANTINE, "granted after {:?}", off.elapsed());
        let all = async || redlock.health().await.healthy_nodes() == servers.len();
        eventually("all servers count again", QUARANTINE_LIMIT, all).await;
    }
    before.close().await;
    after.close().await;
}

pub(crate) async fn after_a_power_cut_vouching_ends_the_quarantine<A: Adapter>() {
    let servers = five();
    let redlock = program::<A>(&servers);
    vouch(&redlock, servers.len()).await;
    cut_power(&servers);
    let in_quarantine = async || {
        let reasons = reasons(&redlock.health().await);
        reasons.iter().flatten().filter(|reason| **reason != QuarantineReason::NotChecked).count() >= 3
    };
    eventually("a quorum is in quarantine", QUARANTINE_LIMIT, in_quarantine).await;
    no_second_holder(&redlock, "the power cut").await;
    for (index, server) in servers.iter().enumerate() {
        eventually("the server can be vouched for", QUARANTINE_LIMIT, async || {
            redlock.vouch(index).await.is_ok()
        })
        .await;
        let stamp = server.command(&["GET", "redlock:admission"]);
        assert_eq!(Some("0"), stamp.split(' ').nth(3), "the wait began long ago: {stamp}");
    }
    all_up(&redlock).await;
    redlock.lock("a", LONGEST).await.unwrap().release().await.unwrap();
    redlock.close().await;
}
