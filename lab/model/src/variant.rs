//! Ways to get the protocol wrong, each with what finds it: an exploration that finds nothing must be able to.
//!
//! Every variant changes one rule, in the one place that consults it.

use crate::property::Property;
use crate::scope::{Scope, Transport};

/// The protocol as it is, or with one rule broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalogue has a sentence for each
pub enum Variant {
    Sound,
    // Acquiring.
    QuorumOfHalf,
    OneTokenForAllAttempts,
    ValidityFromTheReply,
    StragglerRearms,
    // Extending.
    ExtensionByMostAnswers,
    ExtensionCreatesAndCounts,
    ExtensionRevives,
    FailedExtensionUnlocks,
    // Refilling.
    RefillOverwrites,
    RefillIsNotTraced,
    RefillAfterTheRelease,
    // Releasing.
    ReleaseComparesNothing,
    ReleaseOnlyWhereGranted,
    // Chasing.
    StragglerIsNotChased,
    ChaseEndsWithTime,
    OneAnswerEndsTheChase,
    SecondReleaseAtOnce,
    AnyConnectionIsBehind,
    LastConnectionStandsForAll,
    StaleDeletionCounts,
    DeletionSettlesAll,
    RefusedWriteIsForgotten,
    UnsentCountsAsSent,
    TraceReadAtTheAnswer,
    // Nodes.
    KeysExpireEarly,
}

/// A broken variant, and what finds it.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    /// Which.
    pub variant: Variant,
    /// What it does.
    pub does: &'static str,
    /// What is violated, by the shortest trace there is.
    pub violates: Property,
    /// A scope that is large enough.
    pub scope: Scope,
}

/// Two attempts against one, no extensions.
const LOCKS: Scope = Scope { transport: Transport::Streams, attempts: [2, 1], extensions: [0, 0], faults: 1 };

/// One lease that is extended once, and a contender.
const EXTENSION: Scope = Scope { attempts: [1, 1], extensions: [1, 0], ..LOCKS };

/// The same with two extensions.
const EXTENSIONS: Scope = Scope { extensions: [2, 0], ..EXTENSION };

const fn datagrams(scope: Scope) -> Scope {
    Scope { transport: Transport::Datagrams, ..scope }
}

const fn faults(faults: u8, scope: Scope) -> Scope {
    Scope { faults, ..scope }
}

const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken {
    Broken { variant, does, violates, scope }
}

/// Every broken variant.
pub const CATALOGUE: &[Broken] = {
    use Property::{CountedKeysStand, Exclusion, NoRevival, NoTrespass, NothingLeftBehind};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(QuorumOfHalf, "a quorum is N/2", Exclusion, LOCKS),
        broken(OneTokenForAllAttempts, "all attempts of a client have one token", CountedKeysStand, LOCKS),
        broken(
            ValidityFromTheReply,
            "the validity counts from the moment at which the round is won",
            CountedKeysStand,
            LOCKS,
        ),
        broken(StragglerRearms, "a grant that comes later re-arms the validity", CountedKeysStand, LOCKS),
        broken(
            ExtensionByMostAnswers,
            "an extension counts a majority of the answers, not of the nodes",
            Exclusion,
            faults(2, EXTENSION),
        ),
        broken(
            ExtensionCreatesAndCounts,
            "an extension creates a missing key, and counts it",
            NothingLeftBehind,
            EXTENSION,
        ),
        broken(
            ExtensionRevives,
            "an extension does not look at the validity again when it is won",
            NoRevival,
            EXTENSION,
        ),
        broken(
            FailedExtensionUnlocks,
            "an extension that fails releases, and the old deadline stands",
            CountedKeysStand,
            faults(2, EXTENSION),
        ),
        broken(RefillOverwrites, "a refill is a SET without NX", NoTrespass, EXTENSION),
        broken(RefillIsNotTraced, "a refill is not chased", NothingLeftBehind, faults(2, EXTENSION)),
        broken(
            RefillAfterTheRelease,
            "a refill is sent though the lease was released meanwhile",
            NothingLeftBehind,
            EXTENSION,
        ),
        broken(ReleaseComparesNothing, "a release deletes whatever is there", NoTrespass, LOCKS),
        broken(
            ReleaseOnlyWhereGranted,
            "a release goes only to the nodes that granted",
            NothingLeftBehind,
            LOCKS,
        ),
        broken(
            StragglerIsNotChased,
            "a release is sent once, and never again",
            NothingLeftBehind,
            faults(2, LOCKS),
        ),
        broken(
            ChaseEndsWithTime,
            "a chase ends when the TTL has passed at the client",
            NothingLeftBehind,
            LOCKS,
        ),
        broken(
            OneAnswerEndsTheChase,
            "one answer \"nothing there\" ends a chase, in whatever order",
            NothingLeftBehind,
            datagrams(LOCKS),
        ),
        broken(
            SecondReleaseAtOnce,
            "the second release does not wait for a node timeout",
            NothingLeftBehind,
            datagrams(LOCKS),
        ),
        broken(
            AnyConnectionIsBehind,
            "a release is taken to be behind a write on another connection",
            NothingLeftBehind,
            LOCKS,
        ),
        broken(
            LastConnectionStandsForAll,
            "of several unknown writes only the last one's connection is remembered",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        broken(
            StaleDeletionCounts,
            "a release that deletes an earlier write's key ends the chase of a later write",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        broken(
            DeletionSettlesAll,
            "a release that deletes one write's key ends the chase of two",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        broken(
            RefusedWriteIsForgotten,
            "a deletion ends the chase though an earlier write was refused, whose second copy was what it deleted",
            NothingLeftBehind,
            datagrams(EXTENSION),
        ),
        broken(
            UnsentCountsAsSent,
            "a write whose call is open counts as sent before the release",
            NothingLeftBehind,
            EXTENSION,
        ),
        broken(
            TraceReadAtTheAnswer,
            "what a release must achieve is read when it is answered, not when it is sent",
            NothingLeftBehind,
            EXTENSIONS,
        ),
        broken(
            KeysExpireEarly,
            "(the assumption) keys expire within the drift allowance",
            CountedKeysStand,
            LOCKS,
        ),
    ]
};
