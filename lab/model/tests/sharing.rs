//! Explorations of readers and writers in small scopes, and of every broken variant. `scripts/exhaust sharing` explores
//! large scopes.

use redlock_model::share::{CATALOG, Property, Role, Scope, Sharing, State, Step, Variant};
use redlock_model::{Model, explore, explore_for};

const PAIR: Scope =
    Scope { roles: [Role::Reader, Role::Writer, Role::Absent], extensions: [0; 3], faults: 0 };

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Sharing::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn a_reader_and_a_writer_with_a_fault_violate_nothing() {
    nothing_is_violated(Scope { faults: 1, ..PAIR }, 157_615);
}

#[test]
fn a_reader_that_extends_and_a_writer_violate_nothing() {
    nothing_is_violated(Scope { extensions: [1, 0, 0], ..PAIR }, 350_993);
}

#[test]
fn a_writer_that_extends_and_a_reader_violate_nothing() {
    nothing_is_violated(Scope { extensions: [0, 1, 0], ..PAIR }, 354_117);
}

#[test]
fn two_readers_violate_nothing() {
    nothing_is_violated(Scope { roles: [Role::Reader, Role::Reader, Role::Absent], ..PAIR }, 38_006);
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG {
        let model = Sharing::broken(broken.scope, broken.variant);
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

/// A failed attempt of one reader is cleaned up where it was denied, and removes the other reader.
#[test]
fn the_shortest_trace_to_a_removed_reader_if_readers_are_counted() {
    let roles = [Role::Reader, Role::Reader, Role::Absent];
    let model = Sharing::broken(Scope { roles, ..PAIR }, Variant::ReadersAreCounted);
    let violation = explore_for(model, &[Property::NoTrespass]).violation.unwrap();
    let removals = violation.trace.iter().filter(|step| matches!(step, Step::Remove { .. })).count();
    assert_eq!((8, 1), (violation.trace.len(), removals), "{:?}", violation.trace);
}
