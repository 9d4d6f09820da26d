//! A Redis or Valkey server as a [`LockNode`].

use redlock_core::{Claim, LockNode, NodeError, Ttl, Vote, async_trait};

use crate::connection::Connector;
use crate::options::Options;

/// One independent Redis or Valkey server, over any client.
pub struct Node<C: Connector> {
    connector: C,
    label: String,
}

impl<C: Connector> Node<C> {
    /// A node that connects when it is first used. Does no I/O and needs no runtime around it.
    ///
    /// `label` is what people know the node by, normalised as the `Display` of an [`Endpoint`](crate::Endpoint) is, so
    /// that one server listed twice is noticed.
    #[must_use]
    pub fn new(connector: C, label: String, _options: &Options) -> Self {
        Self { connector, label }
    }
}

#[async_trait]
impl<C: Connector> LockNode for Node<C> {
    fn label(&self) -> &str {
        &self.label
    }

    async fn acquire(&self, _claim: &Claim, _ttl: Ttl) -> Result<Vote, NodeError> {
        let _ = &self.connector;
        Err(NodeError::unsupported("lock"))
    }

    async fn extend(&self, _claim: &Claim, _ttl: Ttl) -> Result<Vote, NodeError> {
        Err(NodeError::unsupported("lock"))
    }

    async fn release(&self, _claim: &Claim) -> Result<Vote, NodeError> {
        Err(NodeError::unsupported("lock"))
    }
}
