//! Benchmarks of redlock, which no crate depends on.
//!
//! `scripts/bench` measures ratios and writes `docs/performance`. `cargo bench -p redlock-benches --bench core` times
//! the core alone and compares it with the previous run.

use std::future::ready;
use std::sync::Arc;

use redlock_core::node::{
    Begun, ConnectionId, Denial, Exchange, LockNode, NodeError, Reply, Request, ServerId, Status, Token,
};
use redlock_core::{Redlock, TokioRuntime};

const CONNECTION: ConnectionId = ConnectionId(0);

/// A node that gives every request the same reply, at once and without reading it.
#[derive(Clone, Debug)]
pub struct InstantNode {
    label: String,
    server: ServerId,
    denial: Option<Denial>,
}

impl InstantNode {
    /// Returns nodes that grant everything.
    pub fn granting(count: usize) -> Vec<Self> {
        Self::answering(count, None)
    }

    /// Returns nodes on which `holder` holds everything.
    pub fn denying(count: usize, holder: &Token) -> Vec<Self> {
        Self::answering(count, Some(&Denial::by(holder.clone())))
    }

    /// Creates a lock over nodes, on tokio.
    ///
    /// # Panics
    ///
    /// Panics if there are no nodes.
    pub fn redlock(nodes: Vec<Self>) -> Redlock {
        let nodes = nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>);
        Redlock::builder(TokioRuntime::new()).nodes(nodes).build().expect("the nodes have different labels")
    }

    fn answering(count: usize, denial: Option<&Denial>) -> Vec<Self> {
        let node = |number| {
            let label = format!("instant-{number}");
            Self { server: ServerId::new(label.as_str()), label, denial: denial.cloned() }
        };
        (0..count).map(node).collect()
    }
}

impl LockNode for InstantNode {
    fn label(&self) -> &str {
        &self.label
    }

    fn status(&self) -> Status {
        Status::default().over(CONNECTION)
    }

    fn begin(&self, request: &Request) -> Begun {
        let reply = match request {
            Request::Release(_) => Ok(Reply::Deleted(self.denial.is_none())),
            Request::Acquire(..) | Request::Extend(..) => {
                Ok(self.denial.clone().map_or(Reply::Granted, Reply::Denied))
            }
            other => Err(NodeError::unsupported(other)),
        };
        Begun::Sent(Exchange {
            connection: Some(CONNECTION),
            server: Some(self.server),
            reply: Box::pin(ready(reply)),
        })
    }
}
