//! What attempts make of what they hear: m, the grant, the extension. Who has heard enough decides at once.

use crate::fence::property::Property;
use crate::fence::protocol::Fencing;
use crate::fence::scope::FAR;
use crate::fence::state::{Attempt, Phase, Round, State};
use crate::fence::variant::Variant;

impl Fencing {
    pub(crate) fn begin(state: &mut State, attempt: usize) {
        let floor = state.newest();
        state.attempts[attempt] = Attempt { phase: Phase::Asking, floor, ..Attempt::default() };
    }

    /// A node has granted.
    pub(crate) fn answered(self, state: &mut State, attempt: usize, node: usize, counter: u8) {
        let is = &mut state.attempts[attempt];
        if counter == FAR && self.scope.lies && self.variant != Variant::AnyAnswerVotes {
            // No other is within the bound of it, so no quorum of two and more is.
            is.outlier = true;
            return;
        }
        if is.phase == Phase::Granted {
            return Self::follow(state, attempt, node, counter);
        }
        let bit = 1 << node;
        is.highest = match counter.cmp(&is.token) {
            _ if is.heard == 0 => bit,
            std::cmp::Ordering::Less => is.highest,
            std::cmp::Ordering::Equal => is.highest | bit,
            std::cmp::Ordering::Greater => bit,
        };
        (is.token, is.heard) = (is.token.max(counter), is.heard | bit);
        is.floor = is.floor.filter(|floor| *floor >= is.token);
        if is.heard.count_ones() as usize == self.scope.quorum() {
            let agreed = is.highest == is.heard;
            if agreed || self.variant == Variant::NoWriteBack {
                return self.grant(state, attempt);
            }
            (is.phase, is.outlier) = (Phase::Confirming, false);
            is.heard = if self.variant == Variant::EqualAnswersCount { is.highest } else { 0 };
            is.highest = 0;
        } else if is.highest != is.heard && self.variant != Variant::EqualAnswersCount {
            // That they differ is all there is to know.
            is.highest = 0;
        }
    }

    /// Notes what must not be: a far counter on a node that does not lie, a far token.
    pub(crate) fn look_for_far(self, state: &mut State) {
        let nodes = (0..self.scope.nodes).filter(|node| !self.lies(*node));
        let far_node = nodes.map(|node| state.nodes[node].counter).any(|counter| counter == FAR);
        let far_grant = state.newest() == Some(FAR);
        if far_node || far_grant {
            state.violated |= Property::Bounded.bit();
        }
    }

    /// A node counts.
    pub(crate) fn counted(self, state: &mut State, attempt: usize, node: usize) {
        let is = &mut state.attempts[attempt];
        is.heard |= 1 << node;
        let half = self.variant == Variant::HalfConfirms;
        let enough = if half { self.scope.nodes / 2 } else { self.scope.quorum() };
        if (is.heard.count_ones() as usize) < enough {
            return;
        }
        match (is.phase, is.round) {
            (Phase::Granted, Round::None) => is.heard &= !(1 << node),
            (Phase::Granted, _) => Self::extended(state, attempt),
            _ => self.grant(state, attempt),
        }
    }

    pub(crate) fn extend(self, state: &mut State, attempt: usize) {
        let round = self.round(state, attempt);
        let is = &mut state.attempts[attempt];
        is.round = round;
        if self.variant != Variant::EarlierAnswersCount {
            is.heard = 0;
        }
    }

    /// What a round is that begins now.
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
        (is.round, is.heard) = (Round::None, 0);
    }

    /// The grant returns.
    fn grant(self, state: &mut State, attempt: usize) {
        let is = &mut state.attempts[attempt];
        if is.floor.is_some_and(|floor| floor >= is.token) {
            state.violated |= Property::Increasing.bit();
        }
        let keeps = self.variant == Variant::TokenFollowsLaterAnswers;
        let heard = if keeps { is.heard } else { 0 };
        *is = Attempt { phase: Phase::Granted, token: is.token, heard, ..Attempt::default() };
        Self::compare(state, attempt);
    }

    /// The variant's token grows with an answer that comes later.
    fn follow(state: &mut State, attempt: usize, node: usize, counter: u8) {
        let is = &mut state.attempts[attempt];
        (is.token, is.heard) = (is.token.max(counter), is.heard | 1 << node);
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
