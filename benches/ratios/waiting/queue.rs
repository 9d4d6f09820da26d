//! Many tasks of one process waiting for one lock that somebody else has: what the servers notice of it, what a task costs,
//! and who is served first.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redlock_testkit::RedisServer;
use tokio::runtime::Builder;
use tokio::time::sleep;

use super::scaled;
use crate::contender::Contender;
use crate::contender::ours::Ours;
use crate::groups::servers;
use crate::report::Fact;
use crate::round::Effort;

const GROUP: &str = "10,000 tasks of one process waiting for one key";

/// Commands a second and node while nothing changes.
const GOAL: f64 = 2.0;

#[allow(clippy::cast_precision_loss)] // some megabytes, some thousands
pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let (servers, urls) = servers(5);
    let tasks = usize::try_from(scaled(effort, 10_000)).expect("no more than that");
    let lasts = Duration::from_millis(scaled(effort, 30_000));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let served = Arc::new(Mutex::new(Vec::with_capacity(tasks)));
    runtime.block_on(async {
        let ours = Ours::redis_rs(&urls);
        ours.release(ours.acquire("warm").await).await;
        for server in &servers {
            server.command(&["SET", "wanted", "theirs", "PX", "3600000"]);
        }
        let mut waiters = Vec::with_capacity(tasks);
        let before = rss();
        for number in 0..tasks {
            let (ours, served) = (ours.clone(), Arc::clone(&served));
            waiters.push(tokio::spawn(async move {
                let held = ours.acquire("wanted").await;
                served.lock().expect("nobody panics").push(number);
                ours.release(held).await;
            }));
        }
        // Until all are queued and the first of them watches.
        sleep(Duration::from_millis(500)).await;
        let bytes = rss().saturating_sub(before) as f64 / tasks as f64;

        let (start, commands) = (Instant::now(), commands(&servers[0]));
        sleep(lasts).await;
        // One is the question itself.
        let commands = self::commands(&servers[0]).saturating_sub(commands + 1);
        let rate = commands as f64 / start.elapsed().as_secs_f64();

        let start = Instant::now();
        for server in &servers {
            server.command(&["DEL", "wanted"]);
        }
        for waiter in waiters {
            waiter.await.expect("it waits and holds, no more");
        }
        let rest = start.elapsed().as_secs_f64();
        let served = served.lock().expect("nobody panics");
        let in_order = served.is_sorted() && served.len() == tasks;
        vec![
            Fact {
                group: GROUP,
                what: "commands a second and node, while nothing changes".to_owned(),
                measured: format!("{rate:.2}"),
                goal: Some(("under 2".to_owned(), rate < GOAL)),
            },
            Fact {
                group: GROUP,
                what: "memory of a task that waits".to_owned(),
                measured: format!("{bytes:.0} bytes"),
                goal: None,
            },
            Fact {
                group: GROUP,
                what: "served in the order in which they asked".to_owned(),
                measured: format!(
                    "{}, {:.0} a second",
                    if in_order { "all" } else { "not all" },
                    tasks as f64 / rest
                ),
                goal: Some(("all".to_owned(), in_order)),
            },
        ]
    })
}

/// Commands that the server has carried out, those within scripts too.
fn commands(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    stats.lines().filter_map(calls).sum()
}

/// Bytes of memory that this process has.
pub(super) fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024
}
