//! Five working servers: the cost of node lists. Each client is compared with itself without the comparison of lists.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock_core::{Builder, Error};
use redlock_redis_rs::Options;
use redlock_testkit::RedisServer;

use super::usage::{each, usage};
use super::{micros, servers};
use crate::contender::Contender;
use crate::contender::redlock_client::RedlockClient;
use crate::lane::{Flavor, Lane, Throughput, lane, percentiles, runtime};
use crate::report::{Fact, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

const GROUP: &str = "Node lists, five servers, current-thread runtime";

const COMMANDS: &str = "Node lists, commands";

/// The number of previous nodes of a client with two lists, which are also among its five nodes.
const PREVIOUS: usize = 3;

#[derive(Clone, Copy)]
enum Adapter {
    RedisRs,
    Fred,
}

/// The settings of a client.
#[derive(Clone, Copy)]
enum Setting {
    NotCompared,
    Compared,
    MustAgree,
    TwoLists,
}

impl Adapter {
    const ALL: [Self; 2] = [Self::RedisRs, Self::Fred];

    fn name(self) -> &'static str {
        match self {
            Self::RedisRs => "redis-rs",
            Self::Fred => "fred",
        }
    }

    fn builder(self, urls: &[String], setting: Setting) -> Result<Builder, Error> {
        let (options, previous) = (Options::tokio(), &urls[..PREVIOUS]);
        let (builder, previous) = match self {
            Self::RedisRs => (
                redlock_redis_rs::builder_with(urls, &options)?,
                redlock_redis_rs::nodes(previous, &options)?,
            ),
            Self::Fred => {
                (redlock_fred::builder_with(urls, &options)?, redlock_fred::nodes(previous, &options)?)
            }
        };
        Ok(match setting {
            Setting::NotCompared => builder.compare_node_lists(false),
            Setting::Compared => builder,
            Setting::MustAgree => builder.node_lists_must_agree(true),
            Setting::TwoLists => builder.previous_nodes(previous),
        })
    }

    fn client(self, urls: &[String], setting: Setting) -> RedlockClient {
        RedlockClient::with_long_timeout(self.builder(urls, setting))
    }
}

impl Setting {
    /// The first one is the baseline.
    const ALL: [Self; 4] = [Self::NotCompared, Self::Compared, Self::MustAgree, Self::TwoLists];

    fn name(self) -> &'static str {
        match self {
            Self::NotCompared => "not compared",
            Self::Compared => "compared",
            Self::MustAgree => "must agree",
            Self::TwoLists => "two lists",
        }
    }
}

/// Returns all pairs, in the order of the figures.
fn all() -> impl Iterator<Item = (Adapter, Setting)> {
    Adapter::ALL.into_iter().flat_map(|adapter| Setting::ALL.map(|setting| (adapter, setting)))
}

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let (_servers, urls) = servers(5);
    let mut rows = throughput(effort, &urls);
    rows.extend(connecting(effort, &urls));
    rows
}

fn throughput(effort: Effort, urls: &[String]) -> Vec<Row> {
    let lanes: Vec<Box<dyn Lane>> = all()
        .map(|(adapter, setting)| lane(Flavor::CurrentThread, async move { adapter.client(urls, setting) }))
        .collect();
    let lasts = Duration::from_millis(effort.slice_millis);
    let mut rows = Vec::new();
    for (tasks, what) in [(1, "1 task"), (64, "64 tasks")] {
        let slices =
            lanes.iter().map(|lane| Box::new(|| lane.throughput(tasks, lasts)) as Slice<'_, Throughput>);
        let figures = interleaved(effort.rounds, slices.collect());
        let rate = |rate| format!("{rate:.0}/s");
        rows.extend(compare(&format!("cycles per second, {what}"), &figures, |figure| figure.rate, rate));
        let cpu = format!("CPU of the client per cycle, {what}");
        rows.extend(compare(&cpu, &figures, |figure| figure.cpu, micros));
    }
    rows
}

/// Measures the time from a new client to its first lock.
fn connecting(effort: Effort, urls: &[String]) -> Vec<Row> {
    let runtime = &runtime(Flavor::CurrentThread);
    let times = (effort.cycles / 20).max(1);
    let first_lock = |adapter: Adapter, setting| {
        let times = (0..times).map(|_| {
            runtime.block_on(async {
                let start = Instant::now();
                let client = adapter.client(urls, setting);
                let guard = client.acquire("first").await;
                let took = start.elapsed();
                client.release(guard).await;
                client.0.close().await;
                took
            })
        });
        percentiles(times.collect()).p50
    };
    let first_lock = &first_lock;
    let slices =
        all().map(|(adapter, setting)| Box::new(move || first_lock(adapter, setting)) as Slice<'_, f64>);
    let figures = interleaved(effort.rounds, slices.collect());
    compare("connecting and first lock", &figures, |time| *time, micros)
}

/// Compares the figures of each setting with those of the first one, for each adapter.
fn compare<T>(
    what: &str,
    figures: &[Vec<T>],
    figure: impl Fn(&T) -> f64,
    unit: impl Fn(f64) -> String,
) -> Vec<Row> {
    let count = Setting::ALL.len();
    let row = |(number, (adapter, setting)): (usize, (Adapter, Setting))| Row {
        group: GROUP,
        what: format!("{}, {}: {what}", adapter.name(), setting.name()),
        against: Setting::NotCompared.name().to_owned(),
        figure: unit(median(figures[number].iter().map(&figure))),
        ratios: ratios(&figures[number], &figures[number / count * count], &figure),
        goal: None,
        charted: false,
    };
    all().enumerate().filter(|(number, _)| number % count > 0).map(row).collect()
}

/// Measures the commands of each client on separate servers: for a lock and its release, and while it holds none.
pub(crate) fn commands(effort: Effort) -> Vec<Fact> {
    let (cycles, lasts) = (effort.cycles, Duration::from_millis(effort.choose(30_000, 20_000, 20)));
    runtime(Flavor::CurrentThread).block_on(async {
        let clients = all().map(|(adapter, setting)| async move {
            let (servers, urls) = servers(PREVIOUS);
            let client = adapter.client(&urls, setting);
            let server: &RedisServer = &servers[0];
            client.release(client.acquire("first").await).await;
            tokio::time::sleep(lasts / 10).await;
            let before = usage(server);
            for _ in 0..cycles {
                client.release(client.acquire("a").await).await;
            }
            let cycle = each(&before, &usage(server), f64::from(u32::try_from(cycles).unwrap_or(u32::MAX)));
            let (start, before) = (Instant::now(), usage(server));
            tokio::time::sleep(lasts).await;
            let idle = each(&before, &usage(server), start.elapsed().as_secs_f64() / 10.0);
            let fact = |what: &str, measured| Fact {
                group: COMMANDS,
                what: format!("{}, {}: {what} of a node", adapter.name(), setting.name()),
                measured,
                goal: None,
            };
            [fact("commands per cycle", cycle), fact("commands in ten seconds without a lock", idle)]
        });
        join_all(clients).await.into_iter().flatten().collect()
    })
}
