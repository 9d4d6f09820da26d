//! What a holder has: the claim, until when it is valid, and what may lie on the nodes.
//!
//! Whether a lease is held is computed from the clock at each call, by [`Hold`]. Beside it stands, for each node, the
//! [`Trace`] of our writes there, which says what a release must achieve. A lease that was released never begins another
//! write: both happen under the same mutex, and a write that had begun before is known to the release, whether or not it
//! has been sent by then.

mod nodes;

use std::fmt;
use std::future::Future;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use event_listener::{Event, EventListener, IntoNotification};
use smallvec::{SmallVec, smallvec};

use crate::acquire::node_timeout;
use crate::claim::Claim;
use crate::clock::Instant;
use crate::decide::fencing::Fence;
use crate::decide::hold::{Doubt, Hold, LeaseState, Loss};
use crate::decide::pursuit::{Pursuit, Trace};
use crate::detached::DetachedLease;
use crate::error::{Error, ErrorKind};
use crate::extend::{self, Extension};
use crate::fencing::FencingToken;
use crate::observe;
use crate::release::Released;
use crate::report::{NodeReport, NodeReports};
use crate::resource::Resource;
use crate::round::Ballots;
use crate::shared::{Presence, Shared, locked};
use crate::state::UntilState;
use crate::token::Fingerprint;
use crate::ttl::Ttl;
use crate::wait::Place;

/// A view of a held lock: what it is on, how long it is valid, whether it still is. Extends it, never releases it.
///
/// Clones are views of the same lease; dropping one does nothing. It does not keep the lock: when the [`Guard`] that
/// owns the lock is released or dropped, or the validity has passed, every view says that it is not held.
///
/// [`Guard`]: crate::Guard
#[derive(Clone)]
pub struct Lease(Arc<Holding>);

struct Holding {
    presence: Arc<Presence>,
    claim: Claim,
    /// Whether it has a fencing token, or is to get one.
    fenced: bool,
    /// Before the first request of its acquisition.
    since: Instant,
    state: Mutex<State>,
    /// Whether releases are being sent. Written under the mutex of the state, so that no write begins behind it.
    released: AtomicBool,
    /// The place in this process's queues, as long as others are to wait behind it.
    place: Mutex<Option<Place>>,
    /// Fires when the state has changed for another reason than the time, or a write has ended.
    changed: Event,
}

struct State {
    hold: Hold,
    /// Which keep-alive is the one in force, by number.
    keeper: u64,
    /// Whether the loss has been told to the log.
    loss_told: bool,
    /// In place for as many nodes as most have.
    traces: SmallVec<[Trace; 5]>,
    /// Of a fenced lease, once a quorum has granted it.
    fence: Option<Fence>,
    /// The votes of the acquisition, stragglers included.
    ballots: Option<Ballots>,
}

/// How a lease stands, at one moment.
pub(crate) struct Look {
    pub(crate) state: LeaseState,
    /// How long the state lasts at least, unless it is changed.
    pub(crate) lasts: Duration,
    /// How early the loss is told.
    pub(crate) margin: Duration,
}

impl Lease {
    /// What is locked: at least one resource, sorted.
    pub fn resources(&self) -> &[Resource] {
        self.0.claim.resources()
    }

    /// How much longer the lock may be relied on, by the clock, as of now. Zero once it may not: the validity has
    /// passed, the lock was released, or a quorum said that it is not ours any more.
    ///
    /// Time spent suspended counts, so this is right even if the machine has just woken up. A pause by a hypervisor may
    /// not count: see [`boot_time`](crate::boot_time).
    pub fn remaining(&self) -> Duration {
        locked(&self.0.state).hold.remaining(self.shared().now())
    }

    /// Whether the lock may be relied on at this moment: whether [`remaining`](Lease::remaining) is more than zero.
    ///
    /// The answer ages: by the time it is used the validity may have passed. Before an effect that must not happen
    /// twice, compare `remaining` with the time that the effect takes.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How the lock stands, by the clock, as of now.
    ///
    /// A loss is told before it is one: in the last fiftieth of the TTL (1 ms at least, 500 ms at most) the state is
    /// [`Lost`](LeaseState::Lost) already, while [`is_held`](Lease::is_held) is still true and others are kept out. That
    /// is the time to stop in.
    pub fn state(&self) -> LeaseState {
        self.look().state
    }

    /// Waits until the state is another one than it is when this is called, and answers the new one. A loss is final:
    /// then this answers at once.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time. The future owns what it needs.
    pub fn changed(&self) -> impl Future<Output = LeaseState> + Send + 'static + use<> {
        let before = self.state();
        UntilState::new(self.clone(), move |state| match state {
            LeaseState::Lost(_) => Some(state),
            state if state != before => Some(state),
            _ => None,
        })
    }

    /// Waits until the lock is lost, and answers why. That is told before the validity has passed (see
    /// [`state`](Lease::state)), whether nodes answer or not. Where nothing could run for a while (the machine was
    /// suspended, the runtime was starved), this is ready at the next poll, and otherwise within a second.
    ///
    /// The owner's release ends the wait too, with [`Loss::Released`]; so nobody waits for ever.
    ///
    /// It reads the clock every fiftieth of the TTL. That is linear in the number of waits: 20,000 of them with a TTL of 10 s
    /// take about a tenth of a CPU core.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time. The future owns what it needs.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        UntilState::new(self.clone(), |state| match state {
            LeaseState::Lost(loss) => Some(loss),
            _ => None,
        })
    }

    /// What tells this lock's token from others in logs and errors. The token itself is a secret.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.claim.token().fingerprint()
    }

    /// The number that a [fenced](crate::LockRequest::fenced) lock has: greater than that of every earlier fenced lock on
    /// any of its resources. `None` where the lock was not asked for with one. It does not change while the lock is held.
    ///
    /// Send it along with every write to what the lock protects, and have that refuse smaller numbers than it has seen.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        locked(&self.0.state).fence.as_ref().map(Fence::token)
    }

    /// On how many nodes the lock can still be extended, as far as is known: all of them, and of a fenced lock those where no
    /// newer claim has counted beyond its [token](Lease::fencing_token). When they are fewer than a quorum, extensions
    /// fail with [`Superseded`](ErrorKind::Superseded), and the lock ends with its validity.
    ///
    /// It happens where nodes have lost the lock, or never had it, and others try to get it there meanwhile.
    pub fn may_count(&self) -> usize {
        locked(&self.0.state).fence.as_ref().map_or(self.shared().members.len(), Fence::may_count)
    }

    /// What every node said when the lock was acquired, in the order in which the nodes were configured. Nodes that had
    /// not answered when a quorum had granted are pending, until they answer.
    pub fn votes(&self) -> Vec<NodeReport> {
        let ballots = locked(&self.0.state).ballots.clone();
        ballots.map(|ballots| ballots.reports(self.shared())).unwrap_or_default()
    }

    /// Makes the lock valid for `ttl` (10 ms to 24 days) from now, less drift, if a quorum of all nodes still holds it, and of
    /// a fenced lock counts for it. Never shortens it: the deadline afterwards is the later of the old and the new.
    ///
    /// Returns at the first moment when the outcome is certain, at most after the node timeout, while this process keeps up. Afterwards, nodes
    /// that have lost the lock's keys, or never had them, get them back in the background.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a TTL out of bounds; [`Expired`](ErrorKind::Expired) when the lease was lost
    /// with time, since a loss is final (see [`state`](Lease::state)); [`Lost`](ErrorKind::Lost) when a quorum does not
    /// hold the lock, or it was released or detached; [`Superseded`](ErrorKind::Superseded) when a fenced lock can never be extended again
    /// (see [`may_count`](Lease::may_count)); [`NoQuorum`](ErrorKind::NoQuorum) when too few nodes answered. A failed
    /// extension takes nothing away: the old deadline stands, unless a quorum says that the lock is not ours.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll, the extension goes on in the background, and may or may not take effect.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        let ttl = Ttl::new(ttl)?;
        let limit = node_timeout(self.shared().settings.node_timeout, ttl);
        extend::extend(self, Extension { ttl, limit, not_beyond: None }).await
    }

    /// A lease that no node has granted yet. Its clock has started at `since`: nothing was sent before.
    pub(crate) fn new(presence: Arc<Presence>, claim: Claim, fenced: bool, since: Instant) -> Self {
        let mut traces: SmallVec<[Trace; 5]> = smallvec![Trace::default(); presence.members.len()];
        for (trace, member) in traces.iter_mut().zip(&presence.members) {
            trace.begin(member.node.connection());
        }
        Self::with_traces(presence, claim, fenced, since, traces)
    }

    /// A lease that someone else wrote. Whether any node has it is not known.
    pub(crate) fn foreign(presence: Arc<Presence>, detached: &DetachedLease) -> Self {
        let traces = smallvec![Trace::foreign(); presence.members.len()];
        let (claim, token) = (detached.claim.clone(), detached.fencing_token);
        let since = presence.now();
        let lease = Self::with_traces(presence, claim, token.is_some(), since, traces);
        if let Some(token) = token {
            lease.fence(token);
        }
        lease
    }

    fn with_traces(
        presence: Arc<Presence>,
        claim: Claim,
        fenced: bool,
        since: Instant,
        traces: SmallVec<[Trace; 5]>,
    ) -> Self {
        let state =
            State { hold: Hold::none(), keeper: 0, loss_told: false, traces, fence: None, ballots: None };
        let (state, released, place) = (Mutex::new(state), AtomicBool::new(false), Mutex::default());
        let changed = Event::new();
        Self(Arc::new(Holding { presence, claim, fenced, since, state, released, place, changed }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.presence
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.0.claim
    }

    /// How the lease stands now, told to the log when it is seen to be lost.
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
                observe::lost(self, loss);
            }
        }
        look
    }

    /// Listens for changes that are not made by time. Listen first, then look.
    pub(crate) fn listen(&self) -> EventListener {
        self.0.changed.listen()
    }

    /// Tells who listens that the state has changed. Without a fence, because changes are made, and looked at, under the mutex.
    fn notify(&self) {
        self.0.changed.notify(usize::MAX.relaxed());
    }

    /// A quorum granted again: the lease is valid until `deadline`, or until the deadline it has, whichever is later. `false`
    /// when it was lost before.
    pub(crate) fn hold_until(&self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        let granted = locked(&self.0.state).hold.grant(deadline, ttl, now);
        self.notify();
        self.tell_queue();
        granted
    }

    /// Takes over the place that the lock was waited for in: others wait behind it until the lease is over.
    pub(crate) fn keep_place(&self, place: Place) {
        drop(place.hold_until(self.term().0));
        let before = locked(&self.0.place).replace(place);
        drop(before);
    }

    /// Lets the next one of this process have its turn.
    pub(crate) fn leave_queue(&self) {
        let place = locked(&self.0.place).take();
        drop(place);
    }

    fn tell_queue(&self) {
        let woken = locked(&self.0.place).as_ref().map(|place| place.hold_until(self.term().0));
        // Behind the lock of the place, which a task that is woken may take.
        drop(woken);
    }

    /// Renewals fail, or have ended.
    pub(crate) fn doubt(&self, doubt: Doubt) {
        let now = self.shared().now();
        locked(&self.0.state).hold.doubt(doubt, now);
        self.notify();
    }

    /// It is over, for another reason than the time.
    pub(crate) fn lose(&self, loss: Loss) {
        let now = self.shared().now();
        if loss == Loss::Detached {
            // Whoever resumes it may release it: nothing is sent behind that.
            self.0.released.store(true, Ordering::Release);
        }
        self.end_as(loss, now, locked(&self.0.state));
    }

    fn end_as(&self, loss: Loss, now: Instant, mut state: MutexGuard<'_, State>) {
        let released = loss == Loss::Released;
        let was_granted = state.hold.over().is_none() && state.hold.ttl().is_some();
        let until = now.min(state.hold.deadline());
        state.hold.end(loss, now);
        drop(state);
        self.notify();
        if was_granted {
            observe::held(until.saturating_duration_since(self.since()));
        }
        // Behind a release the next one has its turn when the nodes have confirmed it.
        if !released {
            self.leave_queue();
        }
    }

    /// Why it is over, if it is for another reason than the time.
    pub(crate) fn over(&self) -> Option<Loss> {
        locked(&self.0.state).hold.over().cloned()
    }

    pub(crate) fn since(&self) -> Instant {
        self.0.since
    }

    /// When it is lost unless it is extended.
    pub(crate) fn ends(&self) -> Instant {
        locked(&self.0.state).hold.ends()
    }

    /// Until when it is valid, and with which TTL.
    pub(crate) fn term(&self) -> (Instant, Option<Ttl>) {
        let state = locked(&self.0.state);
        (state.hold.deadline(), state.hold.ttl())
    }

    /// What another process needs of it.
    pub(crate) fn detached(&self) -> DetachedLease {
        let (_, ttl) = self.term();
        let ttl = ttl.expect("a guard's lease was granted with a TTL");
        DetachedLease { claim: self.claim().clone(), ttl, fencing_token: self.fencing_token() }
    }

    /// From now on the keep-alive with this number is the one in force, and no other.
    pub(crate) fn next_keeper(&self) -> u64 {
        let mut state = locked(&self.0.state);
        state.keeper += 1;
        let keeper = state.keeper;
        drop(state);
        self.notify();
        keeper
    }

    /// Whether a keep-alive is to go on.
    pub(crate) fn is_kept_by(&self, keeper: u64) -> bool {
        let now = self.shared().now();
        let state = locked(&self.0.state);
        state.keeper == keeper && !state.hold.is_lost(now)
    }

    /// What a release would say that is asked for `now`.
    pub(crate) fn standing(&self, now: Instant) -> Released {
        let state = locked(&self.0.state);
        match state.hold.over() {
            Some(Loss::NotOurs { .. }) => Released::Lost,
            // Of someone else's lease it is not known when it expires: the nodes say whether it has.
            _ if !state.hold.remaining(now).is_zero() || state.hold.ttl().is_none() => Released::Held,
            _ => Released::Expired,
        }
    }

    /// Ends the lease: from `now` on no write begins. Answers what releases must achieve that are sent then.
    pub(crate) fn end(&self, now: Instant) -> Vec<Pursuit> {
        let state = locked(&self.0.state);
        self.0.released.store(true, Ordering::Release);
        let pursuits = state.traces.iter().map(|trace| trace.pursue()).collect();
        self.end_as(Loss::Released, now, state);
        pursuits
    }

    /// The error of an extension that failed for a reason that is not the nodes'.
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
