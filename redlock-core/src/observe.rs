//! What operators see: spans and events through `tracing`, numbers through `metrics`.
//!
//! All names are here, and in `docs/observability.md`, which a test compares with what is really said. Nothing tells a
//! token but by its fingerprint, and no number is told by resource: there may be millions of them. Without a subscriber
//! nothing here allocates or reads a clock, unless the feature `metrics` is on: then numbers are handed to the facade, whether
//! or not there is a recorder.

use std::time::Duration;

use tracing::Span;

use crate::clock::Instant;
use crate::decide::hold::Loss;
use crate::error::{Error, ErrorKind};
use crate::lease::Lease;
use crate::release::Released;
use crate::report::Outcome;
use crate::resource::Resources;
use crate::shared::Shared;

/// What the targets of all spans and events here are.
const TARGET: &str = "redlock";

#[cfg(feature = "metrics")]
pub(crate) mod name {
    pub(crate) const ATTEMPTS: &str = "redlock_attempts_total";
    pub(crate) const WAIT: &str = "redlock_wait_seconds";
    pub(crate) const HOLD: &str = "redlock_hold_seconds";
    pub(crate) const RENEWALS: &str = "redlock_renewals_total";
    pub(crate) const LOSSES: &str = "redlock_losses_total";
    pub(crate) const RELEASES: &str = "redlock_releases_total";
    pub(crate) const NODE_LATENCY: &str = "redlock_node_latency_seconds";
}

/// Which request a round makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Acquire,
    Confirm,
    Extend,
    Release,
    Inspect,
    Health,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Confirm => "confirm",
            Self::Extend => "extend",
            Self::Release => "release",
            Self::Inspect => "inspect",
            Self::Health => "health",
        }
    }
}

/// The span of one attempt: the votes, and the undoing of a lost one.
pub(crate) fn attempt(lease: &Lease) -> Span {
    let resources = lease.claim().all_resources();
    tracing::debug_span!(target: TARGET, "attempt", %resources, token = %lease.fingerprint())
}

/// The span of one extension.
pub(crate) fn extension(lease: &Lease) -> Span {
    let resources = lease.claim().all_resources();
    tracing::debug_span!(target: TARGET, "extend", %resources, token = %lease.fingerprint())
}

/// The span of one release.
pub(crate) fn release(lease: &Lease) -> Span {
    let resources = lease.claim().all_resources();
    tracing::debug_span!(target: TARGET, "release", %resources, token = %lease.fingerprint())
}

/// A node has answered, or can no longer.
pub(crate) fn voted(operation: Operation, node: &str, outcome: &Outcome, latency: Duration) {
    let (operation, said) = (operation.name(), vote(outcome));
    match outcome {
        Outcome::Failed(error) => {
            tracing::debug!(target: TARGET, node, operation, outcome = said, ?latency, %error, "vote");
        }
        Outcome::TimedOut => {
            tracing::debug!(target: TARGET, node, operation, outcome = said, ?latency, "vote");
        }
        _ => tracing::trace!(target: TARGET, node, operation, outcome = said, ?latency, "vote"),
    }
    #[cfg(feature = "metrics")]
    metrics::histogram!(
        name::NODE_LATENCY, "node" => node.to_owned(), "operation" => operation, "outcome" => said
    )
    .record(latency);
}

/// An attempt has won, or why it has not. `None`: nobody waited for it any more.
pub(crate) fn attempted(lease: &Lease, result: Result<(), Option<&Error>>) {
    let outcome = match result {
        Ok(()) => "granted",
        Err(Some(error)) => kind(error.kind()),
        Err(None) => "abandoned",
    };
    let resources = lease.claim().all_resources();
    tracing::debug!(
        target: TARGET,
        %resources,
        token = %lease.fingerprint(),
        outcome,
        fencing_token = lease.fencing_token().map(tracing::field::display),
        holder = result.err().flatten().and_then(Error::holder).map(tracing::field::display),
        "attempted"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!(name::ATTEMPTS, "outcome" => outcome).increment(1);
}

/// A request for a lock that was begun at `asked` has come to its end. `None`: it has the lock.
pub(crate) fn waited(shared: &Shared, resources: &Resources, asked: Instant, failure: Option<ErrorKind>) {
    let outcome = failure.map_or("granted", kind);
    let waited = || shared.now().saturating_duration_since(asked);
    tracing::debug!(target: TARGET, %resources, outcome, waited = ?waited(), "asked");
    #[cfg(feature = "metrics")]
    metrics::histogram!(name::WAIT, "outcome" => outcome).record(waited());
}

/// A request was denied because this process is overloaded. Logged once a minute. Returns why.
pub(crate) fn overloaded(shared: &Shared) -> &'static str {
    let (waiting_attempts, waiting_renewals, reason) = shared.limiter.waiting();
    if let Some(denied) = shared.overload.pass(shared.now()) {
        let max_concurrent_attempts = shared.settings.max_concurrent_attempts;
        tracing::warn!(
            target: TARGET,
            reason,
            denied,
            max_concurrent_attempts,
            waiting_attempts,
            waiting_renewals,
            "new locks denied: process overloaded"
        );
    }
    reason
}

/// A renewal by keep-alive has succeeded.
pub(crate) fn renewed(lease: &Lease) {
    let resources = lease.claim().all_resources();
    tracing::debug!(target: TARGET, %resources, token = %lease.fingerprint(), "renewed");
    #[cfg(feature = "metrics")]
    metrics::counter!(name::RENEWALS, "outcome" => "granted").increment(1);
}

/// A renewal by keep-alive has failed, after `earlier` others in a row. The warning comes once, if the lease is lost.
pub(crate) fn renewal_failed(lease: &Lease, error: &Error, earlier: u32) {
    let resources = lease.claim().all_resources();
    if earlier == 0 {
        tracing::info!(target: TARGET, %resources, token = %lease.fingerprint(), %error, "renewal failed");
    } else {
        tracing::debug!(target: TARGET, %resources, token = %lease.fingerprint(), %error, earlier, "renewal failed");
    }
    #[cfg(feature = "metrics")]
    metrics::counter!(name::RENEWALS, "outcome" => kind(error.kind())).increment(1);
}

/// A lock was lost. Told once for each lease, and not if its owner ended it.
pub(crate) fn lost(lease: &Lease, loss: &Loss) {
    let resources = lease.claim().all_resources();
    tracing::warn!(target: TARGET, %resources, token = %lease.fingerprint(), reason = %loss, "lease lost");
    #[cfg(feature = "metrics")]
    metrics::counter!(name::LOSSES, "reason" => reason(loss)).increment(1);
}

/// What a release has found.
pub(crate) fn released(lease: &Lease, result: Result<Released, &Error>) {
    let outcome = match result {
        Ok(Released::Held) => "held",
        Ok(Released::Expired) => "expired",
        Ok(Released::Lost) => "lost",
        Err(error) => kind(error.kind()),
    };
    let resources = lease.claim().all_resources();
    tracing::debug!(target: TARGET, %resources, token = %lease.fingerprint(), outcome, "released");
    #[cfg(feature = "metrics")]
    metrics::counter!(name::RELEASES, "outcome" => outcome).increment(1);
}

/// The work of `run` is done, and its lock could not be released: that goes on in the background.
pub(crate) fn release_failed(lease: &Lease, error: &Error) {
    let resources = lease.claim().all_resources();
    tracing::warn!(target: TARGET, %resources, token = %lease.fingerprint(), %error, "release failed after work completed");
}

/// A lock that was held for so long is not held any more.
pub(crate) fn held(duration: Duration) {
    let _ = duration;
    #[cfg(feature = "metrics")]
    metrics::histogram!(name::HOLD).record(duration);
}

/// Tells the installed recorder of the [`metrics`] facade what each metric of this crate is about, and its unit. Call it
/// once, after the recorder is installed. The metrics are counted without it too.
#[cfg(feature = "metrics")]
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_histogram};

    describe_counter!(name::ATTEMPTS, "Attempts at a lock, by outcome.");
    describe_histogram!(name::WAIT, Unit::Seconds, "From asking for a lock to having it or giving up.");
    describe_histogram!(name::HOLD, Unit::Seconds, "How long locks were held.");
    describe_counter!(name::RENEWALS, "Renewals by keep-alive, by outcome.");
    describe_counter!(name::LOSSES, "Locks that were lost while somebody relied on them, by reason.");
    describe_counter!(name::RELEASES, "Releases, by what they found.");
    describe_histogram!(name::NODE_LATENCY, Unit::Seconds, "How long a node took to answer, by outcome.");
}

fn vote(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Granted | Outcome::Counted(_) => "granted",
        Outcome::Refused(_) => "refused",
        Outcome::Superseded(_) => "superseded",
        Outcome::Free => "free",
        Outcome::Held(_) => "held",
        Outcome::Failed(_) => "failed",
        Outcome::TimedOut => "timed_out",
        Outcome::Pending => "pending",
    }
}

fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Contended => "contended",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::NoQuorum => "no_quorum",
        ErrorKind::Expired => "expired",
        ErrorKind::Lost => "lost",
        ErrorKind::Superseded => "superseded",
        ErrorKind::WrongType => "wrong_type",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Closed => "closed",
    }
}

#[cfg(feature = "metrics")]
fn reason(loss: &Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Unreachable => "unreachable",
        Loss::Superseded => "superseded",
        Loss::NotOurs { .. } => "not_ours",
        Loss::Released => "released",
        Loss::Detached => "detached",
    }
}
