//! Releases on a runtime whose threads the application blocks, as synchronous code in an async task does.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::Plan;
use super::client::{Kind, TTL, failed};
use super::stage::Stage;
use super::tally::{Attempt, Tally};
use crate::lane::Flavor;
use crate::report::Fact;

const GROUP: &str =
    "Stalls: the application blocks all threads of the runtime four times while N releases run";

const STALLS: usize = 4;

/// Longer than the default node timeout, which is 200 ms.
const STALL: Duration = Duration::from_millis(260);

/// The maximum time of the releases.
const LIMIT: Duration = Duration::from_secs(60);

/// The number of locks acquired at once.
const AT_ONCE: usize = 64;

pub(super) fn run(plan: &Plan) -> Vec<Fact> {
    let counts = plan.locks(&[2_800], &[2_800], 40);
    let mut facts = Vec::new();
    for kind in plan.adapters() {
        for count in &counts {
            for (flavor, name) in
                [(Flavor::CurrentThread, "current-thread"), (Flavor::MultiThread, "multi-thread")]
            {
                facts.push(stalled(kind, *count, flavor, name));
            }
        }
    }
    facts
}

fn stalled(kind: Kind, count: usize, flavor: Flavor, runtime: &str) -> Fact {
    let stage = Stage::new(kind, flavor);
    let threads = match flavor {
        Flavor::CurrentThread => 1,
        Flavor::MultiThread => stage.runtime.metrics().num_workers(),
    };
    let tally = stage.block_on(releases(&stage, count, threads));
    let ending = stage.end("stalled-");
    let failed = tally.errors.count();
    Fact {
        group: GROUP,
        what: format!("{}, {runtime} runtime, N = {count}", kind.name()),
        measured: format!("{:.1} % fail; {}; {ending}", 100.0 - tally.share(), tally.errors),
        goal: Some(("none fails; 0 keys left".to_owned(), failed == 0 && ending.keys == 0)),
    }
}

async fn releases(stage: &Stage, count: usize, threads: usize) -> Tally {
    let redlock = stage.client.redlock();
    let mut guards = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let requests = (first..count.min(first + AT_ONCE))
            .map(|number| redlock.lock(format!("stalled-{number}"), TTL).into_future());
        guards.extend(join_all(requests).await.into_iter().flatten());
    }
    let start = Instant::now();
    let mut tasks = Vec::with_capacity(count);
    let batch = guards.len().div_ceil(STALLS);
    for _ in 0..STALLS {
        for guard in guards.drain(..guards.len().min(batch)) {
            let release =
                async { guard.release().await.map(drop).map_err(|error| failed("release", &error)) };
            let start = Instant::now();
            tasks.push(tokio::spawn(async move { Attempt::new(start, release.await) }));
        }
        // Each stall occupies one thread of the runtime.
        let stalls = (0..threads).map(|_| tokio::spawn(async { std::thread::sleep(STALL) }));
        join_all(stalls).await;
    }
    Tally::of(start, tasks, LIMIT).await
}
