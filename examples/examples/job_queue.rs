//! A queue of jobs with several workers, with apalis: jobs of one account run one at a time, on any number of machines.
//!
//! `cargo run -p redlock-examples --example job_queue`
#![allow(clippy::print_stdout)] // prints the end

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apalis::prelude::{Data, MemoryStorage, TaskSink, WorkerBuilder, WorkerBuilderExt};
use redlock_examples::Nodes;
use redlock_redis_rs::{Lease, Redlock, RunError};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, yield_now};

const TTL: Duration = Duration::from_secs(10);

/// A balance that is read and written in two steps, as in a service without transactions.
type Balance = Arc<AtomicU64>;

/// Adds to the balance. Without the lock, one of two deposits at the same time would be lost.
async fn deposit(
    amount: u64,
    redlock: Data<Redlock>,
    balance: Data<Balance>,
    done: Data<mpsc::UnboundedSender<u64>>,
) -> Result<(), RunError<()>> {
    let work = async |_lease: Lease| {
        let before = balance.load(Ordering::Relaxed);
        yield_now().await;
        balance.store(before + amount, Ordering::Relaxed);
    };
    // After an error, a queue that retries carries the job out again. The wait and the work must end before the queue gives
    // the job to another worker.
    redlock.lock("account:7", TTL).max_wait(Duration::from_secs(30)).run(work).await?;
    let _ = done.send(amount); // fails only if the example has ended
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, balance) = (Nodes::new(), Balance::default());
    let (done, mut deposits) = mpsc::unbounded_channel::<u64>();
    let (stop, stopped) = watch::channel(());
    let mut machines = JoinSet::new();
    for machine in ["host-1", "host-2"] {
        let mut queue = MemoryStorage::new();
        for amount in 1..=5 {
            queue.push(amount).await?;
        }
        // A worker carries out several jobs at a time.
        let worker = WorkerBuilder::new(machine).backend(queue).concurrency(4);
        let worker = worker.data(nodes.program()?).data(balance.clone()).data(done.clone()).build(deposit);
        let mut stopped = stopped.clone();
        let signal = async move {
            drop(stopped.changed().await);
            Ok::<_, io::Error>(())
        };
        machines.spawn(worker.run_until(signal));
    }

    let mut sum = 0_u64;
    for _ in 0..2 * 5 {
        sum += deposits.recv().await.ok_or("the workers run")?;
    }
    println!("deposits: {sum}, balance: {}", balance.load(Ordering::Relaxed));
    assert_eq!(sum, balance.load(Ordering::Relaxed));
    drop(stop);
    while let Some(ended) = machines.join_next().await {
        ended??;
    }
    Ok(())
}

#[test]
fn no_deposit_is_lost() {
    main().expect("the example succeeds");
}
