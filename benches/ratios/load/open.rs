//! Requests that arrive at a given rate, whether earlier ones have finished or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Plan;
use super::client::Kind;
use super::stage::{Ending, Stage};
use super::tally::{Attempt, Tally};
use crate::lane::Flavor;
use crate::report::Fact;

const GROUP: &str = "Demand: requests for different free names arrive at a given rate";

/// Multiples of the capacity.
const DEMANDS: [f64; 4] = [0.5, 1.0, 2.0, 10.0];

/// Goodput at the greatest demand, as a share of the greatest.
const GOAL: f64 = 0.9;

/// How long requests may take after the last has arrived: the default wait of 10 s, and what comes after it.
const LIMIT: Duration = Duration::from_secs(40);

/// No measurement has more requests than this.
const MOST: usize = 1_000_000;

/// Tasks that measure the capacity.
const TASKS: usize = 64;

/// How a client does as demand grows.
pub(super) struct Curve {
    pub(super) kind: Kind,
    capacity: f64,
    pub(super) points: Vec<Point>,
}

pub(super) struct Point {
    /// A multiple of the capacity.
    pub(super) demand: f64,
    pub(super) goodput: f64,
    tally: Tally,
    ending: Ending,
}

impl Point {
    /// In microseconds; `None` if nothing succeeded.
    pub(super) fn p99(&self) -> Option<f64> {
        self.tally.latency().map(|latency| latency.p99)
    }
}

pub(super) fn run(plan: &Plan) -> Vec<Curve> {
    let lasts = Duration::from_secs_f64(plan.seconds(5.0, 2.0, 0.1));
    plan.kinds.iter().map(|kind| curve(*kind, lasts)).collect()
}

fn curve(kind: Kind, lasts: Duration) -> Curve {
    let capacity = capacity(kind, lasts.min(Duration::from_secs(3)));
    let points = DEMANDS.map(|demand| point(kind, demand, capacity, lasts)).into();
    Curve { kind, capacity, points }
}

/// Cycles per second of tasks that each lock and release without a pause.
#[allow(clippy::cast_precision_loss)] // some thousands
fn capacity(kind: Kind, lasts: Duration) -> f64 {
    let stage = Stage::new(kind, Flavor::MultiThread);
    let cycles = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    stage.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let (client, cycles) = (stage.client.clone(), Arc::clone(&cycles));
                tokio::spawn(async move {
                    while start.elapsed() < lasts {
                        let done = client.cycle(format!("capacity-{number}")).await;
                        cycles.fetch_add(usize::from(done.is_ok()), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("requests do not panic");
        }
    });
    let capacity = cycles.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    stage.end("capacity-");
    capacity
}

fn point(kind: Kind, demand: f64, capacity: f64, lasts: Duration) -> Point {
    let stage = Stage::new(kind, Flavor::MultiThread);
    let (start, tasks) = arrivals(&stage, demand * capacity, lasts);
    let tally = stage.block_on(Tally::of(start, tasks, LIMIT));
    let goodput = tally.goodput(lasts);
    Point { demand, goodput, tally, ending: stage.end("open-") }
}

/// Starts requests at their times from this thread, which is none of the runtime's: a runtime that is busy does not delay
/// them. A request counts from the time at which it was due.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below a million
fn arrivals(stage: &Stage, rate: f64, lasts: Duration) -> (Instant, Vec<tokio::task::JoinHandle<Attempt>>) {
    let all = ((rate * lasts.as_secs_f64()) as usize).min(MOST);
    let mut tasks = Vec::with_capacity(all);
    let start = Instant::now();
    while tasks.len() < all {
        let due = ((start.elapsed().as_secs_f64() * rate) as usize).min(all);
        for number in tasks.len()..due {
            let client = stage.client.clone();
            let at = start + Duration::from_secs_f64(number as f64 / rate);
            let request = async move { Attempt::new(at, client.cycle(format!("open-{number}")).await) };
            tasks.push(stage.runtime.spawn(request));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (start, tasks)
}

pub(super) fn facts(curves: &[Curve]) -> Vec<Fact> {
    curves.iter().flat_map(facts_of).collect()
}

fn facts_of(curve: &Curve) -> Vec<Fact> {
    let name = curve.kind.name();
    let greatest = curve.points.iter().map(|point| point.goodput).fold(0.0, f64::max);
    let mut facts = vec![Fact {
        group: GROUP,
        what: format!("{name}: capacity"),
        measured: format!("{:.0}/s", curve.capacity),
        goal: None,
    }];
    for (position, point) in curve.points.iter().enumerate() {
        let last = position + 1 == curve.points.len() && curve.kind != Kind::Rslock;
        let latency = point.tally.latency().map_or("-".to_owned(), |latency| {
            format!("p50 {:.1} ms, p99 {:.1} ms", latency.p50 / 1e3, latency.p99 / 1e3)
        });
        facts.push(Fact {
            group: GROUP,
            what: format!("{name}: demand {} x capacity", point.demand),
            measured: format!(
                "goodput {:.0}/s ({:.1} %); {latency}; {}; {}",
                point.goodput,
                point.tally.share(),
                point.tally.errors,
                point.ending
            ),
            goal: last.then(|| {
                let met = point.goodput >= GOAL * greatest && point.ending.keys == 0;
                (format!("goodput at least {:.0} % of the greatest; 0 keys left", 100.0 * GOAL), met)
            }),
        });
    }
    facts
}
