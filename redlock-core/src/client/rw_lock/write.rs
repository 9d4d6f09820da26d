//! The lock of a writer: one attempt, then the gate, then the lock.

use std::time::Duration;

use crate::client::attempts::{Attempts, Single};
use crate::decide::backoff::RetryPolicy;
use crate::lease::guard::Guard;
use crate::lease::keep_alive::KeepAlive;
use crate::protocol::attempt_error::Reason;
use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::mode::Mode;
use crate::types::resource::{Resource, Resources};
use crate::types::ttl::Ttl;

/// The longest TTL of the gate: how long a writer that has crashed keeps readers out.
const GATE_TTL: Duration = Duration::from_secs(2);

/// Acquires the lock. Locks the gate if that takes more than one attempt.
pub(crate) async fn acquire(
    attempts: &Attempts,
    gate: Resource,
    start: Instant,
    policy: RetryPolicy,
) -> Result<Guard, Error> {
    let is_single =
        policy.attempts.is_some_and(|count| count <= 1) || policy.until.is_some_and(|until| until <= start);
    if is_single {
        return attempts.until_acquired(start, &policy).await;
    }
    let result = match attempts.single(start).await {
        Ok(Single::Acquired(guard)) => Ok(guard),
        Ok(Single::NotGranted(failure))
            if matches!(failure.reason, Reason::WrongType | Reason::DamagedCounter) =>
        {
            Err(attempts.error(*failure))
        }
        // Nodes that failed may have recovered by the time the gate is locked.
        Ok(Single::Busy | Single::NotGranted(_)) => behind_gate(attempts, gate, &policy).await,
        Err(error) => Err(error),
    };
    attempts.ended(start, result)
}

/// Locks the gate, waits for the present holders, and keeps the gate until the lock ends.
async fn behind_gate(attempts: &Attempts, gate: Resource, policy: &RetryPolicy) -> Result<Guard, Error> {
    let handle = &attempts.handle;
    let resources = Resources::new([gate])?;
    handle.check_call(&resources)?;
    let gate = Attempts {
        resources,
        ttl: Ttl::new(attempts.ttl.as_duration().min(GATE_TTL))?,
        mode: Mode::Exclusive,
        keep_alive: Some(KeepAlive::new()),
        ..attempts.clone()
    };
    let gate = gate.one_after_another(handle.now(), policy).await?.uncounted();
    let guard = attempts.one_after_another(handle.now(), policy).await?;
    // From now on the lock itself keeps readers out, so the gate may expire.
    gate.0.next_epoch();
    guard.0.keep_gate(gate);
    Ok(guard)
}
