//! Broken variants of the protocol, each with the property that detects it. An exploration without a violation means
//! something only if it detects these.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::Broken;
use crate::property::Property;
use crate::protocol::Protocol;
use crate::scope::{Scope, Transport};

/// The sound protocol, or a protocol with one broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // Acquiring.
    QuorumOfHalf,
    OneTokenForAllAttempts,
    ValidityFromTheReply,
    LateGrantRestartsValidity,
    // Extending.
    ExtensionByMostReplies,
    ExtensionCreatesAndCounts,
    ExtensionRevives,
    FailedExtensionUnlocks,
    // Refilling.
    RefillOverwrites,
    RefillIsNotCleanedUp,
    RefillAfterTheRelease,
    // Releasing.
    ReleaseComparesNothing,
    ReleaseOnlyWhereGranted,
    // Cleanup.
    LateWriteIsNotCleanedUp,
    CleanupEndsWithTime,
    OneReplyEndsCleanup,
    SecondReleaseAtOnce,
    AnyConnectionIsOrdered,
    OnlyLastConnectionIsKept,
    StaleDeletionCounts,
    DeletionSettlesAll,
    DeniedWriteIsForgotten,
    UnsentCountsAsSent,
    StateReadAtTheReply,
    // Nodes.
    KeysExpireEarly,
}

/// Two attempts against one, without extensions.
const LOCKS: Scope = Scope {
    transport: Transport::Streams,
    attempts: [2, 1],
    extensions: [0, 0],
    faults: 1,
    quarantine: false,
};

/// One lease that is extended once, and a contender.
const EXTENSION: Scope = Scope { attempts: [1, 1], extensions: [1, 0], ..LOCKS };

/// The same scope with two extensions.
const EXTENSIONS: Scope = Scope { extensions: [2, 0], ..EXTENSION };

const fn datagrams(scope: Scope) -> Scope {
    Scope { transport: Transport::Datagrams, ..scope }
}

const fn faults(faults: u8, scope: Scope) -> Scope {
    Scope { faults, ..scope }
}

/// Every broken variant.
pub const CATALOG: &[Broken<Protocol>] = {
    use Property::{CountedKeysExist, Exclusion, NoRevival, NoTrespass, NothingLeftBehind};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        Broken::new(QuorumOfHalf, "a quorum is N/2", Exclusion, LOCKS),
        Broken::new(
            OneTokenForAllAttempts,
            "all attempts of a client have one token",
            CountedKeysExist,
            LOCKS,
        ),
        Broken::new(
            ValidityFromTheReply,
            "the validity counts from the moment at which the round is won",
            CountedKeysExist,
            LOCKS,
        ),
        Broken::new(LateGrantRestartsValidity, "a late grant restarts the validity", CountedKeysExist, LOCKS),
        Broken::new(
            ExtensionByMostReplies,
            "an extension counts a majority of the replies, not of the nodes",
            Exclusion,
            faults(2, EXTENSION),
        ),
        Broken::new(
            ExtensionCreatesAndCounts,
            "an extension creates a missing key, and counts it",
            NothingLeftBehind,
            EXTENSION,
        ),
        Broken::new(
            ExtensionRevives,
            "a won extension does not check the validity again",
            NoRevival,
            EXTENSION,
        ),
        Broken::new(
            FailedExtensionUnlocks,
            "a failed extension releases, and the old deadline is kept",
            CountedKeysExist,
            faults(2, EXTENSION),
        ),
        Broken::new(RefillOverwrites, "a refill is a SET without NX", NoTrespass, EXTENSION),
        Broken::new(
            RefillIsNotCleanedUp,
            "a refill is not cleaned up",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        Broken::new(
            RefillAfterTheRelease,
            "a refill is sent although the lease was released meanwhile",
            NothingLeftBehind,
            EXTENSION,
        ),
        Broken::new(ReleaseComparesNothing, "a release deletes any key", NoTrespass, LOCKS),
        Broken::new(
            ReleaseOnlyWhereGranted,
            "a release goes only to the nodes that granted",
            NothingLeftBehind,
            LOCKS,
        ),
        Broken::new(
            LateWriteIsNotCleanedUp,
            "a release is sent once and never retried",
            NothingLeftBehind,
            faults(2, LOCKS),
        ),
        Broken::new(
            CleanupEndsWithTime,
            "cleanup ends when the TTL has passed at the client",
            NothingLeftBehind,
            LOCKS,
        ),
        Broken::new(
            OneReplyEndsCleanup,
            "one reply \"no key\" ends the cleanup, in any order",
            NothingLeftBehind,
            datagrams(LOCKS),
        ),
        Broken::new(
            SecondReleaseAtOnce,
            "the second release does not wait for a node timeout",
            NothingLeftBehind,
            datagrams(LOCKS),
        ),
        Broken::new(
            AnyConnectionIsOrdered,
            "a release is assumed to follow a write on another connection",
            NothingLeftBehind,
            LOCKS,
        ),
        Broken::new(
            OnlyLastConnectionIsKept,
            "only the connection of the last of several unknown writes is remembered",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        Broken::new(
            StaleDeletionCounts,
            "a release that deletes an earlier write's key ends the cleanup of a later write",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        Broken::new(
            DeletionSettlesAll,
            "a release that deletes one write's key ends the cleanup of two",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        Broken::new(
            DeniedWriteIsForgotten,
            "a deletion ends the cleanup although it deleted the second copy of an earlier, denied write",
            NothingLeftBehind,
            datagrams(EXTENSION),
        ),
        Broken::new(
            UnsentCountsAsSent,
            "a write whose call is open counts as sent before the release",
            NothingLeftBehind,
            EXTENSION,
        ),
        Broken::new(
            StateReadAtTheReply,
            "the state of the writes is read at the reply to a release, not when it is sent",
            NothingLeftBehind,
            EXTENSIONS,
        ),
        Broken::new(
            KeysExpireEarly,
            "(the assumption) keys expire within the drift allowance",
            CountedKeysExist,
            LOCKS,
        ),
    ]
};
