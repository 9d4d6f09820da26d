//! Explorations of the admission rule in small scopes, and of every broken variant. `scripts/exhaust admission` explores
//! large scopes.

use redlock_model::admission::{
    Admission, CATALOG, HARMLESS, Loss, Property, SMALL, Scope, Start, State, Step, Transport, Variant,
};
use redlock_model::{Model, explore, explore_for};

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Admission::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn one_loss_of_any_kind_violates_nothing() {
    nothing_is_violated(SMALL, 0);
}
