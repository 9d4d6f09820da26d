//! The lock of a writer: one attempt, then the gate, then the lock.

use std::time::Duration;

use crate::client::attempts::{Attempted, CheckedRequest};
use crate::client::held::Held;
use crate::client::keep_alive::KeepAlive;
use crate::decide::backoff::RetryPolicy;
use crate::lease::mode::Mode;
use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::resource::{Resource, Resources};
use crate::types::ttl::Ttl;

/// The longest TTL of the gate: how long a writer that has crashed keeps readers out.
const GATE_TTL: Duration = Duration::from_secs(2);

/// Acquires the lock. Locks the gate if that takes more than one attempt.
pub(crate) async fn acquire(
    request: &CheckedRequest,
    gate: Resource,
    start: Instant,
    policy: RetryPolicy,
) -> Result<Held, Error> {
    let is_single =
        policy.attempts.is_some_and(|count| count <= 1) || policy.until.is_some_and(|until| until <= start);
    if is_single {
        return request.attempt_until_acquired(start, &policy).await;
    }
    match request.attempt_once(start, request.permit_until(start, &policy)).await? {
        Attempted::Acquired(held) => Ok(held),
        Attempted::NotGranted(failure) if failure.retry_cause().is_none() => Err(request.error(failure)),
        // Nodes that failed may have recovered by the time the gate is locked.
        Attempted::Busy(_) | Attempted::NotGranted(_) => behind_gate(request, gate, &policy).await,
    }
}

/// Locks the gate, waits for the present holders, and keeps the gate until the lock ends.
async fn behind_gate(request: &CheckedRequest, gate: Resource, policy: &RetryPolicy) -> Result<Held, Error> {
    let handle = &request.handle;
    let resources = Resources::new([gate])?;
    handle.check_call(&resources)?;
    let gate = CheckedRequest {
        resources,
        ttl: Ttl::new(request.ttl.as_duration().min(GATE_TTL))?,
        mode: Mode::Exclusive,
        keep_alive: Some(KeepAlive::new()),
        grace: None,
        ..request.clone()
    };
    let gate = gate.attempt_until_acquired(handle.now(), policy).await?;
    gate.lease().record.report_no_loss();
    let held = request.attempt_until_acquired(handle.now(), policy).await?;
    // From now on the lock itself keeps readers out, so the gate may expire.
    gate.lease().record.next_epoch();
    held.lease().record.keep_gate(gate);
    Ok(held)
}
