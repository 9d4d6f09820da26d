//! The protocol is explored in small scopes, and every broken variant is caught; `scripts/exhaust` does the large ones.

use redlock_model::{CATALOGUE, Protocol, Scope, State, Step, Transport, Variant, explore, explore_for};

const SMALL: Scope = Scope { transport: Transport::Streams, attempts: [1, 1], extensions: [1, 0], faults: 0 };

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Protocol::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "a scope that shrinks, or grows, does so on purpose");
}

#[test]
fn nothing_is_violated_by_locks_and_an_extension_over_streams() {
    nothing_is_violated(SMALL, 359_360);
}

#[test]
fn nothing_is_violated_by_locks_over_datagrams() {
    nothing_is_violated(Scope { transport: Transport::Datagrams, extensions: [0, 0], ..SMALL }, 199_487);
}

#[test]
fn nothing_is_violated_by_locks_over_streams_when_something_goes_wrong() {
    nothing_is_violated(Scope { extensions: [0, 0], faults: 1, ..SMALL }, 410_242);
}

/// Those that take more than some hundred thousand states are left to the command.
const QUICK: [Variant; 15] = [
    Variant::QuorumOfHalf,
    Variant::OneTokenForAllAttempts,
    Variant::ValidityFromTheReply,
    Variant::StragglerRearms,
    Variant::ExtensionCreatesAndCounts,
    Variant::ExtensionRevives,
    Variant::FailedExtensionUnlocks,
    Variant::ReleaseComparesNothing,
    Variant::ReleaseOnlyWhereGranted,
    Variant::StragglerIsNotChased,
    Variant::ChaseEndsWithTime,
    Variant::OneAnswerEndsTheChase,
    Variant::AnyConnectionIsBehind,
    Variant::UnsentCountsAsSent,
    Variant::TraceReadAtTheAnswer,
];

#[test]
fn broken_variants_are_caught_by_what_they_violate() {
    for variant in QUICK {
        let broken = CATALOGUE.iter().find(|broken| broken.variant == variant).unwrap();
        let protocol = Protocol::broken(broken.scope, variant);
        let violation = explore_for(protocol, &[broken.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{variant:?} survives"));
        let end = violation.trace.iter().fold(State::default(), |state, step| {
            let mut steps = Vec::new();
            protocol.steps(&state, &mut steps);
            assert!(steps.contains(step), "a step of the trace is none");
            protocol.apply(&state, *step, &mut |_| {})
        });
        assert!(!broken.violates.holds(&end), "{variant:?}: the trace does not lead there");
    }
}

#[test]
fn the_shortest_way_to_two_holders_with_half_a_quorum() {
    let scope = Scope { extensions: [0, 0], ..SMALL };
    let violation = explore(Protocol::broken(scope, Variant::QuorumOfHalf)).violation.unwrap();
    let hears = |step: &&Step| matches!(step, Step::Answer(_));
    assert_eq!((6, 2), (violation.trace.len(), violation.trace.iter().filter(hears).count()));
}
