//! The behavior of the client that keeps its lock.

use std::mem;

use crate::decision::{Decision, Vote};
use crate::keep::protocol::Keeping;
use crate::keep::scope::QUORUM;
use crate::keep::state::{Flight, Node, Phase, State};
use crate::keep::step::{Request, RequestKind};
use crate::keep::variant::Variant;

impl Keeping {
    /// Ends the renewals, and begins to wait for writes.
    pub(crate) fn begin_to_keep(self, state: &mut State) {
        state.keeper.phase = Phase::Waiting;
        end_round(state);
        if self.variant != Variant::RenewalsGoOn {
            state.nodes.iter_mut().flat_map(|node| &mut node.extends).for_each(Flight::abandon);
        }
        self.keep_when_ready(state);
    }

    /// Sets the life of the keys once no write is in flight.
    fn keep_when_ready(self, state: &mut State) {
        let mut writes = state.nodes.iter().flat_map(|node| node.writes);
        let awaited = writes.any(|write| write == Flight::Sent);
        let ready = !awaited || self.variant == Variant::WritesAreNotAwaited;
        if state.keeper.phase == Phase::Waiting && ready {
            state.keeper.phase = Phase::Keeping;
            for node in &mut state.nodes {
                (node.keep, node.vote) = (Flight::Sent, Vote::Pending);
            }
        }
    }

    /// Records the end of a call, and decides the open round if it is one of its votes.
    pub(crate) fn ended(self, state: &mut State, request: Request, vote: Vote) {
        let is = state.keeper;
        let votes = match request.kind {
            RequestKind::Write(round) => round == 0 && is.phase == Phase::Acquiring,
            RequestKind::Extend(round) => is.extending && round == usize::from(is.round),
            RequestKind::Keep => is.phase == Phase::Keeping,
        };
        if votes {
            state.nodes[request.node].vote = vote;
            match is.phase {
                Phase::Acquiring => acquiring(state),
                Phase::Held => extending(state),
                _ => self.keeping(state),
            }
        }
        self.keep_when_ready(state);
    }

    fn keeping(self, state: &mut State) {
        let quorum = if self.variant == Variant::MinorityIsEnough { 1 } else { QUORUM };
        match decision(state, quorum) {
            Decision::Open => {}
            Decision::Lost => state.keeper.phase = Phase::Ended,
            Decision::Won => {
                state.keeper.phase = Phase::Kept;
                for node in &mut state.nodes {
                    node.counted = node.vote == Vote::Granted;
                }
                end_round(state);
            }
        }
    }
}

fn acquiring(state: &mut State) {
    match decision(state, QUORUM) {
        Decision::Open => {}
        Decision::Lost => state.keeper.phase = Phase::Ended,
        Decision::Won => {
            state.keeper.phase = Phase::Held;
            end_round(state);
        }
    }
}

/// Once all votes of a granted extension are known, the nodes without the key are refilled.
fn extending(state: &mut State) {
    let round = state.keeper.round;
    match decision(state, QUORUM) {
        Decision::Open => return,
        Decision::Won => (state.keeper.extended, state.keeper.deadline) = (true, round),
        Decision::Lost => {
            let extends = |node: &mut Node| node.extends[usize::from(round) - 1].abandon();
            state.nodes.iter_mut().for_each(extends);
            return end_round(state);
        }
    }
    if state.nodes.iter().all(|node| node.vote != Vote::Pending) {
        for node in &mut state.nodes {
            if mem::take(&mut node.vote) == Vote::Denied {
                node.writes[usize::from(round)] = Flight::Sent;
            }
        }
        end_round(state);
    }
}

fn end_round(state: &mut State) {
    (state.keeper.extending, state.keeper.extended) = (false, false);
    for node in &mut state.nodes {
        node.vote = Vote::None;
    }
}

/// Returns the decision of the open round.
fn decision(state: &State, quorum: usize) -> Decision {
    let count = |wanted: Vote| state.nodes.iter().filter(|node| node.vote == wanted).count();
    Decision::of(count(Vote::Granted), count(Vote::Pending), quorum)
}
