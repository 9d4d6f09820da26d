//! Explorations of the admission rule in small scopes, and of the broken variants. `scripts/exhaust admission` explores
//! large scopes.

use redlock_model::admission::{
    Admission, CATALOG, HARMLESS, Loss, Property, SMALL, Scope, Start, Step, Transport, Variant,
};
use redlock_model::{Model, explore, explore_for};

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Admission::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn losses_of_any_kind_violate_nothing() {
    nothing_is_violated(SMALL, 2_362);
    nothing_is_violated(Scope { losses: 2, ..SMALL }, 68_401);
}

#[test]
fn extensions_violate_nothing() {
    nothing_is_violated(Scope { extensions: [1, 1], ..SMALL }, 23_513);
    nothing_is_violated(Scope { extensions: [2, 0], ..SMALL }, 65_394);
}

#[test]
fn a_longer_ttl_and_further_attempts_violate_nothing() {
    nothing_is_violated(Scope { ttl: [3, 3], extensions: [1, 1], ..SMALL }, 152_104);
    nothing_is_violated(Scope { attempts: [2, 2], extensions: [1, 1], ..SMALL }, 94_771);
}

#[test]
fn more_nodes_violate_nothing() {
    nothing_is_violated(Scope { nodes: 4, extensions: [1, 1], ..SMALL }, 59_161);
    nothing_is_violated(Scope { nodes: 5, ..SMALL }, 11_333);
}

#[test]
fn a_look_behind_each_request_replaces_notifications() {
    let scope = Scope { transport: Transport::Looks, ..SMALL };
    nothing_is_violated(Scope { extensions: [1, 1], ..scope }, 19_395);
    nothing_is_violated(Scope { losses: 2, ..scope }, 40_651);
}

#[test]
fn new_clients_violate_nothing() {
    nothing_is_violated(Scope { start: Start::NewClients, ..SMALL }, 173_196);
}

#[test]
fn stricter_rules_violate_nothing() {
    let scope = Scope { extensions: [1, 1], ..SMALL };
    nothing_is_violated(Scope { remembers: true, ..scope }, 28_918);
    nothing_is_violated(Scope { rechecks: true, ..scope }, 25_182);
}

/// Returns true if a scope is small enough for every test run.
fn is_quick(scope: Scope) -> bool {
    scope.start == Start::Admitted || scope.losses == 0
}

#[test]
fn broken_variants_are_detected() {
    for broken in CATALOG.iter().filter(|broken| is_quick(broken.scope)) {
        let model = Admission::broken(broken.scope, broken.variant);
        let violation = explore_for(model, &[Property::Exclusion]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{:?} survives", broken.variant));
        let end = violation.trace.iter().fold(model.first(), |state, step| {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            assert!(steps.contains(step), "an impossible step in the trace");
            model.next(&state, *step)
        });
        assert!((0..2).all(|client| end.is_valid(client)), "{:?}: no violation", broken.variant);
    }
}

#[test]
fn other_rules_hold_in_smaller_worlds() {
    for rule in HARMLESS.iter().filter(|rule| is_quick(rule.scope) && rule.scope.losses == 1) {
        let found = explore(Admission::broken(rule.scope, rule.variant));
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
