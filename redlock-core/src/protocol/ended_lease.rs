//! The releases of a lease that has ended: sending them, and following them up.
//!
//! Failed attempts and released guards send their releases here. A release whose effect is not certain enters the
//! [cleanup queue](crate::protocol::cleanup) of its node.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::decide::pending_release::{EndedRelease, Next};
use crate::inner::Inner;
use crate::lease::record::LeaseRecord;
use crate::protocol::cleanup::CleanupEntry;
use crate::protocol::fan_out::Calls;
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// A lease that has ended, and whose releases are not all confirmed.
///
/// If it is dropped before they are, because its runtime has ended, the rest goes to the cleanup queues.
pub(crate) struct EndedLease(Arc<LeaseRecord>);

impl EndedLease {
    /// Ends the lease at the time `now`.
    ///
    /// The possible writes on the nodes are read before the first release is sent. A write that becomes known later may
    /// have been carried out after that release.
    pub(crate) fn end(lease: &Arc<LeaseRecord>, now: Instant) -> Self {
        lease.end(now);
        lease.begin_leaving_queue();
        Self(Arc::clone(lease))
    }

    pub(crate) fn lease(&self) -> &Arc<LeaseRecord> {
        &self.0
    }

    /// Returns the releases to all nodes. They are sent at the first poll.
    pub(crate) fn send_to_all(&self) -> Releases<'_> {
        let (lease, inner) = (&self.0, self.0.inner());
        let sent = inner.now();
        let calls = (0..inner.peers.len()).map(|index| lease.release_on(index));
        let calls = Calls::new(&*inner.runtime, sent, inner.settings.node_timeout, calls);
        Releases { lease, sent, calls }
    }

    /// Follows up the releases that timed out on nodes that were not connected when they were written to.
    ///
    /// Waits until it is known whether the write was sent. If it was not, no other release is needed.
    pub(crate) async fn finish(self) {
        let (lease, inner) = (&self.0, self.0.inner());
        if !lease.has_release() {
            return;
        }
        // The writes began before the releases, so this is long enough.
        let limit = inner.now() + inner.settings.node_timeout;
        lease.writes_ended(limit).await;
        for index in 0..inner.peers.len() {
            let Some(release) = lease.take_current_release(index) else { continue };
            if let Next::Again(due) = release.without_reply(inner.now()) {
                inner.clean_up(index, due, CleanupEntry { claim: lease.claim().clone(), release });
            }
        }
    }

    /// Returns a set without releases, which are sent to one node after the other.
    pub(crate) fn send_to_none(&self, now: Instant) -> Releases<'_> {
        let inner = self.0.inner();
        Releases { lease: &self.0, sent: now, calls: Calls::none(&*inner.runtime, inner.peers.len()) }
    }
}

impl Drop for EndedLease {
    fn drop(&mut self) {
        let inner = self.0.inner();
        for index in 0..inner.peers.len() {
            let Some(release) = self.0.take_release(index) else { continue };
            if let Next::Again(due) = release.without_reply(inner.now()) {
                inner.leave_to_cleanup(index, due, CleanupEntry { claim: self.0.claim().clone(), release });
            }
        }
    }
}

/// The releases of one lease that have been sent.
pub(crate) struct Releases<'a> {
    lease: &'a Arc<LeaseRecord>,
    /// The releases were sent at this time or later.
    sent: Instant,
    calls: Calls<'a>,
}

impl Releases<'_> {
    /// Sends the release to a node whose writes have all ended.
    pub(crate) fn start(&mut self, index: usize) {
        let limit = self.lease.inner().settings.node_timeout;
        self.calls.start(index, limit, self.lease.release_on(index));
    }

    /// Returns when the last returned outcome was seen.
    pub(crate) fn completed_at(&self) -> Instant {
        self.calls.completed_at()
    }

    /// Returns the next release to end, as the node and its outcome; `None` when all have ended.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Outcome)>> {
        let ended = ready!(self.calls.poll_next(cx));
        if let Some((index, outcome)) = &ended {
            self.follow_up(*index, outcome);
        }
        Poll::Ready(ended)
    }

    /// Leaves the node to its cleanup queue if the outcome of the release is not sufficient.
    fn follow_up(&self, index: usize, outcome: &Outcome) {
        let (lease, at) = (self.lease, self.calls.completed_at());
        if matches!(outcome, Outcome::TimedOut) && lease.may_be_unsent(index) {
            // The write ends at about the same time, and `EndedLease::finish` follows up. With a connection, the write may
            // have been sent in any case.
            return;
        }
        let Some(mut release) = lease.take_release(index) else { return };
        if let Next::Again(due) = release
            .next(ended(lease.inner(), index, outcome, self.sent, at), lease.inner().settings.node_timeout)
        {
            lease.inner().clean_up(index, due, CleanupEntry { claim: lease.claim().clone(), release });
        }
    }
}

/// Describes a release that was sent to a node at `sent` or later, and whose outcome was seen at `at`.
pub(crate) fn ended(
    inner: &Inner,
    index: usize,
    outcome: &Outcome,
    sent: Instant,
    at: Instant,
) -> EndedRelease {
    let deleted = match outcome {
        Outcome::Released => Some(true),
        Outcome::NotHeld => Some(false),
        _ => None,
    };
    EndedRelease { deleted, connection: inner.peers[index].node.status().connection, sent, at }
}
