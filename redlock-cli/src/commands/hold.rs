//! `redlock hold`: a lock for something that this program did not start.
//!
//! It is a single process: if it is killed or stopped, the process of `--pid` is not stopped. Prefer `redlock run`.

mod signals;

use std::io::{self, Read};
use std::thread;

use redlock_redis_rs::runtime::suspend_aware_now;
use redlock_redis_rs::{KeepAlive, Lease, LeaseState};
use serde_json::json;
use tokio::sync::oneshot;

use self::signals::Signals;
use super::handle::acquire;
use super::{lockable, print, with_redlock};
use crate::args::{Hold, Shared};
use crate::exit::{Code, Failure};
use crate::request::{self, Acquired, Kind, Options, Target};
use crate::run::{Times, Watched, end_by_signal};
use crate::settings::{self, bytes};

/// Holds a lock. Returns the exit code.
pub(crate) fn hold(args: &Hold, shared: &Shared) -> Result<u8, Failure> {
    lockable(&args.names)?;
    let times = Times::new(args.ttl, args.grace).map_err(Failure::usage)?;
    let watched = args.pid.map(Watched::new).transpose()?;
    let names: Vec<_> = args.names.resources.iter().map(bytes).collect();
    let owner = settings::owner(args.owner.as_deref());
    let mut canceled = None;
    let result = with_redlock(shared, async |redlock, _| {
        let signals = Signals::new();
        let mut signals = signals.map_err(|error| Failure::internal("cannot handle signals", error))?;
        let keep_alive = Some(KeepAlive::new());
        let options = Options { ttl: args.ttl, fenced: args.fenced, owner: Some(&owner), keep_alive };
        let target = Target::new(&redlock, &names, Kind::new(args.names.sharing));
        let target = target.map_err(|error| request::failure(&error))?;
        let acquired = tokio::select! {
            acquired = acquire(&redlock, &target, &options, &args.waiting) => acquired?,
            signal = signals.next() => {
                canceled = Some(signal);
                return Ok(0);
            }
        };
        print(&as_json(&acquired))?;
        let Acquired { lock, .. } = acquired;
        let lost = match watched {
            Some(watched) => until_gone(&lock, &watched, times, &mut signals).await,
            None => until_stdin_ends(&lock, times, &mut signals).await,
        };
        match lost {
            Some(reason) => Err(Failure::new(Code::Lost, format!("lock lost: {reason}"))),
            None => lock.release().await.map(|_| 0).map_err(|error| request::failure(&error)),
        }
    });
    match canceled {
        Some(signal) => Ok(end_by_signal(signal.as_raw())),
        None => result,
    }
}

fn as_json(Acquired { lock, slot }: &Acquired) -> String {
    let fencing_token = lock.fencing_token().map(redlock_redis_rs::FencingToken::as_u64);
    let slot = slot.as_ref().map(|slot| slot.index);
    json!({ "holder": lock.fingerprint().to_string(), "fencing_token": fencing_token, "slot": slot })
        .to_string()
}

/// Waits for the end of stdin or a signal. Returns the reason of a loss.
async fn until_stdin_ends(lease: &Lease, times: Times, signals: &mut Signals) -> Option<String> {
    let (ended, end) = oneshot::channel();
    // A thread reads stdin, which may be any kind of file. The thread ends with the process.
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        let mut stdin = io::stdin().lock();
        while stdin.read(&mut bytes).is_ok_and(|count| count > 0) {}
        let _ = ended.send(());
    });
    tokio::select! {
        _ = end => None,
        _ = signals.next() => None,
        reason = lost(lease, times) => Some(reason),
    }
}

/// Waits for the end of a process or a signal. Stops the process at the times of a loss.
async fn until_gone(lease: &Lease, watched: &Watched, times: Times, signals: &mut Signals) -> Option<String> {
    use rustix::process::Signal;

    let (mut reason, mut kill_at) = (None, None);
    loop {
        if !watched.is_alive() {
            return reason;
        }
        let now = suspend_aware_now();
        let deadline = now + lease.remaining();
        let revoked = lease.remaining().is_zero();
        if reason.is_none() && (revoked || now >= times.term_at(deadline)) {
            reason = Some(why(lease));
            kill_at = Some(if revoked { now } else { times.kill_after(now, deadline) });
            watched.send(Signal::TERM);
            watched.send(Signal::CONT);
        }
        if kill_at.is_some_and(|kill_at| now >= kill_at) {
            watched.send(Signal::KILL);
        }
        tokio::select! {
            _ = signals.next(), if reason.is_none() => return None,
            () = tokio::time::sleep(times.tick()) => {}
        }
    }
}

/// Waits for the loss, which is reported before the validity ends.
async fn lost(lease: &Lease, times: Times) -> String {
    while lease.remaining() > times.tick() && !matches!(lease.state(), LeaseState::Lost(_)) {
        tokio::time::sleep(times.tick()).await;
    }
    why(lease)
}

fn why(lease: &Lease) -> String {
    match lease.state() {
        LeaseState::Lost(loss) => loss.to_string(),
        _ => "it could not be renewed in time".into(),
    }
}
