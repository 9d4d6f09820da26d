//! One deadline for several steps: a request with a limit of one second acquires two locks, or gives up in time.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::time::Duration;

use redlock_redis_rs::{Error, ErrorKind, Redlock};

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes = nodes::Nodes::find()?;
    let (ours, other) = (nodes.redlock()?, nodes.redlock()?);

    let in_the_way = other.lock("stock:7", TTL).owner("the-other-one").await?;
    let error = request(&ours).await.expect_err("the other one has the second lock");
    assert_eq!(ErrorKind::Contended, error.kind());
    println!("{error}");
    for node in error.node_reports() {
        println!("  {node}");
    }
    let holder = error.holder().expect("a quorum names it");
    assert_eq!(Some("the-other-one"), holder.owner());

    in_the_way.release().await?;
    request(&ours).await?;
    println!("in time");
    ours.close().await;
    other.close().await;
    Ok(())
}

async fn request(redlock: &Redlock) -> Result<(), Error> {
    // The clock of the deadline is that of the leases. Attempts start until then, and none later.
    let deadline = redlock.now() + Duration::from_secs(1);
    let order = redlock.lock("order:42", TTL).wait_until(deadline).await?;
    let stock = redlock.lock("stock:7", TTL).wait_until(deadline).await?;
    // ... both are held here; an error above has released the first ...
    stock.release().await?;
    order.release().await?;
    Ok(())
}
