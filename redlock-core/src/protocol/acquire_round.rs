//! The votes on one attempt: on the claim and, if it is fenced, on its token.
//!
//! A plain attempt is decided by its one round. A fenced attempt has its token once a quorum has granted. If a quorum
//! already has that number, the attempt is decided too. Otherwise the token is sent to all nodes in a second round,
//! which decides. That round restarts the TTL, but not the validity, which runs from before the first send.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::decide::fencing::{Numbering, number};
use crate::decide::tally::{Decision, RoundKind};
use crate::lease::record::LeaseRecord;
use crate::node::Operation;
use crate::protocol::fan_out::Calls;
use crate::protocol::responses::Responses;
use crate::protocol::round::Round;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

pub(crate) struct AcquireRound<'a> {
    lease: &'a LeaseRecord,
    ttl: Ttl,
    /// The time limit for one node, in either round.
    limit: Duration,
    acquisition: Round<'a>,
    /// The second round of a fenced lock, boxed because most locks have none.
    confirmation: Option<Box<Round<'a>>>,
    /// The nodes that granted during the confirmation, with a counter below the token.
    late: Vec<usize>,
}

/// The subject of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Acquire(usize),
    Confirm,
}

impl<'a> AcquireRound<'a> {
    /// Prepares the requests. The clock started with the lease.
    pub(crate) fn new(lease: &'a LeaseRecord, ttl: Ttl) -> Self {
        let (start, inner) = (lease.since(), lease.inner());
        let limit = inner.settings.timeout_within(ttl);
        let acquisition = Round::since(start, inner, Operation::Acquire.name(), limit, |index, _| {
            lease.acquire_on(index, ttl)
        });
        Self { lease, ttl, limit, acquisition, confirmation: None, late: Vec::new() }
    }

    /// Returns the next vote; `None` when none is left.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Phase>> {
        let acquired = self.acquisition.poll_next(cx);
        if let Poll::Ready(Some(index)) = acquired {
            let responses = &self.acquisition.responses;
            self.lease.end_write(index, responses.outcome(index));
            if self.confirmation.is_none() {
                self.assign_token();
            } else if self.lease.note_counter(index, responses.outcome(index)) {
                self.late.push(index);
            }
            return Poll::Ready(Some(Phase::Acquire(index)));
        }
        let Some(confirmation) = &mut self.confirmation else { return acquired.map(|_| None) };
        match confirmation.poll_next(cx) {
            Poll::Ready(Some(index)) => {
                self.lease.note_counter(index, confirmation.responses.outcome(index));
                Poll::Ready(Some(Phase::Confirm))
            }
            Poll::Ready(None) => acquired.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    }

    pub(crate) fn decision(&self) -> Decision {
        self.deciding().decision(RoundKind::Acquire)
    }

    /// Returns the round whose votes decide.
    pub(crate) fn deciding(&self) -> &Round<'a> {
        self.confirmation.as_deref().unwrap_or(&self.acquisition)
    }

    pub(crate) fn is_confirmation(&self) -> bool {
        self.confirmation.is_some()
    }

    /// Returns whether a node has not voted on the claim yet.
    pub(crate) fn is_pending(&self, index: usize) -> bool {
        self.acquisition.responses.is_pending(index)
    }

    /// Drops the claims that were not sent yet. Their nodes need no release.
    pub(crate) fn drop_unsent(&mut self) {
        for index in self.acquisition.drop_unsent() {
            self.lease.forget_write(index);
        }
    }

    /// Returns when the last of the deciding votes was seen.
    pub(crate) fn completed_at(&self) -> Instant {
        self.deciding().completed_at()
    }

    /// Returns the end of the validity, if the claim was granted.
    pub(crate) fn deadline(&self) -> Instant {
        self.acquisition.deadline(self.ttl)
    }

    /// Makes the lease held from `now` until the deadline.
    ///
    /// The lease keeps the votes. The caller must drive the returned stragglers.
    pub(crate) fn win(self, deadline: Instant, now: Instant) -> Stragglers<'a> {
        let Self { lease, ttl, limit, acquisition, confirmation, late } = self;
        let (acquisitions, responses) = acquisition.into_parts();
        lease.win(deadline, ttl, now, responses);
        let (confirmations, confirmed) = confirmation.map(|round| round.into_parts()).unzip();
        let confirmations = confirmations.map(Box::new);
        let mut stragglers = Stragglers { lease, ttl, limit, acquisitions, confirmations, late: Vec::new() };
        for index in late {
            match confirmed.as_ref().map(|responses: &Responses| responses.outcome(index)) {
                Some(Outcome::Granted | Outcome::Superseded(_)) => {}
                Some(Outcome::Pending) => stragglers.late.push(index),
                _ => stragglers.confirm(index),
            }
        }
        stragglers
    }

    /// Assigns the token of a fenced claim once a quorum has granted.
    ///
    /// Starts the confirmation if too few nodes have this token.
    fn assign_token(&mut self) {
        let lease = self.lease;
        if !lease.is_fenced()
            || lease.fencing_token().is_some()
            || self.acquisition.decision(RoundKind::Acquire) != Decision::Won
        {
            return;
        }
        let (inner, responses) = (lease.inner(), &self.acquisition.responses);
        let Some(Numbering { token, settled }) =
            number(responses.counters(), inner.quorum(), inner.counter_bound)
        else {
            return;
        };
        lease.set_fencing_token(token);
        for index in 0..inner.peers.len() {
            lease.note_counter(index, responses.outcome(index));
        }
        if !settled {
            let round = Round::new(inner, Operation::Confirm.name(), self.limit, |index, _| {
                lease.confirm_on(index, self.ttl, token)
            });
            self.confirmation = Some(Box::new(round));
        }
    }
}

/// The calls of a lease that was granted before they had ended.
pub(crate) struct Stragglers<'a> {
    lease: &'a LeaseRecord,
    ttl: Ttl,
    limit: Duration,
    acquisitions: Calls<'a>,
    /// The confirmations of a fenced lease, if it needed any.
    confirmations: Option<Box<Calls<'a>>>,
    /// The nodes whose confirmation is in progress, and may have preceded the claim.
    late: Vec<usize>,
}

impl<'a> Stragglers<'a> {
    /// Handles all late replies. A node that grants late with a counter below the token receives the token.
    pub(crate) async fn finish(&mut self) {
        while poll_fn(|cx| self.poll_next(cx)).await.is_some() {}
    }

    /// Sends the token to a node, unless the lease has ended.
    fn confirm(&mut self, index: usize) {
        if self.lease.ended().is_some() {
            return;
        }
        let Some(token) = self.lease.fencing_token() else { return };
        let (lease, nodes): (&'a LeaseRecord, _) = (self.lease, self.lease.inner().peers.len());
        let runtime = &*lease.inner().runtime;
        let confirmations = self.confirmations.get_or_insert_with(|| Box::new(Calls::none(runtime, nodes)));
        confirmations.start(index, self.limit, lease.confirm_on(index, self.ttl, token));
    }

    /// Handles the next late reply.
    ///
    /// The lease may be released meanwhile. Cleanup assumes that the second of two releases a node timeout apart
    /// follows every earlier write. Thus after a release, nothing may be sent after the limit.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        if self.lease.is_released() {
            self.acquisitions.without_poll_past_deadline();
        }
        let acquired = self.acquisitions.poll_next(cx);
        if let Poll::Ready(Some((index, outcome))) = acquired {
            self.lease.end_late_write(index, &outcome, self.acquisitions.completed_at());
            if self.lease.note_counter(index, &outcome) {
                self.confirm(index);
            }
            return Poll::Ready(Some(()));
        }
        let Some(confirmations) = &mut self.confirmations else { return acquired.map(|_| None) };
        match confirmations.poll_next(cx) {
            Poll::Ready(Some((index, outcome))) => {
                self.lease.note_counter(index, &outcome);
                let is_late = self.late.contains(&index);
                self.late.retain(|late| *late != index);
                if is_late && matches!(outcome, Outcome::Denied(_)) {
                    self.confirm(index);
                }
                Poll::Ready(Some(()))
            }
            Poll::Ready(None) => acquired.map(|_| None),
            Poll::Pending => Poll::Pending,
        }
    }
}
