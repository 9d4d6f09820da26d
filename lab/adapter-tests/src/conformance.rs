//! The conformance suite of the testkit, on a real server.

use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::runtime::Runtime;
use redlock_core::{Resource, TokioRuntime};
use redlock_testkit::RedisServer;
use redlock_testkit::conformance::Backend;
use redlock_wire::Options;

use crate::Adapter;

/// A server for one case, and the function that creates its nodes.
pub struct Server<F> {
    server: RedisServer,
    tokio: tokio::runtime::Runtime,
    node: F,
}

impl<F: AsyncFn(&RedisServer) -> Arc<dyn LockNode>> Server<F> {
    /// Starts a server.
    pub fn start(node: F) -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server: RedisServer::start(), tokio, node }
    }
}

/// Starts a server whose nodes are those of an adapter.
pub fn server<A: Adapter>() -> Server<impl AsyncFn(&RedisServer) -> Arc<dyn LockNode>> {
    server_with::<A>(Options::tokio())
}

/// Same as [`server`], and the nodes use native commands.
pub fn server_by_commands<A: Adapter>() -> Server<impl AsyncFn(&RedisServer) -> Arc<dyn LockNode>> {
    server_with::<A>(Options::tokio().native_commands(true))
}

fn server_with<A: Adapter>(options: Options) -> Server<impl AsyncFn(&RedisServer) -> Arc<dyn LockNode>> {
    Server::start(async move |server: &RedisServer| {
        Arc::new(A::node(server.url(), &options).unwrap()) as Arc<dyn LockNode>
    })
}

impl<F: AsyncFn(&RedisServer) -> Arc<dyn LockNode>> Backend for Server<F> {
    async fn node(&self) -> Arc<dyn LockNode> {
        (self.node)(&self.server).await
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
