//! Requests that arrive at a given rate, even if earlier ones have not finished.

use std::fmt;
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

/// Demand in multiples of the capacity.
const DEMANDS: [f64; 4] = [0.5, 1.0, 2.0, MOST_DEMAND];

const MOST_DEMAND: f64 = 10.0;

/// In the control, one in this many requests acquires a lock.
const ONE_IN: usize = 10;

/// The goal for the goodput at the greatest demand, as a share of the greatest goodput.
const GOAL: f64 = 0.9;

/// The maximum time of requests after the last arrival: the default wait of 10 s, and the cleanup after it.
const LIMIT: Duration = Duration::from_secs(40);

/// The maximum number of requests of a measurement.
const MOST: usize = 1_000_000;

/// The number of tasks that measure the capacity.
const TASKS: usize = 64;

/// The results of a client as demand grows.
pub(super) struct Curve {
    pub(super) kind: Kind,
    capacity: f64,
    pub(super) points: Vec<Point>,
    /// The control at the greatest demand, where requests above the capacity acquire no lock. It shows the cost of the
    /// arrivals.
    control: Point,
}

pub(super) struct Point {
    /// A multiple of the capacity.
    pub(super) demand: f64,
    pub(super) goodput: f64,
    tally: Tally,
    ending: Ending,
}

impl Point {
    /// Returns microseconds, or `None` if no request succeeded.
    pub(super) fn p99(&self) -> Option<f64> {
        self.tally.latency().map(|latency| latency.p99)
    }
}

pub(super) fn run(plan: &Plan) -> Vec<Curve> {
    let lasts = Duration::from_secs_f64(plan.seconds(5.0, 2.0, 0.1));
    // To verify that the benchmarks run, one demand is sufficient.
    let demands = plan.effort.choose(&DEMANDS[..], &DEMANDS[..], &[MOST_DEMAND][..]);
    plan.kinds.iter().map(|kind| curve(*kind, demands, lasts)).collect()
}

fn curve(kind: Kind, demands: &[f64], lasts: Duration) -> Curve {
    let capacity = capacity(kind, lasts.min(Duration::from_secs(3)));
    let points = demands.iter().map(|demand| point(kind, *demand, capacity, lasts, false)).collect();
    let control = point(kind, MOST_DEMAND, capacity, lasts, true);
    Curve { kind, capacity, points, control }
}

/// Returns the cycles per second of tasks that lock and release without a pause.
#[allow(clippy::cast_precision_loss)] // a few thousands
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

fn point(kind: Kind, demand: f64, capacity: f64, lasts: Duration, is_control: bool) -> Point {
    let stage = Stage::new(kind, Flavor::MultiThread);
    let (start, tasks) = arrivals(&stage, demand * capacity, lasts, is_control.then_some(ONE_IN));
    let tally = stage.block_on(Tally::of(start, tasks, LIMIT));
    let goodput = tally.goodput(lasts);
    Point { demand, goodput, tally, ending: stage.end("open-") }
}

/// Starts requests at their times from a separate thread, so a busy runtime does not delay them. The time of a request
/// counts from its due time. With `locks_one_in`, only one in this many requests acquires a lock.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below a million
fn arrivals(
    stage: &Stage,
    rate: f64,
    lasts: Duration,
    locks_one_in: Option<usize>,
) -> (Instant, Vec<tokio::task::JoinHandle<Attempt>>) {
    let all = ((rate * lasts.as_secs_f64()) as usize).min(MOST);
    let mut tasks = Vec::with_capacity(all);
    let start = Instant::now();
    while tasks.len() < all {
        let due = ((start.elapsed().as_secs_f64() * rate) as usize).min(all);
        for number in tasks.len()..due {
            let client = stage.client.clone();
            let at = start + Duration::from_secs_f64(number as f64 / rate);
            let locks = locks_one_in.is_none_or(|one_in| number % one_in == 0);
            let request = async move {
                let name = format!("open-{number}");
                let outcome = if locks { client.cycle(name).await } else { Err("no request".to_owned()) };
                Attempt::new(at, outcome)
            };
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
        facts.push(Fact {
            group: GROUP,
            what: format!("{name}: demand {} x capacity", point.demand),
            measured: point.to_string(),
            goal: last.then(|| {
                let met = point.goodput >= GOAL * greatest && point.ending.keys == 0;
                (format!("goodput at least {:.0} % of the maximum; 0 keys left", 100.0 * GOAL), met)
            }),
        });
    }
    let (most, control) = (curve.points.last().map_or(0.0, |point| point.goodput), &curve.control);
    facts.push(Fact {
        group: GROUP,
        what: format!(
            "{name}: demand {MOST_DEMAND} x capacity, where one in {ONE_IN} requests acquires a lock"
        ),
        measured: control.to_string(),
        goal: (curve.kind != Kind::Rslock).then(|| {
            let goal = format!("the row above has at least {:.0} % of this goodput", 100.0 * GOAL);
            (goal, most >= GOAL * control.goodput)
        }),
    });
    facts
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = self.tally.latency().map_or("-".to_owned(), |latency| {
            format!("p50 {:.1} ms, p99 {:.1} ms", latency.p50 / 1e3, latency.p99 / 1e3)
        });
        let (goodput, share) = (self.goodput, self.tally.share());
        write!(f, "goodput {goodput:.0}/s ({share:.1} %); {latency}; {}; {}", self.tally.errors, self.ending)
    }
}
