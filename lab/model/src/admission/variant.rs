//! Variants of the rule: broken ones, each with a scope that detects it, and ones that hold in a smaller world.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::admission::loss::Loss;
use crate::admission::property::Property;
use crate::admission::protocol::Admission;
use crate::admission::scope::{SMALL, Scope, Start};
use crate::catalog::Harmless;

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

/// A restart without data, and a clock that is set forward.
const CLOCK_IS_SET: Scope = twice(losing(&[Loss::RestartEmpty, Loss::ClockForward], SMALL));

variants! {
    Admission;
    // The wait.
    NoRule: "every vote counts" => Exclusion in SMALL;
    NoWait: "a node counts as soon as the client has looked" => Exclusion in SMALL;
    WaitTooShort: "the wait is one tick shorter than the longest TTL" =>
        Exclusion in Scope { ttl: [3, 3], ..SMALL };
    // The stamp.
    StampWithoutIdentity: "a stamp is valid for any server that has it" => Exclusion in SMALL;
    RunIdAlone: "a stamp contains the run ID, but not the promotion" => Exclusion in SMALL;
    StaleTimeIsKept: "a stamp of an earlier server is renewed, and its time is kept" => Exclusion in SMALL;
    MissingStampIsFresh: "a node without a stamp counts at once" => Exclusion in SMALL;
    MissingStampIsOver: "a client that has noticed a wait considers it over when the stamp is missing" =>
        Exclusion in twice(SMALL);
    // The wait.
    OwnWaitAlone: "clients wait by their own clocks, once for each node" => Exclusion in twice(SMALL);
    // The links.
    UncheckedCounts: "a connection counts before the look" => Exclusion in SMALL;
    FlushIsNotNotified: "clients do not learn of a flush" => Exclusion in SMALL;
    CountedByTheNewLink:
        "a vote over a replaced connection counts by the state of the new one, which learns of a flush later" =>
        Exclusion in SMALL;
    // The votes.
    QuorumOfAdmittedNodes: "a quorum is a majority of the admitted nodes" =>
        Exclusion in Scope { start: Start::NewClients, losses: 0, ..SMALL };
    ExtensionsCountAll: "extensions count nodes that are not admitted" => Exclusion in EXTENSION,
        "the same, with restarts only" => Exclusion in losing(Loss::RESTARTS, EXTENSION);
    ExtensionsCountUnwritten: "the same, but nothing is written to nodes that are not admitted" =>
        Exclusion in losing(&[Loss::Flush], EXTENSION);
    // The wait.
    UptimeAlone: "the wait counts from the start of the process" =>
        Exclusion in losing(&[Loss::Flush], SMALL),
        "the same" => Exclusion in losing(&[Loss::Failback], SMALL),
        "the same, and the clock is set" =>
        Exclusion in CLOCK_IS_SET;
    // The bounds.
    OwnBoundCounts: "bounds differ, and each client waits for its own" => Exclusion in BOUNDS;
    SeenBoundsCount: "bounds differ, and each client waits for the longest that it has seen" =>
        Exclusion in BOUNDS;
    BoundOnAllNodes: "bounds differ, the longer is used once it is on all nodes, and decisions do not look again" =>
        Exclusion in Scope { rechecks: false, ..BOUNDS };
    // The clocks.
    ClocksAreNotRead;
    NoReadingBehindVotes;
    LastReadingAlone;
    OwnWaitByTheServer;
    NoOwnWait;
    ReconnectBeginsAnew;
    NewProcessesIgnoreStamps;
    StampIsNotRenewed;
    OneClientRenews;
    // The rule as it is.
    [Sound: "(an assumption) the clock of the server is set forward during the wait" =>
        Exclusion in CLOCK_IS_SET,
        "(an assumption) the same, clients remember, and one of them has just started" =>
        Exclusion in Scope { start: Start::NewClients, remembers: true, ..CLOCK_IS_SET }]
}

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
            Scope { remembers: true, ..CLOCK_IS_SET },
        ),
    ]
};
