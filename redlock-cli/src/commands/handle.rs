//! `redlock lock`, `extend` and `unlock`: a lock that is passed on by its handle.
//!
//! The handle is a secret: a client that has it can release the lock. Thus it is never an argument.

use std::fs;
use std::io::{self, Read};

use redlock_redis_rs::{DetachedLease, Redlock, ReleaseOutcome};
use serde_json::json;

use super::{lockable, print, with_redlock, write_line};
use crate::args::{Extend, Handle, Lock, Shared, Unavailable, Unlock, Waiting};
use crate::exit::{Code, Failure};
use crate::request::{self, Acquired, HeldLock, Kind, Options, Target};
use crate::settings::{self, Environment, bytes};

/// The longest handle: a thousand names of a kilobyte each, percent-encoded.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Acquires a lock and prints its handle.
///
/// Read locks have no handle. A handle does not contain the gate, so `extend` would restore a lost key as a plain lock.
/// On that server, the plain lock would keep out new readers.
pub(crate) fn lock(args: &Lock, shared: &Shared) -> Result<u8, Failure> {
    let kind = Kind::new(args.names.sharing);
    let no_handle =
        || Failure::usage("--shared: a read lock has no handle; use `redlock hold` or `redlock run`");
    if kind == Kind::Reader {
        return Err(no_handle());
    }
    lockable(&args.names)?;
    let names: Vec<_> = args.names.resources.iter().map(bytes).collect();
    let owner = settings::owner(args.owner.as_deref());
    with_redlock(shared, async |redlock, _| {
        let (ttl, fenced, owner) = (args.ttl, args.fenced, Some(owner.as_str()));
        let options = Options { ttl, fenced, owner, keep_alive: None };
        let target = Target::new(&redlock, &names, kind);
        let target = target.map_err(|error| request::failure(&error))?;
        let Acquired { lock, .. } = acquire(&redlock, &target, &options, &args.waiting).await?;
        let HeldLock::Exclusive(guard) = lock else { return Err(no_handle()) };
        let lease = guard.detach().await;
        let written =
            serde_json::to_string(&lease).map_err(io::Error::from).and_then(|line| write_line(&line));
        let Err(error) = written else { return Ok(0) };
        // Without the handle, no client can release the lock.
        let failure = match redlock.release(&lease).await {
            Ok(_) => error.to_string(),
            Err(release) => format!("{error}; {release}; the lock may stay until its TTL ends"),
        };
        Err(Failure::internal("cannot write the handle", failure))
    })
}

/// Acquires a lock, and waits according to the options.
pub(super) async fn acquire(
    redlock: &Redlock,
    target: &Target<'_>,
    options: &Options<'_>,
    waiting: &Waiting,
) -> Result<Acquired, Failure> {
    let start = redlock.now();
    let until = if waiting.no_wait { Some(start) } else { waiting.wait.map(|wait| start + wait) };
    loop {
        let error = match target.acquire(options, until).await {
            Ok(acquired) => return Ok(acquired),
            Err(error) => error,
        };
        let failure = request::failure(&error.after(redlock.now().saturating_duration_since(start)));
        let again = waiting.unavailable == Some(Unavailable::Wait) && failure.code == Code::Unavailable;
        if !again || until.is_some_and(|until| redlock.now() >= until) {
            return Err(failure);
        }
        tokio::time::sleep(request::retry_delay(redlock.now(), until)).await;
    }
}

/// Extends a lock.
pub(crate) fn extend(args: &Extend, shared: &Shared) -> Result<u8, Failure> {
    let mut lease = read(&args.handle)?;
    if let Some(ttl) = args.ttl {
        let fencing_token = lease.fencing_token();
        let longer = DetachedLease::new(lease.resources(), lease.token().as_bytes(), ttl);
        lease = longer.map_err(|error| request::failure(&error))?;
        if let Some(token) = fencing_token {
            lease = lease.with_fencing_token(token);
        }
    }
    with_redlock(shared, async |redlock, _| {
        let guard = redlock.resume(&lease).await.map_err(|error| request::failure(&error))?;
        let valid = guard.remaining().as_millis();
        drop(guard.detach().await);
        print(&json!({ "valid_ms": valid }).to_string())?;
        Ok(0)
    })
}

/// Releases a lock.
pub(crate) fn unlock(args: &Unlock, shared: &Shared) -> Result<u8, Failure> {
    let lease = read(&args.handle)?;
    with_redlock(shared, async |redlock, _| match redlock.release(&lease).await {
        Ok(ReleaseOutcome::Released) => Ok(0),
        Ok(_) => Err(Failure::new(Code::Lost, "the lock was no longer held")),
        Err(error) => Err(request::failure(&error)),
    })
}

fn read(from: &Handle) -> Result<DetachedLease, Failure> {
    let text = if let Some(path) = &from.handle_file {
        fs::read_to_string(path)
            .map_err(|error| Failure::config(format!("cannot read {}: {error}", path.display())))?
    } else if let Some(handle) = Environment::read().text("REDLOCK_HANDLE")? {
        handle
    } else {
        let mut text = String::new();
        let read = io::stdin().lock().take(LONGEST).read_to_string(&mut text);
        read.map_err(|error| Failure::internal("cannot read the handle", error))?;
        text
    };
    // The parser's message is left out, because it could repeat a part of the secret.
    serde_json::from_str(text.trim())
        .map_err(|_| Failure::usage("invalid handle; expected the output of `redlock lock`"))
}
