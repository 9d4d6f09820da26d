//! Five working servers: the cost of restart admission, each client compared with itself without it.
//!
//! Over redis in RESP3, a flag is read before and after each vote. Over the other clients, a check follows each vote. Over
//! fred, votes that are sent together have one check in common.

mod client;
mod idle;

use std::time::{Duration, Instant};

use redlock_core::Redlock;
use redlock_redis_rs::Options;
use tokio::runtime::{Builder, Runtime};

use self::client::Client;
pub(crate) use self::idle::run as idle;
use super::{micros, servers};
use crate::contender::TTL;
use crate::contender::redlock_client::RedlockClient;
use crate::lane::{Flavor, Lane, Throughput, lane, percentiles};
use crate::report::Row;
use crate::round::{Effort, Slice, interleaved, median, ratios};

const GROUP: &str = "Restart admission, five servers, current-thread runtime";

/// The number of rounds of published results. The goal is 7 % away, so there are more than elsewhere.
const ROUNDS: usize = 15;

/// The settings of each client: with restart admission, then without.
fn settings() -> [Options; 2] {
    [Options::tokio().longest_ttl(TTL), Options::tokio()]
}

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let rounds = effort.choose(ROUNDS, effort.rounds, effort.rounds);
    let effort = Effort { rounds, ..effort };
    let (servers, urls) = servers(5);
    servers.iter().for_each(Client::prepare);
    vouch(&urls);
    let mut rows = throughput(effort, &urls);
    rows.extend(connecting(effort, &urls));
    rows
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("the runtime starts")
}

/// Ends the quarantine of new servers.
fn vouch(urls: &[String]) {
    let [with, _] = settings();
    runtime().block_on(async {
        let redlock = connect(Client::Redis, urls, &with).await;
        for index in 0..urls.len() {
            redlock.vouch(index).await.expect("the servers run");
        }
        redlock.close().await;
    });
}

async fn connect(client: Client, urls: &[String], options: &Options) -> Redlock {
    RedlockClient::with_long_timeout(client.builder(urls, options).await).0
}

fn throughput(effort: Effort, urls: &[String]) -> Vec<Row> {
    let settings = settings();
    let lanes: Vec<Box<dyn Lane>> = Client::ALL
        .iter()
        .flat_map(|client| settings.iter().map(move |options| (*client, options)))
        .map(|(client, options)| {
            lane(Flavor::CurrentThread, async { RedlockClient(connect(client, urls, options).await) })
        })
        .collect();
    let lasts = Duration::from_millis(effort.slice_millis);
    let mut rows = Vec::new();
    for tasks in [1, 64, 1024] {
        let slices =
            lanes.iter().map(|lane| Box::new(|| lane.throughput(tasks, lasts)) as Slice<'_, Throughput>);
        let figures = interleaved(effort.rounds, slices.collect());
        let tasks = format!("{tasks} task{}", if tasks == 1 { "" } else { "s" });
        for (client, pair) in Client::ALL.iter().zip(figures.chunks(2)) {
            let rate = |rate| format!("{rate:.0}/s");
            rows.push(Row {
                goal: client.goal(),
                ..row(*client, &format!("cycles per second, {tasks}"), pair, |figure| figure.rate, rate)
            });
            let cpu = format!("CPU of the client per cycle, {tasks}");
            rows.push(row(*client, &cpu, pair, |figure| figure.cpu, micros));
        }
    }
    rows
}

/// Measures the time from a new client to its first lock.
fn connecting(effort: Effort, urls: &[String]) -> Vec<Row> {
    let (settings, runtime) = (settings(), runtime());
    let times = (effort.cycles / 20).max(1);
    let first_lock = |client, options: &Options| {
        let times = (0..times).map(|_| {
            runtime.block_on(async {
                let start = Instant::now();
                let redlock = connect(client, urls, options).await;
                let guard = redlock.lock("first", TTL).wait_unbounded().await.expect("a quorum replies");
                let took = start.elapsed();
                guard.release().await.expect("a quorum replies");
                redlock.close().await;
                took
            })
        });
        percentiles(times.collect()).p50
    };
    let first_lock = &first_lock;
    let slices = Client::CONNECTING.iter().flat_map(|client| {
        settings.iter().map(move |options| Box::new(move || first_lock(*client, options)) as Slice<'_, f64>)
    });
    let figures = interleaved(effort.rounds, slices.collect());
    let pairs = Client::CONNECTING.iter().zip(figures.chunks(2));
    pairs
        .map(|(client, pair)| row(*client, "connecting and first lock", pair, |time| *time, micros))
        .collect()
}

/// Returns the comparison of a client with restart admission against the same client without it.
fn row<T>(
    client: Client,
    what: &str,
    pair: &[Vec<T>],
    figure: impl Fn(&T) -> f64,
    unit: impl Fn(f64) -> String,
) -> Row {
    Row {
        group: GROUP,
        what: format!("{}: {what}", client.name()),
        against: "without restart admission".to_owned(),
        figure: unit(median(pair[0].iter().map(&figure))),
        ratios: ratios(&pair[0], &pair[1], figure),
        goal: None,
        charted: false,
    }
}
