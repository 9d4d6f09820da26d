//! Sharing a lease: the guard owns the lock and stays in one place. Its lease is a view for any number of tasks, which
//! check it before each effect and are notified of the loss. Finally the lock moves to another process.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::time::Duration;

use redlock_redis_rs::{Error, KeepAlive, Lease, Loss};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes = nodes::Nodes::find()?;
    let redlock = nodes.redlock()?;

    let guard = redlock.lock("import", TTL).keep_alive(KeepAlive::new()).await?;
    let parts = [1, 2, 3].map(|part| tokio::spawn(import(part, guard.lease())));
    for part in parts {
        part.await.expect("the task does not panic");
    }

    // A lease never releases. The tasks have ended, and the lock is still held.
    assert!(guard.is_held());
    let watcher = tokio::spawn(guard.lost());

    // The lock moves: the detached lease is a value that can be serialized (feature `serde`) and resumed elsewhere.
    let lease = guard.detach().await;
    assert_eq!(Loss::Detached, watcher.await.expect("the task does not panic"));
    let elsewhere = nodes.redlock()?;
    let guard = elsewhere.resume(&lease).await?;
    println!("resumed elsewhere, valid for another {:.0?}", guard.remaining());
    println!("released: {:?}", guard.release().await?);
    redlock.close().await;
    elsewhere.close().await;
    Ok(())
}

async fn import(part: u32, lease: Lease) {
    for row in 0..3 {
        if !lease.is_held() {
            println!("part {part} stops at row {row}");
            return;
        }
        sleep(Duration::from_millis(10)).await; // writes the row
    }
    println!("part {part} is done under {}", lease.fingerprint());
}
