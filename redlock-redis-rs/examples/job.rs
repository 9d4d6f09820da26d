//! A nightly job that every machine starts at the same moment and one machine runs. Keep-alive extends its lock for as long
//! as the job takes, and the job stops if the lock is lost. A machine that starts after the end of the job runs it again:
//! see `LockRequest::once_per` for jobs that run once in each period.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::time::Duration;

use redlock_redis_rs::{Error, ErrorKind, KeepAlive, Lease, Redlock, RunError};
use tokio::time::sleep;

/// The time for which a crashed machine prevents the others from starting. The job may take longer.
const TTL: Duration = Duration::from_secs(3);

/// Machines that start at the same moment may split the nodes among them, so that none has a quorum. They retry for
/// this time, which is shorter than the job.
const RETRY: Duration = Duration::from_millis(300);

/// An upper limit on the duration of the job.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes = nodes::Nodes::find()?;
    let mut machines = Vec::new();
    for machine in 1..=4 {
        machines.push(tokio::spawn(nightly(machine, nodes.redlock()?)));
    }
    let mut runs = 0;
    for machine in machines {
        runs += usize::from(machine.await.expect("the task does not panic")?);
    }
    assert_eq!(1, runs);
    overrun(&nodes.redlock()?).await
}

/// Returns true if this machine has run the job.
async fn nightly(machine: u32, redlock: Redlock) -> Result<bool, Error> {
    let keep_alive = KeepAlive::new().max_hold(LIMIT);
    let guard = match redlock.lock("nightly", TTL).max_wait(RETRY).keep_alive(keep_alive).await {
        Err(error) if error.kind() == ErrorKind::Contended => {
            println!("machine {machine}: another one runs it");
            return Ok(false);
        }
        outcome => outcome?,
    };
    let finished = tokio::select! {
        biased; // checks the loss first: no step of the job runs without the lock
        loss = guard.lost() => {
            println!("machine {machine}: stopped, {loss}");
            false
        }
        () = job(guard.lease()) => {
            println!("machine {machine}: done");
            true
        }
    };
    guard.release().await?;
    Ok(finished)
}

async fn job(lease: Lease) {
    for step in 1..=3 {
        assert!(lease.is_held(), "step {step}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Does the same in one call: `run` extends the lock, cancels the work on loss, and releases the lock.
async fn overrun(redlock: &Redlock) -> Result<(), Error> {
    let short = KeepAlive::new().max_hold(Duration::from_millis(600));
    let endless = async |_lease| loop {
        sleep(Duration::from_millis(10)).await;
    };
    let outcome: Result<(), RunError<()>> =
        redlock.lock("overrun", Duration::from_millis(300)).keep_alive(short).run(endless).await;
    let error = outcome.expect_err("the job never ends on its own");
    assert_eq!(ErrorKind::Lost, error.kind());
    println!("a job that does not end: {error}");
    redlock.close().await;
    Ok(())
}
