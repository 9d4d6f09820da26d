//! Explorations of readers and writers in small scopes, and of every broken variant. `scripts/exhaust sharing` explores
//! large scopes.

use redlock_model::share::{CATALOG, Property, Role, Scope, Sharing, Step, Variant};
use redlock_model::{Rule, explore_for};

const PAIR: Scope =
    Scope { roles: [Role::Reader, Role::Writer, Role::Absent], extensions: [0; 3], faults: 0 };

#[test]
fn a_reader_and_a_writer_with_a_fault_violate_nothing() {
    crate::nothing_is_violated::<Sharing>(Scope { faults: 1, ..PAIR }, 157_615);
}

#[test]
fn a_reader_that_extends_and_a_writer_violate_nothing() {
    crate::nothing_is_violated::<Sharing>(Scope { extensions: [1, 0, 0], ..PAIR }, 350_993);
}

#[test]
fn a_writer_that_extends_and_a_reader_violate_nothing() {
    crate::nothing_is_violated::<Sharing>(Scope { extensions: [0, 1, 0], ..PAIR }, 354_117);
}

#[test]
fn two_readers_violate_nothing() {
    crate::nothing_is_violated::<Sharing>(
        Scope { roles: [Role::Reader, Role::Reader, Role::Absent], ..PAIR },
        38_006,
    );
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG {
        crate::detect(broken);
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
