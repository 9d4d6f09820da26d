//! Five working servers: the cost of a fencing token, each adapter compared with itself.

use std::time::Duration;

use super::{micros, server_cpu, servers};
use crate::contender::fenced::Fenced;
use crate::contender::redlock_client::RedlockClient;
use crate::lane::{Flavor, Lane, lane};
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

/// The positions of the lanes: fenced, then plain.
const PAIRS: [(usize, &str); 2] = [(0, "redis-rs"), (2, "fred")];

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let (servers, urls) = servers(5);
    let flavor = Flavor::CurrentThread;
    let lanes = [
        lane(flavor, async { Fenced(RedlockClient::with_long_timeout(redlock_redis_rs::builder(&urls)).0) }),
        lane(flavor, async { RedlockClient::with_long_timeout(redlock_redis_rs::builder(&urls)) }),
        lane(flavor, async { Fenced(RedlockClient::with_long_timeout(redlock_fred::builder(&urls)).0) }),
        lane(flavor, async { RedlockClient::with_long_timeout(redlock_fred::builder(&urls)) }),
    ];
    let cycles = measure(effort, &lanes, |lane| lane.latency(effort.cycles).cycle.p50);
    let mut rows = rows("cycle p50, 1 task", &cycles, micros);
    let lasts = Duration::from_millis(effort.slice_millis);
    let rates = measure(effort, &lanes, |lane| lane.throughput(64, lasts).rate);
    rows.extend(self::rows("cycles per second, 64 tasks", &rates, |rate| format!("{rate:.0}/s")));
    for row in rows.iter_mut().filter(|row| row.what == "redis-rs, fenced: cycles per second, 64 tasks") {
        row.goal = Some(Goal::AtLeast(0.60));
    }
    let cpu = measure(effort, &lanes, |lane| {
        let before = server_cpu(&servers);
        let cycles = lane.throughput(64, lasts).cycles;
        (server_cpu(&servers) - before) / cycles
    });
    rows.extend(self::rows("CPU of the servers per cycle, 64 tasks", &cpu, micros));
    rows
}

fn measure(effort: Effort, lanes: &[Box<dyn Lane>], figure: impl Fn(&dyn Lane) -> f64) -> Vec<Vec<f64>> {
    let figure = &figure;
    let slices = lanes.iter().map(|lane| Box::new(move || figure(&**lane)) as Slice<'_, f64>);
    interleaved(effort.rounds, slices.collect())
}

fn rows(what: &str, figures: &[Vec<f64>], unit: impl Fn(f64) -> String) -> Vec<Row> {
    let row = |(fenced, name): (usize, &str)| Row {
        group: "Fencing tokens, current-thread runtime",
        what: format!("{name}, fenced: {what}"),
        against: "plain lock".to_owned(),
        figure: unit(median(figures[fenced].iter().copied())),
        ratios: ratios(&figures[fenced], &figures[fenced + 1], |figure| *figure),
        goal: None,
        charted: !what.contains("CPU"),
    };
    PAIRS.map(row).into()
}
