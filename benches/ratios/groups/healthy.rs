//! Five working servers: each adapter compared with its client used by hand and with `rslock`, including extensions.

use std::time::Duration;

use super::{micros, servers};
use crate::bare::Bare;
use crate::contender::fred_by_hand::FredByHand;
use crate::contender::redis_by_hand::RedisByHand;
use crate::contender::redlock_client::RedlockClient;
use crate::contender::rslock::Rslock;
use crate::lane::{Flavor, Lane, Latency, Throughput, lane};
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

/// The positions of the lanes.
const REDIS: usize = 0;
const REDIS_BY_HAND: usize = 1;
const FRED: usize = 2;
const FRED_BY_HAND: usize = 3;
const RSLOCK: usize = 4;
/// Only the number of cycles per second is measured.
const BARE: usize = 5;

type Pair = (usize, &'static str, usize, &'static str);

/// The pairs that are compared.
const PAIRS: [Pair; 4] = [
    (REDIS, "redis-rs", REDIS_BY_HAND, "by hand"),
    (FRED, "fred", FRED_BY_HAND, "by hand"),
    (REDIS, "redis-rs", RSLOCK, "rslock"),
    (FRED, "fred", RSLOCK, "rslock"),
];
const LIMIT: Pair = (REDIS, "redis-rs", BARE, "bare sockets");

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
    let chapter = Chapter { effort, flavor, lanes: &lanes, bare: Bare::new(flavor, &urls) };
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
    bare: Bare,
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
                let goal = self.cycle_goal(pair).filter(|_| quantile == "cycle p50");
                rows.push(self.row(pair, &format!("{quantile}, 1 task"), &figures, figure, micros, goal));
            }
        }
        rows
    }

    fn throughput(&self, tasks: usize) -> Vec<Row> {
        let lasts = Duration::from_millis(self.effort.slice_millis);
        let mut slices: Vec<Slice<'_, Throughput>> = Vec::new();
        for lane in self.lanes {
            slices.push(Box::new(move || lane.throughput(tasks, lasts)));
        }
        slices.push(Box::new(|| self.bare.throughput(tasks, lasts)));
        let figures = interleaved(self.effort.rounds, slices);
        let what = format!("cycles per second, {tasks} task{}", if tasks == 1 { "" } else { "s" });
        let rows = PAIRS.into_iter().chain([LIMIT]).map(|pair| {
            let goal = self.rate_goal(pair, tasks);
            let rate = |rate| format!("{rate:.0}/s");
            let cpu = what.replace("cycles per second", "CPU of the client per cycle");
            [
                self.row(pair, &what, &figures, |figure| figure.rate, rate, goal),
                self.row(pair, &cpu, &figures, |figure| figure.cpu, micros, None),
            ]
        });
        rows.flatten().collect()
    }

    fn cycle_goal(&self, pair: Pair) -> Option<Goal> {
        let is_single = self.flavor == Flavor::CurrentThread;
        let most = match (pair.0, pair.2) {
            (REDIS, REDIS_BY_HAND) => {
                if is_single {
                    0.95
                } else {
                    1.0
                }
            }
            (REDIS, RSLOCK) => {
                if is_single {
                    0.75
                } else {
                    0.9
                }
            }
            (FRED, FRED_BY_HAND) => 1.15,
            (FRED, RSLOCK) => 1.0,
            _ => return None,
        };
        Some(Goal::AtMost(most))
    }

    fn rate_goal(&self, pair: Pair, tasks: usize) -> Option<Goal> {
        let is_single = self.flavor == Flavor::CurrentThread;
        let least = match (pair.0, pair.2, tasks) {
            (_, BARE, 64) if is_single => 0.4,
            (_, _, 1) | (_, BARE, _) => return None,
            (REDIS, REDIS_BY_HAND, 64) => {
                if is_single {
                    1.4
                } else {
                    1.25
                }
            }
            (REDIS, REDIS_BY_HAND, _) => 1.4,
            (REDIS, RSLOCK, 64) => {
                if is_single {
                    2.0
                } else {
                    1.7
                }
            }
            (REDIS, RSLOCK, _) => {
                if is_single {
                    2.0
                } else {
                    2.2
                }
            }
            (FRED, FRED_BY_HAND, 64) => 0.95,
            (FRED, RSLOCK, _) => 1.0,
            _ => return None,
        };
        Some(Goal::AtLeast(least))
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
        (of, name, against, other): Pair,
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
