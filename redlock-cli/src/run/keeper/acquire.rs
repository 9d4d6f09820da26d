//! Acquiring the lock of a run, or one of its slots.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use redlock_redis_rs::{Error, ErrorKind, Guard, Inspection, KeepAlive, Redlock, Slots};

use crate::request::{self, Options};
use crate::run::wire::{Refusal, RefusalKind, Slot, Task, Wait};

/// The delay between two requests while too few servers reply.
const RETRY: Duration = Duration::from_millis(500);

/// An acquired lock.
pub(super) struct Acquired {
    pub(super) guard: Guard,
    pub(super) slot: Option<Slot>,
    /// The time that it took.
    pub(super) waited: Duration,
}

/// The locks from which a run needs either all, or one.
enum Target<'a> {
    All(&'a Redlock),
    Slot(Slots),
}

impl Target<'_> {
    async fn attempt(
        &self,
        options: &Options<'_>,
        until: Option<Instant>,
    ) -> Result<(Guard, Option<Slot>), Error> {
        match self {
            Self::All(redlock) => Ok((request::lock(redlock, options, until).await?, None)),
            Self::Slot(slots) => {
                let held = request::slot(slots, options, until).await?;
                let slot = Slot { index: held.index(), resource: held.resource().as_bytes().to_vec() };
                Ok((held.into_guard(), Some(slot)))
            }
        }
    }

    /// Returns the holder for which this run would wait forever, if this program runs under it.
    async fn ancestor(&self, error: &Error, ancestors: &[String]) -> Option<String> {
        let known = |holder: String| Some(holder).filter(|holder| ancestors.contains(holder));
        let of_slot = |slot: &Inspection| known(slot.holder()?.to_string());
        match self {
            Self::All(_) => known(error.holder()?.to_string()),
            Self::Slot(slots) if !ancestors.is_empty() && error.kind() == ErrorKind::Contended => {
                let slots = slots.inspect().await.ok()?;
                // Any other holder may release its slot.
                slots.iter().map(of_slot).collect::<Option<Vec<_>>>()?.pop()
            }
            Self::Slot(_) => None,
        }
    }
}

/// Acquires the lock.
///
/// The first attempt does not wait. It finds out who is in the way, for `say` and for a run that is nested in a run under
/// the same lock and would wait for itself.
pub(super) async fn acquire(
    redlock: &Redlock,
    task: &Task,
    say: impl Fn(String),
) -> Result<Acquired, Refusal> {
    let start = redlock.now();
    let target = match task.slots {
        None => Target::All(redlock),
        Some(count) => {
            let slots = redlock.slots(&task.resources[0], usize::from(count));
            Target::Slot(slots.map_err(|error| request::refusal(&error))?)
        }
    };
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
        let refusal = match target.attempt(&options, limit).await {
            Ok((guard, slot)) => {
                let waited = redlock.now().saturating_duration_since(start);
                return Ok(Acquired { guard, slot, waited });
            }
            Err(error) => {
                if let Some(holder) = target.ancestor(&error, &task.ancestors).await {
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
