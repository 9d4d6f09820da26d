//! The part of a lease that concerns single nodes: writes, counters, releases and requests.

use smallvec::SmallVec;

use crate::decide::pending_release::{PendingRelease, WriteState};
use crate::inner::Peer;
use crate::lease::record::LeaseRecord;
use crate::node::{ConnectionId, NodeErrorKind, Operation, Request};
use crate::protocol::call::Call;
use crate::protocol::responses::Response;
use crate::runtime::sleep_until_or;
use crate::sync::locked;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::mode::Mode;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

/// The knowledge of a lease about one node.
#[derive(Clone, Debug)]
pub(super) struct LeasePeer {
    /// The writes that may be, or become, a key on this node.
    writes: WriteState,
    /// True if the node counts for a newer claim than this one.
    superseded: bool,
    /// The release that is not confirmed yet.
    ///
    /// `None` before the end of the lease, and after another part has taken the release over.
    release: Option<PendingRelease>,
}

impl LeasePeer {
    pub(super) fn new(writes: WriteState) -> Self {
        Self { writes, superseded: false, release: None }
    }

    pub(super) fn begin_release(&mut self) {
        self.release = Some(self.writes.pending_release());
    }

    /// Records the counter of the node. Returns whether the node must receive the token in order to count.
    ///
    /// Counters never decrease, so a superseded node stays superseded.
    fn note_counter(&mut self, counter: FencingToken, token: FencingToken) -> bool {
        self.superseded |= counter > token;
        counter < token
    }

    /// Records that a write was never carried out, and never will be.
    fn forget_write(&mut self) {
        self.writes.settle(false);
        if !self.writes.may_be_there() {
            self.release = None;
        }
    }

    /// Ends a write with this outcome.
    fn end_write(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Granted | Outcome::GrantedFenced(_) => self.writes.settle(true),
            Outcome::Denied(_) | Outcome::Superseded(_) => self.writes.settle(false),
            Outcome::Quarantined { granted, .. } => self.writes.settle(*granted),
            Outcome::Failed(error) if error.kind() != NodeErrorKind::Unknown => self.forget_write(),
            Outcome::Failed(_) | Outcome::TimedOut => self.writes.end_unknown(),
            Outcome::Released | Outcome::NotHeld | Outcome::Free | Outcome::Held(_) | Outcome::Pending => {}
        }
    }
}

impl LeaseRecord {
    /// Returns whether a write may still be sent.
    pub(crate) fn has_write_in_flight(&self) -> bool {
        locked(&self.state).peers.iter().any(|peer| peer.writes.is_in_flight())
    }

    /// Waits until no write may be sent any more, at most until `limit`.
    pub(crate) async fn writes_ended(&self, limit: Instant) {
        let inner = self.inner();
        while self.has_write_in_flight() && inner.now() < limit {
            let changed = self.listen();
            if self.has_write_in_flight() {
                sleep_until_or(&*inner.runtime, limit, changed).await;
            }
        }
    }

    /// Returns whether a write on a node that was not connected has not ended. It may never be sent.
    pub(crate) fn may_be_unsent(&self, index: usize) -> bool {
        locked(&self.state).peers[index].writes.may_be_unsent()
    }

    /// Records the outcome of a write on a node, or that it will stay unknown.
    pub(crate) fn end_write(&self, index: usize, outcome: &Outcome) {
        locked(&self.state).peers[index].end_write(outcome);
        self.notify();
    }

    /// Records the outcome of a write whose reply arrived after a quorum had granted.
    ///
    /// Stores the response, too.
    pub(crate) fn end_late_write(&self, index: usize, outcome: &Outcome, seen: Instant) {
        let latency = seen.saturating_duration_since(self.since());
        let response =
            Response::record(outcome.clone(), Operation::Acquire.name(), latency, index, self.inner());
        let mut state = locked(&self.state);
        state.peers[index].end_write(outcome);
        if let Some(responses) = &mut state.responses {
            responses.put(index, response);
        }
        drop(state);
        self.notify();
    }

    /// Begins to write to nodes that have lost the claim, and returns the TTL to use.
    ///
    /// It is the TTL that the deadline comes from, so that the new keys outlive the deadline as the others do. Returns
    /// `None` once the lease is over.
    pub(crate) fn begin_refill(&self, nodes: &[usize]) -> Option<Ttl> {
        let mut state = locked(&self.state);
        if state.status.is_lost(self.inner().now()) {
            return None;
        }
        for index in nodes {
            state.peers[*index].writes.begin(self.inner().peers[*index].node.status().connection);
        }
        state.status.ttl()
    }

    /// Begins the release of a write that has ended after the lease: more is known about it now.
    pub(crate) fn begin_release(&self, index: usize) {
        locked(&self.state).peers[index].begin_release();
    }

    /// Records that a write on a node was never sent, so that it needs no release.
    pub(crate) fn forget_write(&self, index: usize) {
        locked(&self.state).peers[index].forget_write();
        self.notify();
    }

    /// Returns whether a release is not confirmed, and not followed up yet.
    pub(crate) fn has_release(&self) -> bool {
        locked(&self.state).peers.iter().any(|peer| peer.release.is_some())
    }

    /// Takes the unconfirmed release on a node, according to what is known about its writes now.
    ///
    /// The caller must send another release if there is anything to delete.
    pub(crate) fn take_current_release(&self, index: usize) -> Option<PendingRelease> {
        let mut state = locked(&self.state);
        let peer = &mut state.peers[index];
        peer.release.take().map(|_| peer.writes.pending_release())
    }

    /// Takes the unconfirmed release on a node, in order to follow it up.
    pub(crate) fn take_release(&self, index: usize) -> Option<PendingRelease> {
        locked(&self.state).peers[index].release.take()
    }

    /// Returns the connection in use, by node.
    ///
    /// For a node that is not known to hold the key, it is the connection at the time of the write.
    pub(crate) fn connections(&self) -> SmallVec<[Option<ConnectionId>; 5]> {
        let state = locked(&self.state);
        let peers = self.inner().peers.iter().zip(&state.peers);
        let connection = |(peer, own): (&Peer, &LeasePeer)| {
            if own.writes.is_written() {
                peer.node.status().connection
            } else {
                own.writes.write_connection()
            }
        };
        peers.map(connection).collect()
    }

    /// Returns the connection in use, by node; `None` if the outcome of a write on the node is not known.
    pub(crate) fn settled_connections(&self) -> SmallVec<[Option<ConnectionId>; 5]> {
        let state = locked(&self.state);
        let peers = self.inner().peers.iter().zip(&state.peers);
        let connection = |(peer, own): (&Peer, &LeasePeer)| {
            if own.writes.has_unsettled() { None } else { peer.node.status().connection }
        };
        peers.map(connection).collect()
    }

    /// Records the fencing token, once a quorum has granted.
    pub(crate) fn set_fencing_token(&self, token: FencingToken) {
        locked(&self.state).fencing_token = Some(token);
    }

    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        locked(&self.state).fencing_token
    }

    /// Records the counter in a reply, if there is one.
    ///
    /// Returns whether the node must be sent the token in order to count.
    pub(crate) fn note_counter(&self, index: usize, outcome: &Outcome) -> bool {
        let (Outcome::GrantedFenced(counter) | Outcome::Superseded(counter)) = outcome else { return false };
        let mut state = locked(&self.state);
        let Some(token) = state.fencing_token else { return false };
        state.peers[index].note_counter(*counter, token)
    }

    /// Returns the number of nodes on which the lock can still be extended.
    pub(crate) fn extendable_nodes(&self) -> usize {
        locked(&self.state).peers.iter().filter(|peer| !peer.superseded).count()
    }

    /// Returns the request that acquires the lock on one node.
    pub(crate) fn acquire_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        let claim = self.claim().clone();
        self.call(
            index,
            match self.mode() {
                Mode::Exclusive => Request::Acquire(claim, ttl),
                Mode::Fenced => Request::AcquireFenced(claim, ttl),
                Mode::Shared { gate } => Request::AcquireShared(claim, gate.clone(), ttl),
            },
        )
    }

    /// Returns the request that raises the counter of one node to the token of a fenced lock, and extends the lock.
    pub(crate) fn confirm_on(&self, index: usize, ttl: Ttl, token: FencingToken) -> Call<'_> {
        self.call(index, Request::Confirm(self.claim().clone(), ttl, token))
    }

    /// Returns the request that extends the lock on one node.
    ///
    /// If the lock is fenced, the node also counts for it.
    pub(crate) fn extend_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        match self.fencing_token() {
            Some(token) => self.confirm_on(index, ttl, token),
            None => self.call(index, Request::Extend(self.claim().clone(), ttl)),
        }
    }

    /// Returns the request that restores the lock on one node.
    pub(crate) fn refill_on(&self, index: usize, ttl: Ttl) -> Call<'_> {
        match self.fencing_token() {
            Some(token) => self.call(index, Request::Refill(self.claim().clone(), ttl, token)),
            None => self.acquire_on(index, ttl),
        }
    }

    /// Returns the request that releases the lock on one node.
    pub(crate) fn release_on(&self, index: usize) -> Call<'_> {
        self.call(index, Request::Release(self.claim().clone()))
    }

    fn call(&self, index: usize, request: Request) -> Call<'_> {
        Call::new(&self.inner().peers[index], request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_a_greater_counter_never_counts_again() {
        let token = |number| FencingToken::new(number).unwrap();
        let mut peer = LeasePeer::new(WriteState::default());
        assert!(peer.note_counter(token(6), token(7)), "the node must receive the token");
        assert!(!peer.note_counter(token(7), token(7)), "the node counts already");
        assert!(!peer.superseded);
        assert!(!peer.note_counter(token(8), token(7)));
        assert!(peer.superseded);
        assert!(peer.note_counter(token(1), token(7)), "a counter that fell was lost");
        assert!(peer.superseded);
    }
}
