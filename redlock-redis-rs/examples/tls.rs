//! TLS: `tls CA-FILE rediss://HOST:PORT,...`
//!
//! A `rediss://` URL alone verifies the certificates of the servers with the root certificates of the system. A private
//! CA and a client certificate are options.
#![allow(clippy::print_stdout)] // an example shows what it does

use std::error::Error;
use std::time::Duration;

use redlock_redis_rs::{Options, builder_with};

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [authority, urls] = &arguments[..] else { return Err("usage: tls CA-FILE URL,...".into()) };
    let options = Options::tokio().root_certificates(std::fs::read(authority)?);
    let redlock = builder_with(urls.split(','), &options)?.build()?;
    let guard = redlock.lock("a", TTL).await?;
    println!("locked over TLS, valid for another {:.0?}", guard.remaining());
    guard.release().await?;
    redlock.close().await;
    Ok(())
}
