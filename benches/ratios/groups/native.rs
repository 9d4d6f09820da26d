//! Five working servers: native commands compared with scripts, in the speed of cycles and in the CPU time of the servers.
//!
//! A server without such commands has no rows. `REDLOCK_SERVER` selects another server.

use std::time::Duration;

use redlock_redis_rs::Options;
use redlock_testkit::{RedisServer, Reply};

use super::{micros, server_cpu, servers};
use crate::contender::redlock_client::RedlockClient;
use crate::lane::{Flavor, lane};
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

/// The figures of one slice.
struct Figure {
    /// Cycles per second.
    rate: f64,
    /// Microseconds of CPU per cycle, of all servers together.
    server_cpu: f64,
}

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let (servers, urls) = servers(5);
    if !is_native(&servers[0]) {
        return Vec::new();
    }
    let client = |native| {
        let options = Options::tokio().native_commands(native);
        lane(Flavor::CurrentThread, async {
            RedlockClient::with_long_timeout(redlock_redis_rs::builder_with(&urls, &options))
        })
    };
    let lanes = [client(true), client(false)];
    let lasts = Duration::from_millis(effort.slice_millis);
    let mut rows = Vec::new();
    for tasks in [64, 1024] {
        let slice = |index: usize| {
            let before = server_cpu(&servers);
            let throughput = lanes[index].throughput(tasks, lasts);
            let server_cpu = (server_cpu(&servers) - before) / throughput.cycles;
            Figure { rate: throughput.rate, server_cpu }
        };
        let slices = (0..lanes.len()).map(|index| Box::new(move || slice(index)) as Slice<'_, Figure>);
        let figures = interleaved(effort.rounds, slices.collect());
        let row = |what: &str, figure: fn(&Figure) -> f64, unit: fn(f64) -> String, goal| Row {
            group: "Native commands, current-thread runtime",
            what: format!("redis-rs: {what}, {tasks} tasks"),
            against: "scripts".to_owned(),
            figure: unit(median(figures[0].iter().map(figure))),
            ratios: ratios(&figures[0], &figures[1], figure),
            goal: Some(goal),
            charted: false,
        };
        rows.push(row(
            "cycles per second",
            |figure| figure.rate,
            |rate| format!("{rate:.0}/s"),
            Goal::AtLeast(1.20),
        ));
        rows.push(row(
            "CPU of the servers per cycle",
            |figure| figure.server_cpu,
            micros,
            Goal::AtMost(0.65),
        ));
    }
    rows
}

/// Returns whether the server has a command that compares and deletes.
fn is_native(server: &RedisServer) -> bool {
    [&b"DELIFEQ"[..], b"DELEX"].iter().any(|name| {
        let reply = server.reply(&[name]);
        matches!(reply, Reply::Error(message) if message.contains("wrong number of arguments"))
    })
}
