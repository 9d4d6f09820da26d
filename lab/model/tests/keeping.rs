//! Explorations of locks that are kept for a time in small scopes, and of every broken variant. `scripts/exhaust keeping`
//! explores large scopes.

use redlock_model::keep::{CATALOG, Keeping, Property, Request, RequestKind, Scope, State, Step, Variant};
use redlock_model::{Model, explore, explore_for};

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Keeping::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn a_lock_that_is_kept_with_two_faults_violates_nothing() {
    nothing_is_violated(Scope { extensions: 0, faults: 2 }, 26_027);
}

#[test]
fn a_lock_that_was_extended_and_is_kept_with_a_fault_violates_nothing() {
    nothing_is_violated(Scope { extensions: 1, faults: 1 }, 168_897);
}

#[test]
fn a_lock_that_was_extended_twice_and_is_kept_violates_nothing() {
    nothing_is_violated(Scope { extensions: 2, faults: 0 }, 50_466);
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG {
        let model = Keeping::broken(broken.scope, broken.variant);
        let violation = explore_for(model, &[broken.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{:?} survives", broken.variant));
        let end = violation.trace.iter().fold(State::default(), |state, step| {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            assert!(steps.contains(step), "an impossible step in the trace");
            model.next(&state, *step)
        });
        assert!(
            !model.holds(broken.violates, &end),
            "{:?}: the trace does not lead to a violation",
            broken.variant
        );
    }
}

/// A late renewal shortens the life only if its connection broke: otherwise the node carries it out before the keep.
#[test]
fn the_shortest_trace_to_a_shortened_life_breaks_a_connection() {
    let explore = |faults| {
        let scope = Scope { extensions: 1, faults };
        explore_for(Keeping::broken(scope, Variant::RenewalSetsTheLife), &[Property::Exclusion]).violation
    };
    assert!(explore(0).is_none());
    let trace = explore(1).unwrap().trace;
    let position = |wanted: fn(&Step) -> bool| trace.iter().position(wanted).unwrap();
    let breaks = position(|step| matches!(step, Step::Break { .. }));
    let extended = position(|step| matches!(step, Step::Carry(Request { kind: RequestKind::Extend(_), .. })));
    assert!(breaks < extended, "{trace:?}");
    assert_eq!(16, trace.len(), "{trace:?}");
}
