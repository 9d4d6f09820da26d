//! Further explorations of clocks that step or run fast.

use redlock_model::admission::{Admission, Clocks, Scope, Step};
use redlock_model::clocks::{CATALOG, HARMLESS, HOLES};
use redlock_model::{Rule as _, explore};

/// Returns whether a new client may look after a step of one clock that no client has noticed.
fn may_be_new(strict: bool) -> bool {
    let scope = HOLES[0].scope;
    let clocks = Clocks { nodes: 1, strict, ..scope.clocks.expect("clocks step in this scope") };
    explore(Admission::new(Scope { clocks: Some(clocks), ..scope })).violation.is_none()
}

#[test]
fn strict_clients_need_no_other_client_that_notices_a_step() {
    assert!(!may_be_new(false));
    assert!(may_be_new(true));
}

/// Returns true if a scope is small enough for every test run.
fn is_quick(scope: Scope) -> bool {
    scope.clocks.is_some_and(|clocks| clocks.replacements == 0)
}

#[test]
fn each_trace_to_a_violation_has_a_step_of_a_clock() {
    for broken in CATALOG.iter().filter(|broken| is_quick(broken.scope)) {
        let trace = broken.detect().trace;
        let jumps = trace.iter().filter(|step| matches!(step, Step::Clock { .. })).count();
        let most = broken.scope.clocks.map_or(0, |clocks| usize::from(clocks.steps));
        assert!((1..=most).contains(&jumps), "{:?}: {trace:?}", broken.variant);
    }
}

#[test]
fn other_rules_hold() {
    for rule in HARMLESS.iter().filter(|rule| is_quick(rule.scope)) {
        let found = explore(rule.model());
        assert!(found.violation.is_none(), "{:?}: {:?}", rule.variant, found.violation);
    }
}
