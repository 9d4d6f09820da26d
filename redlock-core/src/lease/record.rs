//! The state of a lock: the claim, the deadline, and the record of each node.
//!
//! [`LeaseStatus`] computes from the clock whether a lease is held, at each call. In addition, one [`LeasePeer`] for
//! each node describes the writes of this client there, and so the work of a release. A released lease never begins
//! another write: both happen under the same mutex. A write that began earlier is known to the release, even if it has
//! not been sent by then.

#[cfg(all(test, loom))]
mod loom_tests;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use event_listener::{Event, EventListener, IntoNotification};
use smallvec::SmallVec;

use crate::decide::lease_status::{Degraded, LeaseStatus};
use crate::decide::pending_release::WriteState;
use crate::inner::{Handle, Inner};
use crate::lease::guard::Guard;
use crate::lease::peers::LeasePeer;
use crate::protocol::responses::Responses;
use crate::sync::{Mutex, MutexGuard, locked};
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::detached::DetachedLease;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::mode::Mode;
use crate::types::report::{NodeReport, ReleaseOutcome};
use crate::types::ttl::Ttl;
use crate::wait::local_queue::QueuePlace;

/// The state of one lock, shared by its guard, its views and its tasks.
pub(crate) struct LeaseRecord {
    handle: Arc<Handle>,
    claim: Claim,
    mode: Mode,
    /// The start of the acquisition, before its first request.
    since: Instant,
    pub(super) state: Mutex<State>,
    /// The place in the queues of this process, while other tasks must wait behind it.
    place: Mutex<Option<QueuePlace>>,
    /// The lock that keeps readers out until this one, of a writer, has ended.
    gate: Mutex<Option<Guard>>,
    /// Notified when a write has ended, or something other than time changed the state.
    changed: Event,
}

pub(super) struct State {
    pub(super) status: LeaseStatus,
    /// `true` once releases may be sent: no write begins afterwards.
    released: bool,
    /// The number of the keep-alive that is in effect.
    epoch: u64,
    /// `true` once the loss was logged.
    loss_logged: bool,
    /// The record of each node: inline for up to five nodes, as most configurations have.
    pub(super) peers: SmallVec<[LeasePeer; 5]>,
    /// The token of a fenced lease, once a quorum has granted it.
    pub(super) fencing_token: Option<FencingToken>,
    /// The responses to the acquisition, including late replies.
    pub(super) responses: Option<Responses>,
}

/// The state of a lease at one moment.
pub(crate) struct Look {
    pub(crate) state: LeaseState,
    /// The minimum time for which the state lasts, unless it is changed.
    pub(crate) lasts: Duration,
    /// The time from the report of a loss to the deadline.
    pub(crate) margin: Duration,
}

impl LeaseRecord {
    /// Creates a lease that no node has granted yet.
    ///
    /// Its clock starts at `since`, before anything is sent.
    pub(crate) fn new(handle: Arc<Handle>, claim: Claim, mode: Mode, since: Instant) -> Arc<Self> {
        let first_write = |peer: &crate::inner::Peer| {
            let mut writes = WriteState::default();
            writes.begin(peer.node.status().connection);
            LeasePeer::new(writes)
        };
        let peers = handle.peers.iter().map(first_write).collect();
        Self::with_peers(handle, claim, mode, since, peers)
    }

    /// Creates a lease that another process wrote.
    ///
    /// It is unknown whether any node holds it.
    pub(crate) fn foreign(handle: Arc<Handle>, detached: &DetachedLease) -> Arc<Self> {
        let peers = handle.peers.iter().map(|_| LeasePeer::new(WriteState::foreign())).collect();
        let (claim, token) = (detached.claim.clone(), detached.fencing_token);
        let since = handle.now();
        let mode = if token.is_some() { Mode::Fenced } else { Mode::Exclusive };
        let lease = Self::with_peers(handle, claim, mode, since, peers);
        if let Some(token) = token {
            lease.set_fencing_token(token);
        }
        lease
    }

    fn with_peers(
        handle: Arc<Handle>,
        claim: Claim,
        mode: Mode,
        since: Instant,
        peers: SmallVec<[LeasePeer; 5]>,
    ) -> Arc<Self> {
        let state = State {
            status: LeaseStatus::none(),
            released: false,
            epoch: 0,
            loss_logged: false,
            peers,
            fencing_token: None,
            responses: None,
        };
        let (state, place, gate) = (Mutex::new(state), Mutex::default(), Mutex::default());
        Arc::new(Self { handle, claim, mode, since, state, place, gate, changed: Event::new() })
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.handle
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn mode(&self) -> &Mode {
        &self.mode
    }

    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self.mode, Mode::Fenced)
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the present state. Logs a loss when it is first seen.
    pub(crate) fn look(&self) -> Look {
        let now = self.inner().now();
        let mut state = locked(&self.state);
        let look = Look {
            state: state.status.state(now),
            lasts: state.status.ends().saturating_duration_since(now),
            margin: state.status.margin(),
        };
        if let LeaseState::Lost(loss) = &look.state {
            let by_owner = matches!(loss, Loss::Released | Loss::Detached);
            if !mem::replace(&mut state.loss_logged, true) && !by_owner {
                drop(state);
                telemetry::lost(&self.claim, loss);
            }
        }
        look
    }

    /// Returns how much longer the lock is valid.
    pub(crate) fn remaining(&self) -> Duration {
        locked(&self.state).status.remaining(self.inner().now())
    }

    /// Returns the end of the validity; `None` if the lock is no longer held.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        let now = self.inner().now();
        let state = locked(&self.state);
        (!state.status.remaining(now).is_zero()).then(|| state.status.deadline())
    }

    /// Listens for changes that time does not cause. Listen before you read the state.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Notifies listeners that the state has changed.
    ///
    /// No fence is needed, because changes are made and read under the mutex.
    pub(super) fn notify(&self) {
        self.changed.notify(usize::MAX.relaxed());
    }

    /// Records the first grant of a quorum: the lease is valid until `deadline`.
    ///
    /// Stores the responses as they are now. Nothing is notified, because nothing listens yet.
    pub(crate) fn win(&self, deadline: Instant, ttl: Ttl, now: Instant, responses: Responses) {
        let mut state = locked(&self.state);
        state.status.grant(deadline, ttl, now);
        state.responses = Some(responses);
    }

    /// Records another grant of a quorum.
    ///
    /// The lease is valid until the later of `deadline` and its present deadline. Returns `false` if it was lost
    /// before.
    pub(crate) fn hold_until(&self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        let granted = locked(&self.state).status.grant(deadline, ttl, now);
        self.notify();
        self.update_place();
        granted
    }

    /// Takes over the place in the queue: other tasks wait behind it until the end.
    pub(crate) fn keep_place(&self, place: QueuePlace) {
        drop(place.hold_until(self.claim.token(), self.term().0));
        let before = locked(&self.place).replace(place);
        drop(before);
    }

    /// Takes over the gate of a writer: readers are kept out until the end of this lease.
    pub(crate) fn keep_gate(&self, gate: Guard) {
        *locked(&self.gate) = Some(gate);
    }

    /// Records in the queues of this process that the lock is being released.
    pub(crate) fn begin_leaving_queue(&self) {
        if let Some(place) = &*locked(&self.place) {
            place.begin_release();
        }
    }

    /// Wakes the next task of this process, if it could be [given its turn](Self::hand_over) now. Returns whether there
    /// is one.
    pub(crate) fn wake_next(&self) -> bool {
        let woken = locked(&self.place).as_ref().map(QueuePlace::wake_successors);
        // Dropped after `place` is unlocked, because a task that is woken may lock it.
        woken.is_some_and(|woken| !woken.is_empty())
    }

    /// Gives the next task of this process its turn before the release is confirmed.
    pub(crate) fn hand_over(&self) {
        let woken = locked(&self.place).as_ref().map(|place| place.hand_over(self.claim.token()));
        // Dropped after `place` is unlocked, because a task that is woken may lock it.
        drop(woken);
    }

    /// Gives the next task of this process its turn, unless it has it already, and readers their chance.
    ///
    /// The release is confirmed, or cannot be.
    pub(crate) fn leave_queue(&self) {
        let (place, gate) = (locked(&self.place).take(), locked(&self.gate).take());
        drop(place);
        drop(gate);
    }

    /// Moves the end of the queue place to the present deadline.
    fn update_place(&self) {
        let woken =
            locked(&self.place).as_ref().map(|place| place.hold_until(self.claim.token(), self.term().0));
        // Dropped after `place` is unlocked, because a task that is woken may lock it.
        drop(woken);
    }

    /// Records that renewals fail or have ended.
    pub(crate) fn degrade(&self, degraded: Degraded) {
        let now = self.inner().now();
        locked(&self.state).status.degrade(degraded, now);
        self.notify();
    }

    /// Ends the lease for a reason other than time.
    pub(crate) fn lose(&self, loss: Loss) {
        let now = self.inner().now();
        let mut state = locked(&self.state);
        // The process that resumes the lease may release it, and nothing may be sent after that.
        state.released |= loss == Loss::Detached;
        self.end_as(loss, now, state);
    }

    /// Ends the lease: from `now` on no write begins.
    ///
    /// Each peer then has a release to send, except those with nothing to delete.
    pub(crate) fn end(&self, now: Instant) {
        let mut state = locked(&self.state);
        state.released = true;
        state.peers.iter_mut().for_each(LeasePeer::begin_release);
        self.end_as(Loss::Released, now, state);
    }

    fn end_as(&self, loss: Loss, now: Instant, mut state: MutexGuard<'_, State>) {
        let released = loss == Loss::Released;
        let was_granted = state.status.ended().is_none() && state.status.ttl().is_some();
        let until = now.min(state.status.deadline());
        state.status.end(loss, now);
        drop(state);
        self.notify();
        if was_granted {
            telemetry::held(until.saturating_duration_since(self.since()));
        }
        // After a release, the next task has its turn when the releases are sent, or confirmed.
        if !released {
            self.leave_queue();
        }
    }

    /// Returns why the lease has ended, if the reason is not time.
    pub(crate) fn ended(&self) -> Option<Loss> {
        locked(&self.state).status.ended().cloned()
    }

    /// Returns the time at which the lease is lost unless it is extended.
    pub(crate) fn ends(&self) -> Instant {
        locked(&self.state).status.ends()
    }

    /// Returns the deadline and the TTL.
    pub(crate) fn term(&self) -> (Instant, Option<Ttl>) {
        let state = locked(&self.state);
        (state.status.deadline(), state.status.ttl())
    }

    /// Returns the data that another process needs to resume the lease.
    pub(crate) fn detached(&self) -> DetachedLease {
        DetachedLease { claim: self.claim.clone(), ttl: self.ttl(), fencing_token: self.fencing_token() }
    }

    /// Returns the TTL of the last grant to a guard's lease.
    pub(crate) fn ttl(&self) -> Ttl {
        self.term().1.expect("a guard's lease was granted with a TTL")
    }

    /// Ends the present keep-alive, and returns the number of the next one.
    pub(crate) fn next_epoch(&self) -> u64 {
        let mut state = locked(&self.state);
        state.epoch += 1;
        let epoch = state.epoch;
        drop(state);
        self.notify();
        epoch
    }

    /// Returns whether the keep-alive with this number is to continue.
    pub(crate) fn is_kept_by(&self, epoch: u64) -> bool {
        let now = self.inner().now();
        let state = locked(&self.state);
        state.epoch == epoch && !state.status.is_lost(now)
    }

    /// Returns the outcome of a release that begins `now`.
    pub(crate) fn release_outcome(&self, now: Instant) -> ReleaseOutcome {
        let state = locked(&self.state);
        match state.status.ended() {
            Some(Loss::Revoked { .. }) => ReleaseOutcome::AlreadyLost,
            // A detachment that was not completed: the lease was valid until its deadline.
            Some(Loss::Detached) if now < state.status.deadline() => ReleaseOutcome::Released,
            // The expiry of a lease of another process is unknown here: the nodes decide.
            _ if !state.status.remaining(now).is_zero() || state.status.ttl().is_none() => {
                ReleaseOutcome::Released
            }
            _ => ReleaseOutcome::AlreadyExpired,
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        locked(&self.state).released
    }

    /// Returns the reports of all nodes about the acquisition.
    pub(crate) fn node_reports(&self) -> Vec<NodeReport> {
        let responses = locked(&self.state).responses.clone();
        responses.map(|responses| responses.reports(self.inner())).unwrap_or_default()
    }
}
