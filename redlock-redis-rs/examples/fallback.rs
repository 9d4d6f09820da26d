//! Try-lock with a fallback: one of many processes rebuilds a cache entry, and the others serve the old one meanwhile.
//! They also serve the old entry if no lock can be acquired.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::time::Duration;

use redlock_redis_rs::{Error, ErrorKind, Redlock};

const TTL: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes = nodes::Nodes::find()?;
    let (one, two) = (nodes.redlock()?, nodes.redlock()?);
    let mut second = None;
    let first = page(&one, async {
        // While the first process rebuilds the entry, another one needs it.
        second = Some(page(&two, async {}).await);
    });
    assert_eq!(("new", Some("old")), (first.await?, second.transpose()?));
    one.close().await;
    two.close().await;
    Ok(())
}

async fn page(redlock: &Redlock, rebuild: impl Future<Output = ()>) -> Result<&'static str, Error> {
    match redlock.lock("cache:front-page", TTL).try_now().await {
        Ok(Some(guard)) => {
            rebuild.await;
            guard.release().await?;
            println!("rebuilt");
            Ok("new")
        }
        Ok(None) => {
            println!("another process rebuilds the entry; the old one will do");
            Ok("old")
        }
        // The lock only prevents duplicate work. This error does not justify work without the lock.
        Err(error) if error.kind() == ErrorKind::NoQuorum => {
            println!("cannot acquire the lock: {error}");
            Ok("old")
        }
        Err(error) => Err(error),
    }
}
