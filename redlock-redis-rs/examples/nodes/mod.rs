//! The nodes of the examples: the servers in `REDLOCK_NODES`, URLs separated by commas, or five embedded fake nodes.

use std::sync::Arc;

use redlock_redis_rs::node::LockNode;
use redlock_redis_rs::{Error, Options, Redlock, TokioRuntime, node};
use redlock_testkit::MemoryNode;

pub(crate) struct Nodes(Vec<Arc<dyn LockNode>>);

impl Nodes {
    pub(crate) fn find() -> Result<Self, Error> {
        let Ok(urls) = std::env::var("REDLOCK_NODES") else {
            return Ok(Self(
                (1..=5).map(|number| MemoryNode::new(format!("fake-{number}")).into()).collect(),
            ));
        };
        let options = Options::tokio();
        let node = |url: &str| Ok(Arc::new(node(url.trim(), &options)?) as Arc<dyn LockNode>);
        Ok(Self(urls.split(',').map(node).collect::<Result<_, Error>>()?))
    }

    /// Creates a new handle at each call, like a separate machine.
    pub(crate) fn redlock(&self) -> Result<Redlock, Error> {
        Redlock::builder(TokioRuntime::new()).nodes(self.0.clone()).build()
    }
}
