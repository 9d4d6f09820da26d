//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::keep::property::Property;
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

const PLAIN: Scope = Scope { extensions: 0, faults: 0 };

const EXTENDED: Scope = Scope { extensions: 1, ..PLAIN };

const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken {
    Broken { variant, does, violates, scope }
}

/// Every broken variant.
pub const CATALOG: &[Broken] = {
    use Property::{CountedKeysExist, Exclusion, LifeAsSet, NoTrespass};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(
            RenewalsGoOn,
            "the life is set while an extension is in flight, which may be sent afterwards",
            LifeAsSet,
            EXTENDED,
        ),
        broken(
            WritesAreNotAwaited,
            "the life is set while an acquire is in flight, which may be sent afterwards",
            LifeAsSet,
            PLAIN,
        ),
        broken(MinorityIsEnough, "one node is a success", Exclusion, PLAIN),
        broken(
            TimeCountsFromTheSuccess,
            "the promised time counts from the success, not from before the requests",
            Exclusion,
            PLAIN,
        ),
        broken(GuardReleases, "the guard is dropped as usual, and releases the lock", Exclusion, PLAIN),
        broken(
            RenewalSetsTheLife,
            "a renewal sets the life of the key, even to a shorter one",
            Exclusion,
            Scope { faults: 1, ..EXTENDED },
        ),
        broken(KeepOnlyLengthens, "the keep raises the life, as an extension does", LifeAsSet, PLAIN),
        broken(KeepComparesNothing, "the keep overwrites any key", NoTrespass, PLAIN),
        broken(
            KeysExpireEarly,
            "(the assumption) keys expire within the drift allowance",
            CountedKeysExist,
            PLAIN,
        ),
    ]
};
