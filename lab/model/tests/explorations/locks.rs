//! Explorations of the protocol in small scopes, and of every broken variant. `scripts/exhaust` explores large scopes.

use redlock_model::{CATALOG, Protocol, Rule, Scope, Step, Transport, Variant, explore};

const SMALL: Scope = Scope {
    transport: Transport::Streams,
    attempts: [1, 1],
    extensions: [1, 0],
    faults: 0,
    quarantine: false,
};

#[test]
fn locks_and_an_extension_over_streams_violate_nothing() {
    crate::nothing_is_violated::<Protocol>(SMALL, 359_360);
}

#[test]
fn locks_over_datagrams_violate_nothing() {
    crate::nothing_is_violated::<Protocol>(
        Scope { transport: Transport::Datagrams, extensions: [0, 0], ..SMALL },
        199_487,
    );
}

#[test]
fn locks_over_streams_with_faults_violate_nothing() {
    crate::nothing_is_violated::<Protocol>(Scope { extensions: [0, 0], faults: 1, ..SMALL }, 410_242);
}

#[test]
fn replies_of_nodes_in_quarantine_violate_nothing() {
    crate::nothing_is_violated::<Protocol>(
        Scope { extensions: [0, 0], faults: 1, quarantine: true, ..SMALL },
        419_572,
    );
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
    for broken in CATALOG.iter().filter(|broken| QUICK.contains(&broken.variant)) {
        crate::detect(broken);
    }
}

#[test]
fn the_shortest_trace_to_two_holders_with_half_a_quorum() {
    let scope = Scope { extensions: [0, 0], ..SMALL };
    let violation = explore(Protocol::broken(scope, Variant::QuorumOfHalf)).violation.unwrap();
    let receives = |step: &&Step| matches!(step, Step::Reply(_));
    assert_eq!((6, 2), (violation.trace.len(), violation.trace.iter().filter(receives).count()));
}
