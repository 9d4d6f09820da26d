//! A task that acquires locks of all kinds again and again, and uses each lease in another way.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use redlock_core::kind::Kind;
use redlock_core::{Error, Guard, KeepAlive, Lease, LeaseState, LockRequest, Loss, Redlock};
use redlock_history_checker::{Action, Mode};
use tokio::time::{sleep, timeout};

use crate::record::{Record, Recorder, nanoseconds, valid_until};

/// The longest TTL of the run. With it, a quarantine is 6 s.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(5);

/// The shortest TTL. The check of clocks covers TTLs from about 1 s plus 160 times the latency of a request on.
const SHORTEST_TTL: Duration = Duration::from_secs(3);

/// The time between two looks at a lease.
const LOOK: Duration = Duration::from_millis(50);

/// The number of locks of each kind.
const LOCKS: u8 = 4;

/// Locks until the run is over.
pub(crate) async fn work(
    redlock: &Redlock,
    recorder: &Recorder,
    mut random: Rng,
    over: &AtomicBool,
) -> io::Result<()> {
    while !over.load(Ordering::Relaxed) {
        let number = random.u8(..LOCKS);
        let ttl = between(&mut random, SHORTEST_TTL, LONGEST_TTL);
        let is_acquired = match random.u8(..6) {
            0 | 1 => {
                let name = format!("lock-{number}");
                once(redlock.lock(&*name, ttl), recorder, &name, Mode::Exclusive, ttl, &mut random).await?
            }
            2 | 3 => {
                let name = format!("fenced-{number}");
                once(redlock.lock(&*name, ttl).fenced(), recorder, &name, Mode::Exclusive, ttl, &mut random)
                    .await?
            }
            kind => {
                let name = format!("rw-{number}");
                let lock = redlock.rw_lock(&*name).map_err(io::Error::other)?;
                if kind == 4 {
                    let request = lock.write(ttl).fenced();
                    once(request, recorder, &name, Mode::Write, ttl, &mut random).await?
                } else {
                    once(lock.read(ttl), recorder, &name, Mode::Read, ttl, &mut random).await?
                }
            }
        };
        if !is_acquired {
            sleep(between(&mut random, Duration::from_millis(50), Duration::from_millis(400))).await;
        }
    }
    Ok(())
}

/// Acquires a lock once, and uses it. Returns whether it was acquired.
async fn once<K: Kind>(
    request: LockRequest<K>,
    recorder: &Recorder,
    resource: &str,
    mode: Mode,
    ttl: Duration,
    random: &mut Rng,
) -> io::Result<bool> {
    let is_renewed = random.u8(..4) == 0;
    let request = if is_renewed { request.keep_alive(KeepAlive::new()) } else { request };
    let record = recorder.acquire(resource, mode, ttl)?;
    match acquired(request, random).await {
        Ok(guard) => {
            let lease = guard.lease();
            let token = lease.fencing_token().map(redlock_core::FencingToken::as_u64);
            record.event(Action::Acquired { valid_until: valid_until(&lease), token })?;
            hold(&record, &lease, ttl, is_renewed, random).await?;
            end(&record, guard, random).await?;
            Ok(true)
        }
        Err(reason) => {
            record.event(Action::NotAcquired { reason })?;
            Ok(false)
        }
    }
}

/// Requests the lock: a single attempt, a wait, or a request that is dropped after a short time.
async fn acquired<K: Kind>(request: LockRequest<K>, random: &mut Rng) -> Result<Guard<K>, String> {
    let wait = between(random, Duration::from_millis(100), Duration::from_secs(5));
    match random.u8(..20) {
        0..4 => request.try_now().await.map_err(reason)?.ok_or_else(|| "held elsewhere".to_owned()),
        4 => {
            let limit = Duration::from_micros(random.u64(100..30_000));
            timeout(limit, request).await.map_err(|_| "dropped".to_owned())?.map_err(reason)
        }
        _ => request.max_wait(wait).await.map_err(reason),
    }
}

/// Relies on the lease: mostly for a short time, and sometimes for its whole validity. Extends some leases.
async fn hold(
    record: &Record<'_>,
    lease: &Lease,
    ttl: Duration,
    is_renewed: bool,
    random: &mut Rng,
) -> io::Result<()> {
    let millis = Duration::from_millis;
    let time = match random.u8(..20) {
        0..14 => between(random, Duration::ZERO, millis(50)),
        14..19 => between(random, millis(50), millis(800)),
        _ => between(random, ttl / 2, ttl * 3 / 2),
    };
    let end = Instant::now() + time;
    let extend_at = (!is_renewed && random.u8(..3) == 0).then(|| Instant::now() + time / 2);
    let mut is_extended = false;
    while let Some(rest) = end.checked_duration_since(Instant::now()) {
        sleep(rest.min(LOOK)).await;
        if let LeaseState::Lost(loss) = lease.state() {
            return record.event(Action::Lost { reason: name(&loss).to_owned() });
        }
        if is_renewed {
            record.event(Action::Held { valid_until: valid_until(lease) })?;
        } else if !is_extended && extend_at.is_some_and(|time| time <= Instant::now()) {
            is_extended = true;
            record.event(Action::Extend { ttl: nanoseconds(ttl) })?;
            record.event(match lease.extend(ttl).await {
                Ok(()) => Action::Extended { valid_until: valid_until(lease) },
                Err(error) => Action::NotExtended { reason: reason(error) },
            })?;
        }
    }
    Ok(())
}

/// Releases the lock, drops it, or leaves it to expire.
async fn end<K: Kind>(record: &Record<'_>, guard: Guard<K>, random: &mut Rng) -> io::Result<()> {
    match random.u8(..20) {
        0 => {
            guard.forget();
            record.event(Action::Left)
        }
        1..4 => {
            record.event(Action::Release)?;
            drop(guard);
            Ok(())
        }
        _ => {
            record.event(Action::Release)?;
            record.event(match guard.release().await {
                Ok(outcome) => Action::Released { outcome: format!("{outcome:?}") },
                Err(error) => Action::NotReleased { reason: reason(error) },
            })
        }
    }
}

fn between(random: &mut Rng, least: Duration, most: Duration) -> Duration {
    least + most.saturating_sub(least).mul_f64(random.f64())
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn reason(error: Error) -> String {
    format!("{:?}", error.kind())
}

fn name(loss: &Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Unreachable => "unreachable",
        Loss::Superseded => "superseded",
        Loss::Revoked { .. } => "revoked",
        _ => "other",
    }
}
