//! Keeping a lock for a time without renewals: the last thing that its owner does with it.
//!
//! Used by jobs that run once a period. Renewals end first, and pending writes are awaited, so that none of them
//! lengthens a key afterwards. Then each key's life is set on all nodes, which shortens it as nothing else may.

use std::time::Duration;

use tracing::Instrument;

use crate::acquire::node_timeout;
use crate::decide::tally::{Cause, Decision, RoundKind};
use crate::drive::{Responder, drive};
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::observe::{self, Operation};
use crate::report::NodeReports;
use crate::round::Round;
use crate::ttl::Ttl;

/// The divisor of the time that is added for clocks of different speeds.
const DRIFT: u32 = 100;

/// The longest addition. A share of a day would be a quarter of an hour.
const LONGEST_DRIFT: Duration = Duration::from_millis(500);

/// Servers expire keys by a clock of whole milliseconds.
const GRANULE: Duration = Duration::from_millis(2);

pub(crate) async fn keep_for(guard: Guard, rest: Duration) -> Result<(), Error> {
    let ttl = Ttl::new(life(rest))?;
    let lease = guard.lease();
    let (shared, resources) = (lease.shared(), lease.claim().all_resources());
    if let Some(peer) = shared.peers.iter().find(|peer| !peer.node.capabilities().keep) {
        let message =
            format!("cannot keep the lock on {resources}: node {} does not support it", peer.node.label());
        return Err(Error::new(ErrorKind::Unsupported, message, NodeReports::default()));
    }
    if !lease.is_held() {
        return Err(lease.not_extended(ErrorKind::Lost, "it is no longer held, so it cannot be kept"));
    }
    // Ends the renewals, and waits for writes that have not settled.
    drop(guard.detach().await);
    let span = observe::extension(&lease);
    drive(shared, |responder| run_round(lease.clone(), ttl, responder).instrument(span)).await
}

/// Returns the life of the keys for a lock that is kept for `rest`.
fn life(rest: Duration) -> Duration {
    rest.saturating_add((rest / DRIFT).min(LONGEST_DRIFT) + GRANULE)
}

/// Writes to all nodes, and responds once a quorum has replied. The rest continues in the background.
async fn run_round(lease: Lease, ttl: Ttl, responder: Responder<Result<(), Error>>) {
    let shared = lease.shared();
    let limit = node_timeout(shared.settings.node_timeout, ttl);
    let mut round = Round::new(shared, RoundKind::Extend, Operation::Keep, limit, |_, node| {
        node.keep_for(lease.claim(), ttl)
    });
    let mut responder = Some(responder);
    loop {
        if let Some(result) = responder.as_ref().and_then(|_| outcome(&lease, &round)) {
            if let Some(responder) = responder.take() {
                responder.send(result);
            }
        }
        if round.next().await.is_none() {
            return;
        }
    }
}

/// Returns the result, once it is certain.
fn outcome(lease: &Lease, round: &Round<'_>) -> Option<Result<(), Error>> {
    let (shared, resources) = (lease.shared(), lease.claim().all_resources());
    let (kind, why) = match round.decision() {
        Decision::Won => return Some(Ok(())),
        Decision::Pending | Decision::Lost(None) => return None,
        Decision::Lost(Some(Cause::NoQuorum)) => {
            (ErrorKind::NoQuorum, round.responses.too_few_available(shared))
        }
        Decision::Lost(Some(_)) => (ErrorKind::Lost, round.responses.denied(shared)),
    };
    let message = match kind {
        ErrorKind::Lost => {
            format!("lost the lock on {resources}: its keys are gone or owned by another client on {why}")
        }
        _ => format!("cannot keep the lock on {resources}: {why}"),
    };
    Some(Err(round.responses.error(kind, message, shared)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_get_a_hundredth_but_no_share_of_a_day() {
        let added = |seconds| life(Duration::from_secs(seconds)).saturating_sub(Duration::from_secs(seconds));
        assert_eq!(Duration::from_millis(12), added(1));
        assert_eq!(Duration::from_millis(502), added(50));
        assert_eq!(Duration::from_millis(502), added(86_400));
    }
}
