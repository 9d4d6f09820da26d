//! Explorations of the order of waiters in small scopes, and of the broken variants that are found quickly.
//! `scripts/exhaust order` explores large scopes, and every variant.

use redlock_model::order::{CATALOG, Property, SCOPES, SMALL, Scope, State, Step, Turns, Variant};
use redlock_model::{Model, explore, explore_for};

fn nothing_is_violated(scope: Scope, states: usize) {
    assert!(SCOPES.contains(&scope), "{scope}");
    let found = explore(Turns::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn two_waiters_violate_nothing() {
    nothing_is_violated(SMALL, 138_604);
}

/// Variants whose traces need many states.
const SLOW: [Variant; 5] = [
    Variant::AcquireTakesAnyReservation,
    Variant::FirstComeFirstServed,
    Variant::ReleaseDeletesAnyReservation,
    Variant::LeavingComparesNothing,
    Variant::LeavingKeepsItsReservation,
];

/// Returns the state at the end of a trace, and checks that each step is possible.
fn replay(model: Turns, trace: &[Step]) -> State {
    trace.iter().fold(model.first(), |state, step| {
        let mut steps = Vec::new();
        model.steps(&state, &mut steps);
        assert!(steps.contains(step), "an impossible step in the trace: {step}");
        model.next(&state, *step)
    })
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG.iter().filter(|broken| !SLOW.contains(&broken.variant)) {
        let model = Turns::broken(broken.scope, broken.variant);
        let violation = explore_for(model, &[broken.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{:?} survives", broken.variant));
        assert!(!model.holds(broken.violates, &replay(model, &violation.trace)), "{:?}", broken.variant);
    }
}

/// Each of three waiters has a reservation on one node, and none of them attempts: all wait for the end of one. With the
/// sound rule, the same state leads to a lock at once.
#[test]
fn a_split_of_reservations_leads_to_an_attempt() {
    let broken = CATALOG.iter().find(|broken| broken.variant == Variant::MinorityWaits).unwrap();
    let waits = Turns::broken(broken.scope, Variant::MinorityWaits);
    let trace = explore_for(waits, &[Property::Progress]).violation.unwrap().trace;
    let sound = Turns::new(broken.scope);
    assert!(sound.holds(Property::Progress, &replay(sound, &trace)));
}
