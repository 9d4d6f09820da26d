//! Acquiring: one attempt is one round with a token of its own.
//!
//! One token over several attempts is unsafe: a release of the first attempt that arrives late deletes the key of the
//! second, which still counts it. A lost attempt is undone on all nodes from the moment it is lost, for whatever reason:
//! refusals, errors, timeouts, validity spent, or nobody waiting any more.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::Instrument;

use crate::background::{Verdict, drive};
use crate::broken::{self, Variant, broken};
use crate::calls::{Calls, Ending};
use crate::claim::Claim;
use crate::decide::tally::{Cause, Decision, Question};
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::observe::{self, Operation};
use crate::release::Undoing;
use crate::resource::Resources;
use crate::round::Round;
use crate::shared::Presence;
use crate::token::Token;
use crate::ttl::Ttl;

/// Makes one attempt, with a token that no other has.
pub(crate) async fn attempt(
    presence: &Arc<Presence>,
    resources: &Resources,
    token: Token,
    ttl: Ttl,
) -> Result<Guard, Error> {
    presence.resume_chases();
    let claim = Claim::new(resources.clone(), token);
    let lease = Lease::new(Arc::clone(presence), claim);
    let span = observe::attempt(&lease);
    let work = drive(presence, |verdict| everywhere(lease, ttl, verdict).instrument(span));
    // Asked once the work counts as outstanding: whoever closes either sees it or is seen.
    if presence.is_closed() {
        return Err(Error::closed());
    }
    work.await
}

/// Asks all nodes, tells the verdict as soon as it is certain, and sees to every node that answers later.
async fn everywhere(lease: Lease, ttl: Ttl, mut verdict: Verdict<Result<Guard, Error>>) {
    let shared = lease.shared();
    let mut undecided = Undecided(Some(lease.clone()));
    let limit = node_timeout(shared.settings.node_timeout, ttl);
    let start = lease.since();
    let mut round = Round::since(start, shared, Question::Claim, Operation::Acquire, limit, |_, node| {
        node.acquire(lease.claim(), ttl)
    });
    broken::note_expiry(lease.claim(), round.ballots.start + ttl.as_duration());
    while round.decision() == Decision::Open {
        let Some(index) = next_while_awaited(&mut round, &mut verdict).await else { break };
        lease.settle(index, round.ballots.outcome(index));
    }
    undecided.0 = None;

    let deadline = round.deadline(ttl);
    let now = shared.now();
    let in_time = now < deadline || broken(Variant::ValidityUnchecked);
    if round.decision() == Decision::Won && in_time && !verdict.is_canceled() {
        lease.hold_until(deadline, ttl, now);
        let (mut stragglers, ballots) = round.into_parts();
        lease.keep_votes(ballots);
        observe::attempted(&lease, Ok(()));
        // A guard that nobody takes is dropped, and so released.
        let _ = verdict.send(Ok(Guard::new(lease.clone())));
        while let Some((index, ending)) = next_of_stragglers(&lease, &mut stragglers).await {
            let outcome = ending.into();
            lease.settle(index, &outcome);
            lease.keep_vote(index, outcome, stragglers.seen());
        }
    } else if !(broken(Variant::CancelledKept) && verdict.is_canceled()) {
        undo(&lease, &mut round, in_time, verdict).await;
    }
}

/// The next vote on a lease that is held. It may be released meanwhile, and two releases a node timeout apart are taken to
/// be behind whatever was sent before: so nothing may be sent after the limit then.
async fn next_of_stragglers(lease: &Lease, stragglers: &mut Calls<'_>) -> Option<(usize, Ending)> {
    poll_fn(|cx| {
        if lease.is_released() {
            stragglers.without_last_look();
        }
        stragglers.poll_next(cx)
    })
    .await
}

/// Releases a lost attempt on all nodes: on each as soon as the call of its write has ended, so that nothing is sent behind
/// its undoing. Tells the cause meanwhile, once it is certain.
async fn undo(lease: &Lease, round: &mut Round<'_>, in_time: bool, verdict: Verdict<Result<Guard, Error>>) {
    let shared = lease.shared();
    let mut undoing = Undoing::begin(lease);
    let mut releases = Calls::none(&*shared.runtime, shared.members.len());
    let sent = shared.now();
    for index in (0..shared.members.len()).filter(|index| !round.ballots.is_pending(*index)) {
        releases.start(index, shared.settings.node_timeout, lease.release_on(index));
    }
    // Nobody waits for a reason that nobody asks for any more.
    let mut verdict = Some(verdict).filter(|verdict| !verdict.is_canceled());
    if verdict.is_none() {
        observe::attempted(lease, Err(None));
    }
    loop {
        if let Some(error) = verdict.as_ref().and_then(|_| error(lease, round, in_time)) {
            observe::attempted(lease, Err(Some(&error)));
            let _ = verdict.take().map(|verdict| verdict.send(Err(error)));
        }
        match next_of(round, &mut releases).await {
            Some(Step::Voted(index)) => {
                lease.settle(index, round.ballots.outcome(index));
                undoing.again(index);
                if !broken(Variant::StragglerKept) {
                    releases.start(index, shared.settings.node_timeout, lease.release_on(index));
                }
            }
            Some(Step::Released(index, ending)) => {
                undoing.answered(index, &ending.into(), sent, releases.seen());
            }
            None => return,
        }
    }
}

enum Step {
    Voted(usize),
    Released(usize, Ending),
}

/// What ends next, of the votes that are still open and the releases; `None` when all have.
async fn next_of(round: &mut Round<'_>, releases: &mut Calls<'_>) -> Option<Step> {
    poll_fn(|cx| {
        let votes = round.poll_next(cx);
        if let Poll::Ready(Some(index)) = votes {
            return Poll::Ready(Some(Step::Voted(index)));
        }
        match releases.poll_next(cx) {
            Poll::Ready(Some((index, ending))) => Poll::Ready(Some(Step::Released(index, ending))),
            Poll::Ready(None) => votes.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// An attempt whose round is open. Dropped then, because its runtime has ended, it is left to the chases.
struct Undecided(Option<Lease>);

impl Drop for Undecided {
    fn drop(&mut self) {
        if let Some(lease) = &self.0 {
            drop(Undoing::begin(lease));
        }
    }
}

/// The next vote; `None` when there is none left, or nobody waits for the verdict any more.
async fn next_while_awaited<T>(round: &mut Round<'_>, verdict: &mut Verdict<T>) -> Option<usize> {
    let mut next = pin!(round.next());
    poll_fn(|cx| match verdict.poll_canceled(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => next.as_mut().poll(cx),
    })
    .await
}

/// Why the attempt was lost, once that is certain.
fn error(lease: &Lease, round: &Round<'_>, in_time: bool) -> Option<Error> {
    let shared = lease.shared();
    let resources = lease.claim().all_resources();
    let (kind, message) = match round.decision() {
        Decision::Open | Decision::Lost(None) => return None,
        Decision::Won if in_time => return None,
        Decision::Won => {
            (ErrorKind::Expired, format!("the validity of {resources} was spent before a quorum had granted"))
        }
        Decision::Lost(Some(Cause::Refused)) => {
            let votes = round.ballots.too_few_grant(shared);
            let message = match round.ballots.holder() {
                Some(holder) => format!("{resources} is held by {holder}: {votes}"),
                None => format!("{resources} is held by someone else: {votes}"),
            };
            (ErrorKind::Contended, message)
        }
        Decision::Lost(Some(Cause::NoQuorum)) => round.ballots.no_quorum(resources, shared),
    };
    Some(round.ballots.error(kind, message, shared))
}

/// How long a node may take when a TTL is running: no longer than half of it, so that a quorum that answers at the last
/// moment leaves something to use.
pub(crate) fn node_timeout(configured: Duration, ttl: Ttl) -> Duration {
    configured.min(ttl.as_duration() / 2)
}
