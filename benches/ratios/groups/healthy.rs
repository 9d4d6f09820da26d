//! Five working servers: each adapter compared with its client used by hand and with `rslock`, including extensions.

use std::time::Duration;

use super::{micros, servers};
use crate::contender::fred_by_hand::FredByHand;
use crate::contender::redis_by_hand::RedisByHand;
use crate::contender::redlock_client::RedlockClient;
use crate::contender::rslock::Rslock;
use crate::lane::{Flavor, Lane, Latency, lane};
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

/// The positions of the lanes.
const REDIS: usize = 0;
const REDIS_BY_HAND: usize = 1;
const FRED: usize = 2;
const FRED_BY_HAND: usize = 3;
const RSLOCK: usize = 4;

/// The pairs that are compared.
const PAIRS: [(usize, &str, usize, &str); 3] = [
    (REDIS, "redis-rs", REDIS_BY_HAND, "by hand"),
    (FRED, "fred", FRED_BY_HAND, "by hand"),
    (REDIS, "redis-rs", RSLOCK, "rslock"),
];

type Quantile = fn(&Latency) -> f64;

pub(crate) fn run(effort: Effort, flavor: Flavor) -> Vec<Row> {
    let (_servers, urls) = servers(5);
    let lanes = [
        lane(flavor, async { RedlockClient::with_long_timeout(redlock_redis_rs::builder(&urls)) }),
        lane(flavor, RedisByHand::connect(&urls)),
        lane(flavor, async { RedlockClient::with_long_timeout(redlock_fred::builder(&urls)) }),
        lane(flavor, FredByHand::connect(&urls)),
        lane(flavor, async { Rslock::new(&urls) }),
    ];
    let chapter = Chapter { effort, flavor, lanes: &lanes };
    let mut rows = chapter.latency();
    for tasks in [1, 64, 1024] {
        rows.extend(chapter.throughput(tasks));
    }
    rows.extend(chapter.extension());
    rows
}

struct Chapter<'a> {
    effort: Effort,
    flavor: Flavor,
    lanes: &'a [Box<dyn Lane>],
}

impl Chapter<'_> {
    fn latency(&self) -> Vec<Row> {
        let figures = self.measure(|lane| lane.latency(self.effort.cycles));
        let quantiles: [(&str, Quantile); 4] = [
            ("acquire p50", |latency| latency.acquire.p50),
            ("acquire p99", |latency| latency.acquire.p99),
            ("cycle p50", |latency| latency.cycle.p50),
            ("cycle p99", |latency| latency.cycle.p99),
        ];
        let mut rows = Vec::new();
        for pair in PAIRS {
            for (quantile, figure) in quantiles {
                let goal = match (quantile, pair.2) {
                    ("cycle p50", RSLOCK) if self.flavor == Flavor::CurrentThread => Some(Goal::AtMost(0.85)),
                    ("cycle p50", REDIS_BY_HAND | FRED_BY_HAND) => Some(Goal::AtMost(1.10)),
                    _ => None,
                };
                rows.push(self.row(pair, &format!("{quantile}, 1 task"), &figures, figure, micros, goal));
            }
        }
        rows
    }

    fn throughput(&self, tasks: usize) -> Vec<Row> {
        let lasts = Duration::from_millis(self.effort.slice_millis);
        let figures = self.measure(|lane| lane.throughput(tasks, lasts));
        let what = format!("cycles per second, {tasks} task{}", if tasks == 1 { "" } else { "s" });
        let rows = PAIRS.into_iter().map(|pair| {
            let goal = match (tasks, pair.2) {
                (1, _) => None,
                (_, REDIS_BY_HAND | FRED_BY_HAND) => Some(Goal::AtLeast(0.90)),
                (64, RSLOCK) if self.flavor == Flavor::CurrentThread => Some(Goal::AtLeast(1.15)),
                (_, RSLOCK) if self.flavor == Flavor::CurrentThread => Some(Goal::AtLeast(1.35)),
                _ => None,
            };
            let rate = |rate| format!("{rate:.0}/s");
            let cpu = what.replace("cycles per second", "CPU of the client per cycle");
            [
                self.row(pair, &what, &figures, |figure| figure.rate, rate, goal),
                self.row(pair, &cpu, &figures, |figure| figure.cpu, micros, None),
            ]
        });
        rows.flatten().collect()
    }

    fn extension(&self) -> Vec<Row> {
        let figures = self.measure(|lane| lane.extension(self.effort.cycles).p50);
        PAIRS.map(|pair| self.row(pair, "extend p50, 1 task", &figures, |time| *time, micros, None)).into()
    }

    fn measure<T>(&self, slice: impl Fn(&dyn Lane) -> T) -> Vec<Vec<T>> {
        let slice = &slice;
        let slices = self.lanes.iter().map(|lane| Box::new(move || slice(&**lane)) as Slice<'_, T>);
        interleaved(self.effort.rounds, slices.collect())
    }

    fn row<T>(
        &self,
        (of, name, against, other): (usize, &str, usize, &str),
        what: &str,
        figures: &[Vec<T>],
        figure: impl Fn(&T) -> f64,
        unit: impl Fn(f64) -> String,
        goal: Option<Goal>,
    ) -> Row {
        Row {
            group: match self.flavor {
                Flavor::CurrentThread => "Five servers, current-thread runtime",
                Flavor::MultiThread => "Five servers, multi-thread runtime",
            },
            what: format!("{name}: {what}"),
            against: other.to_owned(),
            figure: unit(median(figures[of].iter().map(&figure))),
            ratios: ratios(&figures[of], &figures[against], figure),
            goal,
            charted: self.flavor == Flavor::CurrentThread && !what.contains("p99") && !what.contains("CPU"),
        }
    }
}
