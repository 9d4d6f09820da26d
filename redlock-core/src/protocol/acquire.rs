//! Acquisition: one attempt is one round with its own token.
//!
//! Several attempts with one token are unsafe. A late release of the first attempt would delete the key of the second,
//! which still counts it. A failed attempt is cleaned up on all nodes as soon as it fails. This applies to every cause:
//! denials, errors, timeouts, no validity left, or a caller that no longer waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::Instrument;

use crate::decide::tally::{Cause, Decision};
use crate::drive::{Responder, drive};
use crate::inner::Inner;
use crate::lease::Lease;
use crate::lease::guard::Guard;
use crate::protocol::acquire_round::{AcquireRound, Phase, Stragglers};
use crate::protocol::fan_out::{Calls, Ending};
use crate::protocol::release::Rollback;
use crate::telemetry;
use crate::types::error::{Error, ErrorKind};
use crate::types::ttl::Ttl;
use crate::wait::limiter::Permit;

/// Makes one attempt with a lease that no other attempt uses.
pub(crate) async fn attempt(
    shared: &Arc<Inner>,
    lease: Lease,
    ttl: Ttl,
    permit: Permit,
) -> Result<Guard, Error> {
    let span = telemetry::attempt(&lease);
    let work = drive(shared, |responder| run_round(lease, ttl, permit, responder).instrument(span));
    // Checked after the work counts as outstanding: either `close` sees the work, or this check sees the closing.
    if shared.is_closed() {
        return Err(Error::closed());
    }
    work.await
}

/// Runs the round: reports the result once certain, and handles late replies.
///
/// The permit is returned at the decision. The rest of the work needs none, so another attempt may begin.
async fn run_round(lease: Lease, ttl: Ttl, permit: Permit, responder: Responder<Result<Guard, Error>>) {
    let votes = decided(&lease, ttl, &responder).await;
    drop(permit);
    let mut rest = conclude(&lease, votes, responder);
    rest.finish().await;
}

/// Sends to all nodes until the votes decide or the caller no longer waits.
async fn decided<'a, T>(lease: &'a Lease, ttl: Ttl, responder: &Responder<T>) -> AcquireRound<'a> {
    let mut undecided = Undecided(Some(lease));
    let mut votes = AcquireRound::new(lease, ttl, node_timeout(lease.shared().settings.node_timeout, ttl));
    while votes.decision() == Decision::Pending {
        if next_while_awaited(&mut votes, responder).await.is_none() {
            break;
        }
    }
    undecided.0 = None;
    votes
}

/// The work that remains once an attempt is decided.
enum Rest<'a> {
    Won(Stragglers<'a>),
    Lost(Lost<'a>),
}

impl Rest<'_> {
    async fn finish(&mut self) {
        match self {
            Self::Won(stragglers) => stragglers.finish().await,
            // Boxed, so that the future of a successful attempt reserves no room for it.
            Self::Lost(lost) => Box::pin(lost.undo()).await,
        }
    }
}

/// Reports a successful attempt, or prepares the cleanup of a failed one.
fn conclude<'a>(
    lease: &'a Lease,
    votes: AcquireRound<'a>,
    responder: Responder<Result<Guard, Error>>,
) -> Rest<'a> {
    // The deciding vote of a successful attempt was seen in this poll, so this time is current.
    let (deadline, now) = (votes.deadline(), votes.completed_at());
    let in_time = now < deadline;
    if votes.decision() == Decision::Won && in_time && !responder.is_canceled() {
        let stragglers = votes.win(deadline, now);
        telemetry::attempted(lease, Ok(()));
        // If no caller takes the guard, it is dropped, which releases the lock.
        responder.send(Ok(Guard::new(lease.clone())));
        Rest::Won(stragglers)
    } else {
        Rest::Lost(Lost { lease, votes, in_time, responder: Some(responder) })
    }
}

/// An attempt that failed.
struct Lost<'a> {
    lease: &'a Lease,
    votes: AcquireRound<'a>,
    in_time: bool,
    /// The receiver of the cause, until the cause is reported.
    responder: Option<Responder<Result<Guard, Error>>>,
}

impl Lost<'_> {
    /// Releases the claim on all nodes, and reports the cause once it is certain.
    ///
    /// Each node gets its release as soon as the call of its write has ended. So nothing is sent after the cleanup.
    async fn undo(&mut self) {
        let Self { lease, votes, in_time, responder } = self;
        let shared = lease.shared();
        let sent = shared.now();
        let mut rollback = Rollback::begin(lease, sent);
        let mut releases = Calls::none(&*shared.runtime, shared.peers.len());
        for index in (0..shared.peers.len()).filter(|index| !votes.is_pending(*index)) {
            releases.start(index, shared.settings.node_timeout, lease.release_on(index));
        }
        // A caller that no longer waits needs no cause.
        responder.take_if(|responder| responder.is_canceled());
        if responder.is_none() {
            telemetry::attempted(lease, Err(None));
        }
        loop {
            if let Some(error) = responder.as_ref().and_then(|_| error(lease, votes, *in_time)) {
                telemetry::attempted(lease, Err(Some(&error)));
                if let Some(responder) = responder.take() {
                    responder.send(Err(error));
                }
            }
            match next_of(votes, &mut releases).await {
                Some(Step::Voted(Phase::Confirm)) => {}
                Some(Step::Voted(Phase::Acquire(index))) => {
                    rollback.again(index);
                    releases.start(index, shared.settings.node_timeout, lease.release_on(index));
                }
                Some(Step::Released(index, ending)) => {
                    rollback.answered(index, &ending.into(), sent, releases.completed_at());
                }
                None => return,
            }
        }
    }
}

enum Step {
    Voted(Phase),
    Released(usize, Ending),
}

/// Returns the next vote or release to end; `None` when all have ended.
async fn next_of(votes: &mut AcquireRound<'_>, releases: &mut Calls<'_>) -> Option<Step> {
    poll_fn(|cx| {
        let vote = votes.poll_next(cx);
        if let Poll::Ready(Some(voted)) = vote {
            return Poll::Ready(Some(Step::Voted(voted)));
        }
        match releases.poll_next(cx) {
            Poll::Ready(Some((index, ending))) => Poll::Ready(Some(Step::Released(index, ending))),
            Poll::Ready(None) => vote.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// An attempt whose round is not decided yet.
///
/// If it is dropped because its runtime has ended, the cleanup queues take over.
struct Undecided<'a>(Option<&'a Lease>);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.0 {
            drop(Rollback::begin(lease, lease.shared().now()));
        }
    }
}

/// Returns the next vote; `None` if none is left or the caller no longer waits.
async fn next_while_awaited<T>(votes: &mut AcquireRound<'_>, responder: &Responder<T>) -> Option<Phase> {
    poll_fn(|cx| if responder.is_canceled() { Poll::Ready(None) } else { votes.poll_next(cx) }).await
}

/// Returns the cause of the failure, once it is certain.
fn error(lease: &Lease, votes: &AcquireRound<'_>, in_time: bool) -> Option<Error> {
    let shared = lease.shared();
    let resources = lease.claim().all_resources();
    let responses = &votes.deciding().responses;
    let (kind, message) = match votes.decision() {
        Decision::Pending | Decision::Lost(None) => return None,
        Decision::Won if in_time => return None,
        Decision::Won => (
            ErrorKind::TooSlow,
            format!("cannot lock {resources}: no validity left when a quorum granted it"),
        ),
        Decision::Lost(Some(Cause::Refused | Cause::Superseded)) => {
            let count = responses.too_few("granted", shared);
            let message = match responses.holder() {
                Some(holder) => format!("{resources} is locked by {holder} ({count})"),
                None if votes.is_confirmation() => {
                    format!(
                        "another client locked {resources} before its fencing token was confirmed ({count})"
                    )
                }
                None => format!("{resources} is locked by another client ({count})"),
            };
            (ErrorKind::Contended, message)
        }
        Decision::Lost(Some(Cause::NoQuorum)) => {
            responses.no_quorum(format_args!("lock {resources}"), shared)
        }
    };
    Some(responses.error(kind, message, shared))
}

/// Returns the time limit for one node while a TTL is running.
///
/// It is at most half of the TTL, so that a quorum of late replies leaves usable validity.
pub(crate) fn node_timeout(configured: Duration, ttl: Ttl) -> Duration {
    configured.min(ttl.as_duration() / 2)
}
