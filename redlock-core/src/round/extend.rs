//! Extension: renews the TTL of a claim on a quorum of all nodes.
//!
//! A quorum is a majority of all nodes, even if fewer granted the acquisition. A node that has lost the claim, or never
//! had it, is refilled only after a quorum has confirmed the claim. It does not count in this round, but from the next
//! one on.
//!
//! A failed extension does not end the lease, unless a quorum reports that the claim is gone. It never shortens a TTL.
//! An extension ends with its lease: nothing of it is sent after a release.

use std::sync::Arc;
use std::time::Duration;

use event_listener::EventListener;

use crate::decide::lease_status::Degraded;
use crate::decide::tally::{Cause as Lost, Decision, RoundKind};
use crate::decide::votes::Votes;
use crate::lease::mode::Mode;
use crate::lease::record::Record;
use crate::node::{ConnectionId, Request};
use crate::round::engine::{Run, run};
use crate::round::failure::{Aim, Failure};
use crate::round::nodes::Nodes;
use crate::round::{Heard, Io, Round, Rules};
use crate::telemetry;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::report::Outcome;
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// The settings of one extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) ttl: Ttl,
    /// The time limit for one node.
    pub(crate) limit: Duration,
    /// The latest deadline that the extension may set.
    pub(crate) not_beyond: Option<Instant>,
}

/// One extension. It also serves a process that resumes the lease of another one.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Extend {
    rules: Rules,
    pub(super) record: Arc<Record>,
    extension: Extension,
    pub(super) votes: Votes,
    /// True once a quorum has extended, so that nodes may be refilled.
    pub(super) extended: bool,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Lane {
    Extend,
    Refill,
}

/// Prepares an extension, which counts as outstanding work from now on.
pub(crate) fn begin(nodes: &Arc<Nodes>, record: &Arc<Record>, extension: Extension) -> Run<Extend> {
    let (start, span) = (nodes.now(), telemetry::extension(&record.claim));
    let round = Extend::new(nodes.rules, Arc::clone(record), extension, start);
    run(nodes, round, start, extension.limit, span)
}

impl Extend {
    pub(super) fn new(rules: Rules, record: Arc<Record>, extension: Extension, start: Instant) -> Self {
        Self { rules, record, extension, votes: rules.votes(start), extended: false }
    }

    /// Refills a node that has lost the claim.
    ///
    /// A node in quarantine is refilled too, so that it counts again as soon as it is admitted.
    fn refill(&self, node: usize, io: &mut Io<Lane>) {
        match self.votes.outcome(node) {
            Outcome::Denied(_) | Outcome::Quarantined { granted: false, .. } => io.send(node, Lane::Refill),
            _ => {}
        }
    }

    /// Returns the failure of an extension whose lease has ended.
    fn ended(&self, now: Instant) -> Failure {
        let loss = match self.record.look(now).state {
            LeaseState::Lost(loss) => loss,
            LeaseState::Held | LeaseState::AtRisk => Loss::Expired,
        };
        Failure::ended(Aim::Extend, loss, self.votes.clone())
    }

    /// Applies the decision to the lease, once it is certain.
    fn apply(&self, now: Instant) -> Option<Result<(), Failure>> {
        let record = &self.record;
        let failed = |cause| Some(Err(Failure::of_lease(Aim::Extend, cause, self.votes.clone())));
        match self.votes.decide(RoundKind::Extend) {
            Decision::Pending | Decision::Lost(None) => None,
            Decision::Won => {
                let Extension { ttl, not_beyond, .. } = self.extension;
                let deadline = self.rules.drift.deadline(self.votes.start, ttl);
                let deadline = not_beyond.map_or(deadline, |limit| deadline.min(limit));
                // Checked after the wait: a lease that was lost meanwhile is not revived.
                if record.hold_until(deadline, ttl, now) { Some(Ok(())) } else { Some(Err(self.ended(now))) }
            }
            Decision::Lost(Some(cause @ Lost::Denied)) => {
                let holder = self.votes.holder().map(Token::fingerprint);
                record.revoke(holder, now);
                let failure = Failure::of_lease(Aim::Extend, cause, self.votes.clone());
                Some(Err(match record.look(now).state {
                    LeaseState::Lost(loss) => failure.with_loss(loss),
                    LeaseState::Held | LeaseState::AtRisk => failure,
                }))
            }
            Decision::Lost(Some(cause @ Lost::Superseded)) => {
                record.degrade(Degraded::Superseded, now);
                failed(cause)
            }
            Decision::Lost(Some(cause @ Lost::NoQuorum)) => {
                record.degrade(Degraded::Unreachable, now);
                failed(cause)
            }
        }
    }
}

impl Round for Extend {
    type Tag = Lane;
    type Output = Result<(), Failure>;

    fn start(&mut self, io: &mut Io<Lane>) {
        io.send_to_all(self.rules.nodes(), Lane::Extend);
    }

    fn request(&self, _node: usize, lane: Lane) -> Option<Request> {
        let (ended, token, ttl) = self.record.with(|state| {
            let ended = state.status.ended().is_some() || lane == Lane::Refill && state.is_released();
            (ended, state.token, state.status.ttl())
        });
        let claim = self.record.claim.clone();
        match lane {
            _ if ended => None,
            Lane::Extend => Some(Mode::extend(claim, self.extension.ttl, token)),
            // The TTL that the deadline comes from, so that the new keys outlive the deadline as the others do.
            Lane::Refill => Some(self.record.mode.refill(claim, ttl?, token)),
        }
    }

    fn sent(&mut self, node: usize, lane: Lane, connection: Option<ConnectionId>) {
        if lane == Lane::Refill {
            self.record.with(|state| state.begin_write(node, connection));
        }
    }

    fn listen(&self) -> Option<EventListener> {
        Some(self.record.listen())
    }

    fn is_wanted(&self, lane: Lane) -> bool {
        lane == Lane::Refill || self.record.ended().is_none()
    }

    fn heard(&mut self, heard: Heard<Lane>, io: &mut Io<Lane>) {
        let Heard { node, tag, outcome, server, at, .. } = heard;
        if tag == Lane::Refill {
            self.record.change(|state| state.end_write(node, &outcome));
            return;
        }
        self.record.note_counter(node, &outcome);
        self.votes.put(node, outcome, server, at);
        if self.extended {
            self.refill(node, io);
        }
    }

    fn result(&mut self, now: Instant, io: &mut Io<Lane>) -> Option<Self::Output> {
        if self.record.ended().is_some() {
            return Some(Err(self.ended(now)));
        }
        let result = self.apply(now)?;
        self.extended = result.is_ok();
        if self.extended {
            (0..self.rules.nodes()).for_each(|node| self.refill(node, io));
        }
        Some(result)
    }

    /// Returns `false` once the lease is released: nothing of a refill may be sent after its limit then.
    fn may_poll_late(&self) -> bool {
        !self.record.is_released()
    }
}
