//! This library, over any nodes.

use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::{Builder, Error, Guard, Redlock, TokioRuntime};
use redlock_redis_rs::Options;

use super::polling::Polling;
use super::{Contender, TTL};

#[derive(Clone)]
pub(crate) struct RedlockClient(pub(crate) Redlock);

impl RedlockClient {
    pub(crate) fn redis_rs(urls: &[String]) -> Self {
        Self::built(redlock_redis_rs::builder(urls))
    }

    pub(crate) fn fred(urls: &[String]) -> Self {
        Self::built(redlock_fred::builder(urls))
    }

    /// Connects to nodes that send no notifications.
    pub(crate) fn redis_rs_polling(urls: &[String]) -> Self {
        let options = Options::tokio();
        Self::polling(urls.iter().map(|url| redlock_redis_rs::node(url, &options)))
    }

    /// Connects to nodes that send no notifications.
    pub(crate) fn fred_polling(urls: &[String]) -> Self {
        let options = Options::tokio();
        Self::polling(urls.iter().map(|url| redlock_fred::node(url, &options)))
    }

    fn polling<N: LockNode>(nodes: impl Iterator<Item = Result<N, Error>>) -> Self {
        let nodes =
            nodes.map(|node| Arc::new(Polling(node.expect("the addresses are valid"))) as Arc<dyn LockNode>);
        Self::built(Ok(Redlock::builder(TokioRuntime::new()).nodes(nodes)))
    }

    /// Sets a node timeout that every reply meets on a busy machine, since the clients used by hand have none.
    pub(crate) fn with_long_timeout(builder: Result<Builder, Error>) -> Self {
        Self::built(builder.map(|builder| builder.node_timeout(TTL / 2)))
    }

    fn built(builder: Result<Builder, Error>) -> Self {
        Self(builder.and_then(Builder::build).expect("the addresses and settings are valid"))
    }
}

impl Contender for RedlockClient {
    type Held = Guard;

    async fn acquire(&self, key: &str) -> Guard {
        self.0.lock(key, TTL).wait_unbounded().await.expect("a quorum replies")
    }

    async fn release(&self, held: Guard) {
        held.release().await.expect("a quorum replies");
    }

    async fn extend(&self, held: &mut Guard) {
        held.extend(TTL).await.expect("a quorum holds the lock");
    }
}
