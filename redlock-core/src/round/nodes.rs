//! The nodes of one client, and its outstanding work.
//!
//! Two reference counts end two things. Handles and leases of the user hold a [`Handle`](crate::client::handle::Handle).
//! When the last one is gone, cleanup has a grace period left. Background work holds [`Nodes`] too. When that is gone,
//! the connections of the nodes are closed.

#[cfg(all(test, loom))]
mod loom_tests;

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use event_listener::{Event, EventListener};

use crate::decide::agreement::Agreement;
use crate::decide::quorums::{Counts, Quorums};
use crate::node::{LockNode, Operation, Profile};
use crate::queue::limiter::Limiter;
use crate::round::Rules;
use crate::round::pending::CleanupQueue;
use crate::runtime::Runtime;
use crate::sync::{Mutex, locked};
use crate::telemetry;
use crate::telemetry::quarantine::QuarantineLog;
use crate::types::instant::Instant;
use crate::types::quarantine::Quarantine;
use crate::types::report::Outcome;

/// Everything that rounds need, and that outlives the last handle of the user while there is work.
pub(crate) struct Nodes {
    pub(crate) peers: Box<[Peer]>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) rules: Rules,
    pub(crate) limiter: Arc<Limiter>,
    /// The agreement with other programs about the node lists, if votes count only with it.
    pub(crate) agreement: Option<Mutex<Agreement>>,
    work: Mutex<Work>,
    /// Notified when outstanding work may have ended.
    idle: Event,
    closing: Event,
}

/// The outstanding work of one client, and its end.
#[derive(Default)]
struct Work {
    /// The number of rounds in progress, in any task.
    in_flight: usize,
    closed: bool,
    /// The time when the last handle was dropped.
    unused_since: Option<Instant>,
    /// True if a runtime has ended before its cleanup was done.
    cleanup_stopped: bool,
    /// The numbers of nodes whose cleanup is behind.
    nodes_behind: Counts,
    /// The number of claims on single nodes whose cleanup was abandoned. Their keys expire with the TTL.
    abandoned: u64,
}

/// A request that has ended, for its report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) node: usize,
    pub(crate) operation: Operation,
    /// The name of the request in events and metrics.
    pub(crate) name: &'static str,
    pub(crate) latency: Duration,
    /// True if the reply counts even if node lists do not agree.
    pub(crate) counts_always: bool,
}

/// One configured node, and its pending cleanup.
pub(crate) struct Peer {
    pub(crate) node: Arc<dyn LockNode>,
    pub(crate) profile: Profile,
    pub(crate) cleanup: CleanupQueue,
    quarantines: QuarantineLog,
}

impl Peer {
    pub(crate) fn new(node: Arc<dyn LockNode>) -> Self {
        let (cleanup, quarantines) = (CleanupQueue::default(), QuarantineLog::default());
        Self { profile: node.profile(), node, cleanup, quarantines }
    }
}

impl Nodes {
    pub(crate) fn new(
        peers: Box<[Peer]>,
        runtime: Arc<dyn Runtime>,
        rules: Rules,
        limiter: Arc<Limiter>,
    ) -> Self {
        let (work, idle, closing) = (Mutex::default(), Event::new(), Event::new());
        Self { peers, runtime, rules, limiter, agreement: None, work, idle, closing }
    }

    /// Makes votes count only while the node lists of programs agree.
    pub(crate) fn with_agreement(mut self) -> Self {
        self.agreement = Some(Mutex::new(Agreement::new(self.rules.nodes())));
        self
    }

    /// Reports the outcome of a request, and whether the votes of the node count, if that has changed.
    ///
    /// Takes the vote away from the outcome, unless the node lists of programs agree, or it counts anyway.
    pub(crate) fn note(&self, request: Noted, outcome: Outcome, at: Instant) -> Outcome {
        let Noted { node, operation, name, latency, counts_always } = request;
        let outcome = if counts_always { outcome } else { self.count(node, outcome, at) };
        let peer = &self.peers[node];
        telemetry::voted(name, peer.node.label(), &outcome, latency);
        let is_vote = !counts_always && operation.is_vote();
        if is_vote && (peer.profile.longest_ttl.is_some() || self.agreement.is_some()) {
            let is_partly_quarantined = || peer.node.status().is_partly_quarantined;
            peer.quarantines.note(peer.node.label(), &outcome, is_partly_quarantined);
        }
        outcome
    }

    fn count(&self, node: usize, outcome: Outcome, now: Instant) -> Outcome {
        let Some(agreement) = &self.agreement else { return outcome };
        match locked(agreement).uncounted(node, now) {
            Some(reason) => outcome.without_vote(Quarantine::new(reason)),
            None => outcome,
        }
    }

    /// Returns whether the nodes with a property are a quorum.
    pub(crate) fn are_quorum(&self, has_property: impl Fn(&Peer) -> bool) -> bool {
        self.rules.quorums.are_met_by(|node| has_property(&self.peers[node]))
    }

    /// Returns whether a quorum of nodes keeps the places of waiting requests.
    pub(crate) fn keep_places(&self) -> bool {
        self.are_quorum(|peer| peer.profile.places)
    }

    /// Returns whether a quorum of nodes notifies waiters.
    pub(crate) fn notify_waiters(&self) -> bool {
        self.are_quorum(|peer| peer.profile.watch)
    }

    pub(crate) fn label(&self, node: usize) -> &str {
        self.peers[node].node.label()
    }

    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Returns a value that counts as outstanding work until it is dropped.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        locked(&self.work).in_flight += 1;
        Ticket(Arc::clone(self))
    }

    /// Returns whether the client is closed.
    ///
    /// The caller counts as outstanding already: either it sees the closing, or the closing sees it.
    pub(crate) fn is_closed(&self) -> bool {
        locked(&self.work).closed
    }

    pub(crate) fn close(&self) {
        locked(&self.work).closed = true;
        self.closing.notify(usize::MAX);
    }

    /// Returns whether no work is in progress and no cleanup is pending.
    pub(crate) fn is_idle(&self) -> bool {
        // Work that ends may leave cleanup behind, so the queues are read later.
        locked(&self.work).in_flight == 0 && self.peers.iter().all(|peer| peer.cleanup.is_empty())
    }

    /// Counts claims on one node whose cleanup was abandoned.
    pub(crate) fn record_abandoned_cleanup(&self, claims: usize) {
        if claims > 0 {
            locked(&self.work).abandoned += claims as u64;
        }
    }

    /// Returns the number of claims on single nodes whose cleanup was abandoned.
    ///
    /// It includes queued cleanup, which is not carried out without a runtime.
    pub(crate) fn abandoned_cleanup(&self) -> u64 {
        let waiting: usize = self.peers.iter().map(|peer| peer.cleanup.len()).sum();
        locked(&self.work).abandoned + waiting as u64
    }

    /// Notifies listeners that outstanding work has ended.
    pub(crate) fn notify_idle(&self) {
        self.idle.notify(usize::MAX);
    }

    /// Listens for the end of outstanding work. Listen first, then check.
    pub(crate) fn listen_for_idle(&self) -> EventListener {
        self.idle.listen()
    }

    /// Listens for the closing. Listen first, then check.
    pub(crate) fn listen_for_closing(&self) -> EventListener {
        self.closing.listen()
    }

    /// Records that the last handle was dropped.
    pub(crate) fn end_use(&self) {
        let now = self.now();
        locked(&self.work).unused_since.get_or_insert(now);
    }

    /// Returns when the last handle was dropped, if it was.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        locked(&self.work).unused_since
    }

    /// Records that cleanup is queued which no task carries out.
    ///
    /// Queue it, or end its task, before the call: [`take_stopped_cleanup`](Self::take_stopped_cleanup) then finds it.
    pub(crate) fn stop_cleanup(&self) {
        locked(&self.work).cleanup_stopped = true;
    }

    /// Returns whether cleanup has stopped, and forgets it: the caller restarts all cleanup.
    pub(crate) fn take_stopped_cleanup(&self) -> bool {
        mem::take(&mut locked(&self.work).cleanup_stopped)
    }

    pub(crate) fn is_cleanup_stopped(&self) -> bool {
        locked(&self.work).cleanup_stopped
    }

    /// Counts a node whose cleanup is behind, or is not any more.
    pub(crate) fn count_node_behind(&self, node: usize, is_behind: bool) {
        let (mut work, quorums) = (locked(&self.work), self.rules.quorums);
        let count = if is_behind { Quorums::add } else { Quorums::remove };
        count(quorums, node, &mut work.nodes_behind);
    }

    /// Returns whether cleanup is behind on so many nodes that the others are no quorum.
    pub(crate) fn is_cleanup_behind(&self) -> bool {
        self.rules.quorums.are_lost_without_counts(locked(&self.work).nodes_behind)
    }
}

/// One unit of outstanding work.
pub(crate) struct Ticket(Arc<Nodes>);

impl Deref for Ticket {
    type Target = Arc<Nodes>;

    fn deref(&self) -> &Arc<Nodes> {
        &self.0
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut work = locked(&self.0.work);
        work.in_flight -= 1;
        let was_last = work.in_flight == 0;
        drop(work);
        if was_last {
            self.0.notify_idle();
        }
    }
}
