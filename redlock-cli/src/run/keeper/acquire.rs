//! Acquiring the lock of a run.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use redlock_redis_rs::{Guard, KeepAlive, Redlock};

use crate::request::{self, Options};
use crate::run::wire::{Refusal, RefusalKind, Task, Wait};

/// The delay between two requests while too few servers reply.
const RETRY: Duration = Duration::from_millis(500);

/// Acquires the lock. Returns it with the time that it took.
///
/// The first attempt does not wait. It finds out who is in the way, for `say` and for a run that is nested in a run under
/// the same lock and would wait for itself.
pub(super) async fn acquire(
    redlock: &Redlock,
    task: &Task,
    say: impl Fn(String),
) -> Result<(Guard, Duration), Refusal> {
    let start = redlock.now();
    let until = match task.wait {
        Wait::No => Some(start),
        Wait::For(limit) => Some(start + limit),
        Wait::Forever => None,
    };
    let mut is_first = true;
    loop {
        let options = Options {
            resources: &task.resources,
            ttl: task.ttl,
            fenced: task.fenced,
            owner: Some(&task.owner),
            keep_alive: Some(KeepAlive::new()),
        };
        let limit = if is_first { Some(start) } else { until };
        let refusal = match request::lock(redlock, &options, limit).await {
            Ok(guard) => return Ok((guard, redlock.now().saturating_duration_since(start))),
            Err(error) => {
                let holder = error.holder().map(|holder| holder.to_string());
                if let Some(holder) = holder.filter(|holder| task.ancestors.contains(holder)) {
                    let message = format!("this run is nested in the run that holds the lock ({holder})");
                    return Err(Refusal { kind: RefusalKind::Nested, message });
                }
                request::refusal(&error)
            }
        };
        let is_over = until.is_some_and(|until| redlock.now() >= until);
        let waits = match refusal.kind {
            RefusalKind::Conflict => is_first && !is_over,
            RefusalKind::Unavailable => !is_over && (task.wait_for_servers || is_first),
            _ => false,
        };
        if !waits {
            return Err(refusal);
        }
        if is_first {
            say(format!("waiting: {}", refusal.message));
        }
        if refusal.kind == RefusalKind::Unavailable && !is_first {
            tokio::time::sleep(delay(redlock.now(), until)).await;
        }
        is_first = false;
    }
}

fn delay(now: Instant, until: Option<Instant>) -> Duration {
    until.map_or(RETRY, |until| until.saturating_duration_since(now).min(RETRY))
}
