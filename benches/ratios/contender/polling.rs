//! A node without notifications, so that waiters poll it.

use redlock_core::node::{Claim, ConnectionId, LockNode, NodeError, ServerId, Ttl, Vote, async_trait};

pub(crate) struct Polling<N>(pub(crate) N);

#[async_trait]
impl<N: LockNode> LockNode for Polling<N> {
    fn label(&self) -> &str {
        self.0.label()
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.0.acquire(claim, ttl).await
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.0.extend(claim, ttl).await
    }

    async fn release(&self, claim: &Claim) -> Result<bool, NodeError> {
        self.0.release(claim).await
    }

    fn connection(&self) -> Option<ConnectionId> {
        self.0.connection()
    }

    fn server(&self) -> Option<ServerId> {
        self.0.server()
    }
}
