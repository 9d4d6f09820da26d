//! What handles, requests, guards and leases of the user share.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::client::node_lists::NodeLists;
use crate::decide::fencing::Bound;
use crate::decide::quorums::Quorums;
use crate::decide::validity::DriftFactor;
use crate::node::LockNode;
use crate::queue::limiter::Limiter;
use crate::queue::local_queue::LocalQueues;
use crate::round::Rules;
use crate::round::compare::is_reserved;
use crate::round::nodes::{Nodes, Peer};
use crate::runtime::Runtime;
use crate::telemetry::throttle::Throttle;
use crate::types::error::{Error, ErrorKind};
use crate::types::owner::Owner;
use crate::types::resource::Resource;
use crate::types::ttl::Ttl;

/// The reference that handles and leases of the user hold.
pub(crate) struct Handle {
    nodes: Arc<Nodes>,
    pub(crate) settings: Settings,
    pub(crate) queues: Arc<LocalQueues>,
    /// The throttle of the warning about overload.
    pub(crate) overload: Throttle,
    /// The longest TTL that all nodes permit, if any is limited.
    longest_ttl: Option<Duration>,
    /// The node lists of other programs, if they are compared.
    pub(crate) node_lists: Option<Arc<NodeLists>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_timeout: Duration,
    pub(crate) retry_delay: Duration,
    /// The maximum number of attempts in flight, and of renewals.
    pub(crate) max_concurrent_attempts: usize,
    /// True if tasks of this process queue for a resource.
    pub(crate) local_queue: bool,
    pub(crate) drift: DriftFactor,
    pub(crate) owner: Option<Owner>,
    pub(crate) compare_node_lists: bool,
    pub(crate) node_lists_must_agree: bool,
}

impl Handle {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn LockNode>>,
        quorums: Quorums,
        runtime: Arc<dyn Runtime>,
        settings: Settings,
    ) -> Self {
        let peers: Box<[Peer]> = nodes.into_iter().map(Peer::new).collect();
        let retention = peers.iter().map(|peer| peer.profile.fence_retention).min();
        let longest_ttl = peers.iter().filter_map(|peer| peer.profile.longest_ttl).min();
        let Settings { node_timeout, drift, max_concurrent_attempts, .. } = settings;
        let bound = Bound::of(retention.unwrap_or_default());
        let rules = Rules { quorums, node_timeout, drift, bound };
        let limiter = Arc::new(Limiter::new(max_concurrent_attempts, Arc::clone(&runtime), node_timeout));
        let nodes = Nodes::new(peers, Arc::clone(&runtime), rules, limiter);
        let must_agree = settings.node_lists_must_agree;
        let nodes = Arc::new(if must_agree { nodes.with_agreement() } else { nodes });
        let queues = Arc::new(LocalQueues::new(runtime, nodes.keep_places()));
        let node_lists = (settings.compare_node_lists || must_agree)
            .then(|| Arc::new(NodeLists::new(quorums, must_agree, settings.owner.clone())));
        Self { nodes, settings, queues, overload: Throttle::default(), longest_ttl, node_lists }
    }

    /// Returns whether votes count only while the node lists of programs agree.
    pub(crate) fn node_lists_must_agree(&self) -> bool {
        self.agreement.is_some()
    }

    /// Starts the comparison of node lists. If they must agree, this waits for the first comparison.
    ///
    /// Returns whether it has waited.
    pub(crate) async fn compare_node_lists(&self) -> bool {
        let Some(lists) = &self.node_lists else { return false };
        lists.start(&self.nodes);
        let waits = lists.is_awaited(&self.nodes);
        if waits {
            Box::pin(lists.first(&self.nodes)).await;
        }
        waits
    }

    /// Checks that every node supports fencing tokens.
    pub(crate) fn check_fencing(&self) -> Result<(), Error> {
        match self.peers.iter().enumerate().find(|(_, peer)| !peer.profile.fencing) {
            None => Ok(()),
            Some((index, peer)) => {
                let message = format!(
                    "cannot issue fencing tokens: node {index} ({}) does not support them",
                    peer.node.label()
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Checks that every node supports readers, and the gate as a name.
    pub(crate) fn check_sharing(&self, gate: &Resource) -> Result<(), Error> {
        if let Some(peer) = self.peers.iter().find(|peer| !peer.profile.shared) {
            let message = format!("cannot share locks: node {} does not support it", peer.node.label());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.check_call(std::slice::from_ref(gate))
    }

    /// Checks that every node can lock these resources with one request.
    pub(crate) fn check_together(&self, resources: &[Resource]) -> Result<(), Error> {
        self.peers.iter().try_for_each(|peer| peer.node.check_together(resources))
    }

    /// Checks that every node can keep locks.
    pub(crate) fn check_keep(&self) -> Result<(), Error> {
        match self.peers.iter().find(|peer| !peer.profile.keep) {
            None => Ok(()),
            Some(peer) => {
                let message = format!("cannot keep locks: node {} does not support it", peer.node.label());
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Checks the TTL of a request against the limits of the nodes.
    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<Ttl, Error> {
        match self.longest_ttl {
            Some(longest) if ttl.as_duration() > longest => {
                Err(Error::invalid(format!("the TTL of {ttl:?} is longer than longest_ttl, {longest:?}")))
            }
            _ => Ok(ttl),
        }
    }

    /// Checks the runtime of the caller, and that every node can lock resources with these names.
    pub(crate) fn check_call(&self, resources: &[Resource]) -> Result<(), Error> {
        self.runtime.check()?;
        if let Some(resource) = resources.iter().find(|name| is_reserved(name)) {
            return Err(Error::invalid(format!(
                "invalid resource name {resource:?}: it is reserved for the comparison of node lists"
            )));
        }
        let check = |peer: &Peer| resources.iter().try_for_each(|resource| peer.node.check(resource));
        self.peers.iter().try_for_each(check)
    }
}

impl Deref for Handle {
    type Target = Arc<Nodes>;

    fn deref(&self) -> &Arc<Nodes> {
        &self.nodes
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.nodes.end_use();
        if let Some(lists) = &self.node_lists {
            lists.end();
        }
    }
}
