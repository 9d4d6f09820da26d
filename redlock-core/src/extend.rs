//! Extending: re-arms the TTL where the claim still stands, on a quorum of all nodes.
//!
//! A quorum is always one of all nodes, never of those that granted first. A node that has lost the claim, or never had
//! it, is refilled only after a quorum has confirmed that it still stands; it did not count for this round and counts
//! from the next one on. An extension that fails changes nothing here, and at the nodes it can only have made keys live
//! longer.

use crate::acquire::node_timeout;
use crate::background::{Verdict, drive};
use crate::calls::Calls;
use crate::decide::tally::{Cause, Decision, Question};
use crate::error::{Error, ErrorKind};
use crate::lease::Lease;
use crate::report::Outcome;
use crate::round::Round;
use crate::ttl::Ttl;

pub(crate) async fn extend(lease: &Lease, ttl: Ttl) -> Result<(), Error> {
    if lease.is_released() {
        return Err(lease.error(ErrorKind::Lost, "was released"));
    }
    if !lease.is_held() {
        return Err(lease.error(ErrorKind::Expired, "has expired"));
    }
    drive(lease.shared(), |verdict| everywhere(lease.clone(), ttl, verdict)).await
}

async fn everywhere(lease: Lease, ttl: Ttl, verdict: Verdict<Result<(), Error>>) {
    let shared = lease.shared();
    let limit = node_timeout(shared.settings.node_timeout, ttl);
    let mut round = Round::new(shared, Question::Hold, limit, |node| node.extend(lease.claim(), ttl));
    let mut verdict = Some(verdict);
    let mut extended = false;
    loop {
        if verdict.is_some() {
            if let Some(result) = outcome(&lease, &round, ttl) {
                extended = result.is_ok();
                let _ = verdict.take().map(|verdict| verdict.send(result));
            }
        }
        if round.next().await.is_none() {
            break;
        }
    }
    if extended {
        let refused = |index: &usize| matches!(round.ballots.outcome(*index), Outcome::Refused(_));
        let lost: Vec<_> = (0..shared.members.len()).filter(refused).collect();
        refill(&lease, lost).await;
    }
}

/// What the round means for the lease, once that is certain.
fn outcome(lease: &Lease, round: &Round<'_>, ttl: Ttl) -> Option<Result<(), Error>> {
    let shared = lease.shared();
    let resources = lease.claim().all_resources();
    let (kind, message) = match round.decision() {
        Decision::Open | Decision::Lost(None) => return None,
        Decision::Won if lease.is_released() => {
            (ErrorKind::Lost, format!("the lock on {resources} was released before a quorum had extended it"))
        }
        // Checked again after the wait: what has passed is not revived.
        Decision::Won if !lease.is_held() => (
            ErrorKind::Expired,
            format!("the validity of {resources} passed before a quorum had extended it"),
        ),
        Decision::Won => {
            lease.hold_until(shared.settings.drift.deadline(round.ballots.start, ttl), ttl);
            return Some(Ok(()));
        }
        Decision::Lost(Some(Cause::Refused)) => {
            let votes = round.ballots.too_few_grant(shared);
            (ErrorKind::Lost, format!("the lock on {resources} is not ours any more: {votes}"))
        }
        Decision::Lost(Some(Cause::NoQuorum)) => {
            let votes = round.ballots.too_few_answer(shared);
            (ErrorKind::NoQuorum, format!("no quorum to extend {resources}: {votes}"))
        }
    };
    Some(Err(round.ballots.error(kind, message, shared)))
}

/// Writes the claim to nodes that have lost it. The lease's traces see to it that a release undoes that too.
async fn refill(lease: &Lease, nodes: Vec<usize>) {
    let shared = lease.shared();
    let Some(ttl) = lease.begin_refill(&nodes) else { return };
    let calls = nodes.iter().map(|index| shared.members[*index].node.acquire(lease.claim(), ttl));
    let limit = node_timeout(shared.settings.node_timeout, ttl);
    let mut calls = Calls::new(&*shared.runtime, shared.now(), limit, calls);
    // The lease may be released meanwhile, and is never sent anything behind that after the limit.
    calls.without_last_look();
    while let Some((position, ending)) = calls.next().await {
        lease.settle(nodes[position], &ending.into());
    }
}
