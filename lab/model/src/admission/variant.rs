//! Variants of the rule: broken ones, each with a scope that detects it, and ones that hold in a smaller world.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::admission::loss::Loss;
use crate::admission::property::Property;
use crate::admission::protocol::Admission;
use crate::admission::scope::{SMALL, Scope, Start};
use crate::catalog::{Broken, Harmless};

/// The sound rule, or a rule with one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // The wait.
    NoRule,
    NoWait,
    WaitTooShort,
    OwnWaitAlone,
    UptimeAlone,
    // The stamp.
    StampWithoutIdentity,
    RunIdAlone,
    StaleTimeIsKept,
    MissingStampIsFresh,
    MissingStampIsOver,
    // The links.
    UncheckedCounts,
    FlushIsNotNotified,
    CountedByTheNewLink,
    // The votes.
    QuorumOfAdmittedNodes,
    ExtensionsCountAll,
    ExtensionsCountUnwritten,
    // The bounds.
    OwnBoundCounts,
    SeenBoundsCount,
    BoundOnAllNodes,
    // The clocks.
    ClocksAreNotRead,
    NoReadingBehindVotes,
    LastReadingAlone,
    OwnWaitByTheServer,
    NoOwnWait,
    ReconnectBeginsAnew,
    NewProcessesIgnoreStamps,
    StampIsNotRenewed,
    OneClientRenews,
}

/// One lease that is extended, and a contender.
const EXTENSION: Scope = Scope { extensions: [1, 0], ..SMALL };

/// Clients with different bounds that have just started.
const BOUNDS: Scope = Scope { ttl: [2, 4], start: Start::NewClients, rechecks: true, ..SMALL };

const fn losing(kinds: &'static [Loss], scope: Scope) -> Scope {
    Scope { kinds, ..scope }
}

const fn twice(scope: Scope) -> Scope {
    Scope { losses: 2, ..scope }
}

const fn broken(variant: Variant, does: &'static str, scope: Scope) -> Broken<Admission> {
    Broken::new(variant, does, Property::Exclusion, scope)
}

/// Every broken variant. Each violates exclusion.
pub const CATALOG: &[Broken<Admission>] = {
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(NoRule, "every vote counts", SMALL),
        broken(NoWait, "a node counts as soon as the client has looked", SMALL),
        broken(
            WaitTooShort,
            "the wait is one tick shorter than the longest TTL",
            Scope { ttl: [3, 3], ..SMALL },
        ),
        broken(StampWithoutIdentity, "a stamp is valid for any server that has it", SMALL),
        broken(RunIdAlone, "a stamp contains the run ID, but not the promotion", SMALL),
        broken(StaleTimeIsKept, "a stamp of an earlier server is renewed, and its time is kept", SMALL),
        broken(MissingStampIsFresh, "a node without a stamp counts at once", SMALL),
        broken(
            MissingStampIsOver,
            "a client that has noticed a wait considers it over when the stamp is missing",
            twice(SMALL),
        ),
        broken(OwnWaitAlone, "clients wait by their own clocks, once for each node", twice(SMALL)),
        broken(UncheckedCounts, "a connection counts before the look", SMALL),
        broken(FlushIsNotNotified, "clients do not learn of a flush", SMALL),
        broken(
            CountedByTheNewLink,
            "a vote over a replaced connection counts by the state of the new one, which learns of a flush later",
            SMALL,
        ),
        broken(
            QuorumOfAdmittedNodes,
            "a quorum is a majority of the admitted nodes",
            Scope { start: Start::NewClients, losses: 0, ..SMALL },
        ),
        broken(ExtensionsCountAll, "extensions count nodes that are not admitted", EXTENSION),
        broken(ExtensionsCountAll, "the same, with restarts only", losing(Loss::RESTARTS, EXTENSION)),
        broken(
            ExtensionsCountUnwritten,
            "the same, but nothing is written to nodes that are not admitted",
            losing(&[Loss::Flush], EXTENSION),
        ),
        broken(UptimeAlone, "the wait counts from the start of the process", losing(&[Loss::Flush], SMALL)),
        broken(UptimeAlone, "the same", losing(&[Loss::Failback], SMALL)),
        broken(
            UptimeAlone,
            "the same, and the clock is set",
            twice(losing(&[Loss::RestartEmpty, Loss::ClockForward], SMALL)),
        ),
        broken(
            Sound,
            "(an assumption) the clock of the server is set forward during the wait",
            twice(losing(&[Loss::RestartEmpty, Loss::ClockForward], SMALL)),
        ),
        broken(
            Sound,
            "(an assumption) the same, clients remember, and one of them has just started",
            Scope {
                start: Start::NewClients,
                remembers: true,
                ..twice(losing(&[Loss::RestartEmpty, Loss::ClockForward], SMALL))
            },
        ),
        broken(OwnBoundCounts, "bounds differ, and each client waits for its own", BOUNDS),
        broken(
            SeenBoundsCount,
            "bounds differ, and each client waits for the longest that it has seen",
            BOUNDS,
        ),
        broken(
            BoundOnAllNodes,
            "bounds differ, the longer is used once it is on all nodes, and decisions do not look again",
            Scope { rechecks: false, ..BOUNDS },
        ),
    ]
};

/// Variants that hold in the given scope, each with the reason why the rule differs.
pub const HARMLESS: &[Harmless<Admission>] = {
    use Variant::{ExtensionsCountUnwritten, Sound, UptimeAlone};
    &[
        Harmless::new(
            UptimeAlone,
            "the wait counts from the start of the process: it does not cover flushes and failbacks",
            twice(losing(Loss::RESTARTS, SMALL)),
        ),
        Harmless::new(
            ExtensionsCountUnwritten,
            "extensions count all nodes, and nothing is written to nodes that are not admitted: a write in flight may \
             be carried out behind a flush",
            losing(Loss::RESTARTS, EXTENSION),
        ),
        Harmless::new(
            ExtensionsCountUnwritten,
            "the same, with two losses",
            twice(losing(Loss::RESTARTS, EXTENSION)),
        ),
        Harmless::new(
            Sound,
            "the clock of the server is set forward during the wait, and clients remember: new clients do not",
            Scope { remembers: true, ..twice(losing(&[Loss::RestartEmpty, Loss::ClockForward], SMALL)) },
        ),
    ]
};
