//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::change::property::Property;
use crate::change::protocol::Changing;
use crate::change::scope::{
    ONE_EXCHANGED, Program, STEPS_1_AND_2, STEPS_2_AND_3, Scope, THREE_TO_FIVE, TWO_EXCHANGED,
};

const FIRST_STEPS: Scope = Scope::plain(TWO_EXCHANGED, STEPS_1_AND_2);

const LAST_STEPS: Scope = Scope::plain(TWO_EXCHANGED, STEPS_2_AND_3);

/// Two clients that do not exclude each other.
const NO_MIDDLE_STEP: Scope = Scope::plain(ONE_EXCHANGED, [Program::Old, Program::New, Program::Absent]);

variants! {
    Changing;
    // Grants.
    OnlyTheNewListDecides: "step 2 needs a quorum of the new list" => Exclusion in FIRST_STEPS;
    OnlyTheOldListDecides: "step 2 needs a quorum of the old list" => Exclusion in LAST_STEPS;
    ListsAreCountedAsOne: "step 2 needs a quorum of all nodes of both lists" =>
        Exclusion in Scope { lists: THREE_TO_FIVE, ..FIRST_STEPS };
    // Extensions.
    OnlyTheNewListExtends: "an extension of step 2 needs a quorum of the new list" =>
        Exclusion in Scope { extensions: [0, 1, 0], ..FIRST_STEPS };
    OnlyTheOldListExtends: "an extension of step 2 needs a quorum of the old list" =>
        Exclusion in Scope { extensions: [1, 0, 0], ..LAST_STEPS };
    // Steps.
    TheLastStepDoesNotWait: "step 3 begins while a program of step 1 holds the lock" =>
        Exclusion in NO_MIDDLE_STEP;
    // Losses of data.
    VotesCountAfterALoss: "the votes of a node that has lost a key count at once" =>
        Exclusion in Scope { losses: 1, ..FIRST_STEPS };
}
