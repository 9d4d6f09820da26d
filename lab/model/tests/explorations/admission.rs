//! Further explorations of the admission rule.

use redlock_model::admission::{Admission, HARMLESS, Loss, Property, SMALL, Scope, Start, Step, Variant};
use redlock_model::{Rule, explore, explore_for};

#[test]
fn other_rules_hold_in_smaller_worlds() {
    for rule in HARMLESS.iter().filter(|rule| rule.scope.start == Start::Admitted && rule.scope.losses == 1) {
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
