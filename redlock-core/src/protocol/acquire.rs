//! Acquisition: one attempt is one round with its own token.
//!
//! Several attempts with one token are unsafe. A late release of the first attempt would delete the key of the second,
//! which still counts it. A failed attempt is cleaned up on all nodes as soon as it fails. This applies to every cause:
//! denials, errors, timeouts, no validity left, or a caller that no longer waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tracing::Instrument;

use crate::decide::holder::Contention;
use crate::decide::tally::{Cause, Decision};
use crate::drive::{Responder, drive};
use crate::inner::Inner;
use crate::lease::guard::Guard;
use crate::lease::record::LeaseRecord;
use crate::node::NodeErrorKind;
use crate::protocol::acquire_round::{AcquireRound, Phase, Stragglers};
use crate::protocol::attempt_error::{AttemptError, NotGranted, Reason};
use crate::protocol::ended_lease::{EndedLease, Releases};
use crate::telemetry;
use crate::types::ttl::Ttl;
use crate::wait::limiter::Permit;

type AttemptResult = Result<Guard, AttemptError>;

/// Makes one attempt with a lease that no other attempt uses.
pub(crate) async fn attempt(
    inner: &Arc<Inner>,
    lease: Arc<LeaseRecord>,
    ttl: Ttl,
    permit: Permit,
) -> AttemptResult {
    let span = telemetry::attempt(lease.claim());
    let work = drive(inner, |responder| run(lease, ttl, permit, responder).instrument(span));
    // Checked after the work counts as outstanding: either `close` sees the work, or this check sees the closing.
    if inner.is_closed() {
        return Err(AttemptError::Closed);
    }
    work.await
}

/// Runs the round: reports the result once certain, and handles late replies.
///
/// The permit is returned at the decision. The rest of the work needs none, so another attempt may begin.
async fn run(lease: Arc<LeaseRecord>, ttl: Ttl, permit: Permit, responder: Responder<AttemptResult>) {
    let round = decided(&lease, ttl, &responder).await;
    drop(permit);
    match conclude(&lease, round, responder) {
        Rest::Won(mut stragglers) => stragglers.finish().await,
        // Boxed, so that the future of a successful attempt reserves no room for it.
        Rest::Lost(lost) => Box::pin(lost.clean_up()).await,
    }
}

/// Sends to all nodes until the votes decide or the caller no longer waits.
async fn decided<'a, T>(lease: &'a Arc<LeaseRecord>, ttl: Ttl, responder: &Responder<T>) -> AcquireRound<'a> {
    let mut undecided = Undecided(Some(lease));
    let mut round = AcquireRound::new(lease, ttl);
    while round.decision() == Decision::Pending {
        if next_while_awaited(&mut round, responder).await.is_none() {
            break;
        }
    }
    undecided.0 = None;
    round
}

/// The work that remains once an attempt is decided.
enum Rest<'a> {
    Won(Stragglers<'a>),
    Lost(Lost<'a>),
}

/// Reports a successful attempt, or prepares the cleanup of a failed one.
fn conclude<'a>(
    lease: &'a Arc<LeaseRecord>,
    round: AcquireRound<'a>,
    responder: Responder<AttemptResult>,
) -> Rest<'a> {
    // The deciding vote of a successful attempt was seen in this poll, so this time is current.
    let (deadline, now) = (round.deadline(), round.completed_at());
    let in_time = now < deadline;
    if round.decision() == Decision::Won && in_time && !responder.is_canceled() {
        let stragglers = round.win(deadline, now);
        telemetry::acquired(lease.claim(), lease.fencing_token());
        // If no caller takes the guard, it is dropped, which releases the lock.
        responder.send(Ok(Guard::new(Arc::clone(lease))));
        Rest::Won(stragglers)
    } else {
        Rest::Lost(Lost { lease, round, in_time, responder: Some(responder) })
    }
}

/// An attempt that failed.
struct Lost<'a> {
    lease: &'a Arc<LeaseRecord>,
    round: AcquireRound<'a>,
    in_time: bool,
    /// The receiver of the reason; `None` if the caller no longer waits.
    responder: Option<Responder<AttemptResult>>,
}

impl Lost<'_> {
    /// Releases the claim on all nodes, and reports the reason once it is certain.
    ///
    /// Each node gets its release as soon as the call of its write has ended. Thus nothing is sent after the cleanup.
    async fn clean_up(mut self) {
        let (lease, inner) = (self.lease, self.lease.inner());
        let now = inner.now();
        let ended_lease = EndedLease::end(lease, now);
        // A caller that no longer waits needs no reason, and no request that was not sent yet.
        self.responder.take_if(|responder| responder.is_canceled());
        if self.responder.is_none() {
            telemetry::attempt_canceled(lease.claim());
            self.round.drop_unsent();
        }
        let mut releases = ended_lease.send_to_none(now);
        for index in (0..inner.peers.len()).filter(|index| !self.round.is_pending(*index)) {
            releases.start(index);
        }
        loop {
            self.report();
            match next_of(&mut self.round, &mut releases).await {
                Some(Step::Response(Phase::Confirm) | Step::Released) => {}
                Some(Step::Response(Phase::Acquire(index))) => {
                    lease.begin_release(index);
                    releases.start(index);
                }
                None => break,
            }
        }
        drop(releases);
        ended_lease.finish().await;
    }

    /// Reports the reason of the failure, once it is certain.
    fn report(&mut self) {
        let Some(responder) = &mut self.responder else { return };
        responder.send_once(|| {
            let reason = reason(&self.round, self.in_time, self.lease.inner())?;
            let token = self.lease.claim().token().clone();
            let failure = NotGranted { reason, token, responses: self.round.deciding().responses.clone() };
            telemetry::attempt_failed(self.lease.claim(), failure.kind(), failure.responses.holder());
            Some(Err(AttemptError::NotGranted(Box::new(failure))))
        });
    }
}

enum Step {
    Response(Phase),
    Released,
}

/// Returns the next response or release to end; `None` when all have ended.
async fn next_of(round: &mut AcquireRound<'_>, releases: &mut Releases<'_>) -> Option<Step> {
    poll_fn(|cx| {
        let response = round.poll_next(cx);
        if let Poll::Ready(Some(phase)) = response {
            return Poll::Ready(Some(Step::Response(phase)));
        }
        match releases.poll_next(cx) {
            Poll::Ready(Some(_)) => Poll::Ready(Some(Step::Released)),
            Poll::Ready(None) => response.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// An attempt whose round is not decided yet.
///
/// If it is dropped because its runtime has ended, the cleanup queues take over.
struct Undecided<'a>(Option<&'a Arc<LeaseRecord>>);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.0 {
            drop(EndedLease::end(lease, lease.inner().now()));
        }
    }
}

/// Returns the next response; `None` if none is left or the caller no longer waits.
async fn next_while_awaited<T>(round: &mut AcquireRound<'_>, responder: &Responder<T>) -> Option<Phase> {
    poll_fn(|cx| if responder.is_canceled() { Poll::Ready(None) } else { round.poll_next(cx) }).await
}

/// Returns the reason of the failure, once it is certain.
fn reason(round: &AcquireRound<'_>, in_time: bool, inner: &Inner) -> Option<Reason> {
    match round.decision() {
        Decision::Won if !in_time => Some(Reason::TooSlow),
        Decision::Won | Decision::Pending | Decision::Lost(None) => None,
        Decision::Lost(Some(Cause::Denied | Cause::Superseded)) => {
            match round.deciding().responses.contention(inner, round.is_confirmation()) {
                Contention::Held if round.is_confirmation() => Some(Reason::ContendedBeforeConfirmation),
                Contention::Held => Some(Reason::Contended),
                Contention::Split => Some(Reason::Split),
                Contention::Open => None,
            }
        }
        Decision::Lost(Some(Cause::NoQuorum)) => {
            let responses = &round.deciding().responses;
            let excluded_by = |kind| responses.excludes_quorum(kind, inner);
            Some(match () {
                () if excluded_by(NodeErrorKind::WrongType) => Reason::WrongType,
                () if excluded_by(NodeErrorKind::DamagedCounter) => Reason::DamagedCounter,
                () => Reason::NoQuorum,
            })
        }
    }
}
