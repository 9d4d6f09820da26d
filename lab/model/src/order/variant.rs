//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::Broken;
use crate::order::property::Property;
use crate::order::protocol::Turns;
use crate::order::scope::{Fault, HELD, QUORUM, SMALL, Scope, TASKS};

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
    PlacesOfTheDeadStay,
    PlacesOfTheLivingEnd,
    DenialsMoveTheTime,
    SplitsMoveNothing,
    ReservationsDoNotExpire,
    MinorityWaits,
}

const QUICK: Scope = Scope { attempts: 1, requests: [1, 2, 0], ..SMALL };

const TURNS: Scope = Scope { requests: [1, 2, 1], attempts: 2, overtaken: 1, delays: 0, ..HELD };

const DYING: Scope = Scope { faults: 1, kinds: &[Fault::Death], delays: 0, ..HELD };

/// Every broken variant.
pub const CATALOG: &[Broken<Turns>] = {
    use Property::{Exclusion, NoBarging, NothingLeft, Order, Progress};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        Broken::new(ReservationIsAVote, "a reservation counts as a vote", Exclusion, QUICK),
        Broken::new(
            AcquireTakesAnyReservation,
            "an acquire replaces the reservation of another place",
            Order,
            TASKS,
        ),
        Broken::new(OwnReservationDenies, "a reservation denies its own place", Progress, HELD),
        Broken::new(
            FirstComeFirstServed,
            "an acquire does not look for waiters ahead",
            Order,
            Scope { open_turns: 2, ..TASKS },
        ),
        Broken::new(ClientClockIsTheScore, "the score is the time of the client", Order, TASKS),
        Broken::new(ReleaseComparesNothing, "a release deletes any key", Exclusion, QUICK),
        Broken::new(
            ReleaseHandsOverToNobody,
            "a release reserves nothing",
            NoBarging,
            Scope { plain: true, delays: 0, ..HELD },
        ),
        Broken::new(LastComeFirstServed, "a release hands over to the last waiter", Order, TASKS),
        Broken::new(
            HandOverKeepsTheWaiter,
            "a hand-over leaves the place among the waiters",
            Progress,
            DYING,
        ),
        Broken::new(
            ReservedPlaceIsEntered,
            "the release of a failed attempt enters a place for which the key is reserved",
            Progress,
            DYING,
        ),
        Broken::new(
            LockKeepsItsPlace,
            "a lock does not remove its place from the nodes that denied it",
            NothingLeft,
            QUICK,
        ),
        Broken::new(
            LeavingComparesNothing,
            "a request that gives up deletes any key",
            Exclusion,
            Scope { requests: [2, 1, 0], attempts: 1, leaves: true, delays: 0, ..SMALL },
        ),
        Broken::new(
            LeavingStaysAWaiter,
            "a request that gives up stays among the waiters",
            NothingLeft,
            Scope { leaves: true, delays: 0, ..SMALL },
        ),
        Broken::new(
            LeavingKeepsItsReservation,
            "a request that gives up does not delete its reservation",
            NothingLeft,
            Scope { leaves: true, delays: 0, ..SMALL },
        ),
        Broken::new(
            MinorityWaits,
            "a client with a minority of reservations does not attempt",
            Progress,
            Scope { requests: [1, 1, 2], next: true, ..HELD },
        ),
        Broken::new(
            ReleaseDeletesAnyReservation,
            "a release deletes the reservation of another place",
            Order,
            TURNS,
        ),
        Broken::new(ReservationsDoNotExpire, "a reservation does not expire", Progress, DYING),
        Broken::new(PlacesOfTheDeadStay, "a place of an ended request never ends", NothingLeft, DYING),
        Broken::new(
            PlacesOfTheLivingEnd,
            "a place ends although its request still makes attempts",
            Order,
            TASKS,
        ),
        Broken::new(
            DenialsMoveTheTime,
            "an attempt that the holder denies moves the time of its request",
            Order,
            Scope { attempts: 2, held: QUORUM, ..TASKS },
        ),
        Broken::new(
            SplitsMoveNothing,
            "a split moves the time of no request",
            Progress,
            Scope { requests: [1, 1, 2], next: true, ..HELD },
        ),
    ]
};
