//! A schedule on several machines, with tokio-cron-scheduler: one of them runs the job of each period.
//!
//! `cargo run -p redlock-examples --example cron`
#![allow(clippy::print_stdout)] // prints the decisions

use std::error::Error;
use std::io;
use std::time::Duration;

use redlock_examples::Nodes;
use redlock_redis_rs::{JobOutcome, Redlock};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::yield_now;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

const HOUR: Duration = Duration::from_secs(3_600);
const TTL: Duration = Duration::from_secs(10);

async fn send_reminders() -> io::Result<()> {
    yield_now().await; // in the place of requests to a mail server
    Ok(())
}

/// Runs the job, unless it runs or has run on another machine in this hour.
async fn hourly(redlock: Redlock, machine: &str) -> String {
    let request = redlock.lock("reminders", TTL).owner(machine);
    match request.once_per(HOUR, async |_lease| send_reminders().await).await {
        Ok(JobOutcome::Ran(Ok(()))) => format!("ran on {machine}"),
        Ok(JobOutcome::Ran(Err(error))) => format!("failed on {machine}: {error}"),
        Ok(JobOutcome::Elsewhere(_)) => format!("not needed on {machine}"),
        Ok(JobOutcome::Undecided(error)) => format!("possibly, no machine has run it: {error}"),
        Err(error) => format!("lost on {machine}: {error}"),
    }
}

/// Starts the schedule of one machine.
///
/// It triggers every second here, so that the example ends soon. For a job that runs hourly, the schedule of each machine
/// is `0 0 * * * *`.
async fn schedule(
    redlock: Redlock,
    machine: &'static str,
    decisions: UnboundedSender<String>,
) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let job = Job::new_async("* * * * * *", move |_id, _scheduler| {
        let (redlock, decisions) = (redlock.clone(), decisions.clone());
        Box::pin(async move { drop(decisions.send(hourly(redlock, machine).await)) })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}

/// The scheduler needs several threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, (decisions, mut decided)) = (Nodes::new(), unbounded_channel());
    let mut schedulers = Vec::new();
    for machine in ["host-1", "host-2"] {
        schedulers.push(schedule(nodes.program()?, machine, decisions.clone()).await?);
    }

    let mut runs = 0;
    for _ in 0..4 {
        let decision = decided.recv().await.ok_or("the schedulers run")?;
        println!("{decision}");
        runs += usize::from(decision.starts_with("ran"));
    }
    assert_eq!(1, runs);
    for scheduler in &mut schedulers {
        scheduler.shutdown().await?;
    }
    Ok(())
}

#[test]
fn one_machine_runs_the_job() {
    main().expect("the example succeeds");
}
