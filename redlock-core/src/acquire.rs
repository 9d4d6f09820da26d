//! Acquiring: one attempt is one round with a token of its own.
//!
//! One token over several attempts is unsafe: a release of the first attempt that arrives late deletes the key of the
//! second, which still counts it. A lost attempt is undone on all nodes from the moment it is lost, for whatever reason:
//! refusals, errors, timeouts, validity spent, or nobody waiting any more.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::Instrument;

use crate::background::{Verdict, drive};
use crate::broken::{self, Variant, broken};
use crate::calls::{Calls, Ending};
use crate::decide::tally::{Cause, Decision};
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::limiter::Permit;
use crate::observe;
use crate::release::Undoing;
use crate::shared::Shared;
use crate::ttl::Ttl;
use crate::votes::{Stragglers, Voted, Votes};

/// Makes one attempt at a lease that no other attempt is for.
pub(crate) async fn attempt(
    shared: &Arc<Shared>,
    lease: Lease,
    ttl: Ttl,
    permit: Permit,
) -> Result<Guard, Error> {
    let span = observe::attempt(&lease);
    let work = drive(shared, |verdict| everywhere(lease, ttl, permit, verdict).instrument(span));
    // Asked once the work counts as outstanding: whoever closes either sees it or is seen.
    if shared.is_closed() {
        return Err(Error::closed());
    }
    work.await
}

/// Asks all nodes, tells the verdict as soon as it is certain, and sees to every node that answers later. What comes behind
/// the decision needs no permit, so another attempt may begin.
async fn everywhere(lease: Lease, ttl: Ttl, permit: Permit, verdict: Verdict<Result<Guard, Error>>) {
    let votes = decided(&lease, ttl, &verdict).await;
    drop(permit);
    let mut rest = conclude(&lease, votes, verdict);
    rest.finish().await;
}

/// Asks all nodes, until the votes decide or nobody waits for them any more.
async fn decided<'a, T>(lease: &'a Lease, ttl: Ttl, verdict: &Verdict<T>) -> Votes<'a> {
    let mut undecided = Undecided(Some(lease));
    let mut votes = Votes::new(lease, ttl, node_timeout(lease.shared().settings.node_timeout, ttl));
    broken::note_expiry(lease.claim(), votes.start() + ttl.as_duration());
    while votes.decision() == Decision::Open {
        if next_while_awaited(&mut votes, verdict).await.is_none() {
            break;
        }
    }
    undecided.0 = None;
    votes
}

/// What is left to do once an attempt is decided.
enum Rest<'a> {
    Won(Stragglers<'a>),
    Lost(Lost<'a>),
    Nothing,
}

impl Rest<'_> {
    async fn finish(&mut self) {
        match self {
            Self::Won(stragglers) => stragglers.finish().await,
            // In a place of its own: an attempt that is won has no room for it.
            Self::Lost(lost) => Box::pin(lost.undo()).await,
            Self::Nothing => {}
        }
    }
}

/// Tells the verdict of an attempt that was won.
fn conclude<'a>(lease: &'a Lease, votes: Votes<'a>, verdict: Verdict<Result<Guard, Error>>) -> Rest<'a> {
    // Seen within this very poll, if there was a vote to win by.
    let (deadline, now) = (votes.deadline(), votes.seen());
    let in_time = now < deadline || broken(Variant::ValidityUnchecked);
    if votes.decision() == Decision::Won && in_time && !verdict.is_canceled() {
        let stragglers = votes.win(deadline, now);
        observe::attempted(lease, Ok(()));
        // A guard that nobody takes is dropped, and so released.
        verdict.send(Ok(Guard::new(lease.clone())));
        Rest::Won(stragglers)
    } else if broken(Variant::CancelledKept) && verdict.is_canceled() {
        Rest::Nothing
    } else {
        Rest::Lost(Lost { lease, votes, in_time, verdict: Some(verdict) })
    }
}

/// An attempt that was lost.
struct Lost<'a> {
    lease: &'a Lease,
    votes: Votes<'a>,
    in_time: bool,
    /// Until the cause is told.
    verdict: Option<Verdict<Result<Guard, Error>>>,
}

impl Lost<'_> {
    /// Releases it on all nodes: on each as soon as the call of its write has ended, so that nothing is sent behind its
    /// undoing. Tells the cause meanwhile, once it is certain.
    async fn undo(&mut self) {
        let Self { lease, votes, in_time, verdict } = self;
        let shared = lease.shared();
        let sent = shared.now();
        let mut undoing = Undoing::begin(lease, sent);
        let mut releases = Calls::none(&*shared.runtime, shared.members.len());
        for index in (0..shared.members.len()).filter(|index| !votes.is_pending(*index)) {
            releases.start(index, shared.settings.node_timeout, lease.release_on(index));
        }
        // Nobody waits for a reason that nobody asks for any more.
        verdict.take_if(|verdict| verdict.is_canceled());
        if verdict.is_none() {
            observe::attempted(lease, Err(None));
        }
        loop {
            if let Some(error) = verdict.as_ref().and_then(|_| error(lease, votes, *in_time)) {
                observe::attempted(lease, Err(Some(&error)));
                if let Some(verdict) = verdict.take() {
                    verdict.send(Err(error));
                }
            }
            match next_of(votes, &mut releases).await {
                Some(Step::Voted(Voted::OnToken)) => {}
                Some(Step::Voted(Voted::OnClaim(index))) => {
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
}

enum Step {
    Voted(Voted),
    Released(usize, Ending),
}

/// What ends next, of the votes that are still open and the releases; `None` when all have.
async fn next_of(votes: &mut Votes<'_>, releases: &mut Calls<'_>) -> Option<Step> {
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

/// An attempt whose round is open. Dropped then, because its runtime has ended, it is left to the chases.
struct Undecided<'a>(Option<&'a Lease>);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.0 {
            drop(Undoing::begin(lease, lease.shared().now()));
        }
    }
}

/// The next vote; `None` when there is none left, or nobody waits for the verdict any more.
async fn next_while_awaited<T>(votes: &mut Votes<'_>, verdict: &Verdict<T>) -> Option<Voted> {
    poll_fn(|cx| if verdict.is_canceled() { Poll::Ready(None) } else { votes.poll_next(cx) }).await
}

/// Why the attempt was lost, once that is certain.
fn error(lease: &Lease, votes: &Votes<'_>, in_time: bool) -> Option<Error> {
    let shared = lease.shared();
    let resources = lease.claim().all_resources();
    let ballots = &votes.deciding().ballots;
    let (kind, message) = match votes.decision() {
        Decision::Open | Decision::Lost(None) => return None,
        Decision::Won if in_time => return None,
        Decision::Won => (
            ErrorKind::Expired,
            format!("cannot lock {resources}: no validity was left when a quorum had granted it"),
        ),
        Decision::Lost(Some(Cause::Refused | Cause::Superseded)) => {
            let count = ballots.too_few("granted", shared);
            let message = match ballots.holder() {
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
        Decision::Lost(Some(Cause::NoQuorum)) => ballots.no_quorum(format_args!("lock {resources}"), shared),
    };
    Some(ballots.error(kind, message, shared))
}

/// How long a node may take when a TTL is running: no longer than half of it, so that a quorum that answers at the last
/// moment leaves something to use.
pub(crate) fn node_timeout(configured: Duration, ttl: Ttl) -> Duration {
    configured.min(ttl.as_duration() / 2)
}
