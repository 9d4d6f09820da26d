//! Explorations of the order of waiters in small scopes, and of the broken variants that are found quickly.
//! `scripts/exhaust order` explores large scopes, and every variant.

use redlock_model::order::{CATALOG, Property, SCOPES, SMALL, Scope, Turns, Variant};
use redlock_model::{Model, Rule};

fn nothing_is_violated(scope: Scope, states: usize) {
    assert!(SCOPES.contains(&scope), "{scope}");
    crate::nothing_is_violated::<Turns>(scope, states);
}

#[test]
fn two_waiters_violate_nothing() {
    nothing_is_violated(SMALL, 96_413);
}

/// Variants whose traces need many states.
const SLOW: [Variant; 7] = [
    Variant::AcquireTakesAnyReservation,
    Variant::FirstComeFirstServed,
    Variant::ReleaseDeletesAnyReservation,
    Variant::LeavingComparesNothing,
    Variant::LeavingKeepsItsReservation,
    Variant::PlacesOfTheLivingEnd,
    Variant::DenialsMoveTheTime,
];

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG.iter().filter(|broken| !SLOW.contains(&broken.variant)) {
        broken.detect();
    }
}

/// Each of three waiters has a reservation on one node, and none of them attempts: all wait for the end of one. With the
/// sound rule, the same state leads to a lock at once.
#[test]
fn a_split_of_reservations_leads_to_an_attempt() {
    let broken = CATALOG.iter().find(|broken| broken.variant == Variant::MinorityWaits).unwrap();
    let sound = Turns::new(broken.scope);
    assert!(sound.holds(Property::Progress, &sound.after(&broken.detect().trace)));
}
