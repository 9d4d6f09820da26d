//! The part of a lease that concerns single nodes: writes, counters and requests.

use smallvec::SmallVec;

use super::Lease;
use crate::decide::fencing::Fence;
use crate::decide::pending_release::{PendingRelease, WriteState};
use crate::inner::locked;
use crate::node::{ConnectionId, NodeErrorKind};
use crate::protocol::fan_out::Call;
use crate::protocol::round::{Response, Responses};
use crate::telemetry::Operation;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

impl Lease {
    /// Returns whether a write may still be sent.
    pub(crate) fn is_written(&self) -> bool {
        locked(&self.0.state).traces.iter().any(|trace| trace.is_in_flight())
    }

    /// Records the first grant of a quorum: the lease is valid until `deadline`.
    ///
    /// Stores the responses as they are now. Nothing is notified, because nothing listens yet.
    pub(crate) fn win(&self, deadline: Instant, ttl: Ttl, now: Instant, responses: Responses) {
        let mut state = locked(&self.0.state);
        state.hold.grant(deadline, ttl, now);
        state.responses = Some(responses);
    }

    /// Records the outcome of a write on a node, or that it will stay unknown.
    pub(crate) fn settle(&self, index: usize, outcome: &Outcome) {
        settle(&mut locked(&self.0.state).traces[index], outcome);
        self.notify();
    }

    /// Records the outcome of a write whose reply arrived after `win`.
    ///
    /// Stores the response, too.
    pub(crate) fn settle_late(&self, index: usize, outcome: &Outcome, seen: Instant) {
        let latency = seen.saturating_duration_since(self.since());
        let response = Response::cast(outcome.clone(), Operation::Acquire, latency, index, self.shared());
        let mut state = locked(&self.0.state);
        settle(&mut state.traces[index], outcome);
        if let Some(kept) = &mut state.responses {
            kept.put(index, response);
        }
        drop(state);
        self.notify();
    }

    /// Begins to write to nodes that have lost the claim, and returns the TTL to use.
    ///
    /// It is the TTL that the deadline comes from, so that the new keys outlive the deadline as the others do. Returns
    /// `None` once the lease is over.
    pub(crate) fn begin_refill(&self, nodes: &[usize]) -> Option<Ttl> {
        let mut state = locked(&self.0.state);
        if state.hold.is_lost(self.shared().now()) {
            return None;
        }
        for index in nodes {
            state.traces[*index].begin(self.shared().peers[*index].node.connection());
        }
        state.hold.ttl()
    }

    /// Returns the work of a release that is sent to a node now, after the end.
    pub(crate) fn pending_release(&self, index: usize) -> PendingRelease {
        locked(&self.0.state).traces[index].pending_release()
    }

    /// Returns the connection in use, by node.
    ///
    /// For a node that is not known to hold the key, it is the connection at the time of the write.
    pub(crate) fn connections(&self) -> SmallVec<[Option<ConnectionId>; 5]> {
        let state = locked(&self.0.state);
        let peers = self.shared().peers.iter().zip(&state.traces);
        peers.map(|(peer, trace)| trace.connection_without_key().unwrap_or(peer.node.connection())).collect()
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.0.fenced
    }

    /// Records the fencing token, once a quorum has granted.
    pub(crate) fn fence(&self, token: FencingToken) {
        let nodes = self.shared().peers.len();
        locked(&self.0.state).fence = Some(Fence::new(token, nodes));
    }

    /// Records the counter in a reply, if there is one.
    ///
    /// Returns whether the node must be sent the token in order to count.
    pub(crate) fn note_counter(&self, index: usize, outcome: &Outcome) -> bool {
        let (Outcome::Counted(counter) | Outcome::Superseded(counter)) = outcome else { return false };
        locked(&self.0.state).fence.as_mut().is_some_and(|fence| fence.counted(index, *counter))
    }

    /// Returns the request that acquires the lock on one node.
    pub(crate) fn acquire_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let node = &self.shared().peers[index].node;
        if self.is_fenced() {
            node.acquire_fenced(self.claim(), ttl)
        } else {
            node.acquire(self.claim(), ttl)
        }
    }

    /// Returns the request that extends the lock on one node.
    ///
    /// If the lock is fenced, the node also counts for it.
    pub(crate) fn extend_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let node = &self.shared().peers[index].node;
        match self.fencing_token() {
            Some(fence) => node.confirm(self.claim(), ttl, fence),
            None => node.extend(self.claim(), ttl),
        }
    }

    /// Returns the request that restores the lock on one node.
    pub(crate) fn refill_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let node = &self.shared().peers[index].node;
        match self.fencing_token() {
            Some(fence) => node.refill_fenced(self.claim(), ttl, fence),
            None => node.acquire(self.claim(), ttl),
        }
    }

    /// Returns the request that releases the lock on one node.
    pub(crate) fn release_on(&self, index: usize) -> Call<'_> {
        self.shared().peers[index].node.release(self.claim())
    }
}

/// Records in the trace the effect of an outcome on the write.
fn settle(trace: &mut WriteState, outcome: &Outcome) {
    match outcome {
        Outcome::Granted | Outcome::Counted(_) => trace.settle(true),
        Outcome::Denied(_) | Outcome::Superseded(_) => trace.settle(false),
        Outcome::Failed(error) if error.kind() != NodeErrorKind::Unknown => trace.settle(false),
        Outcome::Failed(_) | Outcome::TimedOut => trace.lose(),
        Outcome::Free | Outcome::Held(_) | Outcome::Pending => {}
    }
}
