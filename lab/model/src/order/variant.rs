//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::order::property::Property;
use crate::order::protocol::Turns;
use crate::order::scope::{Fault, HELD, QUORUM, SMALL, Scope, TASKS};

const QUICK: Scope = Scope { attempts: 1, requests: [1, 2, 0], ..SMALL };

const TURNS: Scope = Scope { requests: [1, 2, 1], attempts: 2, overtaken: 1, delays: 0, ..HELD };

const DYING: Scope = Scope { faults: 1, kinds: &[Fault::Death], delays: 0, ..HELD };

variants! {
    Turns;
    // Votes.
    ReservationIsAVote: "a reservation counts as a vote" => Exclusion in QUICK;
    // Acquires.
    AcquireTakesAnyReservation: "an acquire replaces the reservation of another place" => Order in TASKS;
    OwnReservationDenies: "a reservation denies its own place" => Progress in HELD;
    FirstComeFirstServed: "an acquire does not look for waiters ahead" =>
        Order in Scope { open_turns: 2, ..TASKS };
    ClientClockIsTheScore: "the score is the time of the client" => Order in TASKS;
    // Releases.
    ReleaseComparesNothing: "a release deletes any key" => Exclusion in QUICK;
    ReleaseHandsOverToNobody: "a release reserves nothing" =>
        NoBarging in Scope { plain: true, delays: 0, ..HELD };
    LastComeFirstServed: "a release hands over to the last waiter" => Order in TASKS;
    HandOverKeepsTheWaiter: "a hand-over leaves the place among the waiters" => Progress in DYING;
    ReservedPlaceIsEntered: "the release of a failed attempt enters a place for which the key is reserved" =>
        Progress in DYING;
    LockKeepsItsPlace: "a lock does not remove its place from the nodes that denied it" =>
        NothingLeft in QUICK;
    // The end of a request.
    LeavingComparesNothing: "a request that gives up deletes any key" =>
        Exclusion in Scope { requests: [2, 1, 0], attempts: 1, leaves: true, delays: 0, ..SMALL };
    LeavingStaysAWaiter: "a request that gives up stays among the waiters" =>
        NothingLeft in Scope { leaves: true, delays: 0, ..SMALL };
    LeavingKeepsItsReservation: "a request that gives up does not delete its reservation" =>
        NothingLeft in Scope { leaves: true, delays: 0, ..SMALL };
    // Time.
    MinorityWaits: "a client with a minority of reservations does not attempt" =>
        Progress in Scope { requests: [1, 1, 2], next: true, ..HELD };
    // Releases.
    ReleaseDeletesAnyReservation: "a release deletes the reservation of another place" => Order in TURNS;
    // Time.
    ReservationsDoNotExpire: "a reservation does not expire" => Progress in DYING;
    PlacesOfTheDeadStay: "a place of an ended request never ends" => NothingLeft in DYING;
    PlacesOfTheLivingEnd: "a place ends although its request still makes attempts" => Order in TASKS;
    DenialsMoveTheTime: "an attempt that the holder denies moves the time of its request" =>
        Order in Scope { attempts: 2, held: QUORUM, ..TASKS };
    SplitsMoveNothing: "a split moves the time of no request" =>
        Progress in Scope { requests: [1, 1, 2], next: true, ..HELD };
}
