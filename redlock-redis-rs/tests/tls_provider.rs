//! The cryptography provider of rustls belongs to the application: this library installs none for the process.
//!
//! A single test, so that no other test shares its process.
#![cfg(all(feature = "tokio", feature = "tls-rustls", feature = "ring"))]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use redlock_redis_rs::node::{LockNode, Request};
use redlock_redis_rs::{Options, Resource, node};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

#[tokio::test]
async fn no_provider_is_installed_for_the_process() {
    for url in ["redis://127.0.0.1:1", "rediss://127.0.0.1:1"] {
        let node = node(url, &Options::tokio()).unwrap();
        // No server listens on this port.
        drop(node.call(Request::Inspect(Resource::new("a").unwrap())).await.unwrap_err());
        assert!(CryptoProvider::get_default().is_none(), "{url}");
    }
    ring::default_provider().install_default().unwrap();
}
