//! The tests that all adapters share.

use redlock_adapter_tests::{Adapter, adapter_tests};
use redlock_fred::{Builder, Connector, Error, IntoConnector, Node, Options, Preflight, PreflightSettings};

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
        redlock_fred::builder(urls)
    }

    fn builder_with(urls: impl IntoIterator<Item = String>, options: &Options) -> Result<Builder, Error> {
        redlock_fred::builder_with(urls, options)
    }

    async fn preflight(
        urls: Vec<String>,
        options: &Options,
        settings: PreflightSettings,
    ) -> Result<Preflight, Error> {
        redlock_fred::preflight(urls, options, settings).await
    }
}

adapter_tests!(Fred);
