//! Whether the nodes could vote now.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::background::{Verdict, drive};
use crate::claim::Claim;
use crate::decide::tally::Question;
use crate::observe::Operation;
use crate::report::{NodeReport, Outcome};
use crate::resource::{Resource, Resources};
use crate::round::Round;
use crate::shared::Shared;
use crate::token::Token;
use crate::ttl::Ttl;

/// What the names of health checks begin with. What is left of one is gone after 10 ms.
const PROBE: &[u8] = b"redlock-health-";

/// What every node answered to a health check.
#[derive(Clone, Debug)]
pub struct Health {
    nodes: Vec<NodeHealth>,
    up: usize,
    quorum: usize,
}

/// What one node answered to a health check.
#[derive(Clone, Debug)]
pub struct NodeHealth(NodeReport);

impl Health {
    /// Whether enough nodes could vote for a lock to be granted.
    pub fn is_available(&self) -> bool {
        self.up >= self.quorum
    }

    /// Every node, in the order in which they were configured.
    pub fn nodes(&self) -> &[NodeHealth] {
        &self.nodes
    }

    /// How many independent servers answered.
    pub fn up(&self) -> usize {
        self.up
    }

    /// How many must grant a lock.
    pub fn quorum(&self) -> usize {
        self.quorum
    }
}

impl NodeHealth {
    /// The node's position in the configuration, from 0.
    pub fn index(&self) -> usize {
        self.0.index()
    }

    /// The node's label, such as `10.0.0.1:6379`.
    pub fn label(&self) -> &str {
        self.0.label()
    }

    /// Whether it could vote: whether it answered the request for a lock, and its release.
    pub fn is_up(&self) -> bool {
        matches!(self.0.outcome(), Outcome::Refused(_) | Outcome::Granted)
    }

    /// How long the answer took, or how long it was waited for.
    pub fn latency(&self) -> Duration {
        self.0.latency()
    }

    /// The first node that turned out to be the same server, as index and label: the two have one vote.
    pub fn same_server_as(&self) -> Option<(usize, &str)> {
        self.0.same_server_as()
    }
}

/// `node 2 (10.0.0.3:6379): up, answered after 0.2ms`, or what is wrong with it.
impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_up() && self.same_server_as().is_none() {
            write!(f, "node {} ({}): up, answered after {:.1?}", self.index(), self.label(), self.latency())
        } else {
            self.0.fmt(f)
        }
    }
}

pub(crate) async fn health(shared: &Arc<Shared>) -> Health {
    drive(shared, |verdict| probe(Arc::clone(shared), verdict)).await
}

async fn probe(shared: Arc<Shared>, verdict: Verdict<Health>) {
    let token = Token::random(&*shared.runtime, None);
    let name = [PROBE, token.as_bytes()].concat();
    let resources = Resource::new(name).and_then(|name| Resources::new([name])).expect("one short name");
    let claim = Claim::new(resources, token);
    let limit = shared.settings.node_timeout;
    let mut granting = Round::new(&shared, Question::Claim, Operation::Health, limit, |_, node| {
        node.acquire(&claim, Ttl::MIN)
    });
    while granting.next().await.is_some() {}
    let mut releasing =
        Round::new(&shared, Question::Hold, Operation::Health, limit, |_, node| node.release(&claim));
    while releasing.next().await.is_some() {}
    let (mut ballots, released) = (granting.ballots, releasing.ballots);
    for index in 0..shared.members.len() {
        if !ballots.has_failed(index) && released.has_failed(index) {
            ballots.put(index, released.ballot(index).clone().of("the release failed"));
        }
    }
    let nodes = ballots.reports(&shared).into_iter().map(NodeHealth).collect();
    verdict.send(Health { nodes, up: ballots.tally(&shared).answered(), quorum: shared.quorum() });
}
