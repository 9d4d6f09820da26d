//! Observability: spans and events through `tracing`, numbers through `metrics`.
//!
//! All names are here and in `docs/monitoring.md`; a test compares that document with the output. Tokens appear only as
//! fingerprints. No metric has a label for the resource, because there may be millions of resources.
//!
//! Without a subscriber, nothing here allocates or reads a clock. The feature `metrics` is an exception: it passes
//! numbers to the facade, with or without a recorder.

pub(crate) mod quarantine;
pub(crate) mod throttle;

use std::time::Duration;

use tracing::Span;

use crate::types::claim::Claim;
use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::lease_state::Loss;
use crate::types::node_error::NodeError;
use crate::types::node_list::NodeListDifference;
use crate::types::position::Position;
use crate::types::report::Outcome;
use crate::types::report::ReleaseOutcome;
use crate::types::resource::Resources;
use crate::types::token::Token;

/// The target of all spans and events of this module.
const TARGET: &str = "redlock";

#[cfg(feature = "metrics")]
pub(crate) mod name {
    pub(crate) const ATTEMPTS: &str = "redlock_attempts_total";
    pub(crate) const WAIT: &str = "redlock_wait_seconds";
    pub(crate) const HOLD: &str = "redlock_hold_seconds";
    pub(crate) const HELD: &str = "redlock_locks_held";
    pub(crate) const PENDING: &str = "redlock_requests_pending";
    pub(crate) const LEADING: &str = "redlock_leading";
    pub(crate) const JOBS: &str = "redlock_jobs_total";
    pub(crate) const RENEWALS: &str = "redlock_renewals_total";
    pub(crate) const LOSSES: &str = "redlock_losses_total";
    pub(crate) const RELEASES: &str = "redlock_releases_total";
    pub(crate) const NODE_LATENCY: &str = "redlock_node_latency_seconds";
    /// Emitted by the nodes of the adapters.
    pub(crate) const NODE_CONNECTED: &str = "redlock_node_connected";
    /// Emitted by the nodes of the adapters.
    pub(crate) const NODE_CLOCK_PPM: &str = "redlock_node_clock_ppm";
    /// Emitted by the nodes of the adapters.
    pub(crate) const NODE_CLOCK_FAST: &str = "redlock_node_clock_fast";
    pub(crate) const NODE_ADMITTED: &str = "redlock_node_admitted";
    pub(crate) const NODE_LISTS_DIFFER: &str = "redlock_node_lists_differ";
    pub(crate) const QUARANTINES: &str = "redlock_quarantines_total";
}

/// Emits a metric, with the label of its request if there is one.
#[cfg(feature = "metrics")]
macro_rules! labeled {
    ($metric:ident, $name:expr, $label:expr $(, $key:literal => $value:expr)*) => {
        match $label {
            None => metrics::$metric!($name $(, $key => $value)*),
            Some(label) => metrics::$metric!($name, "label" => label $(, $key => $value)*),
        }
    };
}

/// Creates the span of one attempt: its votes, and the cleanup if it fails.
pub(crate) fn attempt(claim: &Claim) -> Span {
    let resources = claim.all_resources();
    tracing::debug_span!(target: TARGET, "attempt", %resources, lease = %claim.token().fingerprint())
}

/// Creates the span of one extension.
pub(crate) fn extension(claim: &Claim) -> Span {
    let resources = claim.all_resources();
    tracing::debug_span!(target: TARGET, "extend", %resources, lease = %claim.token().fingerprint())
}

/// Creates the span of the renewals of one lock.
pub(crate) fn keep_alive(claim: &Claim) -> Span {
    let resources = claim.all_resources();
    tracing::debug_span!(target: TARGET, "keep_alive", %resources, lease = %claim.token().fingerprint())
}

/// Creates the span of one release.
pub(crate) fn release(claim: &Claim) -> Span {
    let resources = claim.all_resources();
    tracing::debug_span!(target: TARGET, "release", %resources, lease = %claim.token().fingerprint())
}

/// Records the reply of a node, its error or its timeout.
pub(crate) fn voted(operation: &'static str, node: &str, outcome: &Outcome, latency: Duration) {
    let outcome_name = outcome.name();
    match outcome {
        Outcome::Failed(error) => {
            tracing::debug!(target: TARGET, node, operation, outcome = outcome_name, ?latency, %error, "node response");
        }
        Outcome::TimedOut => {
            tracing::debug!(target: TARGET, node, operation, outcome = outcome_name, ?latency, "node response");
        }
        _ => {
            tracing::trace!(target: TARGET, node, operation, outcome = outcome_name, ?latency, "node response");
        }
    }
    #[cfg(feature = "metrics")]
    metrics::histogram!(
        name::NODE_LATENCY, "node" => node.to_owned(), "operation" => operation, "outcome" => outcome_name
    )
    .record(latency);
}

/// Records a successful attempt.
pub(crate) fn acquired(claim: &Claim, fencing_token: Option<FencingToken>) {
    attempted(claim, "granted", fencing_token, None, || None);
}

/// Records a failed attempt, with the holder and the position among the waiters if they are known.
pub(crate) fn attempt_failed(
    claim: &Claim,
    reason: ErrorKind,
    holder: Option<&Token>,
    position: impl Fn() -> Option<Position>,
) {
    attempted(claim, reason.name(), None, holder, position);
}

/// Records an attempt for which no caller waited any more.
pub(crate) fn attempt_canceled(claim: &Claim) {
    attempted(claim, "canceled", None, None, || None);
}

fn attempted(
    claim: &Claim,
    outcome: &'static str,
    fencing_token: Option<FencingToken>,
    holder: Option<&Token>,
    position: impl Fn() -> Option<Position>,
) {
    let resources = claim.all_resources();
    tracing::debug!(
        target: TARGET,
        %resources,
        lease = %claim.token().fingerprint(),
        outcome,
        fencing_token = fencing_token.map(tracing::field::display),
        holder = holder.map(|holder| tracing::field::display(holder.fingerprint())),
        rank = position().map(|position| position.rank),
        waiters = position().map(|position| position.waiters),
        "attempt completed"
    );
    #[cfg(feature = "metrics")]
    labeled!(counter, name::ATTEMPTS, claim.label(), "outcome" => outcome).increment(1);
}

/// Records the end of a lock request. Without a `failure`, the request has acquired the lock.
pub(crate) fn request_completed(
    resources: &Resources,
    label: Option<&'static str>,
    failure: Option<ErrorKind>,
    waited: impl Fn() -> Duration,
) {
    let outcome = failure.map_or("granted", ErrorKind::name);
    tracing::debug!(target: TARGET, %resources, label, outcome, waited = ?waited(), "request completed");
    #[cfg(feature = "metrics")]
    labeled!(histogram, name::WAIT, label, "outcome" => outcome).record(waited());
}

/// A comparison of node lists has another result than the one before.
pub(crate) fn node_lists_changed(difference: Option<&NodeListDifference>) {
    match difference {
        Some(difference) => tracing::warn!(
            target: TARGET,
            own = difference.own_nodes(),
            other = difference.other_nodes(),
            common = difference.common_nodes(),
            "node lists differ between programs: both can hold one lock"
        ),
        None => tracing::info!(target: TARGET, "node lists agree again"),
    }
}

/// Node lists were compared.
pub(crate) fn node_lists_differ(differ: bool) {
    let _ = differ;
    #[cfg(feature = "metrics")]
    metrics::gauge!(name::NODE_LISTS_DIFFER).set(if differ { 1.0 } else { 0.0 });
}

/// A node rejects the requests of a comparison, or does not state the identity of its server.
pub(crate) fn node_lists_not_compared(node: &str, error: &NodeError) {
    tracing::warn!(target: TARGET, node, %error, "node lists not compared");
}

/// Logs that requests were denied because this process is overloaded. `denied` counts them since the last message.
pub(crate) fn overloaded(
    reason: &str,
    denied: u64,
    max_concurrent_attempts: usize,
    waiting_attempts: usize,
    waiting_renewals: usize,
) {
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

/// Records a successful renewal by keep-alive.
pub(crate) fn renewed(claim: &Claim) {
    let resources = claim.all_resources();
    tracing::debug!(target: TARGET, %resources, lease = %claim.token().fingerprint(), "lease renewed");
    #[cfg(feature = "metrics")]
    labeled!(counter, name::RENEWALS, claim.label(), "outcome" => "granted").increment(1);
}

/// Records a failed renewal by keep-alive, after `earlier` failures in a row.
///
/// A warning follows once, if the lease is lost.
pub(crate) fn renewal_failed(claim: &Claim, error: &Error, earlier: u32) {
    let resources = claim.all_resources();
    if earlier == 0 {
        tracing::info!(target: TARGET, %resources, lease = %claim.token().fingerprint(), %error, "renewal failed");
    } else {
        tracing::debug!(target: TARGET, %resources, lease = %claim.token().fingerprint(), %error, earlier, "renewal failed");
    }
    #[cfg(feature = "metrics")]
    labeled!(counter, name::RENEWALS, claim.label(), "outcome" => error.kind().name()).increment(1);
}

/// Records a lost lock. [`Record::log_loss`](crate::lease::record::Record::log_loss) calls it once for each lease, and not
/// if the owner ended it.
pub(crate) fn lost(claim: &Claim, loss: &Loss) {
    let resources = claim.all_resources();
    tracing::warn!(target: TARGET, %resources, lease = %claim.token().fingerprint(), reason = %loss, "lease lost");
    #[cfg(feature = "metrics")]
    labeled!(counter, name::LOSSES, claim.label(), "reason" => loss.name()).increment(1);
}

/// Records that a client exists.
pub(crate) fn built() {
    #[cfg(feature = "metrics")]
    losses_begin(None);
}

/// Starts the counters of losses at zero.
///
/// A monitoring system counts increases, so it does not see a loss that creates its counter.
#[cfg(feature = "metrics")]
fn losses_begin(label: Option<&'static str>) {
    for loss in [Loss::Expired, Loss::Unreachable, Loss::Superseded, Loss::Revoked { holder: None }] {
        labeled!(counter, name::LOSSES, label, "reason" => loss.name()).increment(0);
    }
}

/// Records the outcome of a release.
pub(crate) fn released(claim: &Claim, result: Result<ReleaseOutcome, ErrorKind>) {
    let outcome = match result {
        Ok(outcome) => outcome.name(),
        Err(failure) => failure.name(),
    };
    let resources = claim.all_resources();
    tracing::debug!(target: TARGET, %resources, lease = %claim.token().fingerprint(), outcome, "lease released");
    #[cfg(feature = "metrics")]
    labeled!(counter, name::RELEASES, claim.label(), "outcome" => outcome).increment(1);
}

/// Logs that this program has broken the lock of another one.
pub(crate) fn broken(claim: &Claim) {
    let resources = claim.all_resources();
    tracing::warn!(target: TARGET, %resources, lease = %claim.token().fingerprint(), "lock broken");
}

/// Logs that the release after the work of `run` has failed. The release continues in the background.
pub(crate) fn release_failed(claim: &Claim, error: &Error) {
    let resources = claim.all_resources();
    tracing::warn!(target: TARGET, %resources, lease = %claim.token().fingerprint(), %error, "release failed after work completed");
}

/// Logs that the lock of a job could not be kept for the rest of its period.
pub(crate) fn keep_failed(claim: &Claim, error: &Error) {
    let resources = claim.all_resources();
    tracing::warn!(target: TARGET, %resources, lease = %claim.token().fingerprint(), %error, "lock not kept after work completed");
}

/// Logs that the timer of a renewal fired `late`: nothing drove the runtime, or the process was paused.
pub(crate) fn renewal_late(claim: &Claim, late: Duration) {
    let resources = claim.all_resources();
    tracing::warn!(
        target: TARGET,
        %resources,
        lease = %claim.token().fingerprint(),
        ?late,
        "renewal timer late"
    );
}

/// Records the time for which a lock was held, when it ends.
pub(crate) fn held(claim: &Claim, duration: Duration) {
    let _ = (claim, duration);
    #[cfg(feature = "metrics")]
    labeled!(histogram, name::HOLD, claim.label()).record(duration);
}

/// Records the outcome of a job that runs once a period.
pub(crate) fn job_decided(resources: &Resources, label: Option<&'static str>, outcome: &'static str) {
    tracing::debug!(target: TARGET, %resources, label, outcome, "job decided");
    #[cfg(feature = "metrics")]
    labeled!(counter, name::JOBS, label, "outcome" => outcome).increment(1);
}

/// Something in a gauge, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    #[cfg(feature = "metrics")]
    gauge: metrics::Gauge,
}

#[cfg_attr(not(feature = "metrics"), allow(unused_variables))]
impl Counted {
    /// Counts a guard.
    pub(crate) fn guard(kind: &'static str, claim: &Claim) -> Self {
        // Those without a label begin with the client.
        #[cfg(feature = "metrics")]
        if let Some(label) = claim.label() {
            losses_begin(Some(label));
        }
        Self::new(
            #[cfg(feature = "metrics")]
            labeled!(gauge, name::HELD, claim.label(), "kind" => kind),
        )
    }

    /// Counts a request that has neither succeeded nor failed.
    pub(crate) fn request(label: Option<&'static str>) -> Self {
        Self::new(
            #[cfg(feature = "metrics")]
            labeled!(gauge, name::PENDING, label),
        )
    }

    /// Counts a candidate that leads.
    pub(crate) fn leader(claim: &Claim) -> Self {
        Self::new(
            #[cfg(feature = "metrics")]
            labeled!(gauge, name::LEADING, claim.label()),
        )
    }

    fn new(#[cfg(feature = "metrics")] gauge: metrics::Gauge) -> Self {
        #[cfg(feature = "metrics")]
        gauge.increment(1.0);
        Self {
            #[cfg(feature = "metrics")]
            gauge,
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.decrement(1.0);
    }
}

/// Registers the description and the unit of each metric of this crate.
///
/// Call it once, after the recorder of the [`metrics`] facade is installed. Metrics are also recorded without it.
///
/// ```
/// # redlock_testkit::example!(|redlock, ttl| {
/// # use metrics_util::debugging::DebuggingRecorder;
/// # let recorder = DebuggingRecorder::new();
/// # let snapshotter = recorder.snapshotter();
/// // The program starts with the recorder of its exporter.
/// recorder.install().expect("no other recorder is installed");
/// redlock_core::describe_metrics();
/// # let guard = redlock.lock("orders:42", ttl).await?;
/// # let metrics = snapshotter.snapshot().into_vec();
/// # assert!(!metrics.is_empty());
/// # assert!(metrics.iter().all(|(_, _, description, _)| description.is_some()));
/// # });
/// ```
#[cfg(feature = "metrics")]
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

    describe_counter!(name::ATTEMPTS, "Lock attempts, by outcome.");
    describe_histogram!(name::WAIT, Unit::Seconds, "Duration of lock requests, by outcome.");
    describe_histogram!(name::HOLD, Unit::Seconds, "How long locks were held.");
    describe_gauge!(name::HELD, "Guards that exist: locks acquired and not yet released.");
    describe_gauge!(name::PENDING, "Lock requests that have neither succeeded nor failed.");
    describe_gauge!(name::LEADING, "Candidates of this process that lead.");
    describe_counter!(name::JOBS, "Calls of once_per, by outcome.");
    describe_counter!(name::RENEWALS, "Renewals by keep-alive, by outcome.");
    describe_counter!(name::LOSSES, "Lost leases, by reason.");
    describe_counter!(name::RELEASES, "Releases, by outcome.");
    describe_histogram!(name::NODE_LATENCY, Unit::Seconds, "Response time of nodes, by outcome.");
    describe_gauge!(name::NODE_CONNECTED, "Connections to a node: 0 if there is none.");
    describe_gauge!(
        name::NODE_CLOCK_PPM,
        "Rate of the clock of a node above that of this process, in parts per million."
    );
    describe_gauge!(
        name::NODE_CLOCK_FAST,
        "1 if the clock of a node runs faster than the drift factor permits, otherwise 0."
    );
    describe_gauge!(name::NODE_ADMITTED, "1 if the votes of a node count, 0 during a quarantine.");
    describe_gauge!(name::NODE_LISTS_DIFFER, "1 if another program lists other nodes, otherwise 0.");
    describe_counter!(name::QUARANTINES, "Quarantines of nodes that may have lost locks, by reason.");
}
