//! Five servers, one of which hangs or is dead: the time to acquire a lock, compared with the same lock on working
//! servers.

use super::{micros, servers};
use crate::contender::redlock_client::RedlockClient;
use crate::contender::rslock::Rslock;
use crate::lane::{Flavor, Lane, lane};
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

/// `rslock` waits half a second for a server that hangs, twice per cycle.
const CYCLES_OF_RSLOCK: usize = 1;

/// The fault of one server.
const WRONG: [&str; 2] = ["one server hung", "one server dead"];

/// Connects a contender to servers.
type Maker = fn(&[String]) -> Box<dyn Lane>;

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let (_healthy, healthy) = servers(5);
    let (hung, hung_urls) = servers(5);
    let (dead, dead_urls) = servers(5);
    let places = [healthy, hung_urls, dead_urls];

    let makers: [(&str, Maker); 3] = [
        ("redis-rs", |urls| lane(Flavor::CurrentThread, async { RedlockClient::redis_rs(urls) })),
        ("fred", |urls| lane(Flavor::CurrentThread, async { RedlockClient::fred(urls) })),
        ("rslock", |urls| lane(Flavor::CurrentThread, async { Rslock::new(urls) })),
    ];
    let lanes: Vec<(&str, [Box<dyn Lane>; 3])> = makers
        .into_iter()
        .map(|(name, make)| (name, [0, 1, 2].map(|place: usize| make(&places[place]))))
        .collect();
    hung[0].pause();
    dead[0].kill();

    let slices = lanes.iter().flat_map(|(name, lanes)| {
        lanes.iter().map(|lane| {
            let cycles = if *name == "rslock" { CYCLES_OF_RSLOCK } else { effort.cycles };
            Box::new(move || lane.latency(cycles).acquire.p50) as Slice<'_, f64>
        })
    });
    let figures = interleaved(effort.rounds, slices.collect());

    let mut rows = Vec::new();
    for (position, (name, _)) in lanes.iter().enumerate() {
        for (fault, wrong) in WRONG.into_iter().enumerate() {
            let (all_work, faulty) = (&figures[3 * position], &figures[3 * position + 1 + fault]);
            let is_redlock = *name != "rslock";
            rows.push(Row {
                group: "One server of five fails",
                what: format!("{name}: acquire p50, {wrong}"),
                against: "all five servers work".to_owned(),
                ratios: ratios(faulty, all_work, |time| *time),
                figure: micros(median(faulty.iter().copied())),
                goal: (is_redlock && fault == 0).then_some(Goal::AtMost(1.20)),
                charted: is_redlock,
            });
        }
    }
    rows
}
