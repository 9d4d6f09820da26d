//! Acquiring the lock of a run.

use std::time::Duration;

use redlock_redis_rs::{Error, ErrorKind, Inspection, KeepAlive, Redlock};

use crate::request::{self, Acquired, NotAcquired, NotAcquiredKind, Options, Target};
use crate::run::wire::{Task, Wait};

/// Acquires the lock. Returns the lock and the time that this took.
///
/// The first attempt does not wait. It determines the holder, for `report` and for the check of nested runs. A run that is
/// nested in a run under the same lock would wait for itself.
///
/// A run that waits only while the holder is undecided makes only such attempts.
pub(super) async fn acquire(
    redlock: &Redlock,
    task: &Task,
    report: impl Fn(String),
) -> Result<(Acquired, Duration), NotAcquired> {
    let start = redlock.now();
    let target = Target::new(redlock, &task.resources, task.kind);
    let target = target.map_err(|error| request::not_acquired(&error))?;
    let until = match task.wait {
        Wait::No => Some(start),
        Wait::For(limit) | Wait::WhileUndecided(limit) => Some(start + limit),
        Wait::Forever => None,
    };
    let only_while_undecided = matches!(task.wait, Wait::WhileUndecided(_));
    let mut is_first = true;
    loop {
        let options = Options {
            ttl: task.ttl,
            fenced: task.fenced,
            owner: Some(&task.owner),
            keep_alive: Some(KeepAlive::new()),
        };
        let limit = if is_first || only_while_undecided { Some(start) } else { until };
        let (not_acquired, is_read) = match target.acquire(&options, limit).await {
            Ok(acquired) => return Ok((acquired, redlock.now().saturating_duration_since(start))),
            Err(error) => {
                if let Some(lock) = nested(&target, &error, task).await {
                    let message = format!("this run is nested in the run that holds the lock ({lock})");
                    return Err(NotAcquired { kind: NotAcquiredKind::Nested, message });
                }
                // The error has the time of all requests, because a single request is only a part of the wait.
                let error = error.after(redlock.now().saturating_duration_since(start));
                (request::not_acquired(&error), request::is_held_by_readers(&error))
            }
        };
        let is_over = until.is_some_and(|until| redlock.now() >= until);
        let waits = match not_acquired.kind {
            // Readers do not run the job.
            NotAcquiredKind::Conflict if only_while_undecided => is_read,
            NotAcquiredKind::Conflict => is_first,
            NotAcquiredKind::Unavailable => task.wait_for_servers || is_first,
            _ => false,
        };
        let waits = waits && !is_over;
        if !waits {
            // No machine has run the job, so the run does not end like one whose job runs elsewhere.
            let is_undecided = only_while_undecided && is_read;
            let kind = if is_undecided { NotAcquiredKind::Unavailable } else { not_acquired.kind };
            return Err(NotAcquired { kind, ..not_acquired });
        }
        if is_first && (task.wait_for_servers || not_acquired.kind == NotAcquiredKind::Conflict) {
            report(format!("waiting: {}", not_acquired.message));
        }
        if only_while_undecided || (not_acquired.kind == NotAcquiredKind::Unavailable && !is_first) {
            tokio::time::sleep(request::retry_delay(redlock.now(), until)).await;
        }
        is_first = false;
    }
}

/// Returns the lock for which this run would wait forever, if this program runs under it.
async fn nested(target: &Target<'_>, error: &Error, task: &Task) -> Option<String> {
    let known = |holder: String| Some(holder).filter(|holder| task.ancestors.contains(holder));
    let of_slot = |slot: &Inspection| known(slot.holder()?.to_string());
    let is_denied = error.kind() == ErrorKind::Contended;
    match target {
        Target::Slot(slots) if is_denied && !task.ancestors.is_empty() => {
            let slots = slots.inspect().await.ok()?;
            // Other holders may release their slots.
            slots.iter().map(of_slot).collect::<Option<Vec<_>>>()?.pop()
        }
        Target::Slot(_) => None,
        Target::All { .. } | Target::Reader(_) | Target::Writer(_) => {
            let holder = error.holder().and_then(|holder| known(holder.to_string()));
            holder.or_else(|| {
                // Only this reader, or a writer that waits for it, can be in the way.
                let is_read = |name: &&Vec<u8>| is_denied && task.read_by_ancestors.contains(name);
                let name = task.resources.iter().find(is_read)?;
                Some(format!("a read lock on {:?}", String::from_utf8_lossy(name)))
            })
        }
    }
}
