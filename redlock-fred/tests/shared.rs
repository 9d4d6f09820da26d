//! The tests that all adapters share.
#![allow(clippy::unwrap_used)] // a panic is a failed test

use std::sync::Arc;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ReconnectPolicy};
use redlock_adapter_tests::{Adapter, adapter_tests};
use redlock_fred::node::LockNode;
use redlock_fred::{Builder, Connector, Error, IntoConnector, Node, Options, node_with_connection};

struct Fred;

impl Adapter for Fred {
    type Connector = Connector;

    const PROCESS: &'static str = "process_fred";
    const REPORTS_FLUSH: bool = false;

    fn connector(url: String) -> Result<Connector, Error> {
        url.into_connector(&Options::tokio())
    }

    fn node(url: String, options: &Options) -> Result<Node, Error> {
        redlock_fred::node(url, options)
    }

    fn builder(urls: impl IntoIterator<Item = String>) -> Result<Builder, Error> {
        Ok(redlock_fred::builder(urls)?.compare_node_lists(false))
    }

    fn builder_with(urls: impl IntoIterator<Item = String>, options: &Options) -> Result<Builder, Error> {
        Ok(redlock_fred::builder_with(urls, options)?.compare_node_lists(false))
    }

    async fn borrowed(url: String, options: &Options) -> Arc<dyn LockNode> {
        let config = Config::from_url(&url).unwrap();
        let client = Client::new(config, None, None, Some(ReconnectPolicy::new_constant(0, 20)));
        client.init().await.unwrap();
        Arc::new(node_with_connection(url, &client, options))
    }
}

adapter_tests!(Fred);

/// The cases that depend on the way to the server, over the relay. It owns the socket.
#[cfg(all(feature = "relay", any(target_os = "linux", target_os = "android")))]
mod relay {
    use redlock_adapter_tests::{connection_tests, socket_tests};
    use redlock_fred::relayed;

    use super::*;

    struct Relayed;

    impl Adapter for Relayed {
        type Connector = Connector;

        const PROCESS: &'static str = Fred::PROCESS;
        const REPORTS_FLUSH: bool = Fred::REPORTS_FLUSH;

        fn connector(url: String) -> Result<Connector, Error> {
            relayed(url).into_connector(&Options::tokio())
        }

        fn node(url: String, options: &Options) -> Result<Node, Error> {
            redlock_fred::node(relayed(url), options)
        }

        fn builder(urls: impl IntoIterator<Item = String>) -> Result<Builder, Error> {
            Ok(redlock_fred::builder(urls.into_iter().map(relayed))?.compare_node_lists(false))
        }

        fn builder_with(urls: impl IntoIterator<Item = String>, options: &Options) -> Result<Builder, Error> {
            Ok(redlock_fred::builder_with(urls.into_iter().map(relayed), options)?.compare_node_lists(false))
        }

        async fn borrowed(url: String, options: &Options) -> Arc<dyn LockNode> {
            Fred::borrowed(url, options).await
        }
    }

    connection_tests!(Relayed);
    socket_tests!(Relayed);
}
