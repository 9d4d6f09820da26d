//! Waiting until another client, in any process, releases a lock.
//!
//! Every node is watched, and reports the current state when the watch begins. Thus no change between the denied attempt
//! and the wait is missed. The reply contains earlier changes, and notifications report later ones. A notification is
//! only a hint, because an extension by the holder causes one too. Thus the node is queried again, and counts as free
//! only if its reply says so. [`readiness`](crate::decide::readiness) decides whether all nodes together justify an
//! attempt.
//!
//! Nothing here is trusted forever:
//!
//! - If too few nodes can be watched, the wait is a plain delay.
//! - If an attempt is denied although nodes seemed free, they are queried again.
//! - A node that keeps sending false notifications is queried at growing
//!   [intervals](crate::decide::query_interval).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::decide::concurrency::Class;
use crate::decide::query_interval::{LONGEST_INTERVAL, QueryInterval};
use crate::decide::readiness::{NodeView, ProbeBudget, Readiness, readiness};
use crate::decide::time_limit::TimeLimit;
use crate::node::{Availability, LockNode, NodeError, Reply, Request, Watch};
use crate::queue::limiter::{Permit, PermitWait};
use crate::round::nodes::{Nodes, Peer};
use crate::runtime::{Alarm, BoxFuture};
use crate::types::instant::Instant;
use crate::types::resource::Resource;

/// The time until an attempt is made even though a quorum of nodes is watched. Nodes may fail to send notifications.
const SAFETY: Duration = Duration::from_secs(5);

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// A quorum of nodes is free, or may be free and is worth an attempt.
    Free,
    /// The waiting time is over.
    Time,
}

/// The watches of one request, kept from one wait to the next.
pub(crate) struct LockWatcher<'a> {
    nodes: &'a Arc<Nodes>,
    /// The watches by node, then by resource.
    watches: Vec<Vec<NodeWatch<'a>>>,
    probes: ProbeBudget,
    queries: QueryPermit<'a>,
}

/// The watches of a [`LockWatcher`] between two requests for the same resources.
///
/// They are ordered by node, then by resource.
///
/// A watch that no task polls stays valid, because any later change completes it.
#[derive(Default)]
pub(crate) struct Parked(Vec<Option<Active>>);

/// The beginning of an active watch, the reported state, and the future that a change completes.
type Active = (Instant, NodeView, BoxFuture<()>);

/// The right to query nodes, [limited](crate::decide::concurrency) for all requests together.
enum QueryPermit<'a> {
    /// No query is needed.
    None,
    /// The queries wait for the replies to those of other requests.
    Wait(PermitWait<'a>),
    /// Queries are allowed until all of them have a reply.
    Granted { _permit: Permit },
}

/// The watch of one resource on one node.
struct NodeWatch<'a> {
    peer: &'a Peer,
    resource: &'a Resource,
    /// True if readers count as free.
    for_reader: bool,
    phase: Phase<'a>,
    /// True while the node watches the resource, or did so until its notification.
    watched: bool,
    /// True from a notification until the reply that explains it.
    notified: bool,
    /// The interval of queries after notifications.
    interval: QueryInterval,
}

pub(super) type Beginning<'a> = Pin<Box<dyn Future<Output = Result<Watch, NodeError>> + Send + 'a>>;

enum Phase<'a> {
    /// The next query is due at this time.
    Idle(Instant),
    /// A query has been in progress since this time.
    Arming(TimeLimit, Beginning<'a>),
    /// The watch has been active since this time.
    Armed(Instant, NodeView, BoxFuture<()>),
}

impl<'a> LockWatcher<'a> {
    /// Creates a watcher that watches nothing yet.
    ///
    /// A reader has a `gate`. It waits until the gate is free, and the resources have no holder except readers.
    pub(crate) fn new(nodes: &'a Arc<Nodes>, resources: &'a [Resource], gate: Option<&'a Resource>) -> Self {
        let watches = |peer: &'a Peer| {
            let of_claim = resources.iter().map(|resource| NodeWatch::new(peer, resource, gate.is_some()));
            of_claim.chain(gate.map(|gate| NodeWatch::new(peer, gate, false))).collect()
        };
        let watches = nodes.peers.iter().map(watches).collect();
        Self { nodes, watches, probes: ProbeBudget::default(), queries: QueryPermit::None }
    }

    /// Continues active watches of an earlier request, which replace queries.
    pub(crate) fn resume(mut self, Parked(active): Parked) -> Self {
        for (watch, active) in self.watches.iter_mut().flatten().zip(active) {
            if let Some((since, view, changed)) = active {
                (watch.phase, watch.watched) = (Phase::Armed(since, view, changed), true);
            }
        }
        self
    }

    /// Ends the request, and returns its active watches.
    pub(crate) fn park(self) -> Parked {
        let active = |watch: NodeWatch<'_>| match watch.phase {
            Phase::Armed(since, view, changed) => Some((since, view, changed)),
            Phase::Idle(_) | Phase::Arming(..) => None,
        };
        Parked(self.watches.into_iter().flatten().map(active).collect())
    }

    /// Waits until a quorum of nodes is free, or until `delay` has passed.
    ///
    /// The wait may last longer than `delay` if a quorum is watched and `may_exceed` is true. It always ends at `until`.
    pub(crate) async fn wait(
        &mut self,
        delay: Duration,
        may_exceed: bool,
        until: Option<Instant>,
    ) -> WakeReason {
        let (start, mut alarm) = (self.nodes.now(), Alarm::default());
        self.watches.iter_mut().flatten().for_each(|watch| watch.query_again_if_free(start));
        let wake = poll_fn(|cx| self.poll(cx, start, delay, may_exceed, until, &mut alarm)).await;
        // The replies are not needed until the next wait.
        self.queries = QueryPermit::None;
        wake
    }

    /// Returns whether a quorum of nodes is still free, without a query.
    ///
    /// A node counts as free if its last reply says so and it has sent no notification since then.
    pub(crate) async fn is_still_free(&mut self) -> bool {
        poll_fn(|cx| {
            let (now, limit) = (self.nodes.now(), self.nodes.rules.node_timeout);
            for watch in self.watches.iter_mut().flatten() {
                let _ = watch.poll(cx, now, limit, false);
            }
            Poll::Ready(readiness(self.views(now), self.nodes.quorum(), now) == Readiness::Free)
        })
        .await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        start: Instant,
        delay: Duration,
        may_exceed: bool,
        until: Option<Instant>,
        alarm: &mut Alarm,
    ) -> Poll<WakeReason> {
        loop {
            let (now, limit) = (self.nodes.now(), self.nodes.rules.node_timeout);
            let may_query = matches!(self.queries, QueryPermit::Granted { .. });
            let next =
                self.watches.iter_mut().flatten().filter_map(|watch| watch.poll(cx, now, limit, may_query));
            let next = next.min();
            if self.poll_permit(cx, now).is_ready() {
                continue;
            }
            let may_be_free = |(watches, peer): &(&Vec<NodeWatch<'_>>, &Peer)| {
                peer.node.status().quarantine.is_none() && watches.iter().all(|watch| watch.may_be_free(now))
            };
            let candidates = self.watches.iter().zip(&self.nodes.peers).filter(may_be_free).count();
            if self.probes.see(candidates, self.nodes.quorum()) {
                return Poll::Ready(WakeReason::Free);
            }
            let (longest, free_at) = match readiness(self.views(now), self.nodes.quorum(), now) {
                Readiness::Free => {
                    self.probes.tried();
                    return Poll::Ready(WakeReason::Free);
                }
                Readiness::Watched(at) => (if may_exceed { SAFETY } else { delay }, at),
                Readiness::Blind => (delay, None),
            };
            let end = until.map_or(start + longest, |until| until.min(start + longest));
            if now >= end {
                return Poll::Ready(WakeReason::Time);
            }
            let look = [next, free_at, self.overdue_at(now)].into_iter().flatten().fold(end, Instant::min);
            match alarm.poll_at(&*self.nodes.runtime, look, cx) {
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Returns the view of each node: the combined views of its resources and its admission.
    fn views(&self, now: Instant) -> impl Iterator<Item = NodeView> + '_ {
        self.watches.iter().zip(&self.nodes.peers).map(move |(watches, peer)| {
            let admission = NodeView::of_quarantine(peer.node.status().quarantine, now);
            watches.iter().map(|watch| watch.view(now)).fold(admission, NodeView::and)
        })
    }

    /// Completes when queries are due and have just been allowed.
    fn poll_permit(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let nodes = self.nodes;
        if !self.watches.iter().flatten().any(|watch| watch.is_due(now)) {
            // A hung minority of the nodes does not hold up other requests.
            let unanswered =
                self.watches.iter().filter(|node| node.iter().any(NodeWatch::is_queried)).count();
            if unanswered + nodes.quorum() <= self.watches.len() {
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
        matches!(self.queries, QueryPermit::Wait(_)).then(|| now + self.nodes.limiter.poll_interval())
    }
}

impl<'a> NodeWatch<'a> {
    fn new(peer: &'a Peer, resource: &'a Resource, for_reader: bool) -> Self {
        Self {
            peer,
            resource,
            for_reader,
            phase: Phase::Idle(Instant::ORIGIN),
            watched: false,
            notified: false,
            interval: QueryInterval::default(),
        }
    }

    /// Sends the query.
    fn begin(&self) -> Beginning<'a> {
        let resource = self.resource.clone();
        let request = if self.for_reader { Request::WatchShared(resource) } else { Request::Watch(resource) };
        watch(&*self.peer.node, request)
    }

    fn view(&self, now: Instant) -> NodeView {
        match &self.phase {
            Phase::Armed(_, view, _) => *view,
            Phase::Arming(..) if self.watched => NodeView::Queried,
            // The query waits for its permit.
            Phase::Idle(at) if self.notified && *at <= now => NodeView::Queried,
            Phase::Idle(_) | Phase::Arming(..) => NodeView::Unknown,
        }
    }

    fn may_be_free(&self, now: Instant) -> bool {
        self.notified || self.view(now) == NodeView::Free
    }

    /// Schedules a query if the node seemed free and the attempt was denied.
    fn query_again_if_free(&mut self, now: Instant) {
        match self.view(now) {
            NodeView::Free => self.phase = Phase::Idle(now),
            NodeView::Taken(Some(until)) if until <= now => self.phase = Phase::Idle(now),
            NodeView::Taken(_) | NodeView::Queried | NodeView::Unknown => {}
        }
    }

    /// Returns whether a query is due.
    fn is_due(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Idle(at) if at <= now)
    }

    /// Returns whether a query is in progress.
    fn is_queried(&self) -> bool {
        matches!(self.phase, Phase::Arming(..))
    }

    /// Continues as far as possible; returns when to poll again in any case.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        limit: Duration,
        may_query: bool,
    ) -> Option<Instant> {
        loop {
            self.phase = match &mut self.phase {
                Phase::Idle(at) if *at > now => return Some(*at),
                Phase::Idle(_) if !self.peer.profile.watch => Phase::Idle(now + LONGEST_INTERVAL),
                Phase::Idle(_) if !may_query => return None,
                Phase::Idle(_) => Phase::Arming(TimeLimit::new(now, limit), self.begin()),
                Phase::Arming(time_limit, watch) => {
                    let polled = watch.as_mut().poll(cx);
                    let in_time = polled.is_pending() && !time_limit.has_passed(now);
                    match polled {
                        Poll::Ready(Ok(watch)) => {
                            let view = view(watch.availability, now);
                            self.interval.replied(view, watch.holder);
                            (self.watched, self.notified) = (true, false);
                            Phase::Armed(now, view, watch.changed)
                        }
                        Poll::Pending if in_time => return Some(time_limit.next()),
                        Poll::Ready(Err(_)) | Poll::Pending => {
                            (self.watched, self.notified) = (false, false);
                            Phase::Idle(now + LONGEST_INTERVAL)
                        }
                    }
                }
                Phase::Armed(since, view, changed) => match changed.as_mut().poll(cx) {
                    Poll::Pending => return None,
                    Poll::Ready(()) => {
                        self.notified = true;
                        let age = now.saturating_duration_since(*since);
                        Phase::Idle(now + self.interval.notified(*view, age))
                    }
                },
            };
        }
    }
}

/// Begins to watch a resource on a node.
pub(super) fn watch(node: &dyn LockNode, request: Request) -> Beginning<'_> {
    let reply = node.call(request);
    Box::pin(async {
        match reply.await? {
            Reply::Watching(watch) => Ok(watch),
            other => Err(NodeError::unknown(format!("the backend replied {other:?} to a watch"))),
        }
    })
}

fn view(availability: Availability, now: Instant) -> NodeView {
    match availability {
        Availability::Free => NodeView::Free,
        Availability::Taken(remaining) => NodeView::Taken(remaining.map(|remaining| now + remaining)),
    }
}
