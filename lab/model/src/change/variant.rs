//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::Broken;
use crate::change::property::Property;
use crate::change::protocol::Changing;
use crate::change::scope::{
    ONE_EXCHANGED, Program, STEPS_1_AND_2, STEPS_2_AND_3, Scope, THREE_TO_FIVE, TWO_EXCHANGED,
};

/// The sound rule, or a rule with one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // Grants.
    OnlyTheNewListDecides,
    OnlyTheOldListDecides,
    ListsAreCountedAsOne,
    // Extensions.
    OnlyTheNewListExtends,
    OnlyTheOldListExtends,
    // Steps.
    TheLastStepDoesNotWait,
    // Losses of data.
    VotesCountAfterALoss,
}

const FIRST_STEPS: Scope = Scope::plain(TWO_EXCHANGED, STEPS_1_AND_2);

const LAST_STEPS: Scope = Scope::plain(TWO_EXCHANGED, STEPS_2_AND_3);

/// Two clients that do not exclude each other.
const NO_MIDDLE_STEP: Scope = Scope::plain(ONE_EXCHANGED, [Program::Old, Program::New, Program::Absent]);

/// Every broken variant.
pub const CATALOG: &[Broken<Changing>] = {
    use Property::Exclusion;
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        Broken::new(OnlyTheNewListDecides, "step 2 needs a quorum of the new list", Exclusion, FIRST_STEPS),
        Broken::new(OnlyTheOldListDecides, "step 2 needs a quorum of the old list", Exclusion, LAST_STEPS),
        Broken::new(
            ListsAreCountedAsOne,
            "step 2 needs a quorum of all nodes of both lists",
            Exclusion,
            Scope { lists: THREE_TO_FIVE, ..FIRST_STEPS },
        ),
        Broken::new(
            OnlyTheNewListExtends,
            "an extension of step 2 needs a quorum of the new list",
            Exclusion,
            Scope { extensions: [0, 1, 0], ..FIRST_STEPS },
        ),
        Broken::new(
            OnlyTheOldListExtends,
            "an extension of step 2 needs a quorum of the old list",
            Exclusion,
            Scope { extensions: [1, 0, 0], ..LAST_STEPS },
        ),
        Broken::new(
            TheLastStepDoesNotWait,
            "step 3 begins while a program of step 1 holds the lock",
            Exclusion,
            NO_MIDDLE_STEP,
        ),
        Broken::new(
            VotesCountAfterALoss,
            "the votes of a node that has lost a key count at once",
            Exclusion,
            Scope { losses: 1, ..FIRST_STEPS },
        ),
    ]
};
