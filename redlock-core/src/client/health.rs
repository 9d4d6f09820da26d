//! Health checks of the nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decide::tally::RoundKind;
use crate::drive::{Responder, drive};
use crate::inner::Inner;
use crate::node::Quarantine;
use crate::protocol::call::Call;
use crate::protocol::round::Round;
use crate::telemetry::Operation;
use crate::types::claim::Claim;
use crate::types::report::{NodeReport, Outcome};
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// The prefix of the names of health checks.
///
/// A key that is left behind expires after 10 ms.
const PROBE: &[u8] = b"redlock-health-";

/// The result of a health check.
#[derive(Clone, Debug)]
pub struct Health {
    nodes: Vec<NodeHealth>,
    up: usize,
    quorum: usize,
}

/// The result of a health check for one node.
#[derive(Clone, Debug)]
pub struct NodeHealth(NodeReport);

impl Health {
    /// Returns whether enough nodes could vote to grant a lock.
    pub fn is_available(&self) -> bool {
        self.up >= self.quorum
    }

    /// Returns the results of all nodes, in configured order.
    pub fn nodes(&self) -> &[NodeHealth] {
        &self.nodes
    }

    /// Returns the number of independent servers that are healthy.
    pub fn healthy_nodes(&self) -> usize {
        self.up
    }

    /// Returns the number of nodes that must grant a lock.
    pub fn quorum(&self) -> usize {
        self.quorum
    }
}

impl NodeHealth {
    /// Returns the node's position in the configuration, from 0.
    pub fn index(&self) -> usize {
        self.0.index()
    }

    /// Returns the node's label, such as `10.0.0.1:6379`.
    pub fn label(&self) -> &str {
        self.0.label()
    }

    /// Returns whether the node could vote.
    ///
    /// A healthy node replied to the request for a lock, and to its release. It is not in
    /// [quarantine](NodeHealth::quarantine).
    pub fn is_healthy(&self) -> bool {
        matches!(self.0.outcome(), Outcome::Denied(_) | Outcome::Granted)
    }

    /// Returns why the votes of the node do not count, and the time left, if it may have lost locks.
    ///
    /// Such a node is not [healthy](NodeHealth::is_healthy).
    pub fn quarantine(&self) -> Option<&Quarantine> {
        self.0.quarantine()
    }

    /// Returns how long the reply took, or how long the check waited for it.
    pub fn latency(&self) -> Duration {
        self.0.latency()
    }

    /// Returns the first node that is the same server, as index and label.
    ///
    /// The two nodes have one vote together.
    pub fn same_server_as(&self) -> Option<(usize, &str)> {
        self.0.same_server_as()
    }
}

/// Formats a line with the numbers, and then a line for each node.
///
/// ```text
/// available: 2 of 3 nodes healthy, 2 required
///   node 0 (10.0.0.1:6379): healthy, replied after 0.2ms
///   node 1 (10.0.0.2:6379): healthy, replied after 0.3ms
///   node 2 (10.0.0.3:6379): connection refused (after 0.1ms)
/// ```
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_available() { "available" } else { "unavailable" };
        let (healthy, all, quorum) = (self.healthy_nodes(), self.nodes.len(), self.quorum);
        write!(f, "{state}: {healthy} of {all} nodes healthy, {quorum} required")?;
        self.nodes.iter().try_for_each(|node| write!(f, "\n  {node}"))
    }
}

/// Formats as `node 2 (10.0.0.3:6379): healthy, replied after 0.2ms`, or its failure.
impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, label, latency) = (self.index(), self.label(), self.latency());
        match (self.same_server_as(), self.quarantine()) {
            (None, Some(quarantine)) => {
                write!(f, "node {index} ({label}): replied after {latency:.1?}, not counted: {quarantine}")
            }
            (None, None) if self.is_healthy() => {
                write!(f, "node {index} ({label}): healthy, replied after {latency:.1?}")
            }
            _ => self.0.fmt(f),
        }
    }
}

pub(crate) async fn health(shared: &Arc<Inner>) -> Health {
    drive(shared, |responder| probe(Arc::clone(shared), responder)).await
}

async fn probe(shared: Arc<Inner>, responder: Responder<Health>) {
    let token = Token::random(&*shared.runtime, None);
    let name = [PROBE, token.as_bytes()].concat();
    let resources = Resource::new(name).and_then(|name| Resources::new([name])).expect("one short name");
    let claim = Claim::new(resources, token);
    let limit = shared.settings.node_timeout;
    let mut granting = Round::new(&shared, RoundKind::Acquire, Operation::Health, limit, |_, peer| {
        Call::plain(peer, |node| node.acquire(&claim, Ttl::MIN))
    });
    while granting.next().await.is_some() {}
    let mut releasing = Round::new(&shared, RoundKind::Extend, Operation::Health, limit, |_, peer| {
        Call::release(peer, &claim)
    });
    while releasing.next().await.is_some() {}
    let (mut responses, released) = (granting.responses, releasing.responses);
    for index in 0..shared.peers.len() {
        if !responses.has_failed(index) && released.has_failed(index) {
            responses.put(index, released.response(index).clone().of("release failed"));
        }
    }
    let nodes = responses.reports(&shared).into_iter().map(NodeHealth).collect();
    responder.send(Health { nodes, up: responses.tally(&shared).replies(), quorum: shared.quorum() });
}
