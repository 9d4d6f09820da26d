//! The fencing rule is explored in small scopes, and every broken variant of it is caught; `scripts/exhaust fencing` does
//! the large scopes.

use redlock_model::fence::{
    CATALOGUE, Counters, Extensions, Fencing, HARMLESS, Property, Scope, State, Step, Variant,
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
    assert_eq!(states, found.states, "a scope that shrinks, or grows, does so on purpose");
}

#[test]
fn nothing_is_violated_by_two_attempts() {
    nothing_is_violated(SMALL, 29_572);
}

#[test]
fn nothing_is_violated_by_any_number_of_attempts_of_which_two_matter_at_once() {
    nothing_is_violated(Scope { forgets: true, ..SMALL }, 18_225);
}

#[test]
fn nothing_is_violated_by_counters_that_grow_by_one() {
    nothing_is_violated(Scope { counters: Counters::UpTo(4), ..SMALL }, 47_900);
}

#[test]
fn nothing_is_violated_by_extensions_at_any_time() {
    nothing_is_violated(Scope { extensions: Extensions::Any, ..SMALL }, 92_178);
}

/// One node answers with a counter far above all others whenever it likes.
#[test]
fn nothing_is_violated_by_one_lying_counter() {
    let lying = Scope { counters: Counters::UpTo(4), lies: true, ..SMALL };
    nothing_is_violated(lying, 237_466);
    nothing_is_violated(Scope { extensions: Extensions::Any, ..lying }, 633_499);
}

#[test]
fn nothing_is_violated_by_rules_that_do_no_harm() {
    for (variant, _) in HARMLESS {
        let found = explore(Fencing::broken(SMALL, *variant));
        assert!(found.violation.is_none(), "{variant:?}: {:?}", found.violation);
    }
}

#[test]
fn broken_variants_are_caught_by_what_they_violate() {
    for broken in CATALOGUE {
        let model = Fencing::broken(broken.scope, broken.variant);
        let violation = explore_for(model, &[broken.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{:?} survives", broken.variant));
        let end = violation.trace.iter().fold(State::default(), |state, step| {
            let mut steps = Vec::new();
            model.steps(&state, &mut steps);
            assert!(steps.contains(step), "a step of the trace is none");
            model.next(&state, *step)
        });
        assert!(!model.holds(broken.violates, &end), "{:?}: the trace does not lead there", broken.variant);
    }
}

/// The first answer is a lie, and one confirmation later a node that tells the truth has the far counter.
#[test]
fn the_shortest_way_to_a_far_counter_where_any_answer_votes() {
    let lying = Scope { counters: Counters::UpTo(2), extensions: Extensions::None, lies: true, ..SMALL };
    let model = Fencing::broken(lying, Variant::AnyAnswerVotes);
    let violation = explore_for(model, &[Property::Bounded]).violation.unwrap();
    let story = model.story(&violation.trace);
    assert_eq!(4, story.len(), "{story:?}");
    assert!(story.iter().any(|line| line.starts_with("n0 lies to A")), "{story:?}");
    assert!(story.last().unwrap().ends_with("counter 1 -> 14"), "{story:?}");
}

#[test]
fn the_shortest_way_to_two_grants_of_one_token_without_a_write_back() {
    let model = Fencing::broken(Scope { counters: Counters::UpTo(2), ..SMALL }, Variant::NoWriteBack);
    let violation = explore_for(model, &[Property::Unique]).violation.unwrap();
    let sets = |step: &&Step| matches!(step, Step::Set { .. });
    assert_eq!((8, 4), (violation.trace.len(), violation.trace.iter().filter(sets).count()));
    let story = model.story(&violation.trace);
    assert!(story.last().unwrap().ends_with("is granted 2"), "{story:?}");
}
