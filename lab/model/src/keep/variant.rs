//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::keep::property::Property;
use crate::keep::protocol::Keeping;
use crate::keep::scope::Scope;

const PLAIN: Scope = Scope { extensions: 0, faults: 0 };

const EXTENDED: Scope = Scope { extensions: 1, ..PLAIN };

variants! {
    Keeping;
    // Before the life is set.
    RenewalsGoOn: "the life is set while an extension is in flight, which may be sent afterwards" =>
        LifeAsSet in EXTENDED;
    WritesAreNotAwaited: "the life is set while an acquire is in flight, which may be sent afterwards" =>
        LifeAsSet in PLAIN;
    // The success.
    MinorityIsEnough: "one node is a success" => Exclusion in PLAIN;
    TimeCountsFromTheSuccess: "the promised time counts from the success, not from before the requests" =>
        Exclusion in PLAIN;
    GuardReleases: "the guard is dropped as usual, and releases the lock" => Exclusion in PLAIN;
    // Nodes.
    RenewalSetsTheLife: "a renewal sets the life of the key, even to a shorter one" =>
        Exclusion in Scope { faults: 1, ..EXTENDED };
    KeepOnlyLengthens: "the keep raises the life, as an extension does" => LifeAsSet in PLAIN;
    KeepComparesNothing: "the keep overwrites any key" => NoTrespass in PLAIN;
    KeysExpireEarly: "(the assumption) keys expire within the drift allowance" => CountedKeysExist in PLAIN;
}
