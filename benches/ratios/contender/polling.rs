//! A node without notifications, so that waiters poll it.

use redlock_core::node::{ConnectionId, LockNode, NodeError, Reply, Request, ServerId, async_trait};

pub(crate) struct Polling<N>(pub(crate) N);

#[async_trait]
impl<N: LockNode> LockNode for Polling<N> {
    fn label(&self) -> &str {
        self.0.label()
    }

    async fn call(&self, request: Request) -> Result<Reply, NodeError> {
        self.0.call(request).await
    }

    fn connection(&self) -> Option<ConnectionId> {
        self.0.connection()
    }

    fn server(&self) -> Option<ServerId> {
        self.0.server()
    }
}
