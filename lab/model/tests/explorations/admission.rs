//! Explorations of the admission rule in small scopes, and of the broken variants. `scripts/exhaust admission` explores
//! large scopes.

use redlock_model::admission::{
    Admission, CATALOG, HARMLESS, Loss, Property, SMALL, Scope, Start, Step, Transport, Variant,
};
use redlock_model::{Rule, explore, explore_for};

#[test]
fn losses_of_any_kind_violate_nothing() {
    crate::nothing_is_violated::<Admission>(SMALL, 2_362);
    crate::nothing_is_violated::<Admission>(Scope { losses: 2, ..SMALL }, 68_401);
}

#[test]
fn extensions_violate_nothing() {
    crate::nothing_is_violated::<Admission>(Scope { extensions: [1, 1], ..SMALL }, 23_513);
    crate::nothing_is_violated::<Admission>(Scope { extensions: [2, 0], ..SMALL }, 65_394);
}

#[test]
fn a_longer_ttl_and_further_attempts_violate_nothing() {
    crate::nothing_is_violated::<Admission>(Scope { ttl: [3, 3], extensions: [1, 1], ..SMALL }, 152_104);
    crate::nothing_is_violated::<Admission>(Scope { attempts: [2, 2], extensions: [1, 1], ..SMALL }, 94_771);
}

#[test]
fn more_nodes_violate_nothing() {
    crate::nothing_is_violated::<Admission>(Scope { nodes: 4, extensions: [1, 1], ..SMALL }, 59_161);
    crate::nothing_is_violated::<Admission>(Scope { nodes: 5, ..SMALL }, 11_333);
}

#[test]
fn a_look_behind_each_request_replaces_notifications() {
    let scope = Scope { transport: Transport::Looks, ..SMALL };
    crate::nothing_is_violated::<Admission>(Scope { extensions: [1, 1], ..scope }, 19_395);
    crate::nothing_is_violated::<Admission>(Scope { losses: 2, ..scope }, 40_651);
}

#[test]
fn new_clients_violate_nothing() {
    crate::nothing_is_violated::<Admission>(Scope { start: Start::NewClients, ..SMALL }, 173_196);
}

#[test]
fn stricter_rules_violate_nothing() {
    let scope = Scope { extensions: [1, 1], ..SMALL };
    crate::nothing_is_violated::<Admission>(Scope { remembers: true, ..scope }, 28_918);
    crate::nothing_is_violated::<Admission>(Scope { rechecks: true, ..scope }, 25_182);
}

/// Returns true if a scope is small enough for every test run.
fn is_quick(scope: Scope) -> bool {
    scope.start == Start::Admitted || scope.losses == 0
}

#[test]
fn broken_variants_are_detected() {
    for broken in CATALOG.iter().filter(|broken| is_quick(broken.scope)) {
        broken.detect();
    }
}

#[test]
fn other_rules_hold_in_smaller_worlds() {
    for rule in HARMLESS.iter().filter(|rule| is_quick(rule.scope) && rule.scope.losses == 1) {
        let found = explore(rule.model());
        assert!(found.violation.is_none(), "{:?}: {:?}", rule.variant, found.violation);
    }
}

/// A client extends its lease with a node that has lost the key. A late acquire of the same client has set it again.
#[test]
fn the_shortest_trace_to_two_leases_if_extensions_count_all_nodes() {
    let scope = Scope { extensions: [1, 0], kinds: Loss::RESTARTS, ..SMALL };
    let model = Admission::broken(scope, Variant::ExtensionsCountAll);
    let violation = explore_for(model, &[Property::Exclusion]).violation.unwrap();
    let count = |wanted: fn(&Step) -> bool| violation.trace.iter().filter(|step| wanted(step)).count();
    assert_eq!(13, violation.trace.len(), "{:?}", model.describe(&violation.trace));
    assert_eq!(1, count(|step| matches!(step, Step::Lose { .. })));
    assert_eq!(2, count(|step| matches!(step, Step::Prolong { .. })));
    let lines = model.describe(&violation.trace);
    assert!(lines.last().unwrap().ends_with("has the lock"), "{lines:?}");
}
