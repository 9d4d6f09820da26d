//! Try-lock with a fallback: one of many processes rebuilds a cache entry, and the others serve the old one meanwhile.
//! They also serve the old entry if no lock can be acquired.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::time::Duration;

use redlock_redis_rs::{Error, ErrorKind, Redlock};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes = nodes::Nodes::find()?;
    let (one, two) = (nodes.redlock()?, nodes.redlock()?);
    let (first, second) = tokio::join!(page(&one), async {
        sleep(Duration::from_millis(50)).await;
        page(&two).await
    });
    assert_eq!(("new", "old"), (first?, second?));
    one.close().await;
    two.close().await;
    Ok(())
}

async fn page(redlock: &Redlock) -> Result<&'static str, Error> {
    match redlock.try_lock("cache:front-page", TTL).await {
        Ok(Some(guard)) => {
            sleep(Duration::from_millis(300)).await; // rebuilds the entry
            guard.release().await?;
            println!("rebuilt");
            Ok("new")
        }
        Ok(None) => {
            println!("another process rebuilds the entry; the old one will do");
            Ok("old")
        }
        // The lock only prevents duplicate work, so this error is no reason to work without it.
        Err(error) if error.kind() == ErrorKind::NoQuorum => {
            println!("cannot acquire the lock: {error}");
            Ok("old")
        }
        Err(error) => Err(error),
    }
}
