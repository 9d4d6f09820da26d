//! Explorations of the protocol in small scopes, and of every broken variant. `scripts/exhaust` explores large scopes.

use redlock_model::{CATALOG, Protocol, Scope, State, Step, Transport, Variant, explore, explore_for};

const SMALL: Scope = Scope {
    transport: Transport::Streams,
    attempts: [1, 1],
    extensions: [1, 0],
    faults: 0,
    quarantine: false,
};

fn nothing_is_violated(scope: Scope, states: usize) {
    let found = explore(Protocol::new(scope));
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert_eq!(states, found.states, "the number of states in this scope has changed");
}

#[test]
fn locks_and_an_extension_over_streams_violate_nothing() {
    nothing_is_violated(SMALL, 359_360);
}

#[test]
fn locks_over_datagrams_violate_nothing() {
    nothing_is_violated(Scope { transport: Transport::Datagrams, extensions: [0, 0], ..SMALL }, 199_487);
}

#[test]
fn locks_over_streams_with_faults_violate_nothing() {
    nothing_is_violated(Scope { extensions: [0, 0], faults: 1, ..SMALL }, 410_242);
}

#[test]
fn replies_of_nodes_in_quarantine_violate_nothing() {
    nothing_is_violated(Scope { extensions: [0, 0], faults: 1, quarantine: true, ..SMALL }, 419_572);
}

/// The variants that take at most a few hundred thousand states. `scripts/exhaust` covers the others.
const QUICK: [Variant; 15] = [
    Variant::QuorumOfHalf,
    Variant::OneTokenForAllAttempts,
    Variant::ValidityFromTheReply,
    Variant::LateGrantRestartsValidity,
    Variant::ExtensionCreatesAndCounts,
    Variant::ExtensionRevives,
    Variant::FailedExtensionUnlocks,
    Variant::ReleaseComparesNothing,
    Variant::ReleaseOnlyWhereGranted,
    Variant::LateWriteIsNotCleanedUp,
    Variant::CleanupEndsWithTime,
    Variant::OneReplyEndsCleanup,
    Variant::AnyConnectionIsOrdered,
    Variant::UnsentCountsAsSent,
    Variant::StateReadAtTheReply,
];

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for variant in QUICK {
        let broken = CATALOG.iter().find(|broken| broken.variant == variant).unwrap();
        let protocol = Protocol::broken(broken.scope, variant);
        let violation = explore_for(protocol, &[broken.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{variant:?} survives"));
        let end = violation.trace.iter().fold(State::default(), |state, step| {
            let mut steps = Vec::new();
            protocol.steps(&state, &mut steps);
            assert!(steps.contains(step), "an impossible step in the trace");
            protocol.apply(&state, *step, &mut |_| {})
        });
        assert!(!broken.violates.holds(&end), "{variant:?}: the trace does not lead to a violation");
    }
}

#[test]
fn the_shortest_trace_to_two_holders_with_half_a_quorum() {
    let scope = Scope { extensions: [0, 0], ..SMALL };
    let violation = explore(Protocol::broken(scope, Variant::QuorumOfHalf)).violation.unwrap();
    let receives = |step: &&Step| matches!(step, Step::Reply(_));
    assert_eq!((6, 2), (violation.trace.len(), violation.trace.iter().filter(receives).count()));
}
