//! Release: compare-and-delete on every node, and cleanup if an outcome is unknown.

use tracing::Instrument;

use crate::decide::pending_release::{Answer, Next, PendingRelease};
use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Detachable, Responder, drive};
use crate::lease::Lease;
use crate::protocol::cleanup::CleanupEntry;
use crate::protocol::round::Round;
use crate::telemetry::{self, Operation};
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// This client held the lock until now.
    ///
    /// The validity had not passed, and the first replies of the nodes do not contradict this.
    Released,
    /// The validity had passed before the release.
    ///
    /// Another client may have acquired the lock since then.
    AlreadyExpired,
    /// The lock was lost before its validity had passed.
    ///
    /// So many nodes no longer had it that a quorum is impossible: it was deleted, or nodes have lost data. Another
    /// client may have acquired it meanwhile. This is not always detected, because a release waits for replies of a
    /// quorum and no longer.
    AlreadyLost,
}

/// Releases a lease and waits until a quorum has replied. The first poll ends the lease.
pub(crate) async fn release(lease: &Lease) -> Result<ReleaseOutcome, Error> {
    run_round(lease).await
}

/// Releases a lease in the background. The lease has ended when this function returns.
pub(crate) fn in_background(lease: &Lease) {
    run_round(lease).in_background();
}

/// Ends the lease and deletes the claim on all nodes. This includes nodes that are not known to have it.
fn run_round(lease: &Lease) -> Detachable<Result<ReleaseOutcome, Error>> {
    let now = lease.shared().now();
    let before = lease.release_outcome(now);
    let rollback = Rollback::begin(lease, now);
    let span = telemetry::release(lease);
    drive(lease.shared(), |responder| run(rollback, before, responder).instrument(span))
}

async fn run(
    mut rollback: Rollback,
    before: ReleaseOutcome,
    responder: Responder<Result<ReleaseOutcome, Error>>,
) {
    let lease = rollback.lease.clone();
    let shared = lease.shared();
    let mut responder = Some(responder);
    let limit = shared.settings.node_timeout;
    let mut round =
        Round::new(shared, RoundKind::Extend, Operation::Release, limit, |index, _| lease.release_on(index));
    let sent = round.responses.start;
    while let Some(index) = round.next().await {
        rollback.answered(index, round.responses.outcome(index), sent, round.responses.completed_at(index));
        if let Some(result) = responder.as_ref().and_then(|_| outcome(&lease, &round, before)) {
            lease.leave_queue();
            telemetry::released(&lease, result.as_ref().copied());
            if let Some(responder) = responder.take() {
                responder.send(result);
            }
        }
    }
}

/// The pending cleanup of a lease that has ended.
///
/// If it is dropped before it is done, because its runtime has ended, the rest goes to the cleanup queues.
pub(crate) struct Rollback {
    lease: Lease,
    /// The cleanup by node; `None` if it is done or in the cleanup queue.
    open: Vec<Option<PendingRelease>>,
}

impl Rollback {
    /// Ends the lease at the time `now`.
    ///
    /// The possible writes on the nodes are read before the first release is sent. A write that becomes known later may
    /// have been carried out after that release.
    pub(crate) fn begin(lease: &Lease, now: Instant) -> Self {
        let open = lease.end(now).into_iter().map(Some).collect();
        Self { lease: lease.clone(), open }
    }

    /// Prepares a release on a node where more has become known since the beginning.
    pub(crate) fn again(&mut self, index: usize) {
        self.open[index] = Some(self.lease.pending_release(index));
    }

    /// Handles the outcome of a release that was sent at `sent` or later. The outcome was seen at `at`.
    pub(crate) fn answered(&mut self, index: usize, outcome: &Outcome, sent: Instant, at: Instant) {
        let shared = self.lease.shared();
        let Some(mut pending_release) = self.open[index].take() else { return };
        let connection = shared.peers[index].node.connection();
        let next = match outcome {
            Outcome::Granted => pending_release
                .answered(Answer { deleted: true, connection, sent, at }, shared.settings.node_timeout),
            Outcome::Denied(_) => pending_release
                .answered(Answer { deleted: false, connection, sent, at }, shared.settings.node_timeout),
            _ => pending_release.failed(at),
        };
        if let Next::Again(due) = next {
            shared.clean_up(index, due, CleanupEntry { claim: self.lease.claim().clone(), pending_release });
        }
    }
}

impl Drop for Rollback {
    fn drop(&mut self) {
        let shared = self.lease.shared();
        for (index, pending_release) in self.open.iter().enumerate() {
            let Some(pending_release) = *pending_release else { continue };
            if let Next::Again(due) = pending_release.failed(shared.now()) {
                shared.leave_to_cleanup(
                    index,
                    due,
                    CleanupEntry { claim: self.lease.claim().clone(), pending_release },
                );
            }
        }
    }
}

/// Returns the result of the release, once a quorum has replied or cannot.
fn outcome(
    lease: &Lease,
    round: &Round<'_>,
    before: ReleaseOutcome,
) -> Option<Result<ReleaseOutcome, Error>> {
    let (shared, tally) = (lease.shared(), round.responses.tally(lease.shared()));
    if tally.possible_answers() < shared.quorum() {
        let (resources, count) = (lease.claim().all_resources(), round.responses.too_few_available(shared));
        let message = format!("cannot confirm the release of {resources}: {count}");
        return Some(Err(round.responses.error(ErrorKind::NoQuorum, message, shared)));
    }
    if tally.answered() < shared.quorum() {
        return None;
    }
    Some(Ok(match (before, round.decision()) {
        (ReleaseOutcome::Released, Decision::Lost(Some(Cause::Refused))) => ReleaseOutcome::AlreadyLost,
        _ => before,
    }))
}
