//! The votes on one attempt: those on the claim, and where it is fenced those on its token.
//!
//! A plain attempt is decided by its one round. A fenced one has its token at the moment when a quorum has granted; if so
//! many nodes have that very number already, it is decided too. Otherwise the token is put to all nodes in a round of its
//! own, which decides. Its TTL is armed anew by that, its validity is not: that runs from before the first send.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::broken::{Variant, broken};
use crate::calls::Calls;
use crate::clock::Instant;
use crate::decide::fencing::{Numbering, number};
use crate::decide::tally::{Decision, Question};
use crate::lease::Lease;
use crate::node::NodeError;
use crate::observe::Operation;
use crate::report::Outcome;
use crate::round::Round;
use crate::ttl::Ttl;

pub(crate) struct Votes<'a> {
    lease: &'a Lease,
    ttl: Ttl,
    /// How long a node may take, in either round.
    limit: Duration,
    claim: Round<'a>,
    /// Apart, since most locks have none and every attempt would carry room for it.
    confirmation: Option<Box<Round<'a>>>,
    /// Who has granted when the confirmation was under way, with a counter below the token.
    late: Vec<usize>,
}

/// What a node has voted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voted {
    OnClaim(usize),
    OnToken,
}

impl<'a> Votes<'a> {
    /// Prepares the requests. The clock has started with the lease.
    pub(crate) fn new(lease: &'a Lease, ttl: Ttl, limit: Duration) -> Self {
        let (start, shared) = (lease.since(), lease.shared());
        let claim = Round::since(start, shared, Question::Claim, Operation::Acquire, limit, |index, _| {
            lease.acquire_on(index, ttl)
        });
        Self { lease, ttl, limit, claim, confirmation: None, late: Vec::new() }
    }

    /// The next vote; `None` when there is none left. Safe to drop and ask again.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Voted>> {
        let claim = self.claim.poll_next(cx);
        if let Poll::Ready(Some(index)) = claim {
            let ballots = &mut self.claim.ballots;
            if self.lease.is_fenced() && matches!(ballots.outcome(index), Outcome::Granted) {
                ballots.discard(
                    index,
                    NodeError::unknown("the backend granted a fenced lock without a counter"),
                );
            }
            self.lease.settle(index, ballots.outcome(index));
            if self.confirmation.is_none() {
                self.number();
            } else if self.lease.note_counter(index, ballots.outcome(index)) {
                self.late.push(index);
            }
            return Poll::Ready(Some(Voted::OnClaim(index)));
        }
        let Some(confirmation) = &mut self.confirmation else { return claim.map(|_| None) };
        match confirmation.poll_next(cx) {
            Poll::Ready(Some(index)) => {
                self.lease.note_counter(index, confirmation.ballots.outcome(index));
                Poll::Ready(Some(Voted::OnToken))
            }
            Poll::Ready(None) => claim.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    }

    pub(crate) fn decision(&self) -> Decision {
        self.deciding().decision()
    }

    /// The round whose votes decide.
    pub(crate) fn deciding(&self) -> &Round<'a> {
        self.confirmation.as_deref().unwrap_or(&self.claim)
    }

    pub(crate) fn is_confirmation(&self) -> bool {
        self.confirmation.is_some()
    }

    /// Whether a node has not voted on the claim yet.
    pub(crate) fn is_pending(&self, index: usize) -> bool {
        self.claim.ballots.is_pending(index)
    }

    pub(crate) fn start(&self) -> Instant {
        self.claim.ballots.start
    }

    /// When the last vote was seen of those that decide.
    pub(crate) fn seen(&self) -> Instant {
        self.deciding().seen()
    }

    /// Until when the lease is valid, if it was won.
    pub(crate) fn deadline(&self) -> Instant {
        self.claim.deadline(self.ttl)
    }

    /// The lease is won `now`, and held until the deadline. Its votes are kept there; those that are still to come are to be
    /// seen to.
    pub(crate) fn win(self, deadline: Instant, now: Instant) -> Stragglers<'a> {
        let Self { lease, ttl, limit, claim, confirmation, late } = self;
        let (claims, ballots) = claim.into_parts();
        lease.win(deadline, ttl, now, ballots);
        let (confirmations, told) = confirmation.map(|round| round.into_parts()).unzip();
        let confirmations = confirmations.map(Box::new);
        let mut stragglers = Stragglers { lease, ttl, limit, claims, confirmations, late: Vec::new() };
        for index in late {
            match told.as_ref().map(|told| told.outcome(index)) {
                Some(Outcome::Granted | Outcome::Superseded(_)) => {}
                Some(Outcome::Pending) => stragglers.late.push(index),
                _ => stragglers.confirm(index),
            }
        }
        stragglers
    }

    /// Once a quorum has granted a fenced claim: gives it its token, and asks for what is missing.
    fn number(&mut self) {
        let lease = self.lease;
        if !lease.is_fenced() || lease.fencing_token().is_some() || self.claim.decision() != Decision::Won {
            return;
        }
        let (shared, ballots) = (lease.shared(), &self.claim.ballots);
        let Some(Numbering { token, settled }) =
            number(ballots.counters(), self.claim.quorum, shared.counter_bound)
        else {
            return;
        };
        lease.fence(token);
        for index in 0..shared.members.len() {
            lease.note_counter(index, ballots.outcome(index));
        }
        if !settled && !broken(Variant::TokenUnconfirmed) {
            let round = Round::new(shared, Question::Claim, Operation::Confirm, self.limit, |index, _| {
                lease.extend_on(index, self.ttl)
            });
            self.confirmation = Some(Box::new(round));
        }
    }
}

/// The calls of a lease that was won before they had ended.
pub(crate) struct Stragglers<'a> {
    lease: &'a Lease,
    ttl: Ttl,
    limit: Duration,
    claims: Calls<'a>,
    /// Of a fenced lease that needed any.
    confirmations: Option<Box<Calls<'a>>>,
    /// Whose confirmation is still under way, and may have come before the claim.
    late: Vec<usize>,
}

impl<'a> Stragglers<'a> {
    /// Sees to all that are still to come. A node that grants late and counts for less is told the token.
    pub(crate) async fn finish(&mut self) {
        while poll_fn(|cx| self.poll_next(cx)).await.is_some() {}
    }

    /// Tells a node the token, unless the lease is over.
    fn confirm(&mut self, index: usize) {
        if self.lease.over().is_some() {
            return;
        }
        let (lease, nodes): (&'a Lease, _) = (self.lease, self.lease.shared().members.len());
        let runtime = &*lease.shared().runtime;
        let confirmations = self.confirmations.get_or_insert_with(|| Box::new(Calls::none(runtime, nodes)));
        confirmations.start(index, self.limit, lease.extend_on(index, self.ttl));
    }

    /// The lease may be released meanwhile, and two releases a node timeout apart are taken to be behind whatever was sent
    /// before: so nothing may be sent after the limit then.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        if self.lease.is_released() {
            self.claims.without_last_look();
        }
        let claim = self.claims.poll_next(cx);
        if let Poll::Ready(Some((index, ending))) = claim {
            let outcome: Outcome = ending.into();
            self.lease.settle_late(index, &outcome, self.claims.seen());
            if self.lease.note_counter(index, &outcome) {
                self.confirm(index);
            }
            return Poll::Ready(Some(()));
        }
        let Some(confirmations) = &mut self.confirmations else { return claim.map(|_| None) };
        match confirmations.poll_next(cx) {
            Poll::Ready(Some((index, ending))) => {
                let outcome = ending.into();
                self.lease.note_counter(index, &outcome);
                let is_late = self.late.contains(&index);
                self.late.retain(|late| *late != index);
                if is_late && matches!(outcome, Outcome::Refused(_)) {
                    self.confirm(index);
                }
                Poll::Ready(Some(()))
            }
            Poll::Ready(None) => claim.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    }
}
