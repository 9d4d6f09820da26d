//! One deadline for several steps: a request with a limit of one second acquires two locks, or gives up in time.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::time::Duration;

use redlock_redis_rs::{Error, ErrorKind, Redlock};

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes = nodes::Nodes::find()?;
    let (redlock, other) = (nodes.redlock()?, nodes.redlock()?);

    let obstacle = other.lock("stock:7", TTL).owner("the-other-one").await?;
    let error = request(&redlock).await.expect_err("the other client holds the second lock");
    assert_eq!(ErrorKind::Contended, error.kind());
    println!("{error}");
    for node in error.node_reports() {
        println!("  {node}");
    }
    let holder = error.holder().expect("a quorum reports the holder");
    assert_eq!(Some("the-other-one"), holder.owner());

    obstacle.release().await?;
    request(&redlock).await?;
    println!("in time");
    redlock.close().await;
    other.close().await;
    Ok(())
}

async fn request(redlock: &Redlock) -> Result<(), Error> {
    // The deadline uses the clock of the leases. No attempt starts after it.
    let deadline = redlock.now() + Duration::from_secs(1);
    let order = redlock.lock("order:42", TTL).wait_until(deadline).await?;
    let stock = redlock.lock("stock:7", TTL).wait_until(deadline).await?;
    // ... both locks are held here; after an error above, the first one is released ...
    stock.release().await?;
    order.release().await?;
    Ok(())
}
