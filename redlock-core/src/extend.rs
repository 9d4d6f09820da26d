//! Extending: re-arms the TTL where the claim still stands, on a quorum of all nodes.
//!
//! A quorum is always one of all nodes, never of those that granted first. A node that has lost the claim, or never had
//! it, is refilled only after a quorum has confirmed that it still stands; it did not count for this round and counts
//! from the next one on. An extension that fails takes nothing away here, unless a quorum says that the claim is gone; at
//! the nodes it can only have made keys live longer. It ends with the lease: nothing of it is sent behind a release.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use event_listener::EventListener;
use tracing::Instrument;

use crate::acquire::node_timeout;
use crate::background::{Verdict, drive};
use crate::broken::{Variant, broken};
use crate::calls::Calls;
use crate::clock::Instant;
use crate::decide::hold::{Doubt, LeaseState, Loss};
use crate::decide::tally::{Cause, Decision, Question, quorum};
use crate::error::{Error, ErrorKind};
use crate::lease::Lease;
use crate::observe::{self, Operation};
use crate::report::Outcome;
use crate::round::Round;
use crate::ttl::Ttl;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) ttl: Ttl,
    /// How long a node may take.
    pub(crate) limit: Duration,
    /// The deadline is no later than this.
    pub(crate) not_beyond: Option<Instant>,
}

pub(crate) async fn extend(lease: &Lease, extension: Extension) -> Result<(), Error> {
    match lease.look().state {
        LeaseState::Lost(_) if broken(Variant::ExpiredRevived) && lease.over().is_none() => {}
        LeaseState::Lost(loss) => {
            let with_time = matches!(loss, Loss::Expired | Loss::Unreachable | Loss::Superseded);
            let kind = if with_time { ErrorKind::Expired } else { ErrorKind::Lost };
            return Err(lease.not_extended(kind, loss));
        }
        LeaseState::Held | LeaseState::Uncertain => {}
    }
    let span = observe::extension(lease);
    drive(lease.shared(), |verdict| everywhere(lease.clone(), extension, verdict).instrument(span)).await
}

/// One round by which a lease becomes valid, that of a process that resumes what another one held included.
pub(crate) async fn everywhere(lease: Lease, extension: Extension, verdict: Verdict<Result<(), Error>>) {
    let Extension { ttl, limit, .. } = extension;
    let shared = lease.shared();
    let operation = if lease.is_fenced() { Operation::Confirm } else { Operation::Extend };
    let mut round = Round::new(shared, Question::Hold, operation, limit, |index, node| match () {
        () if lease.is_fenced() && broken(Variant::FencedExtensionIsPlain) => node.extend(lease.claim(), ttl),
        () if lease.is_fenced() && broken(Variant::FencedExtensionAcquires) => {
            node.acquire(lease.claim(), ttl)
        }
        () => lease.extend_on(index, ttl),
    });
    if broken(Variant::ExtensionOfFirstNodes) {
        round.quorum = quorum(lease.granted_at_first());
    }
    let mut ended = Ended { lease: &lease, changed: lease.listen() };
    let mut verdict = Some(verdict);
    let mut extended = false;
    loop {
        if verdict.is_some() {
            if let Some(result) = outcome(&lease, &round, extension) {
                extended = result.is_ok();
                if let Some(verdict) = verdict.take() {
                    verdict.send(result);
                }
            }
        }
        let Some(index) = ended.or_next(&mut round).await else { break };
        lease.note_counter(index, round.ballots.outcome(index));
    }
    if let Some(verdict) = verdict {
        verdict.send(Err(
            lease.not_extended(ErrorKind::Lost, "it was released before a quorum had extended it")
        ));
    }
    if extended {
        let refused = |index: &usize| matches!(round.ballots.outcome(*index), Outcome::Refused(_));
        let lost: Vec<_> = (0..shared.members.len()).filter(refused).collect();
        refill(&lease, lost).await;
    } else if broken(Variant::FailedExtensionUnlocks) {
        let mut unlocking =
            Round::new(shared, Question::Hold, Operation::Release, limit, |index, _| lease.release_on(index));
        while unlocking.next().await.is_some() {}
    }
}

/// The end of a lease, which ends its extension.
struct Ended<'a> {
    lease: &'a Lease,
    changed: EventListener,
}

impl Ended<'_> {
    /// The next vote; `None` when there is no other, or the lease has ended.
    async fn or_next(&mut self, round: &mut Round<'_>) -> Option<usize> {
        poll_fn(|cx| {
            while self.lease.over().is_none() {
                match Pin::new(&mut self.changed).poll(cx) {
                    Poll::Ready(()) => self.changed = self.lease.listen(),
                    Poll::Pending => return round.poll_next(cx),
                }
            }
            Poll::Ready(None)
        })
        .await
    }
}

/// What the round means for the lease, once that is certain.
fn outcome(lease: &Lease, round: &Round<'_>, extension: Extension) -> Option<Result<(), Error>> {
    let shared = lease.shared();
    let resources = lease.claim().all_resources();
    let (kind, message) = match round.decision() {
        Decision::Open | Decision::Lost(None) => return None,
        Decision::Won => {
            let deadline = round.deadline(extension.ttl);
            let deadline = extension.not_beyond.map_or(deadline, |limit| deadline.min(limit));
            // Checked after the wait: what was lost meanwhile is not revived.
            if lease.hold_until(deadline, extension.ttl, shared.now()) {
                return Some(Ok(()));
            }
            (ErrorKind::Expired, format!("lost the lock on {resources} before a quorum had extended it"))
        }
        Decision::Lost(Some(Cause::Refused)) => {
            let denied = round.ballots.denied(shared);
            let message = format!(
                "lost the lock on {resources}: its keys are gone or owned by another client on {denied}"
            );
            (ErrorKind::Lost, message)
        }
        Decision::Lost(Some(Cause::Superseded)) => {
            let count = round.ballots.too_few("extended", shared);
            let message = format!(
                "cannot extend the lock on {resources}: a newer claim advanced the fencing counters ({count}); \
                 release it and acquire a new one"
            );
            (ErrorKind::Superseded, message)
        }
        Decision::Lost(Some(Cause::NoQuorum)) => {
            let count = round.ballots.too_few("extended", shared);
            (ErrorKind::NoQuorum, format!("cannot extend the lock on {resources}: {count}"))
        }
    };
    let error = round.ballots.error(kind, message, shared);
    match kind {
        ErrorKind::Lost => lease.lose(Loss::NotOurs { holder: error.holder() }),
        ErrorKind::NoQuorum => lease.doubt(Doubt::Unreachable),
        ErrorKind::Superseded => lease.doubt(Doubt::Superseded),
        _ => {}
    }
    Some(Err(error))
}

/// Writes the claim to nodes that have lost it. The lease's traces see to it that a release undoes that too.
async fn refill(lease: &Lease, nodes: Vec<usize>) {
    let shared = lease.shared();
    let Some(ttl) = lease.begin_refill(&nodes) else { return };
    let calls = nodes.iter().map(|index| lease.refill_on(*index, ttl));
    let limit = node_timeout(shared.settings.node_timeout, ttl);
    let mut calls = Calls::new(&*shared.runtime, shared.now(), limit, calls);
    // The lease may be released meanwhile, and is never sent anything behind that after the limit.
    calls.without_last_look();
    while let Some((position, ending)) = calls.next().await {
        let outcome = ending.into();
        lease.settle(nodes[position], &outcome);
        lease.note_counter(nodes[position], &outcome);
    }
}
