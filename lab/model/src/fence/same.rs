//! Equivalence of states: nodes are interchangeable, and so are attempts.
//!
//! A state is packed with its nodes sorted, for every order of the attempts that look alike. The least result
//! represents all equivalent states.

use crate::fence::protocol::Fencing;
use crate::fence::scope::{Counters, MOST_ATTEMPTS, MOST_NODES};
use crate::fence::state::{Attempt, Phase, State};
use crate::fence::variant::Variant;
use crate::pack::Words;

/// Represents a missing value in a packed state.
const NONE: u64 = 15;

/// All orders of four attempts.
const ORDERS: [[usize; MOST_ATTEMPTS]; 24] = orders();

pub(crate) type Packed = [u64; 3];

impl Fencing {
    /// Returns the same value for states that differ only in the names of nodes and attempts, and for no others.
    pub(crate) fn packed(self, state: &State) -> Packed {
        if self.variant == Variant::OneKeyForTwoAttempts {
            return self.pack(state, [0, 1, 2, 3]);
        }
        let looks: [u64; MOST_ATTEMPTS] = std::array::from_fn(|attempt| self.look(state, attempt));
        let sorted = |order: &[usize; MOST_ATTEMPTS]| order.is_sorted_by_key(|attempt| looks[*attempt]);
        let packed = ORDERS.into_iter().filter(sorted).map(|order| self.pack(state, order));
        packed.min().expect("some order is sorted")
    }

    /// Returns the properties of an attempt that do not depend on the names of nodes.
    fn look(self, state: &State, attempt: usize) -> u64 {
        let owner = Some(self.owner(attempt));
        let is = &state.attempts[attempt];
        if is.phase == Phase::None {
            // Attempts that have not started are equal in every order, so one order is enough.
            return u64::MAX - attempt as u64;
        }
        let keys = state.nodes.iter().filter(|node| node.key == owner);
        let (count, sum) = keys.fold((0, 0), |(count, sum), node| (count + 1, sum + u64::from(node.counter)));
        (self.bits(*is) << 3 | count) << 8 | sum
    }

    /// Packs a state with its attempts in this order and its nodes sorted.
    fn pack(self, state: &State, order: [usize; MOST_ATTEMPTS]) -> Packed {
        let mut place = [0; MOST_ATTEMPTS];
        for (new, old) in order.into_iter().enumerate() {
            place[old] = new as u64;
        }
        let mut nodes = [0; MOST_NODES];
        for (index, (bits, node)) in nodes.iter_mut().zip(&state.nodes).enumerate() {
            let key = node.key.map_or(0, |owner| place[usize::from(owner)] + 1);
            let received = order.iter().fold(0, |bits, attempt| {
                let is = &state.attempts[*attempt];
                bits << 2 | u64::from(is.received >> index & 1) << 1 | u64::from(is.highest >> index & 1)
            });
            let words = Words::new().with(self.lies(index), 1).with(self.number(node.counter), 4);
            *bits = words.with(key, 3).with(received, 8).word();
        }
        let nodes = &mut nodes[..self.scope.nodes];
        nodes.sort_unstable();
        let mut packed = Words::<3>::new();
        for bits in nodes {
            packed.push(*bits, 16);
        }
        let forgotten = state.forgotten.map_or(NONE, |value| self.number(value));
        packed.push(forgotten, 4);
        packed.push(state.violated, 6);
        for attempt in order {
            packed.push(self.bits(state.attempts[attempt]), 13);
        }
        packed.words()
    }

    /// Packs an attempt into 13 bits.
    fn bits(self, attempt: Attempt) -> u64 {
        let floor = attempt.floor.map_or(NONE, |value| self.number(value));
        let words = Words::new().with(attempt.phase as u8, 2).with(self.number(attempt.token), 4);
        words.with(floor, 4).with(attempt.round as u8, 2).with(attempt.outlier, 1).word()
    }

    /// Returns the number by which a value is packed.
    fn number(self, value: u8) -> u64 {
        u64::from(if self.scope.counters == Counters::Any { value / 2 } else { value })
    }
}

const fn orders() -> [[usize; MOST_ATTEMPTS]; 24] {
    let mut orders = [[0; MOST_ATTEMPTS]; 24];
    let mut found = 0;
    let mut code = 0;
    while code < 256 {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3];
        let mask = 1 << order[0] | 1 << order[1] | 1 << order[2] | 1 << order[3];
        if mask == 15 {
            orders[found] = order;
            found += 1;
        }
        code += 1;
    }
    orders
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::catalog::Rule;
    use crate::explore::Model;
    use crate::fence::scope::{Extensions, Scope};

    const SCOPE: Scope = Scope {
        nodes: 3,
        attempts: 2,
        counters: Counters::Any,
        extensions: Extensions::Behind,
        forgets: false,
        lies: false,
    };

    /// Returns one reachable state of each equivalence class.
    fn reachable(model: Fencing) -> Vec<State> {
        let mut seen = HashSet::from([model.packed(&model.first())]);
        let (mut found, mut looked, mut steps) = (vec![model.first()], 0, Vec::new());
        while let Some(state) = found.get(looked).copied() {
            looked += 1;
            model.steps(&state, &mut steps);
            for step in steps.drain(..) {
                let next = model.next(&state, step);
                if seen.insert(model.packed(&next)) {
                    found.push(next);
                }
            }
        }
        found
    }

    /// Asserts that the second model reaches every state of the first one, and returns the number of states.
    fn covers(narrow: Scope, wide: Scope) -> usize {
        let wide = Fencing::new(wide);
        let reached: HashSet<Packed> = reachable(wide).iter().map(|state| wide.packed(state)).collect();
        let states = reachable(Fencing::new(narrow));
        // Events before the first attempt may as well happen just after its start.
        let begun = |state: &&State| state.attempts.iter().any(|attempt| attempt.phase != Phase::None);
        for state in states.iter().filter(begun) {
            let mut seen = *state;
            if wide.scope.forgets {
                wide.forget(&mut seen);
            }
            wide.rank(&mut seen);
            assert!(reached.contains(&wide.packed(&seen)), "{state:?} is not reached by the second model");
        }
        states.len()
    }

    #[test]
    fn ranks_cover_all_orders_of_numeric_counters() {
        let states = covers(Scope { counters: Counters::UpTo(4), ..SCOPE }, SCOPE);
        assert_eq!(47_900, states, "the number of states in this scope has changed");
    }

    #[test]
    fn forgotten_attempts_lead_to_no_other_states() {
        covers(SCOPE, Scope { forgets: true, ..SCOPE });
        let two = Scope { nodes: 2, attempts: 3, ..SCOPE };
        covers(two, Scope { forgets: true, ..two });
    }

    #[test]
    fn equivalent_states_have_one_key_for_any_names_of_nodes_and_attempts() {
        let model = Fencing::new(SCOPE);
        for state in reachable(model).iter().step_by(7) {
            let mut other = *state;
            other.nodes[..3].rotate_left(1);
            other.attempts.swap(0, 1);
            for attempt in &mut other.attempts {
                let rotated = |bits: u8| bits >> 1 | (bits & 1) << 2;
                (attempt.received, attempt.highest) = (rotated(attempt.received), rotated(attempt.highest));
            }
            for node in &mut other.nodes {
                node.key = node.key.map(|owner| 1 - owner);
            }
            assert_eq!(model.packed(state), model.packed(&other), "{state:?}");
        }
    }
}
