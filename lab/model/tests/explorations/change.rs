//! Explorations of changes of the nodes in scopes that are smaller than those of the page.

use redlock_model::change::{CATALOG, Changing, Lists, Program, Scope, Step, Variant};
use redlock_model::{Rule, explore};

const ONE_TO_THREE: Lists = Lists::new(&[0], &[0, 1, 2]);

const TWO_EXCHANGED: Lists = Lists::new(&[0, 1, 2], &[2, 3, 4]);

const THREE_TO_FIVE: Lists = Lists::new(&[0, 1, 2], &[0, 1, 2, 3, 4]);

const ALL_EXCHANGED: Lists = Lists::new(&[0, 1, 2], &[3, 4, 5]);

const fn scope(lists: Lists, programs: [Program; 3]) -> Scope {
    Scope { lists, programs, extensions: [0; 3], faults: 0, losses: 0 }
}

const STEPS_1_AND_2: [Program; 3] = [Program::Old, Program::Both, Program::Absent];

const STEPS_2_AND_3: [Program; 3] = [Program::Both, Program::New, Program::Absent];

/// Asserts that nothing is violated in a scope, and that it has this number of states.
fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Changing::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn all_steps_from_one_node_to_three_violate_nothing() {
    let scope = scope(ONE_TO_THREE, [Program::Old, Program::Both, Program::New]);
    nothing_is_violated(Scope { losses: 1, ..scope }, 49_212);
}

#[test]
fn steps_with_an_extension_violate_nothing() {
    let scope = scope(TWO_EXCHANGED, STEPS_1_AND_2);
    nothing_is_violated(Scope { extensions: [1, 0, 0], ..scope }, 207_650);
}

#[test]
fn the_last_steps_from_three_nodes_to_five_violate_nothing() {
    nothing_is_violated(scope(THREE_TO_FIVE, STEPS_2_AND_3), 95_814);
}

#[test]
fn other_nodes_violate_nothing() {
    nothing_is_violated(scope(ALL_EXCHANGED, STEPS_1_AND_2), 15_258);
}

/// Each holder has a quorum of its own list, and no node is in both quorums.
#[test]
fn the_shortest_trace_to_two_holders_two_steps_apart() {
    let broken = CATALOG.iter().find(|broken| broken.variant == Variant::TheLastStepDoesNotWait).unwrap();
    let trace = broken.detect().trace;
    let carried = trace.iter().filter(|step| matches!(step, Step::Carry(_))).count();
    assert_eq!((6, 4), (trace.len(), carried), "{trace:?}");
}

/// Without losses, quarantines change nothing.
#[test]
fn votes_after_a_loss_count_only_if_there_is_one() {
    let broken = CATALOG.iter().find(|broken| broken.variant == Variant::VotesCountAfterALoss).unwrap();
    let scope = Scope { losses: 0, ..broken.scope };
    assert!(explore(Changing::broken(scope, broken.variant)).violation.is_none());
}
