//! Other rules than the one of the design: those that are wrong, each with what finds it, and those that do no harm.
//!
//! Every variant changes one thing, in the one place that consults it.

use crate::fence::property::Property;
use crate::fence::scope::{Counters, Extensions, Scope};

/// The rule as it is, or changed in one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalogue has a sentence for each
pub enum Variant {
    Sound,
    // Granting.
    NoWriteBack,
    HalfConfirms,
    TokenFollowsLaterAnswers,
    AnyAnswerVotes,
    OneKeyForTwoAttempts,
    EqualAnswersCount,
    ReacquireRaises,
    // Confirming.
    WriteBackToAny,
    ConfirmCreates,
    ConfirmIgnoresTheCounter,
    ConfirmLowersTheCounter,
    ConfirmRaisesNothing,
    // Extending and refilling.
    ExtensionIsAPlainSet,
    ExtensionChecksTheOwnerAlone,
    EarlierAnswersCount,
    RefillLowersTheCounter,
    RefillIgnoresTheCounter,
    RefillRaisesNothing,
    // Releasing.
    ReleaseDropsTheCounter,
}

/// A broken variant, and what finds it.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    /// Which.
    pub variant: Variant,
    /// What it does.
    pub does: &'static str,
    /// What is violated, by the shortest trace there is.
    pub violates: Property,
    /// A scope that is large enough.
    pub scope: Scope,
}

/// Two attempts, no extensions.
const GRANTS: Scope = Scope {
    nodes: 3,
    attempts: 2,
    counters: Counters::UpTo(4),
    extensions: Extensions::None,
    forgets: false,
    lies: false,
};

/// The same with extensions.
const EXTENSIONS: Scope = Scope { extensions: Extensions::Behind, ..GRANTS };

const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken {
    Broken { variant, does, violates, scope }
}

/// Every broken variant.
pub const CATALOGUE: &[Broken] = {
    use Property::{
        Bounded, Increasing, NoExtensionOnceReturned, NoHopelessExtension, NoLateExtension, Unique,
    };
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(NoWriteBack, "a quorum of answers is enough, whatever they are", Unique, GRANTS),
        broken(NoWriteBack, "the same", Increasing, GRANTS),
        broken(HalfConfirms, "m is confirmed by N/2", Unique, GRANTS),
        broken(
            TokenFollowsLaterAnswers,
            "the first quorum of answers is agreed, and the token is the highest of all that come",
            Unique,
            GRANTS,
        ),
        broken(
            AnyAnswerVotes,
            "the token is the greatest of all answers, whatever they are, and nodes take any token",
            Bounded,
            Scope { lies: true, ..GRANTS },
        ),
        broken(OneKeyForTwoAttempts, "two attempts share a lock token", Unique, GRANTS),
        broken(WriteBackToAny, "a confirm does not ask whose key it is, but F <= m", Unique, GRANTS),
        broken(ConfirmCreates, "a confirm sets the key where it is missing", Unique, GRANTS),
        broken(ConfirmIgnoresTheCounter, "a confirm asks whose key it is, but not F <= m", Unique, GRANTS),
        broken(ConfirmLowersTheCounter, "the same, and F becomes m", Unique, GRANTS),
        broken(ConfirmLowersTheCounter, "the same", Increasing, Scope { attempts: 3, ..GRANTS }),
        broken(ConfirmRaisesNothing, "a confirm checks, and does not raise F", Unique, GRANTS),
        broken(ConfirmRaisesNothing, "the same", Increasing, GRANTS),
        broken(ReleaseDropsTheCounter, "a release deletes F with the key", Unique, GRANTS),
        broken(ExtensionIsAPlainSet, "an extension is a SET", NoLateExtension, EXTENSIONS),
        broken(
            ExtensionChecksTheOwnerAlone,
            "an extension asks whose key it is, but not F <= m",
            NoLateExtension,
            EXTENSIONS,
        ),
        broken(
            ExtensionChecksTheOwnerAlone,
            "the same",
            NoHopelessExtension,
            Scope { extensions: Extensions::Any, ..GRANTS },
        ),
        broken(
            EarlierAnswersCount,
            "an extension counts nodes that confirmed before it began",
            NoLateExtension,
            EXTENSIONS,
        ),
        broken(
            RefillLowersTheCounter,
            "a refill does not ask for F <= m, and F becomes m",
            NoLateExtension,
            EXTENSIONS,
        ),
        broken(
            Sound,
            "(a property that is too strong) the rule as it is",
            NoExtensionOnceReturned,
            Scope { extensions: Extensions::Any, ..GRANTS },
        ),
    ]
};

/// Variants that violate nothing that is said of tokens, and why they are not the rule.
pub const HARMLESS: &[(Variant, &str)] = &[
    (Variant::EqualAnswersCount, "answers that equal m count as confirmed: fewer are left to confirm"),
    (
        Variant::ReacquireRaises,
        "a repeated acquire raises F under its own key: that node is lost to the lease",
    ),
    (Variant::RefillIgnoresTheCounter, "a refill does not ask for F <= m: the key stands and never counts"),
    (Variant::RefillRaisesNothing, "a refill does not raise F: the next confirm does"),
];
