//! Explorations of the fencing rule in small scopes, and of every broken variant. `scripts/exhaust fencing` explores
//! large scopes.

use redlock_model::fence::{
    CATALOG, Counters, Extensions, Fencing, HARMLESS, Property, Scope, Step, Variant,
};
use redlock_model::{Rule, explore, explore_for};

const SMALL: Scope = Scope {
    nodes: 3,
    attempts: 2,
    counters: Counters::Any,
    extensions: Extensions::Behind,
    forgets: false,
    lies: false,
};

#[test]
fn two_attempts_violate_nothing() {
    crate::nothing_is_violated::<Fencing>(SMALL, 29_572);
}

#[test]
fn any_number_of_attempts_with_two_relevant_at_once_violates_nothing() {
    crate::nothing_is_violated::<Fencing>(Scope { forgets: true, ..SMALL }, 18_225);
}

#[test]
fn counters_that_increase_by_one_violate_nothing() {
    crate::nothing_is_violated::<Fencing>(Scope { counters: Counters::UpTo(4), ..SMALL }, 47_900);
}

#[test]
fn extensions_at_any_time_violate_nothing() {
    crate::nothing_is_violated::<Fencing>(Scope { extensions: Extensions::Any, ..SMALL }, 92_178);
}

/// One node may always reply with a counter far above all others.
#[test]
fn one_false_counter_violates_nothing() {
    let lying = Scope { counters: Counters::UpTo(4), lies: true, ..SMALL };
    crate::nothing_is_violated::<Fencing>(lying, 237_466);
    crate::nothing_is_violated::<Fencing>(Scope { extensions: Extensions::Any, ..lying }, 633_499);
}

#[test]
fn harmless_variants_violate_nothing() {
    for rule in HARMLESS {
        let found = explore(Fencing::broken(SMALL, rule.variant));
        assert!(found.violation.is_none(), "{:?}: {:?}", rule.variant, found.violation);
    }
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for broken in CATALOG {
        crate::detect(broken);
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
