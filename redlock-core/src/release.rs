//! Releasing: a compare-and-delete on every node, and a chase where its outcome stays unknown.

use tracing::Instrument;

use crate::background::{Driven, Verdict, drive};
use crate::broken::{Variant, broken};
use crate::chase::Chase;
use crate::clock::Instant;
use crate::decide::pursuit::{Answer, Next, Pursuit};
use crate::decide::tally::{Cause, Decision, Question};
use crate::error::{Error, ErrorKind};
use crate::lease::Lease;
use crate::observe::{self, Operation};
use crate::report::Outcome;
use crate::round::Round;

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was ours until now: its validity had not passed, and the nodes that answered first do not contradict.
    Held,
    /// Its validity had passed before: someone else may have had it since.
    Expired,
    /// Its validity had not passed, but so many nodes did not have it any more that no quorum can. It was deleted, or the
    /// nodes have lost data; someone else may have had it meanwhile. Not always noticed: a release waits for a quorum of
    /// answers, and not for more to find this out.
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
    let now = lease.shared().now();
    let before = lease.standing(now);
    let undoing = Undoing::begin(lease, now);
    let span = observe::release(lease);
    drive(lease.shared(), |verdict| run(undoing, before, verdict).instrument(span))
}

async fn run(mut undoing: Undoing, before: Released, verdict: Verdict<Result<Released, Error>>) {
    let lease = undoing.lease.clone();
    let shared = lease.shared();
    let mut verdict = Some(verdict);
    let limit = shared.settings.node_timeout;
    let mut round =
        Round::new(shared, Question::Hold, Operation::Release, limit, |index, _| lease.release_on(index));
    let sent = round.ballots.start;
    while let Some(index) = round.next().await {
        undoing.answered(index, round.ballots.outcome(index), sent, round.ballots.seen(index));
        if let Some(result) = verdict.as_ref().and_then(|_| outcome(&lease, &round, before)) {
            lease.leave_queue();
            observe::released(&lease, result.as_ref().copied());
            if let Some(verdict) = verdict.take() {
                verdict.send(result);
            }
        }
    }
}

/// What is still to be undone of a lease that has ended. Dropped before it is done, because its runtime has ended, it
/// leaves the rest to the chases.
pub(crate) struct Undoing {
    lease: Lease,
    /// By node; `None` where it is done, or chased already.
    open: Vec<Option<Pursuit>>,
}

impl Undoing {
    /// Ends the lease, `now`.
    ///
    /// What may be on the nodes is taken before the first release is sent: what becomes known later may have happened
    /// behind it.
    pub(crate) fn begin(lease: &Lease, now: Instant) -> Self {
        let open = lease.end(now).into_iter().map(owed).collect();
        Self { lease: lease.clone(), open }
    }

    /// A release is about to be sent to a node where more has become known since the beginning.
    pub(crate) fn again(&mut self, index: usize) {
        self.open[index] = owed(self.lease.pursuit(index)).filter(|_| !broken(Variant::StragglerKept));
    }

    /// The outcome of a release that was sent to a node, at `sent` or later, and seen at `at`.
    pub(crate) fn answered(&mut self, index: usize, outcome: &Outcome, sent: Instant, at: Instant) {
        let shared = self.lease.shared();
        let Some(mut pursuit) = self.open[index].take() else { return };
        let connection = shared.members[index].node.connection();
        let next = match outcome {
            Outcome::Granted => {
                pursuit.answered(Answer { deleted: true, connection, sent, at }, shared.settings.node_timeout)
            }
            Outcome::Refused(_) => pursuit
                .answered(Answer { deleted: false, connection, sent, at }, shared.settings.node_timeout),
            _ => pursuit.failed(at),
        };
        if let Next::Again(due) = next {
            shared.chase(index, due, Chase { claim: self.lease.claim().clone(), pursuit });
        }
    }
}

fn owed(pursuit: Pursuit) -> Option<Pursuit> {
    (pursuit.is_written() || !broken(Variant::ReleaseOnGrantingNodes)).then_some(pursuit)
}

impl Drop for Undoing {
    fn drop(&mut self) {
        let shared = self.lease.shared();
        for (index, pursuit) in self.open.iter().enumerate() {
            let Some(pursuit) = *pursuit else { continue };
            if let Next::Again(due) = pursuit.failed(shared.now()) {
                shared.leave_to_chase(index, due, Chase { claim: self.lease.claim().clone(), pursuit });
            }
        }
    }
}

/// What the release found, as soon as a quorum has answered, or cannot.
fn outcome(lease: &Lease, round: &Round<'_>, before: Released) -> Option<Result<Released, Error>> {
    let (shared, tally) = (lease.shared(), round.ballots.tally(lease.shared()));
    if tally.may_answer() < shared.quorum() {
        let (resources, count) = (lease.claim().all_resources(), round.ballots.too_few_available(shared));
        let message = format!("cannot confirm the release of {resources}: {count}");
        return Some(Err(round.ballots.error(ErrorKind::NoQuorum, message, shared)));
    }
    if tally.answered() < shared.quorum() {
        return None;
    }
    Some(Ok(match (before, round.decision()) {
        (Released::Held, Decision::Lost(Some(Cause::Refused))) => Released::Lost,
        _ => before,
    }))
}
