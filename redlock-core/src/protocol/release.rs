//! Release: compare-and-delete on every node.
//!
//! Once the releases are sent, the next task of this process may send its attempt behind them: see [`HandOver`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Context;

use smallvec::SmallVec;
use tracing::Instrument;

use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Detachable, Responder, drive};
use crate::inner::Peer;
use crate::lease::record::LeaseRecord;
use crate::node::{ConnectionId, Operation};
use crate::protocol::ended_lease::EndedLease;
use crate::protocol::responses::Responses;
use crate::telemetry;
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
    let ended_lease = EndedLease::end(lease, now);
    let span = telemetry::release(lease.claim());
    drive(lease.inner(), |responder| run(ended_lease, before, responder).instrument(span))
}

async fn run(
    ended_lease: EndedLease,
    before: ReleaseOutcome,
    mut responder: Responder<Result<ReleaseOutcome, Error>>,
) {
    let (lease, inner) = (ended_lease.lease(), ended_lease.lease().inner());
    let mut hand_over = HandOver::prepare(lease);
    let mut releases = ended_lease.send_to_all();
    let mut responses = Responses::new(releases.completed_at(), inner.peers.len());
    let mut next = |cx: &mut Context<'_>| {
        let ended = releases.poll_next(cx);
        // The first poll has sent the releases.
        if let Some(hand_over) = hand_over.take() {
            hand_over.complete();
        }
        ended.map(|ended| ended.map(|ended| (ended, releases.completed_at())))
    };
    while let Some(((index, outcome), seen)) = poll_fn(&mut next).await {
        responses.record(index, outcome, Operation::Release.name(), seen, inner);
        responder.send_once(|| {
            let result = result(lease, &responses, before)?;
            lease.leave_queue();
            telemetry::released(lease.claim(), result.as_ref().copied());
            Some(result)
        });
    }
    drop(releases);
    ended_lease.finish().await;
}

/// The passing of the turn to the next task of this process, before the nodes confirm the release.
///
/// A node carries out the requests of one connection in the order in which they were sent. Thus an attempt that is sent
/// behind the release finds the key deleted. This requires that the outcome of every write on the node is known, and
/// that the connection did not change while the release was sent. The turn passes if a quorum of nodes fulfills this:
/// the attempt needs no more, and no task waits for a minority. The nodes decide about the attempt as always.
struct HandOver<'a> {
    lease: &'a LeaseRecord,
    /// The connections before the releases are sent, of the nodes without a write of unknown outcome.
    before: SmallVec<[Option<ConnectionId>; 5]>,
}

impl<'a> HandOver<'a> {
    /// Prepares it before the releases are sent; `None` if no task can take the turn now.
    ///
    /// The next task is woken here already. If the runtime has one thread, that task then runs before the tasks that
    /// drive the connections. Thus each connection sends the release and the attempt in one write. A task that runs
    /// earlier than that, on another thread, finds that it still waits.
    fn prepare(lease: &'a LeaseRecord) -> Option<Self> {
        lease.wake_next().then(|| Self { lease, before: lease.settled_connections() })
    }

    /// Passes the turn after the releases were sent.
    fn complete(self) {
        let inner = self.lease.inner();
        let nodes = inner.peers.iter().zip(&self.before);
        let is_behind = |(peer, before): &(&Peer, &Option<ConnectionId>)| {
            before.is_some() && peer.node.status().connection == **before
        };
        if nodes.filter(is_behind).count() >= inner.quorum() {
            self.lease.hand_over();
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
        let (resources, count) = (lease.claim().all_resources(), responses.too_few_replies(inner));
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
