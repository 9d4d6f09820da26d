//! Clients that attempt at the same moment and split the votes: one of them acquires the lock, and no lock is reported as
//! held while no client holds it.

use redlock_core::{Guard, JobOutcome};
use tokio::sync::Barrier;

use super::*;

const CLIENTS: usize = 10;

/// Returns how often a test is repeated. `REDLOCK_ROUNDS` sets a larger number.
fn rounds() -> usize {
    std::env::var("REDLOCK_ROUNDS").map_or(60, |rounds| rounds.parse().expect("REDLOCK_ROUNDS is a number"))
}

/// Calls `attempt` for ten clients at the same moment, in many rounds. Passes the results of each round to `check`.
async fn in_rounds<A: Adapter, T: Send + 'static, F>(
    attempt: impl Fn(Redlock, String) -> F + Clone + Send + 'static,
    check: impl Fn(usize, usize, Vec<T>),
) where
    F: Future<Output = T> + Send + 'static,
{
    for nodes in [3, 5] {
        let servers = RedisServer::start_many(nodes);
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(warm::<A>(&servers).await);
        }
        for round in 0..rounds() {
            let barrier = Arc::new(Barrier::new(CLIENTS));
            let tasks = clients.iter().map(|redlock| {
                let (redlock, barrier, attempt) = (redlock.clone(), Arc::clone(&barrier), attempt.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    attempt(redlock, format!("round:{round}")).await
                })
            });
            let mut results = Vec::new();
            for task in tasks.collect::<Vec<_>>() {
                results.push(task.await.unwrap());
            }
            check(nodes, round, results);
        }
        for redlock in &clients {
            assert_eq!(0, redlock.close().await, "cleanup was abandoned");
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn a_job_runs_exactly_once_in_each_period_on_ten_machines<A: Adapter>() {
    let job = |redlock: Redlock, name: String| async move {
        redlock.lock(&name, TTL).once_per(360 * TTL, async |_| Ok::<_, ()>(())).await.unwrap()
    };
    in_rounds::<A, _, _>(job, |nodes, round, outcomes| {
        let ran = |outcome: &&JobOutcome<_>| matches!(outcome, JobOutcome::Ran(Ok(())));
        let runs = outcomes.iter().filter(ran).count();
        assert_eq!(1, runs, "{nodes} nodes, period {round}: {outcomes:?}");
        let mut others = outcomes.iter().filter(|outcome| !ran(outcome));
        assert!(others.all(|outcome| matches!(outcome, JobOutcome::Elsewhere(Some(_)))), "{outcomes:?}");
    })
    .await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn exactly_one_of_ten_single_attempts_acquires_a_free_lock<A: Adapter>() {
    let attempt =
        |redlock: Redlock, name: String| async move { redlock.lock(&name, TTL).try_now().await.unwrap() };
    in_rounds::<A, Option<Guard>, _>(attempt, |nodes, round, guards| {
        assert_eq!(1, guards.iter().flatten().count(), "{nodes} nodes, round {round}");
    })
    .await;
}
