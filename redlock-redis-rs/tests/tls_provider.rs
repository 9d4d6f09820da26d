//! The cryptography provider of rustls belongs to the process: an application may install its own until a node connects.
//!
//! One test, in a process of its own.
#![cfg(all(feature = "tokio", feature = "tls-rustls"))]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use redlock_redis_rs::{LockNode, Options, Resource, node};
use rustls::crypto::{CryptoProvider, ring};

#[tokio::test]
async fn no_provider_is_installed_before_a_node_connects_over_tls() {
    let inspect = async |url: &str| {
        let node = node(url, &Options::tokio()).unwrap();
        assert!(CryptoProvider::get_default().is_none(), "parsing {url} installs one");
        // Nobody listens there.
        node.inspect(&Resource::new("a").unwrap()).await.unwrap_err()
    };
    drop(inspect("redis://127.0.0.1:1").await);
    assert!(CryptoProvider::get_default().is_none(), "a connection without TLS needs none");
    drop(inspect("rediss://127.0.0.1:1").await);
    assert!(CryptoProvider::get_default().is_some());
    assert!(ring::default_provider().install_default().is_err(), "too late");
}
