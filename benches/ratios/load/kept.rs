//! Very many locks with auto-renewal, and new locks that are requested meanwhile.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock_core::{Guard, KeepAlive, LeaseState, Redlock};
use rustix::time::ClockId;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Plan;
use super::client::{Kind, failed};
use super::stage::Stage;
use super::tally::{Attempt, Errors, Tally};
use crate::lane::{Flavor, cpu_micros};
use crate::report::Fact;

const GROUP: &str = "Kept: N locks are kept alive while new ones are requested";

/// The number of locks acquired at once.
const AT_ONCE: usize = 64;

/// The maximum time to acquire all locks.
const ACQUIRING: Duration = Duration::from_secs(120);

/// The time between two new locks.
const PERIOD: Duration = Duration::from_millis(200);

/// The maximum time of new locks after the last request.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn run(plan: &Plan) -> Vec<Fact> {
    // The larger number runs for five minutes, the smaller one for one minute.
    let lasts =
        |count| Duration::from_secs_f64(plan.seconds(if count > 20_000 { 300.0 } else { 60.0 }, 20.0, 0.5));
    let counts = plan.locks(&[20_000, 50_000], &[20_000, 50_000], 50);
    plan.adapters()
        .flat_map(|kind| counts.iter().map(move |count| (kind, *count)))
        .flat_map(|(kind, count)| kept(kind, count, lasts(count)))
        .collect()
}

/// Returns 5 s for up to 20,000 locks, and 10 s for more.
fn ttl(count: usize) -> Duration {
    Duration::from_secs(if count > 20_000 { 10 } else { 5 })
}

#[allow(clippy::cast_precision_loss)] // a few millions
fn kept(kind: Kind, count: usize, lasts: Duration) -> Vec<Fact> {
    let stage = Stage::new(kind, Flavor::MultiThread);
    let ttl = ttl(count);
    let start = Instant::now();
    let (guards, failures) = stage.block_on(acquire(stage.client.redlock(), ttl, count));
    let acquiring = start.elapsed().as_secs_f64();

    let (start, cpu) = (Instant::now(), cpu_micros(ClockId::ProcessCPUTime));
    let renewals = stage.servers[0].commandstats("pexpire");
    let new = stage.block_on(meanwhile(stage.client.redlock(), ttl, lasts));
    let seconds = start.elapsed().as_secs_f64();
    let renewals = (stage.servers[0].commandstats("pexpire") - renewals) as f64 / seconds;
    let cpu = (cpu_micros(ClockId::ProcessCPUTime) - cpu) / seconds / 1e4;

    let held = guards.iter().filter(|guard| guard.is_held()).count();
    let mut losses = Errors::default();
    for guard in &guards {
        if let LeaseState::Lost(loss) = guard.state() {
            losses.add(loss.to_string());
        }
    }
    let new = stage.block_on(Tally::of(start, new, LIMIT));
    stage.block_on(async { drop(guards) });
    let ending = stage.end("kept-");

    let fact = |what: &str, measured, goal| Fact {
        group: GROUP,
        what: format!("{}, N = {count}, TTL {} s: {what}", kind.name(), ttl.as_secs()),
        measured,
        goal,
    };
    let latency = new.latency().map_or("-".to_owned(), |latency| {
        format!("p50 {:.1} ms, p99 {:.1} ms", latency.p50 / 1e3, latency.p99 / 1e3)
    });
    let acquired = count - failures.count();
    vec![
        fact("acquired", format!("{acquired} in {acquiring:.1} s; {failures}"), None),
        fact(
            "held at the end",
            format!("{held}, {:.1} % after {seconds:.0} s; {losses}", 100.0 * held as f64 / count as f64),
            Some(("all".to_owned(), held == count)),
        ),
        fact(
            "renewals per second and server",
            format!("{renewals:.0}; CPU of the client {cpu:.0} % of a core"),
            None,
        ),
        fact(
            "new locks at the same time",
            format!("{} acquired; {latency}; {}", new.succeeded(), new.errors),
            Some(("no errors".to_owned(), new.errors.count() == 0)),
        ),
        fact(
            "all dropped, then closed",
            ending.to_string(),
            Some(("0 keys left".to_owned(), ending.keys == 0)),
        ),
    ]
}

/// Acquires `count` locks, some at a time. Also returns the errors.
async fn acquire(redlock: &Redlock, ttl: Duration, count: usize) -> (Vec<Guard>, Errors) {
    let until = Instant::now() + ACQUIRING;
    let (mut guards, mut errors) = (Vec::with_capacity(count), Errors::default());
    for first in (0..count).step_by(AT_ONCE) {
        let request = |number| async move {
            let request = redlock.lock(format!("kept-{number}"), ttl).keep_alive(KeepAlive::new());
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, request.into_future()).await {
                Ok(acquired) => acquired.map_err(|error| failed("lock", &error)),
                Err(_) => Err("unfinished".to_owned()),
            }
        };
        for acquired in join_all((first..count.min(first + AT_ONCE)).map(request)).await {
            match acquired {
                Ok(guard) => guards.push(guard),
                Err(kind) => errors.add(kind),
            }
        }
    }
    (guards, errors)
}

/// Requests a new lock from time to time and releases it at once.
async fn meanwhile(redlock: &Redlock, ttl: Duration, lasts: Duration) -> Vec<JoinHandle<Attempt>> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    while start.elapsed() < lasts {
        let (redlock, name, start) = (redlock.clone(), format!("new-{}", tasks.len()), Instant::now());
        let cycle = async move {
            let guard = redlock.lock(name, ttl).await.map_err(|error| failed("lock", &error))?;
            guard.release().await.map_err(|error| failed("release", &error))?;
            Ok(())
        };
        tasks.push(tokio::spawn(async move { Attempt::new(start, cycle.await) }));
        sleep(PERIOD).await;
    }
    tasks
}
