//! Clients rely on the whole validity of a lock while clocks of servers jump, and a witness counts leases that overlap.
//!
//! `scripts/clocks` runs this for minutes, with and without the check of clocks, and prints the figures.
#![allow(clippy::print_stdout)] // the figures

use std::sync::atomic::Ordering;

use redlock_core::KeepAlive;

use super::losses::Witness;
use super::*;
use crate::clock::WrongClock;

/// The default TTL of a setting. The resulting quarantine is 6 s.
const HELD: Duration = Duration::from_secs(3);

/// The environment variable for the duration of a run, which `scripts/clocks` sets.
const SECONDS: &str = "REDLOCK_CLOCKS_SECONDS";

/// The environment variable for a part of the names of settings, which `scripts/clocks` sets. Others do not run.
const ONLY: &str = "REDLOCK_CLOCKS_ONLY";

/// The clocks of three servers, and the locks of their clients.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    /// By which share each clock runs fast.
    rates: [f64; 3],
    /// The number of clocks that are set forward each time, by how many seconds, and after which time.
    steps: Option<(usize, f64, f64)>,
    ttl: Duration,
    drift_factor: f64,
    /// True if locks are renewed for several TTLs.
    are_renewed: bool,
}

const RIGHT: Setting = Setting {
    name: "right",
    rates: [0.0; 3],
    steps: None,
    ttl: HELD,
    drift_factor: 0.01,
    are_renewed: false,
};

const fn fast(name: &'static str, rates: [f64; 3]) -> Setting {
    Setting { name, rates, ..RIGHT }
}

const fn stepping(name: &'static str, clocks: usize, by: f64, after: f64) -> Setting {
    Setting { name, steps: Some((clocks, by, after)), ..RIGHT }
}

const ALL: [Setting; 14] = [
    RIGHT,
    fast("one is 8.3 % fast", [0.083, 0.0, 0.0]),
    fast("two are 8.3 % fast", [0.083, 0.083, 0.0]),
    Setting { ttl: Duration::from_secs(20), ..fast("two are 8.3 % fast, TTL 20 s", [0.083, 0.083, 0.0]) },
    Setting { drift_factor: 0.1, ..fast("two are 8.3 % fast, drift factor 0.1", [0.083, 0.083, 0.0]) },
    fast("all are 8.3 % fast, as for a client whose clock is slow", [0.083; 3]),
    fast("one is 3 % fast", [0.03, 0.0, 0.0]),
    Setting { ttl: Duration::from_secs(10), ..fast("two are 1.5 % fast, TTL 10 s", [0.015, 0.015, 0.0]) },
    stepping("one steps by 10 s, every 2 s", 1, 10.0, 2.0),
    stepping("one steps by 0.5 s, every 2 s", 1, 0.5, 2.0),
    stepping("one steps by 0.5 s, every 9 s", 1, 0.5, 9.0),
    stepping("two step by 10 s, every 9 s", 2, 10.0, 9.0),
    stepping("two step by 0.5 s, every 9 s", 2, 0.5, 9.0),
    Setting { are_renewed: true, ..stepping("two step by 10 s, every 9 s, renewed locks", 2, 10.0, 9.0) },
];

impl Setting {
    /// Returns whether the clocks violate the condition of programs that do not check them.
    fn is_wrong(&self) -> bool {
        self.steps.is_some() || self.rates.iter().any(|rate| *rate > self.drift_factor)
    }

    fn builder<A: Adapter>(&self, servers: &[WrongClock; 3], checked: bool) -> Builder {
        let options = Options::tokio();
        let options = if checked { options.longest_ttl(self.ttl) } else { options };
        let builder = A::builder_with(servers.iter().map(|clock| clock.server.url()), &options).unwrap();
        builder.clock_drift_factor(self.drift_factor)
    }
}

/// Acquires the lock repeatedly, and relies on it until its validity ends. Some locks are extended before,
/// and most are not released.
async fn rely(redlock: Redlock, setting: Setting, witness: Arc<Witness>) {
    let ttl = setting.ttl;
    while !witness.is_over() {
        let request = redlock.lock("a", ttl);
        let request = if setting.are_renewed { request.keep_alive(KeepAlive::new()) } else { request };
        let Ok(Some(guard)) = request.try_now().await else {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(5..30))).await;
            continue;
        };
        witness.record(&guard.lease());
        if setting.are_renewed {
            // A loss ends the wait.
            let _ = tokio::time::timeout(3 * ttl, guard.lost()).await;
        } else {
            if fastrand::bool() {
                tokio::time::sleep(ttl / 2).await;
                if guard.extend(ttl).await.is_ok() {
                    witness.record(&guard.lease());
                }
            }
            while !guard.remaining().is_zero() {
                tokio::time::sleep(guard.remaining()).await;
            }
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
fn run<A: Adapter>(setting: &Setting, checked: bool, time: Duration) -> Arc<Witness> {
    let servers = setting.rates.map(WrongClock::start);
    let witness = Arc::new(Witness::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let clients: Vec<_> = (0..3).map(|_| setting.builder::<A>(&servers, checked).build().unwrap()).collect();
    runtime.block_on(async {
        for client in &clients {
            // All have watched the clocks before the first lock.
            for index in 0..3 {
                let _ = client.vouch(index).await;
            }
        }
    });
    let rely = |client: &Redlock| runtime.spawn(rely(client.clone(), *setting, Arc::clone(&witness)));
    let tasks: Vec<_> = clients.iter().map(rely).collect();
    let end = Instant::now() + time;
    let mut ahead = [0.0; 3];
    while Instant::now() < end {
        let (number, by, after) = setting.steps.unwrap_or((0, 0.0, 1.0));
        let after = Duration::from_secs_f64(after * (0.8 + 0.4 * fastrand::f64()));
        std::thread::sleep(after.min(end.saturating_duration_since(Instant::now())));
        let first = if number == 1 { 0 } else { fastrand::usize(0..3) };
        for index in (0..number).map(|more| (first + more) % 3) {
            ahead[index] += by;
            servers[index].set_ahead(ahead[index]);
        }
    }
    witness.end(&runtime, tasks);
    witness
}

/// Runs all settings at the same time, and prints the figures. Returns the grants and overlaps of each.
fn figures<A: Adapter>(settings: &[Setting], checked: bool, time: Duration) -> Vec<(u64, u64)> {
    let witnesses: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            settings.iter().map(|setting| scope.spawn(move || run::<A>(setting, checked, time))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let is_checked = if checked { "checked" } else { "not checked" };
    let figures = witnesses
        .iter()
        .map(|witness| (witness.grants.load(Ordering::Relaxed), witness.overlaps.load(Ordering::Relaxed)));
    let figures: Vec<_> = figures.collect();
    for (Setting { name, .. }, (grants, overlaps)) in settings.iter().zip(&figures) {
        println!("{is_checked}, {name}: {grants} grants, {overlaps} overlaps");
    }
    figures
}

pub(crate) fn leases_never_overlap_while_clocks_jump<A: Adapter>() {
    let seconds = std::env::var(SECONDS).ok().map(|text| Duration::from_secs(text.parse().unwrap()));
    let Some(time) = seconds else {
        let figures = figures::<A>(&ALL[8..9], true, Duration::from_secs(12));
        assert!(figures[0].0 > 0, "{figures:?}");
        assert_eq!(0, figures[0].1);
        return;
    };
    let only = std::env::var(ONLY).unwrap_or_default();
    let settings: Vec<_> = ALL.into_iter().filter(|setting| setting.name.contains(&only)).collect();
    assert!(!settings.is_empty(), "no setting is named {only}");
    let (checked, unchecked) = std::thread::scope(|scope| {
        let unchecked = scope.spawn(|| figures::<A>(&settings, false, time));
        (figures::<A>(&settings, true, time), unchecked.join().unwrap())
    });
    assert!(checked.iter().all(|(_, overlaps)| *overlaps == 0), "{checked:?}");
    let (wrong, right): (Vec<_>, Vec<_>) =
        settings.iter().zip(&unchecked).partition(|(setting, _)| setting.is_wrong());
    for (Setting { name, .. }, (_, overlaps)) in right {
        assert_eq!(0, *overlaps, "{name}");
    }
    let overlapping = wrong.iter().filter(|(_, (_, overlaps))| *overlaps > 0).count();
    assert!(overlapping + 2 >= wrong.len(), "{unchecked:?}");
}
