//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::Broken;
use crate::keep::property::Property;
use crate::keep::protocol::Keeping;
use crate::keep::scope::Scope;

/// The sound rule, or a rule with one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // Before the life is set.
    RenewalsGoOn,
    WritesAreNotAwaited,
    // The success.
    MinorityIsEnough,
    TimeCountsFromTheSuccess,
    GuardReleases,
    // Nodes.
    RenewalSetsTheLife,
    KeepOnlyLengthens,
    KeepComparesNothing,
    KeysExpireEarly,
}

const PLAIN: Scope = Scope { extensions: 0, faults: 0 };

const EXTENDED: Scope = Scope { extensions: 1, ..PLAIN };

/// Every broken variant.
pub const CATALOG: &[Broken<Keeping>] = {
    use Property::{CountedKeysExist, Exclusion, LifeAsSet, NoTrespass};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        Broken::new(
            RenewalsGoOn,
            "the life is set while an extension is in flight, which may be sent afterwards",
            LifeAsSet,
            EXTENDED,
        ),
        Broken::new(
            WritesAreNotAwaited,
            "the life is set while an acquire is in flight, which may be sent afterwards",
            LifeAsSet,
            PLAIN,
        ),
        Broken::new(MinorityIsEnough, "one node is a success", Exclusion, PLAIN),
        Broken::new(
            TimeCountsFromTheSuccess,
            "the promised time counts from the success, not from before the requests",
            Exclusion,
            PLAIN,
        ),
        Broken::new(GuardReleases, "the guard is dropped as usual, and releases the lock", Exclusion, PLAIN),
        Broken::new(
            RenewalSetsTheLife,
            "a renewal sets the life of the key, even to a shorter one",
            Exclusion,
            Scope { faults: 1, ..EXTENDED },
        ),
        Broken::new(KeepOnlyLengthens, "the keep raises the life, as an extension does", LifeAsSet, PLAIN),
        Broken::new(KeepComparesNothing, "the keep overwrites any key", NoTrespass, PLAIN),
        Broken::new(
            KeysExpireEarly,
            "(the assumption) keys expire within the drift allowance",
            CountedKeysExist,
            PLAIN,
        ),
    ]
};
