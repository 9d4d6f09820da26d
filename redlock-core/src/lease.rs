//! The state of a held lock: the claim, the deadline, and the writes on each node.
//!
//! [`LeaseStatus`] computes from the clock whether a lease is held, at each call. In addition, one [`WriteState`] for
//! each node describes the writes of this client there, and so the work of a release. A released lease never begins
//! another write: both happen under the same mutex. A write that began earlier is known to the release, even if it has
//! not been sent by then.

pub(crate) mod guard;
pub(crate) mod keep_alive;
mod peers;
pub(crate) mod watch;

use std::fmt;
use std::future::Future;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use event_listener::{Event, EventListener, IntoNotification};
use smallvec::{SmallVec, smallvec};

use crate::decide::fencing::Fence;
use crate::decide::lease_status::{Degraded, LeaseState, LeaseStatus, Loss};
use crate::decide::pending_release::{PendingRelease, WriteState};
use crate::inner::{Handle, Inner, locked};
use crate::lease::watch::UntilState;
use crate::protocol::acquire::node_timeout;
use crate::protocol::extend::{self, Extension};
use crate::protocol::release::ReleaseOutcome;
use crate::protocol::round::Responses;
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::detached::DetachedLease;
use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::report::{NodeReport, NodeReports};
use crate::types::resource::Resource;
use crate::types::token::Fingerprint;
use crate::types::ttl::Ttl;
use crate::wait::local_queue::Waiter;

/// A view of a held lock: its resources, its validity and its state.
///
/// A lease can extend the lock and never releases it. Clones are views of the same lease, and dropping one has no
/// effect.
///
/// A lease does not keep the lock. Once the [`Guard`] that owns the lock is released or dropped, or the validity has
/// ended, every view reports that the lock is not held.
///
/// [`Guard`]: crate::Guard
#[derive(Clone)]
pub struct Lease(Arc<Record>);

struct Record {
    handle: Arc<Handle>,
    claim: Claim,
    /// `true` if the lease has a fencing token, or is to get one.
    fenced: bool,
    /// The start of the acquisition, before its first request.
    since: Instant,
    state: Mutex<State>,
    /// `true` once releases are being sent.
    ///
    /// Written under the mutex of the state, so that no write begins afterwards.
    released: AtomicBool,
    /// The place in the queues of this process, while other tasks must wait behind it.
    place: Mutex<Option<Waiter>>,
    /// Notified when a write has ended, or something other than time changed the state.
    changed: Event,
}

struct State {
    hold: LeaseStatus,
    /// The number of the keep-alive that is in effect.
    epoch: u64,
    /// `true` once the loss was logged.
    loss_told: bool,
    /// The writes by node: inline for up to five nodes, as most configurations have.
    traces: SmallVec<[WriteState; 5]>,
    /// The fencing state of a fenced lease, once a quorum has granted it.
    fence: Option<Fence>,
    /// The responses to the acquisition, including late replies.
    responses: Option<Responses>,
}

/// The state of a lease at one moment.
pub(crate) struct Look {
    pub(crate) state: LeaseState,
    /// The minimum time for which the state lasts, unless it is changed.
    pub(crate) lasts: Duration,
    /// The time from the report of a loss to the deadline.
    pub(crate) margin: Duration,
}

impl Lease {
    /// Returns the locked resources: at least one, sorted.
    pub fn resources(&self) -> &[Resource] {
        self.0.claim.resources()
    }

    /// Returns how much longer the lock is valid, according to the clock.
    ///
    /// Zero means that the lock is no longer held. The validity has ended, the lock was released, or a quorum reported
    /// that its keys are gone.
    ///
    /// Time in system suspend counts, so the value is correct even if the machine has just resumed. A pause by a
    /// hypervisor may not count: see [`suspend_aware_now`](crate::suspend_aware_now).
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// if guard.remaining() > Duration::from_secs(1) {
    ///     // There is enough time for an effect that takes up to 1 s.
    /// }
    /// # Ok(()) }
    /// ```
    pub fn remaining(&self) -> Duration {
        locked(&self.0.state).hold.remaining(self.shared().now())
    }

    /// Returns whether the lock is valid at this moment.
    ///
    /// That is the case if [`remaining`](Lease::remaining) is more than zero. The result ages: the validity may end
    /// before you use it. Before an effect that must not happen twice, compare `remaining` with the time that the
    /// effect takes.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// let lease = guard.lease();
    /// assert!(lease.is_held());
    /// guard.release().await?;
    /// assert!(!lease.is_held());
    /// # Ok(()) }
    /// ```
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the state of the lock, according to the clock.
    ///
    /// A loss is reported before the lease ends. In the last fiftieth of the TTL (at least 1 ms, at most 500 ms) the
    /// state is already [`Lost`](LeaseState::Lost). [`is_held`](Lease::is_held) is still true then, and other clients
    /// are still excluded. Use this time to stop.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LeaseState, LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// match guard.state() {
    ///     LeaseState::Held => println!("held"),
    ///     LeaseState::AtRisk => println!("held, but the last extension failed"),
    ///     LeaseState::Lost(loss) => println!("stop: {loss}"),
    ///     _ => {}
    /// }
    /// # Ok(()) }
    /// ```
    pub fn state(&self) -> LeaseState {
        self.look().state
    }

    /// Waits until the state differs from the present one, and returns the new state.
    ///
    /// The present state is that at the time of the call. A loss is final: after one, this returns at once.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LeaseState, LockNode, Loss, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// let changed = guard.changed();
    /// guard.release().await?;
    /// assert_eq!(LeaseState::Lost(Loss::Released), changed.await);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost. It owns its data, and you can create another one at any time.
    pub fn changed(&self) -> impl Future<Output = LeaseState> + Send + 'static + use<> {
        let before = self.state();
        UntilState::new(self.clone(), move |state| match state {
            LeaseState::Lost(_) => Some(state),
            state if state != before => Some(state),
            _ => None,
        })
    }

    /// Waits until the lock is lost, and returns the reason.
    ///
    /// The loss is reported before the validity ends (see [`state`](Lease::state)), even if no node replies. If nothing
    /// could run for a while, because the machine was suspended or the runtime was starved, the future is ready at its
    /// next poll. Its timer polls it within one second.
    ///
    /// A release by the owner also ends the wait, with [`Loss::Released`]. So the wait always ends.
    ///
    /// The wait reads the clock every fiftieth of the TTL. The cost is linear in the number of waits. 20,000 of them
    /// with a TTL of 10 s take about a tenth of a CPU core.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # async fn work() {}
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// tokio::select! {
    ///     loss = guard.lost() => println!("work canceled: {loss}"),
    ///     () = work() => println!("done"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost. It owns its data, and you can create another one at any time.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        UntilState::new(self.clone(), |state| match state {
            LeaseState::Lost(loss) => Some(loss),
            _ => None,
        })
    }

    /// Returns the fingerprint of this lock's token, for logs and errors.
    ///
    /// The token itself is a secret.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.claim.token().fingerprint()
    }

    /// Returns the token of a [fenced](crate::LockRequest::fenced) lock, or `None`.
    ///
    /// The token is greater than that of every earlier fenced lock on any of the resources. It does not change while
    /// the lock is held. Plain locks have none.
    ///
    /// Send the token with every write to the protected resource, which must reject smaller tokens than it has seen.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("report", ttl).fenced().await?;
    /// let token = guard.fencing_token().expect("a fenced lock has a token");
    /// println!("Fencing-Token: {token}");
    /// # Ok(()) }
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        locked(&self.0.state).fence.as_ref().map(Fence::token)
    }

    /// Returns the number of nodes on which the lock can still be extended.
    ///
    /// For a plain lock these are all nodes. For a fenced lock these are all nodes except those that are known to have
    /// counted a newer claim above its [token](Lease::fencing_token). If they are fewer than a quorum, extensions fail
    /// with [`Superseded`](ErrorKind::Superseded), and the lock ends with its validity.
    ///
    /// Nodes drop out if they have lost the lock, or never held it, and other clients try to acquire it there.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("report", ttl).fenced().await?;
    /// assert_eq!(3, guard.extendable_nodes());
    /// # Ok(()) }
    /// ```
    pub fn extendable_nodes(&self) -> usize {
        locked(&self.0.state).fence.as_ref().map_or(self.shared().peers.len(), Fence::extendable_nodes)
    }

    /// Returns the reports of all nodes about the acquisition, in configured order.
    ///
    /// Nodes that have not replied when a quorum grants are pending, until they reply. The list is empty for a lock
    /// that was [resumed](crate::Redlock::resume).
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// for report in guard.node_reports() {
    ///     println!("{report}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn node_reports(&self) -> Vec<NodeReport> {
        let responses = locked(&self.0.state).responses.clone();
        responses.map(|responses| responses.reports(self.shared())).unwrap_or_default()
    }

    /// Makes the lock valid for `ttl` from now, less clock drift.
    ///
    /// `ttl` is 10 ms to 24 days. A quorum of all nodes must still hold the lock, and count for it if it is fenced. The
    /// validity is never shortened: the new deadline is the later of both.
    ///
    /// Returns as soon as the outcome is certain. That takes at most the node timeout, unless this process is delayed.
    /// Afterwards, nodes that have lost the lock's keys, or never held them, get them back in the background.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("report", Duration::from_secs(5)).await?;
    /// guard.extend(Duration::from_secs(30)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(29));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// A failed extension leaves the old deadline as it is, unless a quorum reports that the keys are gone.
    ///
    /// - [`InvalidInput`](ErrorKind::InvalidInput) if the TTL is out of bounds.
    /// - [`TooSlow`](ErrorKind::TooSlow) if the lease expired before the extension succeeded. A loss is final: see
    ///   [`state`](Lease::state).
    /// - [`Lost`](ErrorKind::Lost) if a quorum does not hold the lock, or it was released or detached.
    /// - [`Superseded`](ErrorKind::Superseded) if a fenced lock can never be extended again: see
    ///   [`extendable_nodes`](Lease::extendable_nodes).
    /// - [`NoQuorum`](ErrorKind::NoQuorum) if too few nodes replied.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after its first poll, the extension continues in the background. It may or may not
    /// take effect.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        let ttl = Ttl::new(ttl)?;
        let limit = node_timeout(self.shared().settings.node_timeout, ttl);
        extend::extend(self, Extension { ttl, limit, not_beyond: None }).await
    }

    /// Creates a lease that no node has granted yet.
    ///
    /// Its clock starts at `since`, before anything is sent.
    pub(crate) fn new(handle: Arc<Handle>, claim: Claim, fenced: bool, since: Instant) -> Self {
        let mut traces: SmallVec<[WriteState; 5]> = smallvec![WriteState::default(); handle.peers.len()];
        for (trace, peer) in traces.iter_mut().zip(&handle.peers) {
            trace.begin(peer.node.connection());
        }
        Self::with_traces(handle, claim, fenced, since, traces)
    }

    /// Creates a lease that another process wrote.
    ///
    /// It is unknown whether any node holds it.
    pub(crate) fn foreign(handle: Arc<Handle>, detached: &DetachedLease) -> Self {
        let traces = smallvec![WriteState::foreign(); handle.peers.len()];
        let (claim, token) = (detached.claim.clone(), detached.fencing_token);
        let since = handle.now();
        let lease = Self::with_traces(handle, claim, token.is_some(), since, traces);
        if let Some(token) = token {
            lease.fence(token);
        }
        lease
    }

    fn with_traces(
        handle: Arc<Handle>,
        claim: Claim,
        fenced: bool,
        since: Instant,
        traces: SmallVec<[WriteState; 5]>,
    ) -> Self {
        let state = State {
            hold: LeaseStatus::none(),
            epoch: 0,
            loss_told: false,
            traces,
            fence: None,
            responses: None,
        };
        let (state, released, place) = (Mutex::new(state), AtomicBool::new(false), Mutex::default());
        let changed = Event::new();
        Self(Arc::new(Record { handle, claim, fenced, since, state, released, place, changed }))
    }

    pub(crate) fn shared(&self) -> &Arc<Inner> {
        &self.0.handle
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.0.claim
    }

    /// Returns the present state. Logs a loss when it is first seen.
    pub(crate) fn look(&self) -> Look {
        let now = self.shared().now();
        let mut state = locked(&self.0.state);
        let look = Look {
            state: state.hold.state(now),
            lasts: state.hold.ends().saturating_duration_since(now),
            margin: state.hold.margin(),
        };
        if let LeaseState::Lost(loss) = &look.state {
            let by_owner = matches!(loss, Loss::Released | Loss::Detached);
            if !mem::replace(&mut state.loss_told, true) && !by_owner {
                drop(state);
                telemetry::lost(self, loss);
            }
        }
        look
    }

    /// Listens for changes that time does not cause. Listen before you read the state.
    pub(crate) fn listen(&self) -> EventListener {
        self.0.changed.listen()
    }

    /// Notifies listeners that the state has changed.
    ///
    /// No fence is needed, because changes are made and read under the mutex.
    fn notify(&self) {
        self.0.changed.notify(usize::MAX.relaxed());
    }

    /// Records another grant of a quorum.
    ///
    /// The lease is valid until the later of `deadline` and its present deadline. Returns `false` if it was lost
    /// before.
    pub(crate) fn hold_until(&self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        let granted = locked(&self.0.state).hold.grant(deadline, ttl, now);
        self.notify();
        self.tell_queue();
        granted
    }

    /// Takes over the place in the queue: other tasks wait behind it until the end.
    pub(crate) fn keep_place(&self, place: Waiter) {
        drop(place.hold_until(self.term().0));
        let before = locked(&self.0.place).replace(place);
        drop(before);
    }

    /// Gives the next task of this process its turn.
    pub(crate) fn leave_queue(&self) {
        let place = locked(&self.0.place).take();
        drop(place);
    }

    fn tell_queue(&self) {
        let woken = locked(&self.0.place).as_ref().map(|place| place.hold_until(self.term().0));
        // Dropped after `place` is unlocked, because a task that is woken may lock it.
        drop(woken);
    }

    /// Records that renewals fail or have ended.
    pub(crate) fn doubt(&self, doubt: Degraded) {
        let now = self.shared().now();
        locked(&self.0.state).hold.doubt(doubt, now);
        self.notify();
    }

    /// Ends the lease for a reason other than time.
    pub(crate) fn lose(&self, loss: Loss) {
        let now = self.shared().now();
        if loss == Loss::Detached {
            // The process that resumes the lease may release it, and nothing may be sent after that.
            self.0.released.store(true, Ordering::Release);
        }
        self.end_as(loss, now, locked(&self.0.state));
    }

    fn end_as(&self, loss: Loss, now: Instant, mut state: MutexGuard<'_, State>) {
        let released = loss == Loss::Released;
        let was_granted = state.hold.ended().is_none() && state.hold.ttl().is_some();
        let until = now.min(state.hold.deadline());
        state.hold.end(loss, now);
        drop(state);
        self.notify();
        if was_granted {
            telemetry::held(until.saturating_duration_since(self.since()));
        }
        // After a release, the next task has its turn when the nodes have confirmed.
        if !released {
            self.leave_queue();
        }
    }

    /// Returns why the lease has ended, if the reason is not time.
    pub(crate) fn ended(&self) -> Option<Loss> {
        locked(&self.0.state).hold.ended().cloned()
    }

    pub(crate) fn since(&self) -> Instant {
        self.0.since
    }

    /// Returns the time at which the lease is lost unless it is extended.
    pub(crate) fn ends(&self) -> Instant {
        locked(&self.0.state).hold.ends()
    }

    /// Returns the deadline and the TTL.
    pub(crate) fn term(&self) -> (Instant, Option<Ttl>) {
        let state = locked(&self.0.state);
        (state.hold.deadline(), state.hold.ttl())
    }

    /// Returns the data that another process needs to resume the lease.
    pub(crate) fn detached(&self) -> DetachedLease {
        let (_, ttl) = self.term();
        let ttl = ttl.expect("a guard's lease was granted with a TTL");
        DetachedLease { claim: self.claim().clone(), ttl, fencing_token: self.fencing_token() }
    }

    /// Ends the present keep-alive, and returns the number of the next one.
    pub(crate) fn next_epoch(&self) -> u64 {
        let mut state = locked(&self.0.state);
        state.epoch += 1;
        let keeper = state.epoch;
        drop(state);
        self.notify();
        keeper
    }

    /// Returns whether the keep-alive with this number is to continue.
    pub(crate) fn is_kept_by(&self, keeper: u64) -> bool {
        let now = self.shared().now();
        let state = locked(&self.0.state);
        state.epoch == keeper && !state.hold.is_lost(now)
    }

    /// Returns the outcome of a release that begins `now`.
    pub(crate) fn release_outcome(&self, now: Instant) -> ReleaseOutcome {
        let state = locked(&self.0.state);
        match state.hold.ended() {
            Some(Loss::Revoked { .. }) => ReleaseOutcome::AlreadyLost,
            // The expiry of a lease of another process is unknown here: the nodes decide.
            _ if !state.hold.remaining(now).is_zero() || state.hold.ttl().is_none() => {
                ReleaseOutcome::Released
            }
            _ => ReleaseOutcome::AlreadyExpired,
        }
    }

    /// Ends the lease: from `now` on no write begins.
    ///
    /// Returns the releases that are needed, by node.
    pub(crate) fn end(&self, now: Instant) -> Vec<PendingRelease> {
        let state = locked(&self.0.state);
        self.0.released.store(true, Ordering::Release);
        let pending_releases = state.traces.iter().map(|trace| trace.pending_release()).collect();
        self.end_as(Loss::Released, now, state);
        pending_releases
    }

    /// Returns the error of an extension that failed for a reason other than the nodes.
    pub(crate) fn not_extended(&self, kind: ErrorKind, why: impl fmt::Display) -> Error {
        let message = format!("cannot extend the lock on {}: {why}", self.claim().all_resources());
        Error::new(kind, message, NodeReports::default())
    }

    pub(crate) fn is_released(&self) -> bool {
        self.0.released.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resources", self.claim().all_resources())
            .field("token", self.claim().token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
