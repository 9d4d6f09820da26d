//! From nodes and settings to a [`Redlock`].

use std::sync::Arc;

use crate::node::LockNode;
use crate::runtime::Runtime;

/// Collects nodes and settings.
pub struct Builder {
    runtime: Arc<dyn Runtime>,
    nodes: Vec<Arc<dyn LockNode>>,
}

impl Builder {
    /// Starts with a runtime and no nodes.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, nodes: Vec::new() }
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, node: Arc<dyn LockNode>) -> Self {
        self.nodes.push(node);
        self
    }
}
