//! Extension: renews the TTL of a claim on a quorum of all nodes.
//!
//! A quorum is a majority of all nodes, even if fewer granted the acquisition. A node that has lost the claim, or never
//! had it, is refilled only after a quorum has confirmed the claim. It does not count in this round, but from the next
//! one on.
//!
//! A failed extension does not end the lease, unless a quorum reports that the claim is gone. It never shortens a TTL. An
//! extension ends with its lease: nothing of it is sent after a release.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use event_listener::EventListener;
use tracing::Instrument;

use crate::decide::lease_status::Degraded;
use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Responder, drive};
use crate::lease::record::LeaseRecord;
use crate::node::Operation;
use crate::protocol::extend_error::{ExtendError, NotExtended};
use crate::protocol::fan_out::Calls;
use crate::protocol::round::Round;
use crate::telemetry;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::report::Outcome;
use crate::types::token::Token;
use crate::types::ttl::Ttl;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) ttl: Ttl,
    /// The time limit for one node.
    pub(crate) limit: Duration,
    /// The latest deadline that the extension may set.
    pub(crate) not_beyond: Option<Instant>,
}

pub(crate) type ExtendResult = Result<(), ExtendError>;

pub(crate) async fn extend(lease: &Arc<LeaseRecord>, extension: Extension) -> ExtendResult {
    match lease.look().state {
        LeaseState::Lost(loss) => return Err(ExtendError::AlreadyLost(loss)),
        LeaseState::Held | LeaseState::AtRisk => {}
    }
    let span = telemetry::extension(lease.claim());
    drive(lease.inner(), |responder| run(Arc::clone(lease), extension, responder).instrument(span)).await
}

/// Runs one round that makes a lease valid. It also serves a process that resumes the lease of another one.
pub(crate) async fn run(
    lease: Arc<LeaseRecord>,
    extension: Extension,
    mut responder: Responder<ExtendResult>,
) {
    let Extension { ttl, limit, .. } = extension;
    let inner = lease.inner();
    let operation = if lease.is_fenced() { Operation::Confirm } else { Operation::Extend };
    let mut round = Round::new(inner, operation.name(), limit, |index, _| lease.extend_on(index, ttl));
    let mut ended = Ended { lease: &lease, changed: lease.listen() };
    let mut extended = false;
    loop {
        responder.send_once(|| {
            let result = apply(&lease, &round, extension)?;
            extended = result.is_ok();
            Some(result)
        });
        let Some(index) = ended.or_next(&mut round).await else { break };
        lease.note_counter(index, round.responses.outcome(index));
    }
    responder.send_once(|| Some(Err(ExtendError::Released)));
    if extended {
        // A node in quarantine is refilled too, so that it counts again as soon as it is admitted.
        let without = |index: &usize| match round.responses.outcome(*index) {
            Outcome::Denied(_) => true,
            Outcome::Quarantined { granted, .. } => !granted,
            _ => false,
        };
        let lost: Vec<_> = (0..inner.peers.len()).filter(without).collect();
        refill(&lease, lost).await;
    }
}

/// The end of a lease, which ends its extension.
struct Ended<'a> {
    lease: &'a LeaseRecord,
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
fn apply(lease: &LeaseRecord, round: &Round<'_>, extension: Extension) -> Option<ExtendResult> {
    let failed = |reason| ExtendError::not_extended(reason, &round.responses);
    Some(match round.decision(RoundKind::Extend) {
        Decision::Pending | Decision::Lost(None) => return None,
        Decision::Won => {
            let deadline = round.deadline(extension.ttl);
            let deadline = extension.not_beyond.map_or(deadline, |limit| deadline.min(limit));
            // Checked after the wait: a lease that was lost meanwhile is not revived.
            if lease.hold_until(deadline, extension.ttl, lease.inner().now()) {
                Ok(())
            } else {
                Err(failed(NotExtended::TooSlow))
            }
        }
        Decision::Lost(Some(Cause::Denied)) => {
            let holder = round.responses.holder().map(Token::fingerprint);
            lease.lose(Loss::Revoked { holder });
            Err(failed(NotExtended::KeysLost))
        }
        Decision::Lost(Some(Cause::Superseded)) => {
            lease.degrade(Degraded::Superseded);
            Err(failed(NotExtended::Superseded))
        }
        Decision::Lost(Some(Cause::NoQuorum)) => {
            lease.degrade(Degraded::Unreachable);
            Err(failed(NotExtended::NoQuorum))
        }
    })
}

/// Writes the claim to nodes that have lost it. The lease records these writes, so that a release cleans them up too.
async fn refill(lease: &LeaseRecord, nodes: Vec<usize>) {
    let inner = lease.inner();
    // Before the lease learns of the writes: a release counts its limits from then.
    let start = inner.now();
    let Some(ttl) = lease.begin_refill(&nodes) else { return };
    let calls = nodes.iter().map(|index| lease.refill_on(*index, ttl));
    let limit = inner.settings.timeout_within(ttl);
    let mut calls = Calls::new(&*inner.runtime, start, limit, calls);
    // The lease may be released meanwhile. After the limit, nothing more may be sent.
    calls.without_poll_past_deadline();
    while let Some((position, outcome)) = calls.next().await {
        lease.end_write(nodes[position], &outcome);
        lease.note_counter(nodes[position], &outcome);
    }
}
