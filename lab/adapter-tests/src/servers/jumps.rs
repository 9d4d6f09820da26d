//! Clients rely on the whole validity of a lock while clocks of servers jump, and a witness counts leases that overlap.
//!
//! `scripts/clocks` runs this for minutes, with and without the check of clocks, and prints the figures.
#![allow(clippy::print_stdout)] // the figures

use std::sync::atomic::Ordering;

use super::losses::Witness;
use super::*;
use crate::clock::WrongClock;

/// The resulting quarantine is 6 s.
const HELD: Duration = Duration::from_secs(3);

/// The environment variable for the duration of a run, which `scripts/clocks` sets.
const SECONDS: &str = "REDLOCK_CLOCKS_SECONDS";

/// The clocks of three servers.
struct Clocks {
    name: &'static str,
    /// By which share each clock runs fast.
    rates: [f64; 3],
    /// The number of clocks that are set forward each time, by how many seconds, and after which time.
    steps: Option<(usize, f64, f64)>,
}

const fn fast(name: &'static str, rates: [f64; 3]) -> Clocks {
    Clocks { name, rates, steps: None }
}

const fn stepping(name: &'static str, clocks: usize, by: f64, after: f64) -> Clocks {
    Clocks { name, rates: [0.0; 3], steps: Some((clocks, by, after)) }
}

const ALL: [Clocks; 9] = [
    fast("right", [0.0; 3]),
    fast("one is 8.3 % fast", [0.083, 0.0, 0.0]),
    fast("two are 8.3 % fast", [0.083, 0.083, 0.0]),
    fast("one is 3 % fast", [0.03, 0.0, 0.0]),
    stepping("one steps by 10 s, every 2 s", 1, 10.0, 2.0),
    stepping("one steps by 0.5 s, every 2 s", 1, 0.5, 2.0),
    stepping("one steps by 0.5 s, every 9 s", 1, 0.5, 9.0),
    stepping("two step by 10 s, every 9 s", 2, 10.0, 9.0),
    stepping("two step by 0.5 s, every 9 s", 2, 0.5, 9.0),
];

/// Acquires the lock repeatedly, and relies on it until its validity ends. Some locks are extended before,
/// and most are not released.
async fn rely(redlock: Redlock, witness: Arc<Witness>) {
    while !witness.is_over() {
        let Ok(Some(guard)) = redlock.lock("a", HELD).try_now().await else {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..10))).await;
            continue;
        };
        witness.record(&guard.lease());
        if fastrand::bool() {
            tokio::time::sleep(HELD / 2).await;
            if guard.extend(HELD).await.is_ok() {
                witness.record(&guard.lease());
            }
        }
        while guard.is_held() {
            tokio::time::sleep(guard.remaining()).await;
        }
        // A key that expires is not free on all nodes at the same moment, so the next lock may be on a quorum only.
        if fastrand::u8(0..4) == 0 {
            drop(guard.release().await);
        } else {
            drop(guard.detach().await);
        }
    }
}

/// Returns the witness of a run.
fn run<A: Adapter>(clocks: &Clocks, options: &Options, time: Duration) -> Arc<Witness> {
    let servers = clocks.rates.map(WrongClock::start);
    let witness = Arc::new(Witness::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let urls = || servers.iter().map(|clock| clock.server.url());
    let clients: Vec<_> =
        (0..3).map(|_| A::builder_with(urls(), options).unwrap().build().unwrap()).collect();
    runtime.block_on(async {
        for client in &clients {
            // All have watched the clocks before the first lock.
            for index in 0..3 {
                let _ = client.vouch(index).await;
            }
        }
    });
    let tasks: Vec<_> =
        clients.iter().map(|client| runtime.spawn(rely(client.clone(), Arc::clone(&witness)))).collect();
    let end = Instant::now() + time;
    let mut ahead = [0.0; 3];
    while Instant::now() < end {
        let (number, by, after) = clocks.steps.unwrap_or((0, 0.0, 1.0));
        let after = Duration::from_secs_f64(after * (0.8 + 0.4 * fastrand::f64()));
        std::thread::sleep(after.min(end.saturating_duration_since(Instant::now())));
        let first = if number == 1 { 0 } else { fastrand::usize(0..3) };
        for index in (0..number).map(|more| (first + more) % 3) {
            ahead[index] += by;
            servers[index].set_ahead(ahead[index]);
        }
    }
    witness.over.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    witness
}

/// Runs all clocks at the same time, and prints the figures. Returns the grants and overlaps of each.
fn figures<A: Adapter>(clocks: &[Clocks], options: &Options, time: Duration) -> Vec<(u64, u64)> {
    let witnesses: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            clocks.iter().map(|clocks| scope.spawn(|| run::<A>(clocks, options, time))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let checked = if options.has_longest_ttl() { "checked" } else { "not checked" };
    let figures = witnesses
        .iter()
        .map(|witness| (witness.grants.load(Ordering::Relaxed), witness.overlaps.load(Ordering::Relaxed)));
    let figures: Vec<_> = figures.collect();
    for (Clocks { name, .. }, (grants, overlaps)) in clocks.iter().zip(&figures) {
        println!("{checked}, {name}: {grants} grants, {overlaps} overlaps");
    }
    figures
}

pub(crate) fn leases_never_overlap_while_clocks_jump<A: Adapter>() {
    let checked = Options::tokio().longest_ttl(HELD);
    let seconds = std::env::var(SECONDS).ok().map(|text| Duration::from_secs(text.parse().unwrap()));
    let Some(time) = seconds else {
        let figures = figures::<A>(&ALL[4..5], &checked, Duration::from_secs(12));
        assert!(figures[0].0 > 0, "{figures:?}");
        assert_eq!(0, figures[0].1);
        return;
    };
    let (checked, unchecked) = std::thread::scope(|scope| {
        let unchecked = scope.spawn(|| figures::<A>(&ALL, &Options::tokio(), time));
        (figures::<A>(&ALL, &checked, time), unchecked.join().unwrap())
    });
    assert!(checked.iter().all(|(_, overlaps)| *overlaps == 0), "{checked:?}");
    assert_eq!(0, unchecked[0].1, "the clocks are right");
    let overlapping = unchecked[1..].iter().filter(|(_, overlaps)| *overlaps > 0).count();
    assert!(overlapping > 5, "{unchecked:?}");
}
