//! Servers at different distances: an acquire takes the round trip of the third fastest of five.

use std::time::Duration;

use super::servers;
use crate::contender::redis_by_hand::RedisByHand;
use crate::contender::redlock_client::RedlockClient;
use crate::contender::rslock::Rslock;
use crate::lane::{Flavor, Latency, lane};
use crate::network::{Link, proxies};
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

/// The delays of a round trip to the servers, in milliseconds.
const DELAYS: [u32; 5] = [1, 5, 20, 50, 100];

/// The position of the delay that decides: three of five servers are a quorum.
const THIRD: usize = 2;

/// The greatest share of a server's delay that is added to a message at random.
const JITTER: u32 = 4;

const GROUP: &str = "Five servers with round trips of 1, 5, 20, 50 and 100 ms";

/// The positions of the lanes.
const REDLOCK: usize = 0;
const BY_HAND: usize = 1;
const RSLOCK: usize = 2;

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    // To verify that the benchmarks run, all is shorter.
    let unit = Duration::from_micros(if effort.rounds > Effort::SMOKE.rounds { 1_000 } else { 20 });
    let even = |units: u32| Link { delay: unit * units, ..Link::default() };
    let jittery = |units: u32| Link { jitter: unit * units / JITTER, ..even(units) };
    let stalling = |units| Link { stalls: 1, ..even(units) };
    let mut rows = under(effort, "constant delays", DELAYS.map(even));
    rows.extend(under(effort, "jitter of a quarter", DELAYS.map(jittery)));
    rows.extend(under(effort, "1 % of messages stall for 500 ms", DELAYS.map(stalling)));
    rows
}

fn under(effort: Effort, condition: &str, links: [Link; 5]) -> Vec<Row> {
    let (servers, _) = servers(5);
    let (_proxies, urls) = proxies(&servers, &links);
    let flavor = Flavor::CurrentThread;
    let lanes = [
        lane(flavor, async { RedlockClient::with_long_timeout(redlock_redis_rs::builder(&urls)) }),
        lane(flavor, RedisByHand::connect(&urls)),
        lane(flavor, async { Rslock::new(&urls) }),
    ];
    let cycles = effort.cycles / 20;
    let third = links[THIRD].delay.as_secs_f64() * 1e6;
    let slices = lanes.iter().map(|lane| Box::new(move || lane.latency(cycles.max(1))) as Slice<'_, Latency>);
    let figures = interleaved(effort.rounds, slices.collect());

    let millis = |micros: f64| format!("{:.1} ms", micros / 1e3);
    let row = |what: &str, against: &str, of: &dyn Fn(&Latency) -> f64, ratios, goal| Row {
        group: GROUP,
        what: format!("redis-rs: {what}, {condition}"),
        against: against.to_owned(),
        ratios,
        figure: millis(median(figures[REDLOCK].iter().map(of))),
        goal,
        charted: condition == "constant delays" && !what.contains("slowest"),
    };
    let acquire = |latency: &Latency| latency.acquire.p50;
    let cycle = |latency: &Latency| latency.cycle.p50;
    // A round has few cycles, so the last percentile is the slowest.
    let slowest = |latency: &Latency| latency.cycle.p99;
    let against = |other: usize, of: fn(&Latency) -> f64| ratios(&figures[REDLOCK], &figures[other], of);
    // Stalls and jitter may delay the third server, too.
    let is_even = condition == "constant delays";
    let of_third = |trips: f64, of: &dyn Fn(&Latency) -> f64| {
        figures[REDLOCK].iter().map(|latency| of(latency) / (trips * third)).collect()
    };
    let goal = || is_even.then_some(Goal::AtMost(1.10));
    vec![
        row("acquire p50", "third fastest server", &acquire, of_third(1.0, &acquire), goal()),
        row("cycle p50", "twice the third fastest server", &cycle, of_third(2.0, &cycle), goal()),
        row("cycle p50", "by hand", &cycle, against(BY_HAND, cycle), Some(Goal::AtMost(1.10))),
        row("slowest cycle of a round", "by hand", &slowest, against(BY_HAND, slowest), None),
        row("cycle p50", "rslock", &cycle, against(RSLOCK, cycle), None),
        row("slowest cycle of a round", "rslock", &slowest, against(RSLOCK, slowest), None),
    ]
}
