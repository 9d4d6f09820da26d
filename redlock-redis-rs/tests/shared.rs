//! The tests that all adapters share.
#![allow(clippy::unwrap_used)] // a panic is a failed test

use std::sync::Arc;

use redis::Client;
use redis::aio::ConnectionManagerConfig;
use redlock_adapter_tests::{Adapter, adapter_tests, socket_tests};
use redlock_redis_rs::node::LockNode;
use redlock_redis_rs::{Builder, Connector, Error, IntoConnector, Node, Options, node_with_connection};

struct RedisRs;

impl Adapter for RedisRs {
    type Connector = Connector;

    const PROCESS: &'static str = "process_redis_rs";
    const REPORTS_FLUSH: bool = true;

    fn connector(url: String) -> Result<Connector, Error> {
        url.into_connector(&Options::tokio())
    }

    fn node(url: String, options: &Options) -> Result<Node, Error> {
        redlock_redis_rs::node(url, options)
    }

    fn builder(urls: impl IntoIterator<Item = String>) -> Result<Builder, Error> {
        Ok(redlock_redis_rs::builder(urls)?.compare_node_lists(false))
    }

    fn builder_with(urls: impl IntoIterator<Item = String>, options: &Options) -> Result<Builder, Error> {
        Ok(redlock_redis_rs::builder_with(urls, options)?.compare_node_lists(false))
    }

    /// The time limit of the client, 500 ms, is off, since a busy machine exceeds it.
    async fn borrowed(url: String, options: &Options) -> Arc<dyn LockNode> {
        let config = ConnectionManagerConfig::new().set_response_timeout(None);
        let client = Client::open(&*url).unwrap();
        let connection = client.get_connection_manager_with_config(config).await.unwrap();
        Arc::new(node_with_connection(url, connection, options))
    }
}

adapter_tests!(RedisRs);
socket_tests!(RedisRs);
