//! Acquisition: one attempt is one round with its own token.
//!
//! Several attempts with one token are unsafe. A late release of the first attempt would delete the key of the second,
//! which still counts it. A failed attempt is cleaned up on all nodes as soon as it fails. This applies to every cause:
//! denials, errors, timeouts, no validity left, or a caller that no longer waits. Each node gets its release as soon as
//! the request of its claim has ended there: nothing of it can be sent afterwards.
//!
//! A request that waits has a place among the waiters of all nodes. The releases of its failed attempt carry the place, so
//! that it keeps it. The nodes that have denied an attempt that was won are notified that the request no longer waits.
//!
//! A plain attempt is decided by the votes on its claim. A fenced attempt has its fencing token once a quorum has
//! granted. If a quorum already has that number, the attempt is decided too. Otherwise the fencing token is sent to all
//! nodes, and their votes on it decide. That restarts the TTL, but not the validity, which runs from before the first
//! send.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::decide::fencing::Numbering;
use crate::decide::grace::Grace;
use crate::decide::holder::Contention;
use crate::decide::standing::Standing;
use crate::decide::tally::{Cause as Lost, Decision, RoundKind};
use crate::decide::votes::Votes;
use crate::lease::mode::Mode;
use crate::lease::record::Record;
use crate::node::{ConnectionId, NodeError, Request};
use crate::round::failure::{Aim, Cause, Failure};
use crate::round::{Heard, Io, Round, Rules};
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

/// One attempt.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Acquire {
    rules: Rules,
    /// The lease, which nobody else knows until it is won.
    pub(super) record: Arc<Record>,
    ttl: Ttl,
    /// The votes on the claim; moved to the record of a lease that was won.
    pub(super) votes: Votes,
    /// The votes on the token, if it has to be confirmed. Boxed, because most attempts have none.
    pub(super) confirmations: Option<Box<Votes>>,
    /// The nodes that granted during the confirmation, with a counter below the token.
    pub(super) late: SmallVec<[usize; 4]>,
    pub(super) state: State,
    /// The validity that must be left when a quorum has granted.
    least_validity: Duration,
    /// The place of the request, if it waits for the lock.
    place: Option<InLine>,
}

/// The place of an attempt among the waiters, and its claims.
#[derive(Clone)]
struct InLine {
    standing: Standing,
    /// The claim of the acquisition, if the request has a place already.
    entering: Option<Claim>,
    /// The claim of the next releases, if the attempt is lost and the request keeps its place.
    staying: Option<Claim>,
    /// True once it is known whether the lost attempt was split.
    is_decided: bool,
}

/// The state of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum State {
    Open,
    Won,
    Lost {
        /// The quorum granted too late.
        too_slow: bool,
        /// No caller waits for the reason.
        is_abandoned: bool,
    },
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Lane {
    Claim,
    Confirm,
    Release,
    /// A release that keeps the place of the request.
    Stay,
    /// The end of the place of a request that has acquired the lock.
    Leave,
}

impl InLine {
    /// Sets the claim of the next releases, which keep the place.
    fn stay(&mut self, record: &Record, now: Instant) {
        let place = self.standing.place(now);
        self.staying = place.map(|place| awaited(record).with_place(place));
    }
}

/// Returns the claim on all resources on which the request has its places: a reader waits for its gate, too.
fn awaited(Record { claim, mode, .. }: &Record) -> Claim {
    match mode.gate() {
        None => claim.clone(),
        gate => claim.on(claim.all_resources().with_gate(gate)),
    }
}

impl Acquire {
    /// Creates an attempt whose clock started at `start`, before anything is sent.
    pub(crate) fn new(rules: Rules, claim: Claim, mode: Mode, ttl: Ttl, start: Instant) -> Self {
        let record = Arc::new(Record::new(claim, mode, start, rules.nodes()));
        let (votes, late) = (rules.votes(start), SmallVec::new());
        let (state, least_validity) = (State::Open, Duration::ZERO);
        Self { rules, record, ttl, votes, confirmations: None, late, state, least_validity, place: None }
    }

    /// Gives the attempt the place of its request.
    pub(crate) fn in_line(mut self, standing: Standing) -> Self {
        let entering = standing.place(self.votes.start).map(|place| self.record.claim.with_place(place));
        self.place = Some(InLine { standing, entering, staying: None, is_decided: false });
        self
    }

    /// Leaves the work a grace period before the end.
    pub(crate) fn with_grace(mut self, grace: Grace) -> Self {
        self.least_validity = grace.period() + grace.margin();
        self.record.with(|lease| lease.status.set_grace(grace.period()));
        self
    }

    /// Returns the votes that decide.
    fn deciding(&self) -> &Votes {
        self.confirmations.as_deref().unwrap_or(&self.votes)
    }

    /// Sets the token of a fenced claim once a quorum has granted, and confirms it if too few nodes have it.
    fn number(&mut self, now: Instant, io: &mut Io<Lane>) {
        if !self.record.mode.is_fenced()
            || self.record.fencing_token().is_some()
            || self.votes.decide(RoundKind::Acquire) != Decision::Won
        {
            return;
        }
        let Some(Numbering { token, settled }) = self.votes.number() else { return };
        self.record.with(|lease| {
            lease.token = Some(token);
            for node in 0..self.rules.nodes() {
                lease.note_counter(node, self.votes.outcome(node));
            }
        });
        if !settled {
            self.confirmations = Some(Box::new(self.rules.votes(now)));
            io.send_to_all(self.rules.nodes(), Lane::Confirm);
        }
    }

    /// Makes the lease held from `now` until the deadline. It keeps the votes.
    fn win(&mut self, deadline: Instant, now: Instant, io: &mut Io<Lane>) -> Arc<Record> {
        (0..self.rules.nodes())
            .filter(|node| self.may_wait_on(self.votes.outcome(*node)))
            .for_each(|node| io.send(node, Lane::Leave));
        let none = Votes::none(self.votes.start);
        let votes = mem::replace(&mut self.votes, none);
        let token = self.record.with(|lease| {
            lease.status.grant(deadline, self.ttl, now);
            lease.votes = Some(votes);
            lease.waited_in_line = self.place.as_ref().and_then(|place| place.standing.reserved_for());
            lease.token
        });
        telemetry::acquired(&self.record.claim, token);
        self.state = State::Won;
        for node in mem::take(&mut self.late) {
            match self.confirmations.as_ref().map(|votes| votes.outcome(node)) {
                Some(Outcome::Granted | Outcome::Superseded(_)) => {}
                Some(Outcome::Pending) => self.late.push(node),
                _ => io.send(node, Lane::Confirm),
            }
        }
        Arc::clone(&self.record)
    }

    /// Ends an attempt that is not won, and releases the claim where its request has ended.
    fn lose(&mut self, now: Instant, too_slow: bool, is_abandoned: bool, io: &mut Io<Lane>) {
        if self.state == State::Open {
            self.record.with(|lease| lease.end(now));
            self.state = State::Lost { too_slow, is_abandoned };
            let stays = !is_abandoned && !too_slow && self.stay(now);
            for node in (0..self.rules.nodes()).filter(|node| !self.votes.is_pending(*node)) {
                let is_denied = matches!(self.votes.outcome(node), Outcome::Denied(_));
                // The node has entered the place with the denial, unless the order changes with the split.
                let has_entered = self.has_place() && is_denied && self.votes.tally().granted() == 0;
                io.send(node, if stays && !has_entered { Lane::Stay } else { Lane::Release });
            }
        }
    }

    /// Keeps the place of the request, unless the nodes do not reply. Returns whether it does.
    ///
    /// If a node has failed, the cause is often not certain at the first denial. It is contention in most cases, and other
    /// cases end the place.
    fn stay(&mut self, now: Instant) -> bool {
        let decision = self.deciding().decide(RoundKind::Acquire);
        let may_be_denied = matches!(decision, Decision::Lost(None | Some(Lost::Denied)));
        let Some(place) = self.place.as_mut().filter(|_| may_be_denied) else { return false };
        place.standing.denied(self.record.claim.token());
        self.decide_split();
        if let Some(place) = &mut self.place {
            place.stay(&self.record, now);
        }
        true
    }

    /// Records whether the lost attempt was split, once that is known. Until then the missing replies decide.
    fn decide_split(&mut self) {
        let contention = self.deciding().contention(self.confirmations.is_some());
        // A grant of a node that the holder did not reach is no split.
        let is_split = self.votes.tally().granted() > 0 && contention != Contention::Held;
        let is_undecided = |place: &&mut InLine| !place.is_decided && contention != Contention::Open;
        if let Some(place) = self.place.as_mut().filter(is_undecided) {
            place.is_decided = true;
            place.standing.decided(is_split, self.votes.possible_holder());
        }
    }

    /// Returns whether the request has a place on every node that denies the attempt.
    fn has_place(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.entering.is_some())
    }

    /// Returns whether a node may still have the place of the request after this outcome of the attempt.
    ///
    /// A grant removes the place if the attempt carries it.
    fn may_wait_on(&self, outcome: &Outcome) -> bool {
        let was_entered = self.place.as_ref().is_some_and(|place| place.standing.left().is_some());
        let is_grant = matches!(outcome, Outcome::Granted | Outcome::GrantedFenced(_));
        was_entered && !matches!(outcome, Outcome::Pending) && !(is_grant && self.has_place())
    }

    fn heard_claim(&mut self, heard: Heard<Lane>, io: &mut Io<Lane>) {
        let Heard { node, outcome, server, at, .. } = heard;
        match self.state {
            State::Open => {
                if self.record.with(|lease| lease.end_write(node, &outcome)) {
                    self.late.push(node);
                }
                self.votes.put(node, outcome, server, at);
                self.number(at, io);
            }
            State::Won => {
                // A node that grants late with a counter below the token receives the token.
                if self.may_wait_on(&outcome) {
                    io.send(node, Lane::Leave);
                }
                let is_below = self.record.change(|lease| {
                    let is_below = lease.end_write(node, &outcome);
                    if let Some(votes) = &mut lease.votes {
                        votes.put(node, outcome, server, at);
                    }
                    is_below
                });
                if is_below {
                    io.send(node, Lane::Confirm);
                }
            }
            State::Lost { .. } => {
                self.record.with(|lease| {
                    lease.end_write(node, &outcome);
                    // A claim that was never sent gets one release, too. It is not repeated.
                    lease.peers[node].begin_release();
                });
                // The node was late. The request may still wait.
                let is_reply = !matches!(outcome, Outcome::Failed(_) | Outcome::TimedOut);
                let is_denied = matches!(outcome, Outcome::Denied(_));
                self.votes.put(node, outcome, server, at);
                self.decide_split();
                let waits = |place: &&mut InLine| {
                    is_reply && place.staying.is_some() && !place.standing.is_outdated()
                };
                let place = self.place.as_mut().filter(waits);
                let lane = if place.is_some() { Lane::Stay } else { Lane::Release };
                if let Some(place) = place {
                    place.stay(&self.record, at);
                }
                io.send(node, lane);
                // The request has left the places before. The attempt may have taken a second command on this node, and
                // has entered the place afterwards.
                let has_left = |place: &InLine| place.standing.has_left();
                if is_denied && self.has_place() && self.place.as_ref().is_some_and(has_left) {
                    io.send(node, Lane::Leave);
                }
            }
        }
    }

    fn heard_confirmation(&mut self, heard: Heard<Lane>, io: &mut Io<Lane>) {
        let Heard { node, outcome, server, at, .. } = heard;
        self.record.note_counter(node, &outcome);
        if self.state == State::Won {
            // The confirmation may have preceded the claim.
            let was_late = self.late.contains(&node);
            self.late.retain(|late| *late != node);
            if was_late && matches!(outcome, Outcome::Denied(_)) {
                io.send(node, Lane::Confirm);
            }
        }
        if let Some(votes) = &mut self.confirmations {
            votes.put(node, outcome, server, at);
        }
    }

    /// Returns the reason of the failure, once it is certain.
    fn reason(&self, too_slow: bool) -> Option<Failure> {
        let votes = self.deciding();
        let is_confirmation = self.confirmations.is_some();
        let failure = |cause| Failure::new(Aim::Lock, cause, votes.clone());
        let failure = match votes.decide(RoundKind::Acquire) {
            _ if too_slow => failure(Cause::TooSlow),
            Decision::Won | Decision::Pending | Decision::Lost(None) => return None,
            Decision::Lost(Some(Lost::NoQuorum)) => Failure::no_quorum(Aim::Lock, votes.clone()),
            Decision::Lost(Some(Lost::Denied | Lost::Superseded)) => {
                failure(match votes.contention(is_confirmation) {
                    Contention::Held if is_confirmation => Cause::ContendedBeforeConfirmation,
                    Contention::Held => Cause::Contended,
                    Contention::HeldOnOneList => Cause::ContendedOnOneList,
                    Contention::Split => Cause::Split,
                    Contention::Open => return None,
                })
            }
        };
        let place = self.place.as_ref().filter(|place| place.staying.is_some());
        Some(failure.keeps_place(place.map(|place| place.standing.clone())))
    }
}

impl Round for Acquire {
    type Tag = Lane;
    type Output = Result<Arc<Record>, Failure>;

    fn start(&mut self, io: &mut Io<Lane>) {
        io.send_to_all(self.rules.nodes(), Lane::Claim);
    }

    fn request(&self, _node: usize, lane: Lane) -> Option<Request> {
        let Record { claim, mode, .. } = &*self.record;
        let is_released = || self.state == State::Won && self.record.is_released();
        match (lane, self.state) {
            (Lane::Release, _) => Some(Request::Release(claim.clone())),
            (Lane::Stay, _) => {
                let staying = self.place.as_ref().and_then(|place| place.staying.clone());
                Some(Request::Release(staying.unwrap_or_else(|| claim.clone())))
            }
            (Lane::Leave, _) => {
                let place = self.place.as_ref()?.standing.left()?;
                Some(Request::Release(Claim::of_place(claim.all_resources().with_gate(mode.gate()), place)))
            }
            (Lane::Claim, State::Lost { is_abandoned: true, .. }) => None,
            (Lane::Claim, _) if is_released() => None,
            (Lane::Claim, _) => {
                let entering = self.place.as_ref().and_then(|place| place.entering.as_ref());
                Some(mode.acquire(entering.unwrap_or(claim).clone(), self.ttl))
            }
            (Lane::Confirm, _) => {
                let token = self.record.with(|lease| lease.token.filter(|_| lease.status.ended().is_none()));
                Some(Request::Confirm(claim.clone(), self.ttl, token?))
            }
        }
    }

    fn sent(&mut self, node: usize, lane: Lane, connection: Option<ConnectionId>) {
        if lane == Lane::Claim {
            self.record.with(|lease| lease.begin_write(node, connection));
        }
    }

    /// A confirmation that was waiting for its connection when the attempt was lost counts as failed. The reason of the
    /// loss may depend on it.
    fn unsent(&mut self, node: usize, lane: Lane, at: Instant) {
        if let (Lane::Confirm, Some(votes)) = (lane, &mut self.confirmations) {
            if votes.is_pending(node) {
                let error = NodeError::unavailable("not connected when the attempt ended");
                votes.put(node, Outcome::Failed(error), None, at);
            }
        }
    }

    fn heard(&mut self, heard: Heard<Lane>, io: &mut Io<Lane>) {
        match heard.tag {
            Lane::Claim => self.heard_claim(heard, io),
            Lane::Confirm => self.heard_confirmation(heard, io),
            Lane::Release | Lane::Stay => io.follow_up(&self.record, &heard, self.rules.node_timeout),
            Lane::Leave => {}
        }
    }

    fn result(&mut self, now: Instant, io: &mut Io<Lane>) -> Option<Self::Output> {
        if self.state == State::Open {
            let deadline = self.rules.drift.deadline(self.votes.start, self.ttl);
            match self.deciding().decide(RoundKind::Acquire) {
                Decision::Pending => return None,
                Decision::Won if now + self.least_validity < deadline => {
                    return Some(Ok(self.win(deadline, now, io)));
                }
                decision => self.lose(now, decision == Decision::Won, false, io),
            }
        }
        let State::Lost { too_slow, is_abandoned: false } = self.state else { return None };
        let failure = self.reason(too_slow)?;
        let position = || failure.position();
        telemetry::attempt_failed(&self.record.claim, failure.kind(), failure.holder(), position);
        Some(Err(failure))
    }

    fn abandon(&mut self, now: Instant, io: &mut Io<Lane>) {
        telemetry::attempt_canceled(&self.record.claim);
        self.lose(now, false, true, io);
        if let State::Lost { is_abandoned, .. } = &mut self.state {
            *is_abandoned = true;
        }
    }

    fn interrupt(&mut self, now: Instant, io: &mut Io<Lane>) {
        self.lose(now, false, true, io);
        if self.state != State::Won {
            io.leave_all(&self.record, now);
        }
    }

    /// Returns `false` once the lease is released.
    ///
    /// Cleanup assumes that the second of two releases a node timeout apart follows every earlier write. A request that
    /// was not polled for long would be sent after it.
    fn may_poll_late(&self) -> bool {
        self.state != State::Won || !self.record.is_released()
    }
}
