//! Benchmarks of redlock; nothing to depend on.
//!
//! `scripts/bench` compares, and writes `docs/performance`; `cargo bench -p redlock-benches --bench core` times the core
//! alone, against its own last run.

use std::sync::Arc;

use redlock_core::{
    Claim, ConnectionId, Denial, LockNode, NodeError, Redlock, ServerId, Token, TokioRuntime, Ttl, Vote,
    async_trait,
};

/// A node that always gives the same answer, at once and without looking at anything.
#[derive(Clone, Debug)]
pub struct InstantNode {
    label: String,
    server: ServerId,
    vote: Vote,
}

impl InstantNode {
    /// Nodes that grant everything.
    pub fn granting(count: usize) -> Vec<Self> {
        Self::answering(count, &Vote::Granted)
    }

    /// Nodes on which somebody has everything.
    pub fn refusing(count: usize, holder: &Token) -> Vec<Self> {
        Self::answering(count, &Vote::Denied(Denial::by(holder.clone())))
    }

    /// A lock over nodes, on tokio.
    ///
    /// # Panics
    ///
    /// Without nodes.
    pub fn redlock(nodes: Vec<Self>) -> Redlock {
        let nodes = nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>);
        Redlock::builder(TokioRuntime::new()).nodes(nodes).build().expect("nodes with labels of their own")
    }

    fn answering(count: usize, vote: &Vote) -> Vec<Self> {
        let node = |number| {
            let label = format!("instant-{number}");
            Self { server: ServerId::new(label.as_str()), label, vote: vote.clone() }
        };
        (0..count).map(node).collect()
    }
}

#[async_trait]
impl LockNode for InstantNode {
    fn label(&self) -> &str {
        &self.label
    }

    async fn acquire(&self, _claim: &Claim, _ttl: Ttl) -> Result<Vote, NodeError> {
        Ok(self.vote.clone())
    }

    async fn extend(&self, _claim: &Claim, _ttl: Ttl) -> Result<Vote, NodeError> {
        Ok(self.vote.clone())
    }

    async fn release(&self, _claim: &Claim) -> Result<Vote, NodeError> {
        Ok(self.vote.clone())
    }

    fn connection(&self) -> Option<ConnectionId> {
        Some(ConnectionId(0))
    }

    fn server(&self) -> Option<ServerId> {
        Some(self.server)
    }
}
