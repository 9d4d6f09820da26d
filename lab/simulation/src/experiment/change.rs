//! A change of the nodes: each client is restarted twice, first with both lists, then with the new list.
//!
//! The last client leaves the first step before the first one enters the last step. All others are in neighbouring steps.

use std::sync::Arc;
use std::time::Duration;

use redlock_core::Builder;
use redlock_core::node::LockNode;

use crate::network::Network;
use crate::plan::{Incident, Plan};

/// The lists of a change of the nodes, as numbers of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) old: Vec<usize>,
    pub(super) new: Vec<usize>,
    /// True if no client has both lists, so that locks overlap.
    pub(super) is_direct: bool,
    /// True if votes count only while the lists of clients agree.
    pub(super) must_agree: bool,
}

/// The times at which one client has other lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    both: Duration,
    new: Duration,
}

impl Change {
    /// Returns the number of servers.
    pub(super) fn servers(&self) -> usize {
        self.old.iter().chain(&self.new).max().map_or(1, |last| last + 1)
    }

    /// Draws the times of a client in a run that lasts so long.
    pub(super) fn times(&self, seed: u64, client: usize, lasts: Duration) -> Times {
        let mut chance = fastrand::Rng::with_seed(seed ^ 0x6368_616e_6765 ^ (client as u64) << 48);
        let half = lasts / 2;
        let both = half.mul_f64(0.1 + 0.8 * chance.f64());
        let new = half + half.mul_f64(0.1 + 0.7 * chance.f64());
        if self.is_direct { Times { both: lasts * 100, new: both } } else { Times { both, new } }
    }

    /// Adds the restarts of a client to a plan.
    pub(super) fn restarts(times: Times, client: usize, lasts: Duration, plan: Plan) -> Plan {
        let kill =
            |plan: Plan, when| plan.at(when, Incident::Kill { client, lasts: Duration::from_millis(50) });
        [times.both, times.new].into_iter().filter(|when| *when < lasts).fold(plan, kill)
    }

    /// Adds the nodes that a client has at this time.
    pub(super) fn list(
        &self,
        times: Times,
        builder: Builder,
        network: &Network,
        nodes: &[Arc<dyn LockNode>],
    ) -> Builder {
        let now = network.now().elapsed_since_origin();
        let builder = builder.node_lists_must_agree(self.must_agree);
        let of = |list: &[usize]| list.iter().map(|server| nodes[*server].clone()).collect::<Vec<_>>();
        match () {
            () if now >= times.new => builder.nodes(of(&self.new)),
            () if now >= times.both => builder.nodes(of(&self.new)).previous_nodes(of(&self.old)),
            () => builder.nodes(of(&self.old)),
        }
    }
}
