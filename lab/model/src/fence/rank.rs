//! Unbounded counters, of which only the order is kept.
//!
//! The rule only compares counters, tokens and floors. If counters may grow by any amount, the values of a state are
//! therefore numbered by rank, in steps of two. Thus there is always room for one value between two others.
//!
//! Integers allow the same. A run is finite, so its values can be spread out far enough. A counter grows by more than
//! one through failed attempts, each of which sets its key and loses it.

use crate::fence::protocol::Fencing;
use crate::fence::state::State;

impl Fencing {
    /// Returns every value of a state that may still be compared.
    pub(crate) fn values(self, state: &State) -> impl Iterator<Item = u8> {
        let nodes = state.nodes.iter().take(self.scope.nodes).map(|node| node.counter);
        let attempts = state.attempts.iter().flat_map(|attempt| {
            let has = attempt.is_decided() || attempt.received != 0;
            has.then_some(attempt.token).into_iter().chain(attempt.floor)
        });
        nodes.chain(attempts).chain(state.forgotten)
    }

    /// Numbers all values by rank.
    pub(crate) fn rank(self, state: &mut State) {
        let present = self.values(state).fold(0_u64, |present, value| present | 1 << value);
        let rank =
            |value: u8| 2 * (present & ((1 << value) - 1)).count_ones().try_into().unwrap_or(u8::MAX / 2);
        for node in &mut state.nodes[..self.scope.nodes] {
            node.counter = rank(node.counter);
        }
        for attempt in &mut state.attempts {
            let has = attempt.is_decided() || attempt.received != 0;
            attempt.token = if has { rank(attempt.token) } else { 0 };
            attempt.floor = attempt.floor.map(rank);
        }
        state.forgotten = state.forgotten.map(rank);
    }
}
