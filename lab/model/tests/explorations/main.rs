//! Explorations of every model in small scopes, and of the broken variants that are found quickly. `scripts/exhaust`
//! explores large scopes, and every variant.

mod admission;
mod change;
mod clocks;
mod keeping;
mod order;
mod page;

use redlock_model::{Broken, Rule, explore};

/// Asserts that nothing is violated in a scope, and that it has this number of states.
fn nothing_is_violated<M: Rule>(scope: M::Scope, states: usize) {
    let found = explore(M::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

/// Returns the state that a trace leads to. Asserts that each of its steps is possible.
fn end<M: Rule>(model: M, trace: &[M::Step]) -> M::State {
    trace.iter().fold(model.first(), |state, step| {
        let mut steps = Vec::new();
        model.steps(&state, &mut steps);
        assert!(steps.contains(step), "an impossible step in the trace: {step}");
        model.next(&state, *step)
    })
}

/// Returns the shortest trace to the violation of a broken variant. Asserts that it leads to one.
fn detect<M: Rule>(broken: &Broken<M>) -> Vec<M::Step> {
    let violation = broken.explore().violation;
    let trace = violation.unwrap_or_else(|| panic!("{:?} survives: {}", broken.variant, broken.does)).trace;
    let model = broken.model();
    let holds = model.holds(broken.violates, &end(model, &trace));
    assert!(!holds, "{:?}: the trace does not lead to a violation", broken.variant);
    trace
}
