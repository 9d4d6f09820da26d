//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::order::property::Property;
use crate::order::scope::{Fault, HELD, SMALL, Scope, TASKS};

/// The sound rule, or a rule with one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // Votes.
    ReservationIsAVote,
    // Acquires.
    AcquireTakesAnyReservation,
    OwnReservationDenies,
    FirstComeFirstServed,
    ClientClockIsTheScore,
    // Releases.
    ReleaseComparesNothing,
    ReleaseDeletesAnyReservation,
    ReleaseHandsOverToNobody,
    LastComeFirstServed,
    HandOverKeepsTheWaiter,
    ReservedPlaceIsEntered,
    LockKeepsItsPlace,
    // The end of a request.
    LeavingComparesNothing,
    LeavingStaysAWaiter,
    LeavingKeepsItsReservation,
    // Time.
    ReservationsDoNotExpire,
    MinorityWaits,
}

/// A broken variant, and the property that detects it.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    /// The variant.
    pub variant: Variant,
    /// A description of the change.
    pub does: &'static str,
    /// The property that the shortest trace violates.
    pub violates: Property,
    /// A scope that is large enough to detect it.
    pub scope: Scope,
}
const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken {
    Broken { variant, does, violates, scope }
}

const QUICK: Scope = Scope { attempts: 1, requests: [1, 2, 0], ..SMALL };

const TURNS: Scope = Scope { requests: [1, 2, 1], attempts: 2, overtaken: 1, delays: false, ..HELD };

const DYING: Scope = Scope { faults: 1, kinds: &[Fault::Death], delays: false, ..HELD };

/// Every broken variant.
pub const CATALOG: &[Broken] = {
    use Property::{Exclusion, NoBarging, NothingLeft, Order, Progress};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(ReservationIsAVote, "a reservation counts as a vote", Exclusion, QUICK),
        broken(
            AcquireTakesAnyReservation,
            "an acquire replaces the reservation of another place",
            Order,
            TASKS,
        ),
        broken(OwnReservationDenies, "a reservation denies its own place", Progress, HELD),
        broken(
            FirstComeFirstServed,
            "an acquire does not look for waiters ahead",
            Order,
            Scope { open_turns: 2, ..TASKS },
        ),
        broken(ClientClockIsTheScore, "the score is the time of the client", Order, TASKS),
        broken(ReleaseComparesNothing, "a release deletes any key", Exclusion, QUICK),
        broken(
            ReleaseHandsOverToNobody,
            "a release reserves nothing",
            NoBarging,
            Scope { plain: true, delays: false, ..HELD },
        ),
        broken(LastComeFirstServed, "a release hands over to the last waiter", Order, TASKS),
        broken(HandOverKeepsTheWaiter, "a hand-over leaves the place among the waiters", Progress, DYING),
        broken(
            ReservedPlaceIsEntered,
            "the release of a failed attempt enters a place for which the key is reserved",
            Progress,
            DYING,
        ),
        broken(
            LockKeepsItsPlace,
            "a lock does not remove its place from the nodes that denied it",
            NothingLeft,
            QUICK,
        ),
        broken(
            LeavingComparesNothing,
            "a request that gives up deletes any key",
            Exclusion,
            Scope { requests: [2, 1, 0], attempts: 1, leaves: true, delays: false, ..SMALL },
        ),
        broken(
            LeavingStaysAWaiter,
            "a request that gives up stays among the waiters",
            NothingLeft,
            Scope { leaves: true, delays: false, ..SMALL },
        ),
        broken(
            LeavingKeepsItsReservation,
            "a request that gives up does not delete its reservation",
            NothingLeft,
            Scope { leaves: true, delays: false, ..SMALL },
        ),
        broken(
            MinorityWaits,
            "a client with a minority of reservations does not attempt",
            Progress,
            Scope { requests: [1, 1, 2], next: true, ..HELD },
        ),
        broken(
            ReleaseDeletesAnyReservation,
            "a release deletes the reservation of another place",
            Order,
            TURNS,
        ),
        broken(ReservationsDoNotExpire, "a reservation does not expire", Progress, DYING),
    ]
};
