//! Many tasks of one process that wait for one lock of another client. The figures are the load on the servers, the
//! cost of a task, and the order of service.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::sleep;

use super::monitor::Commands;
use super::scaled;
use crate::contender::Contender;
use crate::contender::redlock_client::RedlockClient;
use crate::groups::servers;
use crate::report::Fact;
use crate::round::Effort;

const GROUP: &str = "10,000 tasks of one process wait for one key";

/// Requests per second and node while nothing changes.
const GOAL: f64 = 2.0;

#[allow(clippy::cast_precision_loss)] // a few megabytes, some thousands
pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let (servers, urls) = servers(5);
    let tasks = usize::try_from(scaled(effort, 10_000)).expect("the number of tasks is small");
    let lasts = Duration::from_millis(scaled(effort, 30_000));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let served = Arc::new(Mutex::new(Vec::with_capacity(tasks)));
    runtime.block_on(async {
        let client = RedlockClient::redis_rs(&urls);
        client.release(client.acquire("warm").await).await;
        for server in &servers {
            server.command(&["SET", "wanted", "other", "PX", "3600000"]);
        }
        let mut waiters = Vec::with_capacity(tasks);
        let before = rss();
        for number in 0..tasks {
            let (client, served) = (client.clone(), Arc::clone(&served));
            waiters.push(tokio::spawn(async move {
                let held = client.acquire("wanted").await;
                served.lock().expect("no thread panics").push(number);
                client.release(held).await;
            }));
        }
        // By then all tasks are queued, and the first of them watches.
        sleep(Duration::from_millis(500)).await;
        let bytes = rss().saturating_sub(before) as f64 / tasks as f64;

        let commands = Commands::during(&servers[0], lasts).await;
        let requests = commands.requests_with("");

        let start = Instant::now();
        for server in &servers {
            server.command(&["DEL", "wanted"]);
        }
        for waiter in waiters {
            waiter.await.expect("the waiter does not panic");
        }
        let rest = start.elapsed().as_secs_f64();
        let served = served.lock().expect("no thread panics");
        let in_order = served.is_sorted() && served.len() == tasks;
        vec![
            Fact {
                group: GROUP,
                what: "requests per second and node, while the key does not change".to_owned(),
                measured: format!(
                    "{requests:.2}, with {:.2} commands within scripts",
                    commands.all() - requests
                ),
                goal: Some(("under 2".to_owned(), requests < GOAL)),
            },
            Fact {
                group: GROUP,
                what: "memory of a waiting task".to_owned(),
                measured: format!("{bytes:.0} bytes"),
                goal: None,
            },
            Fact {
                group: GROUP,
                what: "tasks served in the order of their requests".to_owned(),
                measured: format!(
                    "{}, {:.0} per second",
                    if in_order { "all" } else { "not all" },
                    tasks as f64 / rest
                ),
                goal: Some(("all".to_owned(), in_order)),
            },
        ]
    })
}

/// Returns the resident memory of this process in bytes.
pub(super) fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024
}
