//! Explorations of every model in small scopes, and of the broken variants that are found quickly. `scripts/exhaust`
//! explores large scopes, and every variant.

mod admission;
mod change;
mod clocks;
mod keeping;
mod order;

use redlock_model::{Rule, explore};

/// Asserts that nothing is violated in a scope, and that it has this number of states.
fn nothing_is_violated<M: Rule>(scope: M::Scope, states: usize) {
    let found = explore(M::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

/// The greatest number of states that is explored again.
const SMALL: usize = 30_000;

#[test]
fn the_page_has_the_scopes_and_the_variants_of_every_model() {
    redlock_model::admission::EXPLORED.compare("admission", SMALL);
    redlock_model::clocks::EXPLORED.compare("clocks", SMALL);
    redlock_model::keep::EXPLORED.compare("keeping", SMALL);
    redlock_model::change::EXPLORED.compare("change", SMALL);
    redlock_model::order::EXPLORED.compare("order", SMALL);
}
