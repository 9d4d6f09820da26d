//! The state of one lock.

#[cfg(all(test, loom))]
mod loom_tests;

use std::mem;
use std::time::Duration;

use event_listener::{Event, EventListener, IntoNotification};
use smallvec::SmallVec;

use crate::decide::lease_status::{Degraded, LeaseStatus};
use crate::decide::pending_release::{PendingRelease, WriteState};
use crate::decide::votes::Votes;
use crate::lease::mode::Mode;
use crate::lease::peer::LeasePeer;
use crate::node::ConnectionId;
use crate::queue::local_queue::{QueuePlace, Woken};
use crate::sync::{Mutex, MutexGuard, locked};
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::detached::DetachedLease;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::place::Place;
use crate::types::report::{Outcome, ReleaseOutcome};
use crate::types::token::{Fingerprint, Token};
use crate::types::ttl::Ttl;

/// The state of one lock, shared by its guard, its views, its rounds and its tasks.
pub(crate) struct Record {
    pub(crate) claim: Claim,
    pub(crate) mode: Mode,
    /// The start of the acquisition, before its first request.
    pub(crate) since: Instant,
    state: Mutex<State>,
    attached: Mutex<Attached>,
    /// Notified when a write has ended, or something other than time changed the state.
    changed: Event,
}

/// The facts about a lock.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct State {
    pub(crate) status: LeaseStatus,
    pub(crate) phase: Phase,
    /// The number of the keep-alive that is in effect.
    epoch: u64,
    /// `true` once the loss was logged.
    loss_logged: bool,
    /// The record of each node: inline for up to five nodes, as most configurations have.
    pub(crate) peers: SmallVec<[LeasePeer; 5]>,
    /// The token of a fenced lease, once a quorum has granted it.
    pub(crate) token: Option<FencingToken>,
    /// The votes on the acquisition, including late replies.
    pub(crate) votes: Option<Votes>,
    /// The time of a reservation, if the request waited among those of other processes.
    pub(crate) waited_in_line: Option<Duration>,
}

/// The requests that may be sent for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Phase {
    /// Everything except releases.
    Open,
    /// No write that creates a key, no extension and no release.
    ///
    /// The process that resumes the lease may release it, and nothing of this lease may arrive after that.
    Detached,
    /// Releases, and no write that creates a key.
    Released,
}

/// The last step of a keep-alive that renews its lease no more.
pub(crate) enum LastStep {
    /// The validity has ended, and the lease has ended for this release.
    Release(Ending),
    /// Other clients are excluded until this time.
    Wait(Instant),
    /// The owner, or a later keep-alive, has taken over.
    Nothing,
}

/// The facts about a lease just before it ends for its release.
pub(crate) struct Before {
    status: LeaseStatus,
    /// The time of a reservation, if the request waited among those of other processes, and the lease has not ended for a
    /// release before.
    reserved_for: Option<Duration>,
}

/// The end of a lease by its release.
pub(crate) struct Ending {
    /// The outcome of the release, as far as it is known here.
    pub(crate) outcome: ReleaseOutcome,
    /// The claim of the releases.
    ///
    /// If other processes want the lock too, it has the place of the next task of this process. Thus the nodes know of that
    /// task when they choose the next holder.
    pub(crate) claim: Claim,
    /// True if other processes get their chance before the next task of this process.
    pub(crate) is_open_turn: bool,
}

/// What ends together with the lock.
#[derive(Default)]
struct Attached {
    /// The place in the queues of this process, while other tasks must wait behind it.
    place: Option<QueuePlace>,
    /// The lock that keeps readers out until this one, of a writer, has ended.
    gate: Option<Box<dyn Send>>,
}

/// The state of a lock at one moment.
pub(crate) struct Look {
    pub(crate) state: LeaseState,
    /// Whether the work is told to stop.
    pub(crate) is_ending: bool,
    /// The minimum time for which both last, unless they are changed.
    pub(crate) lasts: Duration,
    /// The time from the report of a loss to the deadline.
    pub(crate) margin: Duration,
}

impl State {
    fn new(nodes: usize) -> Self {
        Self {
            status: LeaseStatus::none(),
            phase: Phase::Open,
            epoch: 0,
            loss_logged: false,
            peers: SmallVec::from_elem(LeasePeer::default(), nodes),
            token: None,
            votes: None,
            waited_in_line: None,
        }
    }

    /// Records that a write that can create the key may be carried out from now on.
    pub(crate) fn begin_write(&mut self, node: usize, connection: Option<ConnectionId>) {
        self.peers[node].writes.begin(connection);
    }

    /// Records the outcome of such a write, or that it will stay unknown.
    ///
    /// Returns whether the node must receive the token in order to count.
    pub(crate) fn end_write(&mut self, node: usize, outcome: &Outcome) -> bool {
        self.peers[node].end_write(outcome);
        self.note_counter(node, outcome)
    }

    /// Records the counter in a reply, if there is one.
    ///
    /// Returns whether the node must receive the token in order to count.
    pub(crate) fn note_counter(&mut self, node: usize, outcome: &Outcome) -> bool {
        let (Outcome::GrantedFenced(counter) | Outcome::Superseded(counter)) = outcome else { return false };
        self.token.is_some_and(|token| self.peers[node].note_counter(*counter, token))
    }

    /// Ends the lease: from now on no write begins, and each node has a release to send.
    pub(crate) fn end(&mut self, now: Instant) -> Before {
        let is_first = mem::replace(&mut self.phase, Phase::Released) != Phase::Released;
        self.peers.iter_mut().for_each(LeasePeer::begin_release);
        Before {
            status: self.status.end(Loss::Released, now),
            reserved_for: self.waited_in_line.filter(|_| is_first),
        }
    }

    /// Returns whether no write may begin any more.
    pub(crate) fn is_released(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Takes the unconfirmed release on a node, in order to follow it up.
    pub(crate) fn take_release(&mut self, node: usize) -> Option<PendingRelease> {
        self.peers[node].release.take()
    }
}

impl Record {
    /// Creates a lease that no node has granted yet. Its clock starts at `since`, before anything is sent.
    pub(crate) fn new(claim: Claim, mode: Mode, since: Instant, nodes: usize) -> Self {
        let (state, attached) = (Mutex::new(State::new(nodes)), Mutex::default());
        Self { claim, mode, since, state, attached, changed: Event::new() }
    }

    /// Creates a lease that another process wrote. It is unknown whether any node holds it.
    pub(crate) fn foreign(nodes: usize, detached: &DetachedLease, since: Instant) -> Self {
        let token = detached.fencing_token;
        let mode = if token.is_some() { Mode::Fenced } else { Mode::Exclusive };
        let record = Self::new(detached.claim.clone(), mode, since, nodes);
        record.with(|state| {
            state.peers.iter_mut().for_each(|peer| peer.writes = WriteState::foreign());
            state.token = token;
        });
        record
    }

    /// Reads or changes the facts. Listeners are not notified.
    pub(crate) fn with<T>(&self, access: impl FnOnce(&mut State) -> T) -> T {
        access(&mut self.state())
    }

    /// Changes the facts, and notifies listeners.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = self.with(change);
        self.notify();
        changed
    }

    /// Listens for changes that time does not cause. Listen before you read the state.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Returns the present state. Logs a loss when it is first seen.
    pub(crate) fn look(&self, now: Instant) -> Look {
        let look = self.with(|State { status, .. }| {
            let is_ending = status.is_ending(now);
            let change = if is_ending { status.ends() } else { status.ending_at() };
            Look {
                state: status.state(now),
                is_ending,
                lasts: change.saturating_duration_since(now),
                margin: status.margin(),
            }
        });
        if let LeaseState::Lost(loss) = &look.state {
            self.log_loss(loss);
        }
        look
    }

    /// Logs the loss of the lease, once. An end by its owner is no loss.
    pub(crate) fn log_loss(&self, loss: &Loss) {
        let by_owner = matches!(loss, Loss::Released | Loss::Detached);
        if !by_owner && !self.with(|state| mem::replace(&mut state.loss_logged, true)) {
            telemetry::lost(&self.claim, loss);
        }
    }

    /// Returns how much longer the lock is valid.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.with(|state| state.status.remaining(now))
    }

    /// Returns why the lease has ended, if the reason is not time.
    pub(crate) fn ended(&self) -> Option<Loss> {
        self.with(|state| state.status.ended().cloned())
    }

    /// Returns the time at which the lease is lost unless it is extended.
    #[cfg(test)]
    pub(crate) fn ends(&self) -> Instant {
        self.with(|state| state.status.ends())
    }

    /// Returns the time at which the work is told to stop, and renewals end, unless the lease is extended.
    pub(crate) fn ending_at(&self) -> Instant {
        self.with(|state| state.status.ending_at())
    }

    /// Returns the deadline and the TTL.
    pub(crate) fn term(&self) -> (Instant, Option<Ttl>) {
        self.with(|state| (state.status.deadline(), state.status.ttl()))
    }

    /// Returns the TTL of the last grant to a guard's lease.
    pub(crate) fn ttl(&self) -> Ttl {
        self.term().1.expect("a guard's lease was granted with a TTL")
    }

    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.with(|state| state.token)
    }

    pub(crate) fn is_released(&self) -> bool {
        self.with(|state| state.is_released())
    }

    /// Returns the data that another process needs to resume the lease.
    pub(crate) fn detached(&self) -> DetachedLease {
        DetachedLease { claim: self.claim.clone(), ttl: self.ttl(), fencing_token: self.fencing_token() }
    }

    /// Records the counter in a reply, if there is one.
    pub(crate) fn note_counter(&self, node: usize, outcome: &Outcome) {
        if let Outcome::GrantedFenced(_) | Outcome::Superseded(_) = outcome {
            self.with(|state| state.note_counter(node, outcome));
        }
    }

    /// Records another grant of a quorum.
    ///
    /// The lease is valid until the later of `deadline` and its present deadline. Returns `false` if it was lost
    /// before.
    pub(crate) fn hold_until(&self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        let granted = self.change(|state| state.status.grant(deadline, ttl, now));
        self.with_place(|place| place.hold_until(self.claim.token(), self.term().0));
        granted
    }

    /// Records that renewals fail or have ended.
    pub(crate) fn degrade(&self, degraded: Degraded, now: Instant) {
        self.change(|state| state.status.degrade(degraded, now));
    }

    /// Ends the lease because its keys are gone.
    pub(crate) fn revoke(&self, holder: Option<Fingerprint>, now: Instant) {
        let before = self.with(|state| state.status.end(Loss::Revoked { holder }, now));
        self.has_ended(&before, now);
        self.leave_queue();
    }

    /// Ends the lease here, so that it can be resumed elsewhere.
    ///
    /// Returns `false` if its keys are being deleted, because it was lost.
    pub(crate) fn detach(&self, now: Instant) -> bool {
        let (before, is_complete) = self.with(|state| {
            let is_complete = state.phase != Phase::Released;
            if is_complete {
                state.phase = Phase::Detached;
            }
            (state.status.end(Loss::Detached, now), is_complete)
        });
        self.has_ended(&before, now);
        self.leave_queue();
        is_complete
    }

    /// Ends the lease for its release.
    ///
    /// The next task of this process has its turn when the releases are sent, or confirmed.
    pub(crate) fn end(&self, now: Instant) -> Ending {
        let before = self.with(|state| state.end(now));
        self.ending(before, now)
    }

    /// Ends the lease for its release, if its deadline has passed and the keep-alive with this number is in effect.
    ///
    /// This is one step, because the owner may release, detach or forget the lease at the same time.
    pub(crate) fn end_if_over(&self, epoch: u64, now: Instant) -> LastStep {
        let ended = self.with(|state| {
            if state.epoch != epoch || state.is_released() {
                return Err(LastStep::Nothing);
            }
            // A program may rely on the deadline that it has read, even if the lease was revoked meanwhile.
            let deadline = state.status.deadline();
            if now < deadline {
                return Err(LastStep::Wait(deadline));
            }
            Ok(state.end(now))
        });
        match ended {
            Ok(before) => LastStep::Release(self.ending(before, now)),
            Err(step) => step,
        }
    }

    /// Completes an end of the lease for its release.
    fn ending(&self, before: Before, now: Instant) -> Ending {
        let Before { status: before, reserved_for } = before;
        self.has_ended(&before, now);
        let outcome = match before.ended() {
            Some(Loss::Revoked { .. }) => ReleaseOutcome::AlreadyLost,
            // A detachment that was not completed: the lease was valid until its deadline.
            Some(Loss::Detached) if now < before.deadline() => ReleaseOutcome::Released,
            // The expiry of a lease of another process is unknown here: the nodes decide.
            _ if !before.remaining(now).is_zero() || before.ttl().is_none() => ReleaseOutcome::Released,
            _ => ReleaseOutcome::AlreadyExpired,
        };
        let is_open_turn = reserved_for.is_some() && self.claim.token().is_of_open_turn();
        let mut next = None;
        if let Some(place) = &locked(&self.attached).place {
            place.begin_release();
            // The next task waits for the first of several resources, and not for all of them.
            let is_single = self.claim.resources().len() == 1;
            next = reserved_for.filter(|_| is_single).and_then(|reserved_for| {
                let id = Token::of_place(self.claim.token());
                let waited = now.saturating_duration_since(place.enter_next(&id)?);
                // In an open turn, the next task enters the place with its attempt.
                (!is_open_turn).then(|| Place::new(id, waited, reserved_for))
            });
        }
        let claim = next.map_or_else(|| self.claim.clone(), |next| self.claim.with_place(next));
        Ending { outcome, claim, is_open_turn }
    }

    fn has_ended(&self, before: &LeaseStatus, now: Instant) {
        self.notify();
        if before.ended().is_none() && before.ttl().is_some() {
            telemetry::held(&self.claim, now.min(before.deadline()).saturating_duration_since(self.since));
            // The owner may not have looked at the lease since it expired.
            if before.remaining(now).is_zero() {
                self.look(now);
            }
        }
    }

    /// Takes over the place in the queue: other tasks wait behind it until the end.
    pub(crate) fn keep_place(&self, place: QueuePlace) {
        drop(place.hold_until(self.claim.token(), self.term().0));
        let before = locked(&self.attached).place.replace(place);
        drop(before);
    }

    /// Takes over the gate of a writer: readers are kept out until the end of this lease.
    pub(crate) fn keep_gate(&self, gate: impl Send + 'static) {
        locked(&self.attached).gate = Some(Box::new(gate));
    }

    /// Wakes the next task of this process, if it could be [given its turn](Self::hand_over) now. Returns whether there
    /// is one.
    pub(crate) fn wake_next(&self) -> bool {
        self.with_place(QueuePlace::wake_successors)
    }

    /// Gives the next task of this process its turn before the release is confirmed.
    pub(crate) fn hand_over(&self) {
        self.with_place(|place| place.hand_over(self.claim.token()));
    }

    /// Gives the next task of this process its turn, unless it has it already, and readers their chance.
    ///
    /// The release is confirmed, or cannot be.
    pub(crate) fn leave_queue(&self) {
        let attached = mem::take(&mut *locked(&self.attached));
        drop(attached);
    }

    /// Returns whether any task was woken.
    fn with_place(&self, change: impl FnOnce(&QueuePlace) -> Woken) -> bool {
        let woken = locked(&self.attached).place.as_ref().map(change);
        // Dropped after `attached` is unlocked, because a task that is woken may lock it.
        woken.is_some_and(|woken| !woken.is_empty())
    }

    /// Excludes the lease from the reported losses: it is not a lock that the user has requested.
    pub(crate) fn report_no_loss(&self) {
        self.with(|state| state.loss_logged = true);
    }

    /// Ends the present keep-alive, and returns the number of the next one.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.change(|state| {
            state.epoch += 1;
            state.epoch
        })
    }

    /// Returns whether the keep-alive with this number is to continue.
    pub(crate) fn is_kept_by(&self, epoch: u64, now: Instant) -> bool {
        self.with(|state| state.epoch == epoch && !state.status.is_ending(now))
    }

    /// Returns whether a write may still be sent.
    pub(crate) fn has_write_in_flight(&self) -> bool {
        self.with(|state| state.peers.iter().any(|peer| peer.writes.is_in_flight()))
    }

    /// Returns the number of nodes on which the lock can still be extended.
    pub(crate) fn extendable_nodes(&self) -> usize {
        self.with(|state| state.peers.iter().filter(|peer| !peer.superseded).count())
    }

    /// Notifies listeners that the state has changed.
    ///
    /// No fence is needed, because changes are made and read under the mutex. An event that nobody has listened to
    /// would allocate.
    fn notify(&self) {
        if self.changed.total_listeners() > 0 {
            self.changed.notify(usize::MAX.relaxed());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}
