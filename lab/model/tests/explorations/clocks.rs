//! Explorations of clocks that step or run fast in small scopes, of the broken variants of the guard, and of its known
//! holes. `scripts/exhaust clocks` explores large scopes.

use redlock_model::admission::{Admission, Clocks, Scope, Start, Step};
use redlock_model::clocks::{CATALOG, HARMLESS, HOLES, SCOPES, SMALL};
use redlock_model::{Rule as _, explore};

fn nothing_is_violated(scope: Scope, states: usize) {
    assert!(SCOPES.contains(&scope), "{scope}");
    crate::nothing_is_violated::<Admission>(scope, states);
}

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

fn clocks() -> Clocks {
    SMALL.clocks.expect("clocks step in this scope")
}

fn with(clocks: Clocks) -> Scope {
    Scope { clocks: Some(clocks), ..SMALL }
}

#[test]
fn a_step_at_any_moment_violates_nothing() {
    nothing_is_violated(SMALL, 14_128);
    nothing_is_violated(Scope { attempts: [2, 1], ..SMALL }, 63_401);
    nothing_is_violated(Scope { ttl: [3, 3], ..with(Clocks { size: 3, ..clocks() }) }, 111_372);
    nothing_is_violated(Scope { extensions: [1, 1], ..SMALL }, 125_115);
}

#[test]
fn a_clock_that_runs_fast_violates_nothing() {
    nothing_is_violated(with(Clocks { fast: true, ..clocks() }), 49_582);
}

#[test]
fn steps_back_violate_nothing() {
    nothing_is_violated(with(Clocks { steps: 0, back: 2, ..clocks() }), 1_604);
}

#[test]
fn late_replies_violate_nothing() {
    nothing_is_violated(with(Clocks { late_replies: true, ..clocks() }), 80_352);
}

#[test]
fn connections_that_break_violate_nothing() {
    nothing_is_violated(with(Clocks { reconnects: 1, ..clocks() }), 142_040);
}

#[test]
fn a_new_process_violates_nothing_if_steps_are_noticed() {
    nothing_is_violated(Scope { start: Start::NewClient, ..SMALL }, 290_255);
}

/// Returns true if a scope is small enough for every test run.
fn is_quick(scope: Scope) -> bool {
    scope.clocks.is_some_and(|clocks| clocks.replacements == 0)
}

#[test]
fn broken_variants_are_detected() {
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

#[test]
fn the_known_holes_are_found() {
    let lengths: Vec<_> = HOLES.iter().map(|hole| hole.detect().trace.len()).collect();
    assert_eq!(vec![9, 9, 8], lengths);
}
