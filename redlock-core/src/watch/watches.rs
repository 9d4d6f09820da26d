//! The watches of all nodes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::decide::concurrency::Class;
use crate::decide::readiness::NodeView;
use crate::decide::standing::{Standing, doubted_at};
use crate::queue::limiter::{Permit, PermitWait};
use crate::round::failure::Failure;
use crate::round::nodes::{Nodes, Peer};
use crate::types::instant::Instant;
use crate::types::resource::Resource;
use crate::watch::node_watch::{Active, NodeWatch};

/// The watches of one request on all nodes.
pub(crate) struct Watches<'a> {
    pub(super) nodes: &'a Arc<Nodes>,
    /// The watches by node, then by resource.
    by_node: Vec<Vec<NodeWatch<'a>>>,
    /// For each node, the time before which it does not count as free, because its vote on the last attempt did not count.
    uncounted: Vec<Option<Instant>>,
    queries: QueryPermit<'a>,
}

/// The active watches between two requests for the same resources.
///
/// They are ordered by node, then by resource.
///
/// A watch that no task polls stays valid, because any later change completes it.
#[derive(Default)]
pub(crate) struct Parked(Vec<Option<Active>>);

/// The right to query nodes, [limited](crate::decide::concurrency) for all requests together.
enum QueryPermit<'a> {
    /// No query is needed.
    None,
    /// The queries wait for the replies to those of other requests.
    Wait(PermitWait<'a>),
    /// Queries are allowed until all of them have a reply.
    Granted { _permit: Permit },
}

impl<'a> Watches<'a> {
    /// Creates watches that are not active yet.
    ///
    /// A reader has a `gate`. For it, readers of the resources count as free.
    pub(crate) fn new(nodes: &'a Arc<Nodes>, resources: &'a [Resource], gate: Option<&'a Resource>) -> Self {
        let watches = |peer: &'a Peer| {
            let all = resources.iter().chain(gate);
            all.map(|resource| NodeWatch::new(peer, resource, gate.is_some())).collect()
        };
        let by_node = nodes.peers.iter().map(watches).collect();
        let uncounted = vec![None; nodes.peers.len()];
        Self { nodes, by_node, uncounted, queries: QueryPermit::None }
    }

    /// Counts resources that are reserved for the request as free, and keeps its place on every node.
    pub(crate) fn stand(&mut self, standing: &Standing) {
        let standing = Arc::new(standing.clone());
        self.iter_mut().for_each(|watch| watch.stand(&standing));
    }

    /// Continues active watches of an earlier request, which replace queries.
    pub(crate) fn resume(mut self, Parked(active): Parked) -> Self {
        for (watch, active) in self.iter_mut().zip(active) {
            if let Some(active) = active {
                watch.resume(active);
            }
        }
        self
    }

    /// Ends the request, and returns its active watches.
    pub(crate) fn park(self) -> Parked {
        Parked(self.by_node.into_iter().flatten().map(NodeWatch::into_active).collect())
    }

    /// Returns the watches of each node that matter for the request.
    pub(super) fn by_node(&self) -> impl Iterator<Item = &[NodeWatch<'a>]> + Clone {
        // A reader may use a resource that is reserved for readers while the gate is locked.
        let without_gate = |watches: &'_ Vec<NodeWatch<'a>>| match &watches[..] {
            [resource, _gate] if resource.is_for_readers() => 1,
            all => all.len(),
        };
        self.by_node.iter().map(move |watches| &watches[..without_gate(watches)])
    }

    pub(super) fn of_node(&self, node: usize) -> &[NodeWatch<'a>] {
        &self.by_node[node]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &NodeWatch<'a>> + Clone {
        self.by_node.iter().flatten()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut NodeWatch<'a>> {
        self.by_node.iter_mut().flatten()
    }

    /// Schedules queries of nodes that seem free although another client holds the resources.
    pub(crate) fn query_again_if_free(&mut self, now: Instant) {
        self.iter_mut().for_each(|watch| watch.query_again_if_free(now));
    }

    /// Schedules a query of every node, if an attempt shows that a node has not notified of a change.
    pub(super) fn query_again_if_missed(&mut self, failure: &Failure, now: Instant) {
        let has_missed = |(node, watches): (usize, &Vec<NodeWatch<'_>>)| {
            failure
                .holder_on(node)
                .is_some_and(|holder| watches.iter().all(|watch| watch.names_other(holder)))
        };
        if self.by_node.iter().enumerate().any(has_missed) {
            self.iter_mut().for_each(|watch| watch.query_again(now));
        }
    }

    /// Schedules queries of nodes whose notifications may be lost, because other nodes have reserved a resource. Returns
    /// when to poll again.
    pub(super) fn query_doubted(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (node, resource) in self.positions() {
            let of_resource = self.by_node.iter().filter_map(|watches| watches.get(resource));
            let reserved = of_resource.filter_map(NodeWatch::reserved_since);
            let held = self.by_node[node][resource].held_since();
            let Some(at) = held.and_then(|held| doubted_at(held, reserved)) else { continue };
            if at <= now {
                self.by_node[node][resource].query_again(now);
            }
            next = next.map_or(Some(at), |next: Instant| Some(next.min(at)));
        }
        next
    }

    fn positions(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (nodes, resources) = (self.by_node.len(), self.by_node.first().map_or(0, Vec::len));
        (0..nodes).flat_map(move |node| (0..resources).map(move |resource| (node, resource)))
    }

    /// Allows no query until the next poll. Replies are not needed until then.
    pub(super) fn pause_queries(&mut self) {
        self.queries = QueryPermit::None;
    }

    /// Continues all watches as far as possible. Returns when to poll again in any case.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Option<Instant> {
        loop {
            let next = self.poll_watches(cx, now, matches!(self.queries, QueryPermit::Granted { .. }));
            if self.poll_permit(cx, now).is_pending() {
                return [next, self.overdue_at(now)].into_iter().flatten().min();
            }
        }
    }

    /// Same as [`poll`](Self::poll), without a query.
    pub(super) fn poll_watches(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        may_query: bool,
    ) -> Option<Instant> {
        let limit = self.nodes.rules.node_timeout;
        self.iter_mut().filter_map(|watch| watch.poll(cx, now, limit, may_query)).min()
    }

    /// Records the nodes whose votes on the last attempt did not count. They do not count as free before `until`.
    ///
    /// The status of a node and its watches do not show whether node lists agree.
    pub(super) fn record_uncounted(&mut self, failure: &Failure, until: Instant) {
        for (node, uncounted) in self.uncounted.iter_mut().enumerate() {
            *uncounted = failure.is_uncounted_on(node).then_some(until);
        }
    }

    /// Returns the view of a node without its watches: by the quarantine in its status, and by its vote on the last attempt.
    pub(super) fn admission(&self, node: usize, now: Instant) -> NodeView {
        let uncounted = self.uncounted[node].filter(|until| now < *until);
        NodeView::of_quarantine(self.nodes.peers[node].node.status().quarantine, now)
            .and(uncounted.map_or(NodeView::Free, |until| NodeView::Taken(Some(until))))
    }

    /// Returns the view of each node: the combined views of its resources and its admission.
    pub(crate) fn views(&self, now: Instant) -> impl Iterator<Item = NodeView> + Clone {
        self.by_node().enumerate().map(move |(node, watches)| {
            watches.iter().map(|watch| watch.view(now)).fold(self.admission(node, now), NodeView::and)
        })
    }

    /// Completes when queries are due and have just been allowed.
    fn poll_permit(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let nodes = self.nodes;
        if !self.iter().any(|watch| watch.is_due(now)) {
            // A hung minority of the nodes does not hold up other requests.
            let is_answered = |node: usize| !self.by_node[node].iter().any(NodeWatch::is_queried);
            if nodes.rules.quorums.are_met_by(is_answered) {
                self.queries = QueryPermit::None;
            }
            return Poll::Pending;
        }
        if let QueryPermit::None = self.queries {
            self.queries = QueryPermit::Wait(Permit::wait(&nodes.limiter, Class::Watch));
        }
        let QueryPermit::Wait(wait) = &mut self.queries else { return Poll::Pending };
        let permit = ready!(Pin::new(wait).poll(cx));
        self.queries = QueryPermit::Granted { _permit: permit };
        Poll::Ready(())
    }

    /// Returns when to poll the awaited permit again: another one may be overdue.
    fn overdue_at(&self, now: Instant) -> Option<Instant> {
        matches!(self.queries, QueryPermit::Wait(_))
            .then(|| now + self.nodes.limiter.poll_interval(Class::Watch))
    }
}
