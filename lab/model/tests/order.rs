//! Explorations of the order of waiters in small scopes, and of the broken variants that are found quickly.
//! `scripts/exhaust order` explores large scopes, and every variant.

use redlock_model::order::{CATALOG, Property, SCOPES, SMALL, Scope, Turns, Variant};
use redlock_model::{Model, explore, explore_for};

fn nothing_is_violated(scope: Scope, states: usize) {
    assert!(SCOPES.contains(&scope), "{scope}");
    let found = explore(Turns::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn two_waiters_violate_nothing() {
    nothing_is_violated(SMALL, 32_079);
}

/// Variants whose traces need many states.
const SLOW: [Variant; 4] = [
    Variant::AcquireTakesAnyReservation,
    Variant::FirstComeFirstServed,
    Variant::ClientClockIsTheScore,
    Variant::LastComeFirstServed,
];

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG.iter().filter(|broken| !SLOW.contains(&broken.variant)) {
        let model = Turns::broken(broken.scope, broken.variant);
        let violation = explore_for(model, &[broken.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{:?} survives", broken.variant));
        let end = violation.trace.iter().fold(model.first(), |state, step| {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            assert!(steps.contains(step), "an impossible step in the trace");
            model.next(&state, *step)
        });
        assert!(!model.holds(broken.violates, &end), "{:?}", broken.variant);
    }
}

/// Each of three waiters has a reservation on one node, and none of them attempts: all wait for the end of one.
#[test]
fn a_minority_of_reservations_must_lead_to_an_attempt() {
    let broken = CATALOG.iter().find(|broken| broken.variant == Variant::MinorityWaits).unwrap();
    let progress = [Property::Progress];
    assert!(explore_for(Turns::broken(broken.scope, Variant::MinorityWaits), &progress).violation.is_some());
    let sound = Scope { delays: false, ..broken.scope };
    assert!(SCOPES.contains(&sound));
    assert!(explore_for(Turns::new(sound), &progress).violation.is_none());
}
