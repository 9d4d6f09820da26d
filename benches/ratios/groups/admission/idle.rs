//! The commands that a client with restart admission sends to a node while it holds no lock.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::client::Client;
use super::{connect, runtime, settings};
use crate::groups::servers;
use crate::groups::usage::{each, usage};
use crate::report::Fact;
use crate::round::Effort;

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
            measured: each(before, after, seconds),
            goal: None,
        });
        facts.collect()
    })
}
