//! Extension: renews the TTL of a claim on a quorum of all nodes.
//!
//! A quorum always refers to all nodes, never to those that granted first. A node that has lost the claim, or never had
//! it, is refilled only after a quorum has confirmed the claim. It does not count in this round, but from the next one
//! on.
//!
//! A failed extension does not end the lease, unless a quorum reports that the claim is gone. On the nodes it can only
//! have made keys live longer. An extension ends with its lease: nothing of it is sent after a release.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use event_listener::EventListener;
use tracing::Instrument;

use crate::decide::lease_status::{Degraded, LeaseState, Loss};
use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Responder, drive};
use crate::lease::Lease;
use crate::protocol::acquire::node_timeout;
use crate::protocol::fan_out::Calls;
use crate::protocol::round::Round;
use crate::telemetry::{self, Operation};
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) ttl: Ttl,
    /// The time limit for one node.
    pub(crate) limit: Duration,
    /// The latest deadline that the extension may set.
    pub(crate) not_beyond: Option<Instant>,
}

pub(crate) async fn extend(lease: &Lease, extension: Extension) -> Result<(), Error> {
    match lease.look().state {
        LeaseState::Lost(loss) => {
            let with_time = matches!(loss, Loss::Expired | Loss::Unreachable | Loss::Superseded);
            let kind = if with_time { ErrorKind::TooSlow } else { ErrorKind::Lost };
            return Err(lease.not_extended(kind, loss));
        }
        LeaseState::Held | LeaseState::AtRisk => {}
    }
    let span = telemetry::extension(lease);
    drive(lease.shared(), |responder| run_round(lease.clone(), extension, responder).instrument(span)).await
}

/// Runs one round that makes a lease valid. It also serves a process that resumes the lease of another one.
pub(crate) async fn run_round(lease: Lease, extension: Extension, responder: Responder<Result<(), Error>>) {
    let Extension { ttl, limit, .. } = extension;
    let shared = lease.shared();
    let operation = if lease.is_fenced() { Operation::Confirm } else { Operation::Extend };
    let mut round =
        Round::new(shared, RoundKind::Extend, operation, limit, |index, _| lease.extend_on(index, ttl));
    let mut ended = Ended { lease: &lease, changed: lease.listen() };
    let mut responder = Some(responder);
    let mut extended = false;
    loop {
        if responder.is_some() {
            if let Some(result) = outcome(&lease, &round, extension) {
                extended = result.is_ok();
                if let Some(responder) = responder.take() {
                    responder.send(result);
                }
            }
        }
        let Some(index) = ended.or_next(&mut round).await else { break };
        lease.note_counter(index, round.responses.outcome(index));
    }
    if let Some(responder) = responder {
        responder
            .send(Err(lease.not_extended(ErrorKind::Lost, "it was released before a quorum extended it")));
    }
    if extended {
        let refused = |index: &usize| matches!(round.responses.outcome(*index), Outcome::Denied(_));
        let lost: Vec<_> = (0..shared.peers.len()).filter(refused).collect();
        refill(&lease, lost).await;
    }
}

/// The end of a lease, which ends its extension.
struct Ended<'a> {
    lease: &'a Lease,
    changed: EventListener,
}

impl Ended<'_> {
    /// Returns the next vote; `None` if none is left or the lease has ended.
    async fn or_next(&mut self, round: &mut Round<'_>) -> Option<usize> {
        poll_fn(|cx| {
            while self.lease.ended().is_none() {
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

/// Applies the outcome of the round to the lease, once it is certain.
fn outcome(lease: &Lease, round: &Round<'_>, extension: Extension) -> Option<Result<(), Error>> {
    let shared = lease.shared();
    let resources = lease.claim().all_resources();
    let (kind, message) = match round.decision() {
        Decision::Pending | Decision::Lost(None) => return None,
        Decision::Won => {
            let deadline = round.deadline(extension.ttl);
            let deadline = extension.not_beyond.map_or(deadline, |limit| deadline.min(limit));
            // Checked after the wait: a lease that was lost meanwhile is not revived.
            if lease.hold_until(deadline, extension.ttl, shared.now()) {
                return Some(Ok(()));
            }
            (
                ErrorKind::TooSlow,
                format!("lost the lock on {resources}: the lease ended before a quorum extended it"),
            )
        }
        Decision::Lost(Some(Cause::Refused)) => {
            let denied = round.responses.denied(shared);
            let message = format!(
                "lost the lock on {resources}: its keys are gone or owned by another client on {denied}"
            );
            (ErrorKind::Lost, message)
        }
        Decision::Lost(Some(Cause::Superseded)) => {
            let count = round.responses.too_few("extended", shared);
            let message = format!(
                "cannot extend the lock on {resources}: a newer claim advanced the fencing counters ({count}); \
                 release it and acquire a new one"
            );
            (ErrorKind::Superseded, message)
        }
        Decision::Lost(Some(Cause::NoQuorum)) => {
            let count = round.responses.too_few("extended", shared);
            (ErrorKind::NoQuorum, format!("cannot extend the lock on {resources}: {count}"))
        }
    };
    let error = round.responses.error(kind, message, shared);
    match kind {
        ErrorKind::Lost => lease.lose(Loss::Revoked { holder: error.holder() }),
        ErrorKind::NoQuorum => lease.doubt(Degraded::Unreachable),
        ErrorKind::Superseded => lease.doubt(Degraded::Superseded),
        _ => {}
    }
    Some(Err(error))
}

/// Writes the claim to nodes that have lost it. The lease records these writes, so that a release cleans them up too.
async fn refill(lease: &Lease, nodes: Vec<usize>) {
    let shared = lease.shared();
    // Before the lease learns of the writes: a release counts its limits from then.
    let start = shared.now();
    let Some(ttl) = lease.begin_refill(&nodes) else { return };
    let calls = nodes.iter().map(|index| lease.refill_on(*index, ttl));
    let limit = node_timeout(shared.settings.node_timeout, ttl);
    let mut calls = Calls::new(&*shared.runtime, start, limit, calls);
    // The lease may be released meanwhile. After the limit, nothing more may be sent.
    calls.without_poll_past_deadline();
    while let Some((position, ending)) = calls.next().await {
        let outcome = ending.into();
        lease.settle(nodes[position], &outcome);
        lease.note_counter(nodes[position], &outcome);
    }
}
