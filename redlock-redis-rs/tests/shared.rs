//! The tests that all adapters share.

use redlock_adapter_tests::{Adapter, adapter_tests};
use redlock_redis_rs::{
    Builder, Connector, Error, IntoConnector, Node, Options, Preflight, PreflightSettings,
};

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
        redlock_redis_rs::builder(urls)
    }

    fn builder_with(urls: impl IntoIterator<Item = String>, options: &Options) -> Result<Builder, Error> {
        redlock_redis_rs::builder_with(urls, options)
    }

    async fn preflight(
        urls: Vec<String>,
        options: &Options,
        settings: PreflightSettings,
    ) -> Result<Preflight, Error> {
        redlock_redis_rs::preflight(urls, options, settings).await
    }
}

adapter_tests!(RedisRs);
