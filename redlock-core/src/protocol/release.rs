//! Release: compare-and-delete on every node.

use std::sync::Arc;

use tracing::Instrument;

use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Detachable, Responder, drive};
use crate::lease::record::LeaseRecord;
use crate::protocol::responses::Responses;
use crate::protocol::rollback::Rollback;
use crate::telemetry::{self, Operation};
use crate::types::error::{Error, ErrorKind};
use crate::types::report::ReleaseOutcome;

/// Releases a lease and waits until a quorum has replied. The first poll ends the lease.
pub(crate) async fn release(lease: &Arc<LeaseRecord>) -> Result<ReleaseOutcome, Error> {
    begin(lease).await
}

/// Releases a lease in the background. The lease has ended when this function returns.
pub(crate) fn in_background(lease: &Arc<LeaseRecord>) {
    begin(lease).in_background();
}

/// Ends the lease and deletes the claim on all nodes. This includes nodes that are not known to have it.
fn begin(lease: &Arc<LeaseRecord>) -> Detachable<Result<ReleaseOutcome, Error>> {
    let now = lease.inner().now();
    let before = lease.release_outcome(now);
    let rollback = Rollback::begin(lease, now);
    let span = telemetry::release(lease.claim());
    drive(lease.inner(), |responder| run(rollback, before, responder).instrument(span))
}

async fn run(
    rollback: Rollback,
    before: ReleaseOutcome,
    responder: Responder<Result<ReleaseOutcome, Error>>,
) {
    let (lease, inner) = (rollback.lease(), rollback.lease().inner());
    let mut responder = Some(responder);
    let mut releases = rollback.send_to_all();
    let mut responses = Responses::new(releases.completed_at(), inner.peers.len());
    while let Some((index, outcome)) = releases.next().await {
        responses.record(index, outcome, Operation::Release, releases.completed_at(), inner);
        let Some(result) = responder.as_ref().and_then(|_| result(lease, &responses, before)) else {
            continue;
        };
        lease.leave_queue();
        telemetry::released(lease.claim(), result.as_ref().copied());
        if let Some(responder) = responder.take() {
            responder.send(result);
        }
    }
}

/// Returns the result of the release, once a quorum has replied or cannot.
fn result(
    lease: &LeaseRecord,
    responses: &Responses,
    before: ReleaseOutcome,
) -> Option<Result<ReleaseOutcome, Error>> {
    let (inner, tally) = (lease.inner(), responses.tally(lease.inner()));
    if tally.possible_replies() < inner.quorum() {
        let (resources, count) = (lease.claim().all_resources(), responses.too_few_available(inner));
        let message = format!("cannot confirm the release of {resources}: {count}");
        return Some(Err(responses.error(ErrorKind::NoQuorum, message, inner)));
    }
    if tally.replies() < inner.quorum() {
        return None;
    }
    Some(Ok(match (before, tally.decide(RoundKind::Extend, inner.quorum())) {
        (ReleaseOutcome::Released, Decision::Lost(Some(Cause::Denied))) => ReleaseOutcome::AlreadyLost,
        _ => before,
    }))
}
