//! Keeping a lease alive: a task of its own renews it until it is released or lost.
//!
//! When, is decided in [`renewal`](crate::decide::renewal). Renewals come one after the other, and each ends when the
//! lease does, so none is sent behind a release. The task is not what tells a loss: whoever waits for it looks at the
//! clock, so a task that panicked, or went with its runtime, takes nothing with it but the renewals. It holds the lease,
//! and ends with it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;

use crate::acquire::node_timeout;
use crate::clock::Instant;
use crate::decide::concurrency::Class;
use crate::decide::hold::Doubt;
use crate::decide::renewal;
use crate::error::ErrorKind;
use crate::extend::{self, Extension};
use crate::lease::Lease;
use crate::limiter::Permit;
use crate::node::ConnectionId;
use crate::observe;
use crate::runtime::{random, sleep_until_or};
use crate::ttl::Ttl;

/// How a lock is kept: renewed whenever two thirds of its TTL are left, for as long as it is held. The first renewal comes up
/// to a sixth of the TTL earlier, and one follows soon after a node has connected again.
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
        is_first: true,
        connections: lease.connections(),
        done: false,
    };
    lease.shared().runtime.spawn(Box::pin(keeper.run()));
}

struct Keeper {
    lease: Lease,
    number: u64,
    not_beyond: Option<Instant>,
    extensions_left: Option<u32>,
    /// Whether the lease was not renewed yet.
    is_first: bool,
    /// By node: over which connection the last renewal was sent.
    connections: SmallVec<[Option<ConnectionId>; 5]>,
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
            let mut failures = 0;
            loop {
                if !self.wait_until(due, extension.ttl).await {
                    return;
                }
                let Some(permit) = self.permit().await else { return };
                // Before anything is sent: a node that connects afterwards may have missed it.
                self.connections = self.connections_now().collect();
                let result = extend::extend(&self.lease, self.fitting(extension)).await;
                let failed = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoQuorum);
                self.lease.shared().limiter.renewals_fail(failed);
                drop(permit);
                match result {
                    Ok(()) => {
                        observe::renewed(&self.lease);
                        break;
                    }
                    // Its owner has ended it meanwhile.
                    Err(_) if self.lease.is_released() => return,
                    Err(error) => {
                        observe::renewal_failed(&self.lease, &error, failures);
                        if error.kind() != ErrorKind::NoQuorum {
                            return;
                        }
                    }
                }
                failures += 1;
                let again = renewal::again(self.now(), self.ends(), extension.ttl, self.random());
                let Some(again) = again else { return };
                due = again;
            }
            self.is_first = false;
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
        let due = if self.is_first { renewal::first_due } else { renewal::due };
        Some((due(deadline, ttl, self.random()), extension))
    }

    /// With a time limit that leaves half of the rest for another try, and for the truth about this one.
    fn fitting(&self, extension: Extension) -> Extension {
        let left = self.ends().saturating_duration_since(self.now());
        Extension { limit: extension.limit.min(left / 2), ..extension }
    }

    /// Whether the lease is to be renewed: at `due`, or soon after a node has connected anew, which may lack the key.
    async fn wait_until(&self, mut due: Instant, ttl: Ttl) -> bool {
        let mut brought_forward = false;
        loop {
            let changed = self.lease.listen();
            if !self.lease.is_kept_by(self.number) {
                return false;
            }
            let now = self.now();
            if now >= due {
                return true;
            }
            if !brought_forward && self.has_reconnected() {
                brought_forward = true;
                due = due.min(renewal::after_reconnection(now, ttl, self.random()));
            }
            let look = if brought_forward { due } else { due.min(now + renewal::look_interval(ttl)) };
            sleep_until_or(&*self.lease.shared().runtime, look, changed).await;
        }
    }

    /// Waits until another renewal may be in flight; `None` when the lease is not to be renewed any more.
    async fn permit(&self) -> Option<Permit> {
        let (shared, class) = (self.lease.shared(), Class::Renewal(self.ends()));
        if let Some(permit) = Permit::try_new(shared, class) {
            return Some(permit);
        }
        let mut permit = pin!(Permit::wait(shared, class));
        loop {
            let mut changed = self.lease.listen();
            if !self.lease.is_kept_by(self.number) {
                return None;
            }
            let permit = poll_fn(|cx| match permit.as_mut().poll(cx) {
                Poll::Ready(permit) => Poll::Ready(Some(permit)),
                Poll::Pending => Pin::new(&mut changed).poll(cx).map(|()| None),
            });
            if let Some(permit) = permit.await {
                return self.lease.is_kept_by(self.number).then_some(permit);
            }
        }
    }

    fn connections_now(&self) -> impl Iterator<Item = Option<ConnectionId>> {
        self.lease.shared().members.iter().map(|member| member.node.connection())
    }

    /// Whether a node is connected over another connection than at the last renewal.
    fn has_reconnected(&self) -> bool {
        let mut connections = self.connections_now().zip(&self.connections);
        connections.any(|(now, before)| now.is_some() && now != *before)
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
