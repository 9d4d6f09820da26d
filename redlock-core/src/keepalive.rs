//! Keeping a lease alive: a task of its own renews it until it is released or lost.
//!
//! When, is decided in [`renewal`](crate::decide::renewal). Renewals come one after the other, and each ends when the
//! lease does, so none is sent behind a release. The task is not what tells a loss: whoever waits for it looks at the
//! clock, so a task that panicked, or went with its runtime, takes nothing with it but the renewals. It holds the lease,
//! and ends with it.

use std::time::Duration;

use crate::acquire::node_timeout;
use crate::clock::Instant;
use crate::decide::hold::Doubt;
use crate::decide::renewal;
use crate::error::ErrorKind;
use crate::extend::{self, Extension};
use crate::lease::Lease;
use crate::observe;
use crate::runtime::{random, sleep_until_or};

/// How a lock is kept: renewed whenever two thirds of its TTL are left, for as long as it is held.
///
/// For the length of the TTL a crash of the holder keeps others out, so with keep-alive it can be short: some seconds.
/// Renewing when two thirds are left costs each node three commands a TTL, and leaves time for several more tries when
/// nodes do not answer. The state of the lease says how it goes: [`Lease::state`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "these are settings, for a request or a guard"]
pub struct KeepAlive {
    max_hold: Option<Duration>,
    max_extensions: Option<u32>,
}

impl KeepAlive {
    /// Without limits: until the lock is released.
    pub const fn new() -> Self {
        Self { max_hold: None, max_extensions: None }
    }

    /// Never holds the lock for longer than this, counted from when it was acquired: the last renewal makes it valid
    /// until then. What was granted without keep-alive stands, so less than the TTL is no less.
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Extends the lock at most so many times; failed tries do not count. Then it expires with its TTL.
    pub const fn max_extensions(mut self, max_extensions: u32) -> Self {
        self.max_extensions = Some(max_extensions);
        self
    }
}

/// Keeps a lease alive from now on, in the place of whoever did so before.
pub(crate) fn keep_alive(lease: &Lease, settings: KeepAlive) {
    let not_beyond = settings.max_hold.map(|max_hold| lease.since() + max_hold);
    let keeper = Keeper {
        number: lease.next_keeper(),
        lease: lease.clone(),
        not_beyond,
        extensions_left: settings.max_extensions,
        done: false,
    };
    lease.shared().runtime.spawn(Box::pin(keeper.run()));
}

struct Keeper {
    lease: Lease,
    number: u64,
    not_beyond: Option<Instant>,
    extensions_left: Option<u32>,
    /// Whether there is nothing more to do. Dropped before, the task has panicked or its runtime has ended.
    done: bool,
}

impl Keeper {
    async fn run(mut self) {
        self.renew().await;
        self.done = true;
    }

    async fn renew(&mut self) {
        while let Some((mut due, extension)) = self.next() {
            loop {
                if !self.wait_until(due).await {
                    return;
                }
                match extend::extend(&self.lease, self.fitting(extension)).await {
                    Ok(()) => {
                        observe::renewed(&self.lease, Ok(()));
                        break;
                    }
                    // Its owner has ended it meanwhile.
                    Err(_) if self.lease.is_released() => return,
                    Err(error) => {
                        observe::renewed(&self.lease, Err(&error));
                        if error.kind() != ErrorKind::NoQuorum {
                            return;
                        }
                    }
                }
                let Some(again) = renewal::again(self.now(), self.ends(), self.random()) else { return };
                due = again;
            }
            self.extensions_left = self.extensions_left.map(|left| left - 1);
        }
    }

    /// The next renewal and when it is due; `None` when no other may be made.
    fn next(&self) -> Option<(Instant, Extension)> {
        let (deadline, ttl) = self.lease.term();
        let enough =
            self.extensions_left == Some(0) || self.not_beyond.is_some_and(|limit| deadline >= limit);
        let ttl = ttl.filter(|_| !enough)?;
        let limit = node_timeout(self.lease.shared().settings.node_timeout, ttl);
        let extension = Extension { ttl, limit, not_beyond: self.not_beyond };
        Some((renewal::due(deadline, ttl, self.random()), extension))
    }

    /// With a time limit that leaves half of the rest for another try, and for the truth about this one.
    fn fitting(&self, extension: Extension) -> Extension {
        let left = self.ends().saturating_duration_since(self.now());
        Extension { limit: extension.limit.min(left / 2), ..extension }
    }

    /// Whether the lease is to be renewed at `due`.
    async fn wait_until(&self, due: Instant) -> bool {
        loop {
            let changed = self.lease.listen();
            if !self.lease.is_kept_by(self.number) {
                return false;
            }
            if self.now() >= due {
                return true;
            }
            sleep_until_or(&*self.lease.shared().runtime, due, changed).await;
        }
    }

    fn now(&self) -> Instant {
        self.lease.shared().now()
    }

    fn ends(&self) -> Instant {
        self.lease.ends()
    }

    fn random(&self) -> u64 {
        random(&*self.lease.shared().runtime)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.done {
            self.lease.doubt(Doubt::Abandoned);
        }
    }
}
