//! TLS: `tls CA-FILE rediss://HOST:PORT,...`
//!
//! A `rediss://` URL alone verifies the certificates of the servers with the root certificates of the system. To use a
//! private CA or a client certificate, pass it beside the URL.
#![allow(clippy::print_stdout)] // an example shows what it does

use std::error::Error;
use std::time::Duration;

use redis::TlsCertificates;

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [authority, urls] = &arguments[..] else { return Err("usage: tls CA-FILE URL,...".into()) };
    let root_cert = Some(std::fs::read(authority)?);
    let mut servers = Vec::new();
    for url in urls.split(',') {
        let certificates = TlsCertificates { client_tls: None, root_cert: root_cert.clone() };
        servers.push((url, certificates));
    }
    let redlock = redlock_redis_rs::builder(servers)?.build()?;
    let guard = redlock.lock("a", TTL).await?;
    println!("locked over TLS, valid for another {:.0?}", guard.remaining());
    guard.release().await?;
    redlock.close().await;
    Ok(())
}
