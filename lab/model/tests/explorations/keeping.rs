//! Explorations of locks that are kept for a time in small scopes, and of every broken variant. `scripts/exhaust keeping`
//! explores large scopes.

use redlock_model::keep::{CATALOG, Keeping, Property, Request, RequestKind, Scope, Step, Variant};
use redlock_model::{Rule, explore_for};

#[test]
fn a_lock_that_is_kept_with_two_faults_violates_nothing() {
    crate::nothing_is_violated::<Keeping>(Scope { extensions: 0, faults: 2 }, 26_027);
}

#[test]
fn a_lock_that_was_extended_and_is_kept_with_a_fault_violates_nothing() {
    crate::nothing_is_violated::<Keeping>(Scope { extensions: 1, faults: 1 }, 168_897);
}

#[test]
fn a_lock_that_was_extended_twice_and_is_kept_violates_nothing() {
    crate::nothing_is_violated::<Keeping>(Scope { extensions: 2, faults: 0 }, 50_466);
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG {
        broken.detect();
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
