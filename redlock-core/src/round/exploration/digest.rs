//! The digest of a world: equal for worlds with the same properties and the same possible futures.
//!
//! Nodes are interchangeable, so everything about a node is in one number, and these are sorted. What is left out has no
//! effect on a round:
//!
//! - The votes of a round that has its result. Only reports contain them.
//! - Latencies, labels and messages of errors.
//! - The order of the requests of one node. What is known about it is part of each request.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::decide::votes::Votes;
use crate::lease::peer::LeasePeer;
use crate::round::acquire::Acquire;
use crate::round::acquire::State;
use crate::round::exploration::broken::Variant;
use crate::round::exploration::node::Key;
use crate::round::exploration::scope::{CLIENTS, Keys, NODES};
use crate::round::exploration::world::{
    Attempt, Call, Client, Extending, Flight, Message, Phase, Replies, Run, World,
};
use crate::types::report::Outcome;

impl World {
    pub(super) fn digest(&self) -> [u64; NODES + 1] {
        let mut digest = [0; NODES + 1];
        for (node, place) in digest[1..].iter_mut().enumerate() {
            *place = self.digest_of(node);
        }
        digest[1..].sort_unstable();
        let hasher = &mut Mix::default();
        (self.faults, self.seen).hash(hasher);
        self.tokens.hash(hasher);
        for (index, client) in self.clients.iter().enumerate() {
            client.attempts.len().hash(hasher);
            for (number, attempt) in client.attempts.iter().enumerate() {
                let matters = |node: &usize| !self.is_spent(index, number, *node);
                let nodes: SmallVec<[usize; NODES]> = (0..NODES).filter(matters).collect();
                let calls = nodes.iter().flat_map(|node| &self.nodes[*node].messages).filter(|message| {
                    message.is_open()
                        && (usize::from(message.client), usize::from(message.attempt)) == (index, number)
                });
                attempt.hash_rest(
                    client.lapsed,
                    !nodes.is_empty(),
                    &calls.map(|message| message.call),
                    hasher,
                );
            }
        }
        digest[0] = hasher.finish();
        digest
    }

    /// Returns the digest of everything about a node.
    fn digest_of(&self, node: usize) -> u64 {
        let on = &self.nodes[node];
        let hasher = &mut Mix::default();
        let is_ended = |key: &Key| {
            let owner = &self.clients[usize::from(key.client)];
            owner.attempts[usize::from(key.attempt)].phase == Phase::Ended
        };
        // The key of an ended attempt may expire at any moment.
        let key = |key: &Key| if is_ended(key) { Key { round: 0, ..*key } } else { *key };
        let mut keys: SmallVec<[Key; CLIENTS]> = on.keys.iter().map(key).collect();
        // Only one variant depends on their order.
        if self.variant != Variant::LastReaderSetsTheExpiry {
            keys.sort_unstable_by_key(|key| (key.client, key.attempt));
        }
        (keys, on.counter, on.replies_falsely).hash(hasher);
        // A sum does not depend on the order.
        let matters =
            |message: &&Message| !self.is_spent(message.client.into(), message.attempt.into(), node);
        on.messages.iter().filter(matters).map(Message::digest).fold(0, u64::wrapping_add).hash(hasher);
        for (index, Client { attempts, connections, lapsed: _ }) in self.clients.iter().enumerate() {
            connections[node].hash(hasher);
            for (number, attempt) in attempts.iter().enumerate() {
                if self.is_spent(index, number, node) {
                    0.hash(hasher);
                } else {
                    attempt.hash_node(node, self.scope.keys == Keys::Timed, hasher);
                }
            }
        }
        hasher.finish()
    }
}

impl Attempt {
    /// Hashes what belongs to no node.
    fn hash_rest(
        &self,
        lapsed: u8,
        matters: bool,
        calls: &(impl Iterator<Item = Call> + Clone),
        hasher: &mut Mix,
    ) {
        let Self { record, phase, extensions, counted: _, deadline, replies: _, at_release, floor, .. } =
            self;
        let Self { acquire, extending, release, .. } = self;
        phase.hash(hasher);
        if !matters {
            return;
        }
        // A round without calls that matter hears nothing any more.
        let acquires = calls.clone().any(|call| matches!(call, Call::Acquire(_)));
        let acquire = acquire.as_ref().filter(|run| acquires || decides(run));
        record.with(|state| {
            let is_ended = state.status.ended().is_some();
            (is_ended, state.phase, state.token, state.status.ttl().is_some()).hash(hasher);
            // Neither the time nor the reason of the end matters after it.
            if *phase != Phase::Ended {
                (&state.status, lapsed, extensions, deadline).hash(hasher);
            }
        });
        (*phase == Phase::Acquiring).then_some(floor).hash(hasher);
        acquire.map(|run| (run.is_open, run.is_awaited, run.round.inner.state)).hash(hasher);
        acquire.map(|run| run.round.inner.confirmations.is_some()).hash(hasher);
        let extends = |number| calls.clone().any(|call| matches!(call, Call::Extend(of, _) if of == number));
        let extending =
            extending.iter().filter(|extending| extending.run.is_open || extends(extending.number));
        extending.clone().count().hash(hasher);
        for Extending { number, run, replies: _, floor } in extending {
            (run.is_open, run.round.inner.extended, number, floor).hash(hasher);
        }
        release
            .as_ref()
            .filter(|run| run.is_open)
            .map(|run| (run.round.inner.before, at_release))
            .hash(hasher);
    }

    /// Hashes what belongs to a node.
    fn hash_node(&self, node: usize, is_timed: bool, hasher: &mut Mix) {
        let bit = |bits: u8| bits >> node & 1;
        let is_ended = self.phase == Phase::Ended;
        if !is_ended {
            bit(self.counted).hash(hasher);
        }
        let releases = self.release.as_ref().is_some_and(|run| run.is_open);
        let hash_replies = |Replies { granted, denied, failed }: Replies, hasher: &mut Mix| {
            [granted, denied, failed].map(bit).hash(hasher);
        };
        if releases || self.phase == Phase::Acquiring {
            hash_replies(self.replies, hasher);
        }
        // Where no release is sent, the writes do not matter.
        if is_timed {
            self.record.with(|state| {
                let LeasePeer { writes, superseded: _, release } = state.peers[node];
                release.hash(hasher);
                // The release contains what is known about the writes, and is not taken twice.
                if !is_ended || release.is_some() {
                    writes.hash(hasher);
                }
            });
        }
        // After the end of the lease, neither a confirmation nor another claim follows.
        if let Some(run) = self.acquire.as_ref().filter(|run| !is_ended || decides(run)) {
            hash_acquire(run, node, hasher);
        }
        for Extending { run, replies, .. } in &self.extending {
            if !is_ended {
                hash_replies(*replies, hasher);
            }
            if run.is_open {
                hash_vote(&run.round.inner.votes, node, hasher);
            }
        }
        if let Some(run) = self.release.as_ref().filter(|run| run.is_open) {
            hash_vote(&run.round.inner.votes, node, hasher);
        }
    }
}

/// Returns true if the attempt has no result yet, and may have one.
fn decides(run: &Run<Acquire>) -> bool {
    run.is_open && (run.is_awaited || run.round.inner.state == State::Open)
}

fn hash_acquire(run: &Run<Acquire>, node: usize, hasher: &mut Mix) {
    let Acquire { votes, confirmations, late, state, .. } = &run.round.inner;
    late.iter().filter(|late| **late == node).count().hash(hasher);
    if run.is_open && *state != State::Won {
        hash_vote(votes, node, hasher);
    }
    if let Some(votes) = confirmations {
        hash_vote(votes, node, hasher);
    }
}

impl Message {
    fn digest(&self) -> u64 {
        let Self { client, attempt, call, request, flight, connection, sent, is_copy, first_reply, cleanup } =
            self;
        let hasher = &mut Mix::default();
        (client, attempt, call, connection, is_copy, first_reply).hash(hasher);
        request.operation().hash(hasher);
        // The times of other requests follow from their rounds.
        self.is_release().then_some(sent).hash(hasher);
        match flight {
            Flight::Sent => 0.hash(hasher),
            Flight::Replied(outcome) => hash_outcome(outcome, hasher),
            Flight::Late { is_before_release } => (1, is_before_release).hash(hasher),
        }
        cleanup.as_ref().map(|cleanup| cleanup.release).hash(hasher);
        hasher.finish()
    }
}

fn hash_vote(votes: &Votes, node: usize, hasher: &mut Mix) {
    hash_outcome(votes.outcome(node), hasher);
}

fn hash_outcome(outcome: &Outcome, hasher: &mut Mix) {
    match outcome {
        Outcome::Granted => 10.hash(hasher),
        Outcome::Denied(denial) => (11, &denial.holder, denial.is_gone).hash(hasher),
        Outcome::GrantedFenced(counter) => (12, counter).hash(hasher),
        Outcome::Superseded(counter) => (13, counter).hash(hasher),
        Outcome::Released => 14.hash(hasher),
        Outcome::NotHeld => 15.hash(hasher),
        Outcome::Quarantined { granted, .. } => (16, granted).hash(hasher),
        Outcome::Failed(error) => (17, error.kind()).hash(hasher),
        Outcome::TimedOut => 18.hash(hasher),
        Outcome::Pending => 19.hash(hasher),
        Outcome::Free { .. } | Outcome::Held(_) => panic!("no round inspects a resource"),
    }
}

/// A hasher for small numbers, which is much faster than the default one without optimization.
#[derive(Default)]
pub(super) struct Mix(u64);

impl From<u64> for Mix {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation)] // both halves are used
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high.rotate_left(23);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.write_u64(chunk.iter().fold(1, |number, byte| number << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(u64::from_ne_bytes((number as i64).to_ne_bytes()));
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(u32::from_ne_bytes(number.to_ne_bytes()).into());
    }
}
