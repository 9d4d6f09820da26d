//! Programs that list different servers notice it.

#![allow(clippy::print_stdout)] // the figures

use std::sync::atomic::Ordering;

use redlock_core::NodeHealth;
use redlock_core::node::QuarantineReason;

use super::losses::Witness;
use super::*;
use crate::Adapter;

/// The environment variable for the duration of the contention, which `scripts/node-lists` sets.
pub(super) const SECONDS: &str = "REDLOCK_NODE_LISTS_SECONDS";

/// The TTL of the locks of programs that contend.
const CONTENDED_TTL: Duration = Duration::from_secs(2);

/// The longest time until both programs notice a difference, on a computer that is not busy.
const NOTICED: Duration = Duration::from_secs(1);

/// How many times longer than a request without the measured event a computer may take for what follows the event.
///
/// On an idle computer, requests take milliseconds, so this adds little to a limit. On a busy one, each of the round trips and
/// polls takes as much longer as the request did.
const PATIENT: u32 = 20;

/// Returns a time limit for a computer on which a request usually takes this time.
pub(super) fn limit(idle: Duration, usual: Duration) -> Duration {
    idle + PATIENT * usual
}

const DIFFER: &str = "node lists differ between programs";

/// The lists of two programs, and the number of servers in both.
const LISTS: [(&[usize], &[usize], usize); 4] = [
    (&[0, 1, 2], &[2, 3, 4], 1),
    (&[0, 1, 2], &[0, 1, 2, 3, 4], 3),
    (&[0, 1, 2], &[0, 1, 3], 2),
    (&[0], &[0, 1, 2], 1),
];

fn program<A: Adapter>(servers: &[RedisServer], numbers: &[usize]) -> Redlock {
    let urls = numbers.iter().map(|number| servers[*number].url());
    let builder = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT);
    builder.compare_node_lists(true).build().unwrap()
}

/// Returns a program whose list must agree with those of others.
fn agreeing<A: Adapter>(servers: &[RedisServer], numbers: &[usize]) -> Redlock {
    let urls = numbers.iter().map(|number| servers[*number].url());
    let builder = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT);
    builder.node_lists_must_agree(true).build().unwrap()
}

/// Requests one lock all the time. Returns the number of turns.
async fn contend(redlock: Redlock, witness: Arc<Witness>) -> u64 {
    let mut turns = 0;
    while !witness.is_over() {
        let Ok(guard) = redlock.lock("a", CONTENDED_TTL).max_wait(Duration::from_millis(200)).await else {
            continue;
        };
        witness.record(&guard.lease());
        tokio::task::yield_now().await;
        if fastrand::u8(0..8) == 0 && guard.extend(CONTENDED_TTL).await.is_ok() {
            witness.record(&guard.lease());
        }
        turns += 1;
        drop(guard.release().await);
    }
    turns
}

/// Two programs of each list contend. Those with the second list start later.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn lists_that_must_agree_exclude_each_other<A: Adapter>() {
    let seconds = std::env::var(SECONDS).ok().map(|seconds| seconds.parse().expect("a number"));
    for (one, two, _) in LISTS {
        let servers = five();
        let witness = Arc::new(Witness::default());
        let start = |list: &[usize]| {
            let programs = [agreeing::<A>(&servers, list), agreeing::<A>(&servers, list)];
            programs.map(|redlock| {
                let task = tokio::spawn(contend(redlock.clone(), Arc::clone(&witness)));
                (redlock, task)
            })
        };
        let first = start(one);
        let has_turns = || witness.grants.load(Ordering::Relaxed) > 0;
        eventually("the first programs have turns", PATIENCE, async || has_turns()).await;
        let before = Instant::now();
        first[0].0.health().await;
        let usual = before.elapsed();
        let (second, started) = (start(two), Instant::now());
        let is_noticed = async |redlock: &Redlock| {
            let health = redlock.health().await;
            let reasons = health.nodes().iter().filter_map(NodeHealth::quarantine).map(|out| out.reason);
            health.node_list_difference().is_some()
                || reasons.clone().any(|it| it == QuarantineReason::OtherNodeList)
        };
        eventually("the second program is blocked", PATIENCE, async || is_noticed(&second[0].0).await).await;
        let blocked = started.elapsed();
        eventually("the first program notices", PATIENCE, async || is_noticed(&first[0].0).await).await;
        let noticed = started.elapsed();
        tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(2))).await;
        witness.over.store(true, Ordering::Relaxed);
        let (mut turns, mut other_turns) = (0, 0);
        for (redlock, task) in first {
            turns += task.await.unwrap();
            redlock.close().await;
        }
        for (redlock, task) in second {
            other_turns += task.await.unwrap();
            redlock.close().await;
        }
        let overlaps = witness.overlaps.load(Ordering::Relaxed);
        println!(
            "{one:?} and {two:?}: {turns} and {other_turns} turns, {overlaps} overlaps; blocked after {blocked:.0?}, noticed by the first after {noticed:.0?}"
        );
        // A usual test asserts no speed.
        let longest = limit(NOTICED, usual);
        let is_in_time = seconds.is_none() || blocked <= longest && noticed <= longest;
        assert!(is_in_time, "noticed after {blocked:.0?} and {noticed:.0?}, at most {longest:.0?} expected");
        assert!(turns > 0, "the first programs continue");
        assert_eq!((0, 0), (other_turns, overlaps), "{one:?} {two:?}");
    }
}

async fn lock(redlock: &Redlock) {
    all_up(redlock).await;
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
}

pub(crate) async fn both_programs_notice_that_their_lists_differ<A: Adapter>() {
    for (one, two, common) in LISTS {
        let servers = five();
        let warnings = Warnings::default();
        let _subscribed = warnings.subscribe();
        let first = program::<A>(&servers, one);
        lock(&first).await;
        // By now the first program watches for other lists. It would look for them after ten seconds, otherwise.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(0, warnings.about(DIFFER));
        let second = program::<A>(&servers, two);
        lock(&second).await;
        eventually("both programs warn", PATIENCE, async || warnings.about(DIFFER) == 2).await;
        for (program, own, other) in [(&first, one, two), (&second, two, one)] {
            let health = program.health().await;
            let difference = health.node_list_difference().expect("a fresh comparison");
            let numbers = (difference.own_nodes(), difference.other_nodes(), difference.common_nodes());
            assert_eq!((own.len(), other.len(), common), numbers);
        }
        first.close().await;
        second.close().await;
        assert_eq!(Vec::<String>::new(), keys(&servers));
    }
}

/// A server that restarts is another one. Programs with the same list, in another order, agree all the time.
pub(crate) async fn programs_with_the_same_servers_agree_across_restarts<A: Adapter>() {
    let servers = five();
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    let programs = [&[0, 1, 2, 3, 4], &[4, 3, 2, 1, 0]].map(|numbers| program::<A>(&servers, numbers));
    for server in &servers[..3] {
        for program in &programs {
            lock(program).await;
        }
        server.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.restart();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(0, warnings.about(DIFFER));
    let announced =
        || servers.iter().map(|server| server.command(&["GET", "redlock:nodes"])).collect::<Vec<_>>();
    eventually("all servers have the same announcement", PATIENCE, async || {
        let announced = announced();
        announced.iter().all(|list| *list == announced[0] && list.starts_with("nodes 5 "))
    })
    .await;
    for program in &programs {
        assert_eq!(None, program.health().await.node_list_difference());
    }
}
