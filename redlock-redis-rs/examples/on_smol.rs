//! The nodes and the locks on smol, without tokio.
//!
//! `REDLOCK_NODES` lists the URLs of the servers, separated by commas. The default is one server on this machine.
#![allow(clippy::print_stdout)] // an example shows what it does

use std::time::Duration;

use redlock_redis_rs::{Error, Options, builder_with};

const TTL: Duration = Duration::from_secs(5);

fn main() -> Result<(), Error> {
    let urls = std::env::var("REDLOCK_NODES").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let redlock = builder_with(urls.split(','), &Options::smol())?.build()?;
    smol::block_on(async {
        let work = async |lease: redlock_redis_rs::Lease| {
            smol::Timer::after(Duration::from_millis(100)).await;
            lease.is_held()
        };
        assert!(redlock.lock("a", TTL).run(work).await?);
        println!("worked under the lock, on smol");
        redlock.close().await;
        Ok(())
    })
}
