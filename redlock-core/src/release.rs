//! Releasing: a compare-and-delete on every node, and a chase where its outcome stays unknown.

use crate::background::{Driven, Verdict, drive};
use crate::chase::Chase;
use crate::decide::pursuit::{Answer, Next, Pursuit};
use crate::decide::tally::{Cause, Decision};
use crate::error::{Error, ErrorKind};
use crate::lease::Lease;
use crate::report::Outcome;
use crate::round::Round;

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was ours until now: a quorum still had it.
    Held,
    /// Its validity had passed before: someone else may have had it since.
    Expired,
    /// Its validity had not passed, but no quorum had it any more. It was deleted, or the nodes have lost data; someone
    /// else may have had it meanwhile.
    Lost,
}

/// Releases a lease and waits until a quorum has answered. The lease has ended when this is first polled.
pub(crate) async fn release(lease: &Lease) -> Result<Released, Error> {
    everywhere(lease).await
}

/// Releases a lease in the background. The lease has ended when this returns.
pub(crate) fn in_background(lease: &Lease) {
    everywhere(lease).in_background();
}

/// Ends the lease and deletes the claim on all nodes, also where nothing of it is known to be.
fn everywhere(lease: &Lease) -> Driven<Result<Released, Error>> {
    let valid = lease.is_held();
    // What may be on the nodes is taken before the first release is sent: what becomes known later may have happened
    // behind it.
    let pursuits = lease.end();
    drive(lease.shared(), |verdict| run(lease.clone(), valid, pursuits, verdict))
}

async fn run(lease: Lease, valid: bool, pursuits: Vec<Pursuit>, verdict: Verdict<Result<Released, Error>>) {
    let shared = lease.shared();
    let mut verdict = Some(verdict);
    let limit = shared.settings.node_timeout;
    let mut round = Round::new(shared, limit, |node| node.release(lease.claim()));
    let sent = round.ballots.start;
    while let Some(index) = round.next().await {
        let (mut pursuit, now) = (pursuits[index], shared.now());
        let next = match round.ballots.outcome(index) {
            outcome @ (Outcome::Granted | Outcome::Refused(_)) => {
                let deleted = matches!(outcome, Outcome::Granted);
                let connection = shared.members[index].node.connection();
                pursuit.answered(Answer { deleted, connection, sent, at: now }, limit)
            }
            _ => pursuit.failed(now),
        };
        if let Next::Again(due) = next {
            shared.chase(index, due, Chase { claim: lease.claim().clone(), pursuit });
        }
        if let Some(result) = outcome(&lease, &round, valid) {
            if let Some(verdict) = verdict.take() {
                let _ = verdict.send(result);
            }
        }
    }
}

/// What the release found, once that is certain.
///
/// It was held only if a quorum still had it. Where nodes have lost it and others are silent, that takes until they have
/// answered or timed out; in every other case a quorum of answers is enough.
fn outcome(lease: &Lease, round: &Round<'_>, valid: bool) -> Option<Result<Released, Error>> {
    let shared = lease.shared();
    if !valid && round.ballots.tally().answered() >= shared.quorum() {
        return Some(Ok(Released::Expired));
    }
    match round.decision() {
        Decision::Open | Decision::Lost(None) => None,
        Decision::Won => Some(Ok(Released::Held)),
        Decision::Lost(Some(Cause::Contended)) => Some(Ok(Released::Lost)),
        Decision::Lost(Some(Cause::NoQuorum)) => {
            let (resources, votes) = (lease.claim().all_resources(), round.ballots.too_few_answer(shared));
            let message = format!("no quorum confirmed the release of {resources}: {votes}");
            Some(Err(round.ballots.error(ErrorKind::NoQuorum, message, shared)))
        }
    }
}
