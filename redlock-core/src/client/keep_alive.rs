//! Keep-alive: a background task that renews a lease until it is released or lost.
//!
//! [`renewal`](crate::decide::renewal) decides when to renew. Renewals come one after the other, and each ends when the
//! lease does, so none is sent after a release. The task does not report losses: a task that waits for a loss reads the
//! clock itself. Thus if the renewal task panics, or ends with its runtime, only the renewals and the release below are
//! missing. It holds the lease.
//!
//! When the deadline has passed, the task releases the lock. Nodes may keep its keys for longer: they may have carried out
//! a renewal that failed, or whose validity was limited by [`max_hold`](KeepAlive::max_hold). The guard of a lost lock
//! may exist for as long as its owner wants, and these keys would deny other clients. A lease that was revoked earlier
//! keeps its keys until the deadline, because a program may rely on the deadline that it has read.

use std::pin::pin;
use std::time::Duration;

use smallvec::SmallVec;
use tracing::Instrument;

use crate::client::lease::Lease;
use crate::decide::concurrency::Class;
use crate::decide::lease_status::Degraded;
use crate::decide::renewal;
use crate::lease::peer::LeasePeer;
use crate::lease::record::LastStep;
use crate::node::ConnectionId;
use crate::queue::limiter::Permit;
use crate::round::extend::Extension;
use crate::round::nodes::Peer;
use crate::round::release;
use crate::runtime::{first, random, sleep_until_or};
use crate::telemetry;
use crate::types::error::ErrorKind;
use crate::types::instant::Instant;
use crate::types::ttl::Ttl;

/// Settings for the automatic renewal of a lock.
///
/// The lock is renewed whenever two thirds of its TTL are left, for as long as it is held. The first renewal comes up
/// to a sixth of the TTL earlier. Another one follows soon after a node has reconnected.
///
/// After a crash of the holder, other clients are excluded for the length of the TTL. Thus choose a short TTL with
/// keep-alive: a few seconds. Each lock costs each node three commands per TTL. Enough time is left for several more
/// attempts if nodes do not reply. [`Lease::state`](crate::Lease::state) shows the progress.
///
/// If the lock is lost, its keys are deleted when its last [deadline](crate::Lease::deadline) has passed, even if the
/// guard still exists.
///
/// ```
/// use std::time::Duration;
/// use redlock_core::KeepAlive;
///
/// let settings = KeepAlive::new()
///     .max_hold(Duration::from_secs(3600))
///     .max_extensions(1000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "these are settings, for a request or a guard"]
pub struct KeepAlive {
    max_hold: Option<Duration>,
    max_extensions: Option<u32>,
}

impl KeepAlive {
    /// Creates settings without limits: the lock is renewed until it is released.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// # let process = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("a", process.runtime());
    /// # simulation.block_on(&process.clone(), async move {
    /// # let redlock = Redlock::builder(process.clone()).node(node).build()?;
    /// // The clock of this example is simulated.
    /// let request = redlock.lock("nightly-report", Duration::from_secs(5));
    /// let guard = request.keep_alive(KeepAlive::new()).await?;
    /// process.sleep(Duration::from_secs(3600)).await;
    /// assert!(guard.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub const fn new() -> Self {
        Self { max_hold: None, max_extensions: None }
    }

    /// Sets the longest time for which the lock is held.
    ///
    /// The default is unlimited. The time counts from the start of the attempt that acquired the lock, and the last
    /// renewal makes the lock valid until its end. The first grant is never shortened, so a value below the TTL has the
    /// effect of the TTL.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_core::{KeepAlive, Loss, Redlock};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// # let process = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("a", process.runtime());
    /// # simulation.block_on(&process.clone(), async move {
    /// # let redlock = Redlock::builder(process.clone()).node(node).build()?;
    /// // The clock of this example is simulated.
    /// let start = redlock.now();
    /// # let hour = Duration::from_secs(3600);
    /// let request = redlock.lock("nightly-report", Duration::from_secs(5));
    /// let guard = request.keep_alive(KeepAlive::new().max_hold(hour)).await?;
    /// assert_eq!(Loss::Expired, guard.lost().await, "the report hangs");
    /// assert!(redlock.now() <= start + hour);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Sets how often the lock is extended at most. Afterwards it expires with its TTL.
    ///
    /// The default is unlimited; 0 never extends. Failed renewals do not count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_core::{KeepAlive, Loss, Redlock};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// # let process = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("a", process.runtime());
    /// # simulation.block_on(&process.clone(), async move {
    /// # let redlock = Redlock::builder(process.clone()).node(node).build()?;
    /// // The clock of this example is simulated.
    /// let start = redlock.now();
    /// let request = redlock.lock("nightly-report", Duration::from_secs(60));
    /// let guard = request.keep_alive(KeepAlive::new().max_extensions(2)).await?;
    /// assert_eq!(Loss::Expired, guard.lost().await, "the report hangs");
    /// assert!(redlock.now() < start + Duration::from_secs(180));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub const fn max_extensions(mut self, max_extensions: u32) -> Self {
        self.max_extensions = Some(max_extensions);
        self
    }
}

/// Keeps a lease alive from now on, and replaces an earlier keep-alive.
pub(crate) fn keep_alive(lease: &Lease, settings: KeepAlive) {
    let not_beyond = settings.max_hold.map(|max_hold| lease.record.since + max_hold);
    let task = RenewalTask {
        epoch: lease.record.next_epoch(),
        lease: lease.clone(),
        not_beyond,
        extensions_left: settings.max_extensions,
        is_first: true,
        connections: connections(lease),
        done: false,
    };
    let span = telemetry::keep_alive(&lease.record.claim);
    lease.handle.runtime.spawn(Box::pin(task.run().instrument(span)));
}

/// Returns the connection in use, by node.
///
/// For a node that is not known to hold the key, it is the connection at the time of the write.
fn connections(lease: &Lease) -> SmallVec<[Option<ConnectionId>; 5]> {
    lease.record.with(|state| {
        let peers = lease.handle.peers.iter().zip(&state.peers);
        let connection = |(peer, own): (&Peer, &LeasePeer)| {
            if own.writes.is_written() {
                peer.node.status().connection
            } else {
                own.writes.write_connection()
            }
        };
        peers.map(connection).collect()
    })
}

struct RenewalTask {
    lease: Lease,
    epoch: u64,
    not_beyond: Option<Instant>,
    extensions_left: Option<u32>,
    /// `true` until the lease has been renewed.
    is_first: bool,
    /// The connections over which the last renewal was sent, by node.
    connections: SmallVec<[Option<ConnectionId>; 5]>,
    /// `true` once there is nothing left to do.
    ///
    /// If the task is dropped earlier, it has panicked or its runtime has ended.
    done: bool,
}

impl RenewalTask {
    async fn run(mut self) {
        self.renew().await;
        self.done = true;
        self.release_when_over().await;
    }

    /// Releases the lock when its validity has ended, unless its owner does something else before.
    async fn release_when_over(&self) {
        let Lease { handle, record } = &self.lease;
        loop {
            let changed = record.listen();
            match record.end_if_over(self.epoch, self.now()) {
                LastStep::Wait(until) => sleep_until_or(&*handle.runtime, until, changed).await,
                LastStep::Release(ending) => return release::begin_of_lost(handle, record, ending),
                LastStep::Nothing => return,
            }
        }
    }

    async fn renew(&mut self) {
        while let Some((mut due, extension)) = self.next() {
            let mut failures = 0;
            loop {
                if !self.wait_until(due, extension.ttl).await {
                    return;
                }
                let Some(permit) = self.permit().await else { return };
                // Read before anything is sent: a node that connects afterwards may have missed the renewal.
                self.connections = self.connections_now().collect();
                let result = self.lease.extend_with(self.fitting(extension)).await;
                let failed = result.as_ref().is_err_and(|failure| failure.kind() == ErrorKind::NoQuorum);
                self.lease.handle.limiter.renewals_fail(failed);
                drop(permit);
                match result {
                    Ok(()) => {
                        telemetry::renewed(&self.lease.record.claim);
                        break;
                    }
                    // The owner has ended the lease in between.
                    Err(_) if self.lease.record.is_released() => return,
                    Err(failure) => {
                        let error = self.lease.error(failure);
                        telemetry::renewal_failed(&self.lease.record.claim, &error, failures);
                        if !failed {
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

    /// Returns the next renewal and its due time; `None` if no other is allowed.
    fn next(&self) -> Option<(Instant, Extension)> {
        let (deadline, ttl) = self.lease.record.term();
        let enough =
            self.extensions_left == Some(0) || self.not_beyond.is_some_and(|limit| deadline >= limit);
        let ttl = ttl.filter(|_| !enough)?;
        let limit = self.lease.handle.rules.timeout_within(ttl);
        let extension = Extension { ttl, limit, not_beyond: self.not_beyond };
        let due = if self.is_first { renewal::first_due } else { renewal::due };
        Some((due(deadline, ttl, self.random()), extension))
    }

    /// Limits the time of a renewal to half of the time that is left.
    ///
    /// The other half is for another attempt, and for the outcome of this one.
    fn fitting(&self, extension: Extension) -> Extension {
        let left = self.ends().saturating_duration_since(self.now());
        Extension { limit: extension.limit.min(left / 2), ..extension }
    }

    /// Waits until the lease is due for a renewal; `false` if it is not to be renewed.
    ///
    /// The renewal is due at `due`, or soon after a node has reconnected, because that node may lack the key.
    async fn wait_until(&self, mut due: Instant, ttl: Ttl) -> bool {
        let mut brought_forward = false;
        loop {
            let changed = self.lease.record.listen();
            if !self.lease.record.is_kept_by(self.epoch, self.now()) {
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
            sleep_until_or(&*self.lease.handle.runtime, look, changed).await;
            let late = self.now().saturating_duration_since(look);
            if renewal::is_late(late, ttl) {
                telemetry::renewal_late(&self.lease.record.claim, late);
            }
        }
    }

    /// Waits for a permit for a renewal; `None` if the lease is not to be renewed.
    async fn permit(&self) -> Option<Permit> {
        let (limiter, class) = (&self.lease.handle.limiter, Class::Renewal(self.ends()));
        if let Some(permit) = Permit::try_new(limiter, class) {
            return Some(permit);
        }
        let mut permit = pin!(Permit::wait(limiter, class));
        loop {
            let changed = self.lease.record.listen();
            if !self.lease.record.is_kept_by(self.epoch, self.now()) {
                return None;
            }
            let look = self.now() + limiter.poll_interval(class);
            let wake = async {
                sleep_until_or(&*self.lease.handle.runtime, look, changed).await;
                None
            };
            if let Some(permit) = first(async { Some(permit.as_mut().await) }, wake).await {
                return self.lease.record.is_kept_by(self.epoch, self.now()).then_some(permit);
            }
        }
    }

    fn connections_now(&self) -> impl Iterator<Item = Option<ConnectionId>> {
        self.lease.handle.peers.iter().map(|peer| peer.node.status().connection)
    }

    /// Returns whether a node uses another connection than at the last renewal.
    fn has_reconnected(&self) -> bool {
        let mut connections = self.connections_now().zip(&self.connections);
        connections.any(|(now, before)| now.is_some() && now != *before)
    }

    fn now(&self) -> Instant {
        self.lease.handle.now()
    }

    /// Returns when renewals end: at the loss of the lease, or a grace period before it.
    fn ends(&self) -> Instant {
        self.lease.record.ending_at()
    }

    fn random(&self) -> u64 {
        random(&*self.lease.handle.runtime)
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        if !self.done {
            self.lease.record.degrade(Degraded::RenewalEnded, self.now());
        }
    }
}
