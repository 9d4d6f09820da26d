//! The clients whose restart admission works in different ways.

use std::sync::Arc;

use futures_util::future::join_all;
use redlock_core::node::LockNode;
use redlock_core::{Builder, Error, Redlock, TokioRuntime};
use redlock_redis_rs::Options;
use redlock_testkit::RedisServer;

use crate::contender::{fred_by_hand, redis_by_hand};
use crate::report::Goal;

/// A way to reach the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// A flush is pushed before later replies, so no check follows a vote.
    Redis,
    /// A comparison with the last look follows each vote.
    RedisResp2,
    /// A look follows each vote.
    RedisBorrowed,
    /// Same as [`RedisResp2`](Self::RedisResp2). Votes that are sent together have one check in common.
    Fred,
    /// A look follows each vote.
    FredBorrowed,
}

impl Client {
    pub(super) const ALL: [Self; 5] =
        [Self::Redis, Self::RedisResp2, Self::RedisBorrowed, Self::Fred, Self::FredBorrowed];

    /// The clients that open connections themselves.
    pub(super) const CONNECTING: [Self; 3] = [Self::Redis, Self::RedisResp2, Self::Fred];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-rs",
            Self::RedisResp2 => "redis-rs in RESP2",
            Self::RedisBorrowed => "redis-rs, borrowed connection",
            Self::Fred => "fred",
            Self::FredBorrowed => "fred, borrowed client",
        }
    }

    /// Returns the goal for cycles per second.
    pub(super) fn goal(self) -> Option<Goal> {
        (self == Self::Redis).then_some(Goal::AtLeast(0.93))
    }

    /// Creates the user of [`RedisResp2`](Self::RedisResp2), which is not permitted to switch to RESP3.
    pub(super) fn prepare(server: &RedisServer) {
        server.command(&["ACL", "SETUSER", "old", "on", ">secret", "~*", "&*", "+@all", "-hello"]);
    }

    pub(super) async fn builder(self, urls: &[String], options: &Options) -> Result<Builder, Error> {
        let with_nodes = |nodes: Vec<Arc<dyn LockNode>>| Redlock::builder(TokioRuntime::new()).nodes(nodes);
        match self {
            Self::Redis => redlock_redis_rs::builder_with(urls, options),
            Self::RedisResp2 => {
                let urls = urls.iter().map(|url| url.replace("//", "//old:secret@"));
                redlock_redis_rs::builder_with(urls, options)
            }
            Self::RedisBorrowed => {
                let node = async |url: &String| {
                    let connection = redis_by_hand::connect(url).await;
                    let node = redlock_redis_rs::node_with_connection(url, connection, options);
                    Arc::new(node) as Arc<dyn LockNode>
                };
                Ok(with_nodes(join_all(urls.iter().map(node)).await))
            }
            Self::Fred => redlock_fred::builder_with(urls, options),
            Self::FredBorrowed => {
                let node = async |url: &String| {
                    let client = fred_by_hand::connect(url).await;
                    let node = redlock_fred::node_with_connection(url, &client, options);
                    Arc::new(node) as Arc<dyn LockNode>
                };
                Ok(with_nodes(join_all(urls.iter().map(node)).await))
            }
        }
    }
}
