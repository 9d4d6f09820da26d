//! Many keys over one connection to each server, and the memory left behind by keys that are no longer used.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock_testkit::RedisServer;
use tokio::runtime::Builder;
use tokio::time::sleep;

use super::queue::rss;
use super::scaled;
use crate::contender::Contender;
use crate::contender::redlock_client::RedlockClient;
use crate::groups::servers;
use crate::report::Fact;
use crate::round::Effort;

const GROUP: &str = "Many keys over one connection to each server";

/// The number of keys with waiters at once.
const AT_ONCE: u64 = 1_000;

/// A process without leftovers may still grow by the rounding of its allocator.
const GOAL: f64 = 8.0;

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let mut facts = woken(effort);
    facts.extend(leftovers(effort));
    facts
}

/// All tasks wait for another client, which releases all keys.
fn woken(effort: Effort) -> Vec<Fact> {
    let (servers, urls) = servers(5);
    let keys = scaled(effort, AT_ONCE);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = RedlockClient::redis_rs(&urls);
        client.release(client.acquire("warm").await).await;
        let before = connections(&servers[0]);
        for server in &servers {
            set_keys(server, 0, keys);
        }
        let waiters: Vec<_> = (0..keys)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move { client.release(client.acquire(&key(number)).await).await })
            })
            .collect();
        sleep(Duration::from_millis(500)).await;
        let more = connections(&servers[0]).saturating_sub(before);
        let start = Instant::now();
        for server in &servers {
            delete_keys(server, 0, keys);
        }
        for waiter in join_all(waiters).await {
            waiter.expect("the waiter does not panic");
        }
        let lasted = start.elapsed().as_secs_f64() * 1e3;
        vec![
            Fact {
                group: GROUP,
                what: format!("connections to a server for {keys} more keys with waiters"),
                measured: more.to_string(),
                goal: Some(("none".to_owned(), more == 0)),
            },
            Fact {
                group: GROUP,
                what: format!("from the release of {keys} keys until each was held and released"),
                measured: format!("{lasted:.0} ms"),
                goal: None,
            },
        ]
    })
}

/// Keys that are held by another client, waited for, deleted, locked and released, each only once.
#[allow(clippy::cast_precision_loss)] // a few megabytes
fn leftovers(effort: Effort) -> Vec<Fact> {
    let (servers, urls) = servers(1);
    let keys = scaled(effort, 1_000_000);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = RedlockClient::redis_rs(&urls);
        let (mut before, warm) = (0, keys / 10);
        let mut next = 0;
        while next < keys {
            if before == 0 && next >= warm {
                before = rss();
            }
            set_keys(&servers[0], next, AT_ONCE);
            let waiters: Vec<_> = (next..next + AT_ONCE)
                .map(|number| {
                    let client = client.clone();
                    tokio::spawn(async move { client.release(client.acquire(&key(number)).await).await })
                })
                .collect();
            // Most of the keys are watched by then.
            sleep(Duration::from_millis(AT_ONCE / 20)).await;
            delete_keys(&servers[0], next, AT_ONCE);
            for waiter in waiters {
                waiter.await.expect("the waiter does not panic");
            }
            next += AT_ONCE;
        }
        let growth = rss().saturating_sub(before) as f64;
        let a_key = growth / (keys - warm) as f64;
        vec![Fact {
            group: GROUP,
            what: format!("growth of the process over {} keys, after the first {warm}", keys - warm),
            measured: format!("{:.1} MiB, {a_key:.2} bytes per key", growth / 1_048_576.0),
            goal: Some((format!("under {GOAL:.0} bytes per key"), a_key < GOAL)),
        }]
    })
}

fn key(number: u64) -> String {
    format!("key-{number}")
}

fn set_keys(server: &RedisServer, first: u64, count: u64) {
    let script = "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do \
                  redis.call('SET', string.format('key-%d', i), 'other', 'PX', 600000) end return 'OK'";
    server.command(&["EVAL", script, "0", &first.to_string(), &count.to_string()]);
}

fn delete_keys(server: &RedisServer, first: u64, count: u64) {
    let script = "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do \
                  redis.call('DEL', string.format('key-%d', i)) end return 'OK'";
    server.command(&["EVAL", script, "0", &first.to_string(), &count.to_string()]);
}

/// Returns the number of connections of the server, including the querying one.
fn connections(server: &RedisServer) -> u64 {
    let clients = server.command(&["INFO", "clients"]);
    let count = clients.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
