//! Keeping a lock for a time without renewals: the last thing that its owner does with it.
//!
//! Used by jobs that run once a period. Renewals end first, and pending acquires and refills are awaited, so that nothing
//! is sent afterwards. Then each key's life is set on all nodes, which shortens it as nothing else may.
//!
//! A node carries out the requests of one connection in their order. Thus an earlier request lengthens a key only if its
//! connection broke, and by up to the TTL of the lock. No request shortens what was set. `lab/model` explores the rule.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Responder, drive};
use crate::inner::Inner;
use crate::lease::guard::Guard;
use crate::lease::record::LeaseRecord;
use crate::node::{Operation, Request};
use crate::protocol::call::Call;
use crate::protocol::round::Round;
use crate::telemetry;
use crate::types::error::{Error, ErrorKind};
use crate::types::ttl::Ttl;

pub(crate) async fn keep_for(guard: Guard, rest: Duration) -> Result<(), Error> {
    let lease = Arc::clone(&guard.lease().0);
    let ttl = lease.inner().settings.drift.kept_ttl(rest)?;
    let (inner, resources) = (lease.inner(), lease.claim().all_resources());
    check_support(inner)?;
    if !guard.is_held() {
        return Err(Error::new(
            ErrorKind::Lost,
            format!("cannot keep the lock on {resources}: it is no longer held"),
        ));
    }
    // Ends the renewals, and waits for writes that have not settled.
    drop(guard.detach().await);
    let span = telemetry::extension(lease.claim());
    drive(inner, |responder| run(Arc::clone(&lease), ttl, responder).instrument(span)).await
}

/// Checks that every node can keep locks.
pub(crate) fn check_support(inner: &Inner) -> Result<(), Error> {
    match inner.peers.iter().find(|peer| !peer.profile.keep) {
        None => Ok(()),
        Some(peer) => {
            let message = format!("cannot keep locks: node {} does not support it", peer.node.label());
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// Writes to all nodes, and responds once a quorum has replied. The rest continues in the background.
async fn run(lease: Arc<LeaseRecord>, ttl: Ttl, mut responder: Responder<Result<(), Error>>) {
    let inner = lease.inner();
    let limit = inner.settings.node_timeout.min(ttl.as_duration());
    let mut round = Round::new(inner, Operation::Keep.name(), limit, |_, peer| {
        Call::new(peer, Request::Keep(lease.claim().clone(), ttl))
    });
    loop {
        responder.send_once(|| result(&lease, &round));
        if round.next().await.is_none() {
            return;
        }
    }
}

/// Returns the result, once it is certain.
fn result(lease: &LeaseRecord, round: &Round<'_>) -> Option<Result<(), Error>> {
    let (inner, resources) = (lease.inner(), lease.claim().all_resources());
    let (kind, message) = match round.decision(RoundKind::Extend) {
        Decision::Won => return Some(Ok(())),
        Decision::Pending | Decision::Lost(None) => return None,
        Decision::Lost(Some(Cause::NoQuorum)) => {
            let count = round.responses.too_few("kept", inner);
            (ErrorKind::NoQuorum, format!("cannot keep the lock on {resources}: {count}"))
        }
        Decision::Lost(Some(_)) => {
            let denied = round.responses.denied(inner);
            let message = format!(
                "lost the lock on {resources}: its keys are gone or owned by another client on {denied}"
            );
            (ErrorKind::Lost, message)
        }
    };
    Some(Err(round.responses.error(kind, message, inner)))
}
