//! Explorations of the fencing rule in small scopes, and of every broken variant. `scripts/exhaust fencing` explores
//! large scopes.

use redlock_model::fence::{
    CATALOG, Counters, Extensions, Fencing, HARMLESS, Property, Scope, State, Step, Variant,
};
use redlock_model::{Model, explore, explore_for};

const SMALL: Scope = Scope {
    nodes: 3,
    attempts: 2,
    counters: Counters::Any,
    extensions: Extensions::Behind,
    forgets: false,
    lies: false,
};

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Fencing::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn two_attempts_violate_nothing() {
    nothing_is_violated(SMALL, 29_572);
}

#[test]
fn any_number_of_attempts_with_two_relevant_at_once_violates_nothing() {
    nothing_is_violated(Scope { forgets: true, ..SMALL }, 18_225);
}

#[test]
fn counters_that_increase_by_one_violate_nothing() {
    nothing_is_violated(Scope { counters: Counters::UpTo(4), ..SMALL }, 47_900);
}

#[test]
fn extensions_at_any_time_violate_nothing() {
    nothing_is_violated(Scope { extensions: Extensions::Any, ..SMALL }, 92_178);
}

/// One node may always reply with a counter far above all others.
#[test]
fn one_false_counter_violates_nothing() {
    let lying = Scope { counters: Counters::UpTo(4), lies: true, ..SMALL };
    nothing_is_violated(lying, 237_466);
    nothing_is_violated(Scope { extensions: Extensions::Any, ..lying }, 633_499);
}

#[test]
fn harmless_variants_violate_nothing() {
    for (variant, _) in HARMLESS {
        let found = explore(Fencing::broken(SMALL, *variant));
        assert!(found.violation.is_none(), "{variant:?}: {:?}", found.violation);
    }
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG {
        let model = Fencing::broken(broken.scope, broken.variant);
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

/// The first reply is false. One confirmation later an honest node has the far counter.
#[test]
fn the_shortest_trace_to_a_far_counter_if_any_reply_counts() {
    let lying = Scope { counters: Counters::UpTo(2), extensions: Extensions::None, lies: true, ..SMALL };
    let model = Fencing::broken(lying, Variant::AnyReplyCounts);
    let violation = explore_for(model, &[Property::Bounded]).violation.unwrap();
    let lines = model.describe(&violation.trace);
    assert_eq!(4, lines.len(), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("n0 lies to A")), "{lines:?}");
    assert!(lines.last().unwrap().ends_with("counter 1 -> 14"), "{lines:?}");
}

#[test]
fn the_shortest_trace_to_two_grants_of_one_token_without_a_write_back() {
    let model = Fencing::broken(Scope { counters: Counters::UpTo(2), ..SMALL }, Variant::NoWriteBack);
    let violation = explore_for(model, &[Property::Unique]).violation.unwrap();
    let sets = |step: &&Step| matches!(step, Step::Set { .. });
    assert_eq!((8, 4), (violation.trace.len(), violation.trace.iter().filter(sets).count()));
    let lines = model.describe(&violation.trace);
    assert!(lines.last().unwrap().ends_with("is granted 2"), "{lines:?}");
}
