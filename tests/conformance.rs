//! The node keeps the contract of a transport, sentence by sentence.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::sync::Arc;

use crate::adapter::{LockNode, Options, Resource, Runtime, TokioRuntime, node};
use redlock_testkit::RedisServer;
use redlock_testkit::conformance::Backend;

/// A server of its own for each case.
struct Redis {
    server: RedisServer,
    tokio: tokio::runtime::Runtime,
}

impl Redis {
    fn start() -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server: RedisServer::start(), tokio }
    }
}

impl Backend for Redis {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(node(self.server.url(), &Options::tokio()).unwrap())
    }

    async fn no_lock(&self) -> Option<Resource> {
        self.server.command(&["LPUSH", "a list", "x"]);
        Some(Resource::new("a list").unwrap())
    }

    fn block_on(&self, case: impl Future<Output = ()>) {
        self.tokio.block_on(case);
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(TokioRuntime::new())
    }
}

redlock_testkit::conformance!(Redis::start());
