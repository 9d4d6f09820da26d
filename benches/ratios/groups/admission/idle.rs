//! The commands that a client with restart admission sends to a node while it holds no lock.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock_testkit::RedisServer;

use super::client::Client;
use super::{connect, runtime, settings};
use crate::groups::servers;
use crate::report::Fact;
use crate::round::Effort;

/// The calls of a command, and the microseconds of the server for them.
#[derive(Clone, Copy, Default)]
struct Usage {
    calls: f64,
    micros: f64,
}

/// Measures each client on a separate server, all at once.
pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let lasts = Duration::from_millis(effort.choose(10_000, 3_000, 20));
    let (servers, urls) = servers(Client::ALL.len());
    servers.iter().for_each(Client::prepare);
    let [with, _] = settings();
    runtime().block_on(async {
        let clients = Client::ALL.iter().zip(urls.chunks(1));
        let clients = join_all(clients.map(|(client, url)| connect(*client, url, &with))).await;
        for redlock in &clients {
            redlock.vouch(0).await.expect("the server runs");
        }
        let (start, before) = (Instant::now(), servers.iter().map(usage).collect::<Vec<_>>());
        tokio::time::sleep(lasts).await;
        let after: Vec<_> = servers.iter().map(usage).collect();
        let seconds = start.elapsed().as_secs_f64();
        let facts = Client::ALL.iter().zip(before.iter().zip(&after)).map(|(client, (before, after))| Fact {
            group: "Restart admission, an idle client",
            what: format!("{}: commands per second and node", client.name()),
            measured: per_second(before, after, seconds),
            goal: None,
        });
        facts.collect()
    })
}

/// Returns the usage of a server, by command. Calls within scripts count as well.
fn usage(server: &RedisServer) -> BTreeMap<String, Usage> {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = |line: &str| {
        let (command, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let field = |name: &str| {
            let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
            fields.find(|(other, _)| *other == name)?.1.parse().ok()
        };
        Some((command.to_uppercase(), Usage { calls: field("calls")?, micros: field("usec")? }))
    };
    stats.lines().filter_map(line).collect()
}

/// Formats the difference of two usages, without the command that reads it.
fn per_second(before: &BTreeMap<String, Usage>, after: &BTreeMap<String, Usage>, seconds: f64) -> String {
    let (mut text, mut micros) = (String::new(), 0.0);
    for (command, usage) in after.iter().filter(|(command, _)| *command != "INFO") {
        let earlier = before.get(command).copied().unwrap_or_default();
        let calls = (usage.calls - earlier.calls) / seconds;
        if calls > 0.0 {
            write!(text, "{calls:.1} {command}, ").expect("writing to a String succeeds");
            micros += (usage.micros - earlier.micros) / seconds;
        }
    }
    text + &format!("{micros:.1} us of the server")
}
