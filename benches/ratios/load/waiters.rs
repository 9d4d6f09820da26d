//! Very many tasks that wait without a limit, each for a different name that another client holds.

use std::time::{Duration, Instant};

use redlock_testkit::RedisServer;
use tokio::time::sleep;

use super::Plan;
use super::client::{Kind, TTL, failed};
use super::stage::Stage;
use super::tally::{Attempt, Tally};
use crate::lane::Flavor;
use crate::report::Fact;

const GROUP: &str = "Waiters: N tasks wait without a limit, each for a name that another client holds";

/// The maximum time until all have acquired and released, after the names are free.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(plan: &Plan) -> Vec<Fact> {
    let lasts = Duration::from_secs_f64(plan.seconds(10.0, 5.0, 0.2));
    let counts = plan.locks(&[20_000], &[20_000], 50);
    plan.adapters()
        .flat_map(|kind| counts.iter().map(move |count| (kind, *count)))
        .map(|(kind, count)| waiters(kind, count, lasts))
        .collect()
}

fn waiters(kind: Kind, count: usize, lasts: Duration) -> Fact {
    let stage = Stage::new(kind, Flavor::MultiThread);
    each_name(&stage.servers, count, "redis.call('SET', name, 'another', 'PX', 600000)");
    let (early, tally) = stage.block_on(async {
        let tasks: Vec<_> = (0..count)
            .map(|number| {
                let redlock = stage.client.redlock().clone();
                let start = Instant::now();
                let cycle = async move {
                    let guard = redlock.lock(format!("waiter-{number}"), TTL).wait_unbounded().await;
                    let guard = guard.map_err(|error| failed("lock", &error))?;
                    guard.release().await.map_err(|error| failed("release", &error))?;
                    Ok(())
                };
                tokio::spawn(async move { Attempt::new(start, cycle.await) })
            })
            .collect();
        sleep(lasts).await;
        let early = tasks.iter().filter(|task| task.is_finished()).count();
        let start = Instant::now();
        each_name(&stage.servers, count, "redis.call('DEL', name)");
        (early, Tally::of(start, tasks, LIMIT).await)
    });
    let ending = stage.end("waiter-");
    let (acquired, after) = (tally.succeeded(), tally.lasted().as_secs_f64());
    let met = early == 0 && acquired == count && ending.keys == 0;
    Fact {
        group: GROUP,
        what: format!("{}, N = {count}", kind.name()),
        measured: format!(
            "{early} ended within {} s; {acquired} acquired and released within {after:.1} s once the names were free; {}; \
             {ending}",
            lasts.as_secs_f64(),
            tally.errors
        ),
        goal: Some(("none ends early, all acquire; 0 keys left".to_owned(), met)),
    }
}

/// Runs a line of Lua on every server for every name.
fn each_name(servers: &[RedisServer], count: usize, line: &str) {
    let script = format!(
        "for i = 0, ARGV[1] - 1 do local name = string.format('waiter-%d', i) {line} end return 'OK'"
    );
    for server in servers {
        server.command(&["EVAL", &script, "0", &count.to_string()]);
    }
}
