//! Waiting until another client, in any process, releases a lock.
//!
//! Every node is watched, and reports the current state when the watch begins. Thus no change between the denied attempt
//! and the wait is missed. The reply contains earlier changes, and notifications report later ones.
//! [`readiness`](crate::decide::readiness) decides whether all nodes together justify an attempt.
//!
//! Nothing here is trusted forever:
//!
//! - If too few nodes can be watched, the wait is a plain delay.
//! - If an attempt is denied although nodes seemed free, they are queried again.
//! - If the vote of a node did not count, the node does not count as free for the retry delay. (The search for a free slot
//!   does this only after an attempt at a slot that seemed free.)
//! - If votes were split, the other clients release their claims, and these notifications may be lost. A request without a
//!   place then waits for its retry delay only. If it has just done so without a notification, it waits as usual. (The
//!   search for a free slot always waits as usual.)
//! - If some nodes have reserved the resource, and others do not notify of the release, those are queried again.
//! - If an attempt without a notification is denied, and a node names another holder than in its report, notifications are
//!   lost. All nodes are queried again.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::decide::backoff::Splits;
use crate::decide::readiness::{NodeView, ProbeBudget, Readiness, readiness};
use crate::decide::standing::{Reserved, Standing, is_split, together};
use crate::round::failure::Failure;
use crate::round::nodes::Nodes;
use crate::runtime::{Alarm, random};
use crate::types::instant::Instant;
use crate::types::resource::Resource;
use crate::watch::node_watch::NodeWatch;
use crate::watch::watches::{Parked, Watches};

/// The time until an attempt is made even though a quorum of nodes is watched. Nodes may fail to send notifications.
const SAFETY: Duration = Duration::from_secs(5);

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// A quorum of nodes is free, or may be free and is worth an attempt.
    Free,
    /// A quorum of nodes is reserved for the request.
    Reserved,
    /// The nodes have reserved the resource for several requests.
    Split,
    /// The waiting time is over.
    Time,
}

/// The watches of one request, kept from one wait to the next.
pub(crate) struct LockWatcher<'a> {
    watches: Watches<'a>,
    probes: ProbeBudget,
    /// True if the request has a place among the waiters. It then makes no attempt before its turn.
    has_place: bool,
    /// True if the last wait has ended without a notification.
    has_timed_out: bool,
    /// True if the votes of the last attempt were split, and the wait after it ends after its delay.
    is_brief: bool,
    splits: Splits,
}

impl<'a> LockWatcher<'a> {
    /// Creates a watcher that watches nothing yet.
    ///
    /// A reader has a `gate`. It waits until the gate is free, and the resources have no holder except readers.
    pub(crate) fn new(nodes: &'a Arc<Nodes>, resources: &'a [Resource], gate: Option<&'a Resource>) -> Self {
        let (watches, probes) = (Watches::new(nodes, resources, gate), ProbeBudget::default());
        let splits = Splits::default();
        Self { watches, probes, has_place: false, has_timed_out: false, is_brief: false, splits }
    }

    /// Records that an attempt has failed, and the place that the request has kept with it.
    ///
    /// Resources that are reserved for the place count as free. If the last wait has ended without a notification, the
    /// failure is compared with the reports of the nodes. Nodes whose votes did not count do not count as free for `delay`.
    pub(crate) fn failed(&mut self, failure: &Failure, standing: Option<&Standing>, delay: Duration) {
        self.record_uncounted(failure, delay);
        if let Some(standing) = standing {
            self.watches.stand(standing);
            self.has_place = true;
        }
        if self.has_timed_out {
            self.watches.query_again_if_missed(failure, self.watches.nodes.now());
        }
        self.is_brief = failure.is_split() && standing.is_none() && !(self.is_brief && self.has_timed_out);
    }

    /// Records the nodes whose votes on a failed attempt did not count. They do not count as free for `delay`.
    pub(crate) fn record_uncounted(&mut self, failure: &Failure, delay: Duration) {
        self.watches.record_uncounted(failure, self.watches.nodes.now() + delay);
    }

    /// Records that an attempt has failed because too few nodes were usable. The next wait after split votes is brief.
    pub(crate) fn unusable(&mut self) {
        self.is_brief = false;
    }

    /// Continues active watches of an earlier request, which replace queries.
    pub(crate) fn resume(self, parked: Parked) -> Self {
        Self { watches: self.watches.resume(parked), ..self }
    }

    /// Ends the request, and returns its active watches.
    pub(crate) fn park(self) -> Parked {
        self.watches.park()
    }

    /// Waits until a quorum of nodes is free, or until `delay` has passed.
    ///
    /// The wait may last longer than `delay` if a quorum is watched and `may_exceed` is true, but not if it is brief because
    /// of split votes. It always ends at `until`.
    pub(crate) async fn wait(
        &mut self,
        delay: Duration,
        may_exceed: bool,
        until: Option<Instant>,
    ) -> WakeReason {
        let (start, mut alarm) = (self.watches.nodes.now(), Alarm::default());
        self.watches.query_again_if_free(start);
        let may_exceed = may_exceed && !self.is_brief;
        let wake = poll_fn(|cx| self.poll(cx, start, delay, may_exceed, until, &mut alarm)).await;
        self.watches.pause_queries();
        self.has_timed_out = wake == WakeReason::Time;
        if wake == WakeReason::Split {
            let nodes = self.watches.nodes;
            self.splits.attempt(nodes.now(), random(&*nodes.runtime));
        } else {
            self.splits = Splits::default();
        }
        wake
    }

    /// Returns whether a quorum of nodes is still free, without a query.
    ///
    /// A node counts as free if its last reply says so and it has sent no notification since then.
    pub(crate) async fn is_still_free(&mut self) -> bool {
        poll_fn(|cx| {
            let now = self.watches.nodes.now();
            self.watches.poll_watches(cx, now, false);
            Poll::Ready(self.readiness(now) == Readiness::Free)
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
        let nodes = self.watches.nodes;
        loop {
            let now = nodes.now();
            let next = self.watches.poll(cx, now);
            let doubted = if self.has_place { self.watches.query_doubted(now) } else { None };
            if self.probes.see(self.may_be_free(now)) && !self.has_place {
                return Poll::Ready(WakeReason::Free);
            }
            let is_split = self.has_place && is_split(&self.reserved(), nodes.rules.quorums);
            let split_at = self.splits.held_until(now).filter(|_| is_split);
            let (longest, free_at) = match self.readiness(now) {
                Readiness::Free => {
                    self.probes.tried();
                    return Poll::Ready(self.free());
                }
                _ if is_split && split_at.is_none() => return Poll::Ready(WakeReason::Split),
                Readiness::Watched(at) => (if may_exceed { SAFETY } else { delay }, at),
                Readiness::Blind => (delay, None),
            };
            let end = until.map_or(start + longest, |until| until.min(start + longest));
            if now >= end {
                return Poll::Ready(WakeReason::Time);
            }
            let look = [next, free_at, doubted, split_at].into_iter().flatten().fold(end, Instant::min);
            match alarm.poll_at(&*nodes.runtime, look, cx) {
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Returns whether a quorum is free, or has sent a notification.
    fn may_be_free(&self, now: Instant) -> bool {
        let counts = |node| self.watches.admission(node, now) == NodeView::Free;
        let may_be_free = |node| self.watches.of_node(node).iter().all(|watch| watch.may_be_free(now));
        self.watches.nodes.rules.quorums.are_met_by(|node| counts(node) && may_be_free(node))
    }

    /// Returns what each node has reserved of all resources, as far as known.
    fn reserved(&self) -> impl Iterator<Item = (usize, Reserved<'_>)> + Clone {
        self.watches
            .by_node()
            .enumerate()
            .filter_map(|(node, watches)| Some((node, together(watches.iter().map(NodeWatch::reserved))?)))
    }

    /// Returns the reason to wake a request for which a quorum is free.
    fn free(&self) -> WakeReason {
        let is_own = |node| self.reserved().any(|reserved| reserved == (node, Reserved::Own));
        let quorums = self.watches.nodes.rules.quorums;
        if quorums.are_met_by(is_own) { WakeReason::Reserved } else { WakeReason::Free }
    }

    fn readiness(&self, now: Instant) -> Readiness {
        readiness(&self.watches.views(now), self.watches.nodes.rules.quorums, now)
    }
}
