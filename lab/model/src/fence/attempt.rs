//! The processing of replies: m, the grant, the extension. A decision is made as soon as the replies suffice.

use crate::fence::property::Property;
use crate::fence::protocol::Fencing;
use crate::fence::scope::FAR;
use crate::fence::state::{Attempt, Phase, Round, State};
use crate::fence::variant::Variant;

impl Fencing {
    pub(crate) fn begin(state: &mut State, attempt: usize) {
        let floor = state.newest();
        state.attempts[attempt] = Attempt { phase: Phase::Acquiring, floor, ..Attempt::default() };
    }

    /// Records the grant of a node.
    pub(crate) fn replied(self, state: &mut State, attempt: usize, node: usize, counter: u8) {
        let is = &mut state.attempts[attempt];
        if counter == FAR && self.scope.lies && self.variant != Variant::AnyReplyCounts {
            // No other counter is within the bound, so it belongs to no quorum of two or more nodes.
            is.outlier = true;
            return;
        }
        if is.phase == Phase::Granted {
            return Self::follow(state, attempt, node, counter);
        }
        let bit = 1 << node;
        is.highest = match counter.cmp(&is.token) {
            _ if is.received == 0 => bit,
            std::cmp::Ordering::Less => is.highest,
            std::cmp::Ordering::Equal => is.highest | bit,
            std::cmp::Ordering::Greater => bit,
        };
        (is.token, is.received) = (is.token.max(counter), is.received | bit);
        is.floor = is.floor.filter(|floor| *floor >= is.token);
        if is.received.count_ones() as usize == self.scope.quorum() {
            let agreed = is.highest == is.received;
            if agreed || self.variant == Variant::NoWriteBack {
                return self.grant(state, attempt);
            }
            (is.phase, is.outlier) = (Phase::Confirming, false);
            is.received = if self.variant == Variant::EqualRepliesCount { is.highest } else { 0 };
            is.highest = 0;
        } else if is.highest != is.received && self.variant != Variant::EqualRepliesCount {
            // Only the fact that they differ matters.
            is.highest = 0;
        }
    }

    /// Records violations of the bound: a far counter on an honest node, or a far token.
    pub(crate) fn look_for_far(self, state: &mut State) {
        let nodes = (0..self.scope.nodes).filter(|node| !self.lies(*node));
        let far_node = nodes.map(|node| state.nodes[node].counter).any(|counter| counter == FAR);
        let far_grant = state.newest() == Some(FAR);
        if far_node || far_grant {
            state.violated |= Property::Bounded.bit();
        }
    }

    /// Records that a node counts for the attempt.
    pub(crate) fn counted(self, state: &mut State, attempt: usize, node: usize) {
        let is = &mut state.attempts[attempt];
        is.received |= 1 << node;
        let half = self.variant == Variant::HalfConfirms;
        let enough = if half { self.scope.nodes / 2 } else { self.scope.quorum() };
        if (is.received.count_ones() as usize) < enough {
            return;
        }
        match (is.phase, is.round) {
            (Phase::Granted, Round::None) => is.received &= !(1 << node),
            (Phase::Granted, _) => Self::extended(state, attempt),
            _ => self.grant(state, attempt),
        }
    }

    pub(crate) fn extend(self, state: &mut State, attempt: usize) {
        let round = self.round(state, attempt);
        let is = &mut state.attempts[attempt];
        is.round = round;
        if self.variant != Variant::EarlierRepliesCount {
            is.received = 0;
        }
    }

    /// Returns the kind of a round that starts now.
    pub(crate) fn round(self, state: &State, attempt: usize) -> Round {
        let token = state.attempts[attempt].token;
        let passed = state.nodes[..self.scope.nodes].iter().filter(|node| node.counter <= token).count();
        match () {
            () if state.newest() > Some(token) => Round::Behind,
            () if passed < self.scope.quorum() => Round::Hopeless,
            () => Round::InTime,
        }
    }

    fn extended(state: &mut State, attempt: usize) {
        let newest = state.newest();
        let is = &mut state.attempts[attempt];
        state.violated |= match is.round {
            Round::Behind => Property::NoLateExtension.bit() | Property::NoHopelessExtension.bit(),
            Round::Hopeless => Property::NoHopelessExtension.bit(),
            Round::InTime | Round::None => 0,
        };
        if newest > Some(is.token) {
            state.violated |= Property::NoExtensionOnceReturned.bit();
        }
        (is.round, is.received) = (Round::None, 0);
    }

    /// Returns the grant to the client.
    fn grant(self, state: &mut State, attempt: usize) {
        let is = &mut state.attempts[attempt];
        if is.floor.is_some_and(|floor| floor >= is.token) {
            state.violated |= Property::Increasing.bit();
        }
        let keeps = self.variant == Variant::TokenFollowsLaterReplies;
        let received = if keeps { is.received } else { 0 };
        *is = Attempt { phase: Phase::Granted, token: is.token, received, ..Attempt::default() };
        Self::compare(state, attempt);
    }

    /// In one variant, the token grows with later replies.
    fn follow(state: &mut State, attempt: usize, node: usize, counter: u8) {
        let is = &mut state.attempts[attempt];
        (is.token, is.received) = (is.token.max(counter), is.received | 1 << node);
        Self::compare(state, attempt);
    }

    fn compare(state: &mut State, attempt: usize) {
        let token = state.attempts[attempt].token;
        let same = |other: &Attempt| other.phase == Phase::Granted && other.token == token;
        if state.attempts.iter().filter(|other| same(other)).count() > 1 {
            state.violated |= Property::Unique.bit();
        }
    }
}
