//! What a lease has on each node: what may lie there of it, whether the node counts for it, and the requests it makes.

use smallvec::SmallVec;

use super::Lease;
use crate::broken::{Variant, broken};
use crate::calls::Call;
use crate::clock::Instant;
use crate::decide::fencing::Fence;
use crate::decide::pursuit::{Pursuit, Trace};
use crate::fencing::FencingToken;
use crate::node::{ConnectionId, NodeErrorKind, Refusal, Vote};
use crate::observe::Operation;
use crate::report::{NodeReport, Outcome};
use crate::round::{Ballot, Ballots};
use crate::shared::locked;
use crate::ttl::Ttl;

impl Lease {
    /// Whether a write may still be sent.
    pub(crate) fn is_written(&self) -> bool {
        locked(&self.0.state).traces.iter().any(|trace| trace.is_in_flight())
    }

    /// A quorum granted, for the first time: the lease is valid until `deadline`. Its votes are kept as they are now. Nobody
    /// listens yet.
    pub(crate) fn win(&self, deadline: Instant, ttl: Ttl, now: Instant, ballots: Ballots) {
        let mut state = locked(&self.0.state);
        state.hold.grant(deadline, ttl, now);
        state.ballots = Some(ballots);
    }

    /// The outcome of a write that was begun on a node has become known, or has become unknowable.
    pub(crate) fn settle(&self, index: usize, outcome: &Outcome) {
        settle(&mut locked(&self.0.state).traces[index], outcome);
        self.notify();
    }

    /// The same of a vote that came once the votes were kept. It is kept too.
    pub(crate) fn settle_late(&self, index: usize, outcome: &Outcome, seen: Instant) {
        let latency = seen.saturating_duration_since(self.since());
        let ballot = Ballot::cast(outcome.clone(), Operation::Acquire, latency, index, self.shared());
        let mut state = locked(&self.0.state);
        settle(&mut state.traces[index], outcome);
        if let Some(kept) = &mut state.ballots {
            kept.put(index, ballot);
        }
        drop(state);
        self.notify();
    }

    /// Begins to write to nodes that have lost the claim, and says with which TTL: the one that the deadline comes from,
    /// so that the new keys outlive it as the others do. Not once the lease is over.
    pub(crate) fn begin_refill(&self, nodes: &[usize]) -> Option<Ttl> {
        let mut state = locked(&self.0.state);
        if state.hold.is_lost(self.shared().now()) {
            return None;
        }
        for index in nodes {
            state.traces[*index].begin(self.shared().members[*index].node.connection());
        }
        state.hold.ttl()
    }

    /// What a release must achieve that is sent to a node now, after the end.
    pub(crate) fn pursuit(&self, index: usize) -> Pursuit {
        locked(&self.0.state).traces[index].pursue()
    }

    /// By node: the connection that is in use. Of a node that is not known to have the key, the one that was when it was to
    /// be written.
    pub(crate) fn connections(&self) -> SmallVec<[Option<ConnectionId>; 5]> {
        let state = locked(&self.0.state);
        let members = self.shared().members.iter().zip(&state.traces);
        members
            .map(|(member, trace)| trace.connection_without_key().unwrap_or(member.node.connection()))
            .collect()
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.0.fenced
    }

    /// A quorum granted: this is its fencing token.
    pub(crate) fn fence(&self, token: FencingToken) {
        let nodes = self.shared().members.len();
        locked(&self.0.state).fence = Some(Fence::new(token, nodes));
    }

    /// A node has told its counter, if it has. Answers whether it is to be told the token, in order to count.
    pub(crate) fn note_counter(&self, index: usize, outcome: &Outcome) -> bool {
        let (Outcome::Counted(counter) | Outcome::Superseded(counter)) = outcome else { return false };
        locked(&self.0.state).fence.as_mut().is_some_and(|fence| fence.counted(index, *counter))
    }

    /// The request that acquires it on one node.
    pub(crate) fn acquire_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let node = &self.shared().members[index].node;
        if self.is_fenced() {
            node.acquire_fenced(self.claim(), ttl)
        } else {
            node.acquire(self.claim(), ttl)
        }
    }

    /// The request that extends it on one node, and has the node count for it.
    pub(crate) fn extend_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let node = &self.shared().members[index].node;
        match self.fencing_token() {
            Some(fence) => node.confirm(self.claim(), ttl, fence),
            None => node.extend(self.claim(), ttl),
        }
    }

    /// The request that gives it back to one node.
    pub(crate) fn refill_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let node = &self.shared().members[index].node;
        match self.fencing_token() {
            Some(fence) => node.refill_fenced(self.claim(), ttl, fence),
            None => node.acquire(self.claim(), ttl),
        }
    }

    /// The request that releases it on one node.
    pub(crate) fn release_on(&self, index: usize) -> Call<'_> {
        if broken(Variant::ReleaseOnGrantingNodes) && !self.pursuit(index).is_written() {
            return Box::pin(async { Ok(Vote::Refused(Refusal::default())) });
        }
        self.shared().members[index].node.release(self.claim())
    }

    /// How many nodes granted the acquisition.
    pub(crate) fn granted_at_first(&self) -> usize {
        let granted = |node: &&NodeReport| matches!(node.outcome(), Outcome::Granted | Outcome::Counted(_));
        self.votes().iter().filter(granted).count()
    }
}

/// What a vote says of the write.
fn settle(trace: &mut Trace, outcome: &Outcome) {
    match outcome {
        Outcome::Granted | Outcome::Counted(_) => trace.settle(true),
        Outcome::Refused(_) | Outcome::Superseded(_) => trace.settle(false),
        Outcome::Failed(error) if error.kind() != NodeErrorKind::Unknown => trace.settle(false),
        Outcome::Failed(_) | Outcome::TimedOut => trace.lose(),
        Outcome::Free | Outcome::Held(_) | Outcome::Pending => {}
    }
}
