//! This library, over any nodes.

use redlock_core::{Builder, Error, Guard, Redlock};

use super::{Contender, TTL};

#[derive(Clone)]
pub(crate) struct Ours(pub(crate) Redlock);

impl Ours {
    pub(crate) fn redis_rs(urls: &[String]) -> Self {
        Self::built(redlock_redis_rs::builder(urls))
    }

    pub(crate) fn fred(urls: &[String]) -> Self {
        Self::built(redlock_fred::builder(urls))
    }

    /// With a node timeout that no answer misses, however busy the machine: the clients driven by hand have none.
    pub(crate) fn patient(builder: Result<Builder, Error>) -> Self {
        Self::built(builder.map(|builder| builder.node_timeout(TTL / 2)))
    }

    fn built(builder: Result<Builder, Error>) -> Self {
        Self(builder.and_then(Builder::build).expect("good addresses and settings"))
    }
}

impl Contender for Ours {
    type Held = Guard;

    async fn acquire(&self, key: &str) -> Guard {
        self.0.lock(key, TTL).await.expect("nobody else has it")
    }

    async fn release(&self, held: Guard) {
        held.release().await.expect("a quorum answers");
    }

    async fn extend(&self, held: &mut Guard) {
        held.extend(TTL).await.expect("a quorum has it");
    }
}
