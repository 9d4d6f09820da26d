//! Variants of the rule: broken ones, each with the property that detects it, and harmless ones.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::fence::property::Property;
use crate::fence::scope::{Counters, Extensions, Scope};

/// The sound rule, or a rule with one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // Grants.
    NoWriteBack,
    HalfConfirms,
    TokenFollowsLaterReplies,
    AnyReplyCounts,
    OneKeyForTwoAttempts,
    EqualRepliesCount,
    ReacquireRaises,
    // Confirms.
    WriteBackToAny,
    ConfirmCreates,
    ConfirmIgnoresTheCounter,
    ConfirmLowersTheCounter,
    ConfirmRaisesNothing,
    // Extensions and refills.
    ExtensionIsAPlainSet,
    ExtensionChecksTheOwnerAlone,
    EarlierRepliesCount,
    RefillLowersTheCounter,
    RefillIgnoresTheCounter,
    RefillRaisesNothing,
    // Releases.
    ReleaseDropsTheCounter,
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

/// Two attempts without extensions.
const GRANTS: Scope = Scope {
    nodes: 3,
    attempts: 2,
    counters: Counters::UpTo(4),
    extensions: Extensions::None,
    forgets: false,
    lies: false,
};

/// The same scope with extensions.
const EXTENSIONS: Scope = Scope { extensions: Extensions::Behind, ..GRANTS };

const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken {
    Broken { variant, does, violates, scope }
}

/// Every broken variant.
pub const CATALOG: &[Broken] = {
    use Property::{
        Bounded, Increasing, NoExtensionOnceReturned, NoHopelessExtension, NoLateExtension, Unique,
    };
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(NoWriteBack, "a quorum of replies is enough, even if they differ", Unique, GRANTS),
        broken(NoWriteBack, "the same", Increasing, GRANTS),
        broken(HalfConfirms, "m is confirmed by N/2", Unique, GRANTS),
        broken(
            TokenFollowsLaterReplies,
            "the first quorum of replies counts as agreed, and the token is the greatest of all replies",
            Unique,
            GRANTS,
        ),
        broken(
            AnyReplyCounts,
            "the token is the greatest of all replies, however far, and nodes accept any token",
            Bounded,
            Scope { lies: true, ..GRANTS },
        ),
        broken(OneKeyForTwoAttempts, "two attempts share a lock token", Unique, GRANTS),
        broken(
            WriteBackToAny,
            "a confirm ignores the owner of the key and only checks F <= m",
            Unique,
            GRANTS,
        ),
        broken(ConfirmCreates, "a confirm sets the key where it is missing", Unique, GRANTS),
        broken(
            ConfirmIgnoresTheCounter,
            "a confirm checks the owner of the key, but not F <= m",
            Unique,
            GRANTS,
        ),
        broken(ConfirmLowersTheCounter, "the same, and F becomes m", Unique, GRANTS),
        broken(ConfirmLowersTheCounter, "the same", Increasing, Scope { attempts: 3, ..GRANTS }),
        broken(ConfirmRaisesNothing, "a confirm checks, and does not raise F", Unique, GRANTS),
        broken(ConfirmRaisesNothing, "the same", Increasing, GRANTS),
        broken(ReleaseDropsTheCounter, "a release deletes F with the key", Unique, GRANTS),
        broken(ExtensionIsAPlainSet, "an extension is a SET", NoLateExtension, EXTENSIONS),
        broken(
            ExtensionChecksTheOwnerAlone,
            "an extension checks the owner of the key, but not F <= m",
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
            EarlierRepliesCount,
            "an extension counts nodes that confirmed before it began",
            NoLateExtension,
            EXTENSIONS,
        ),
        broken(
            RefillLowersTheCounter,
            "a refill does not check F <= m, and F becomes m",
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

/// Variants that violate no property of tokens, each with the reason why the rule differs.
pub const HARMLESS: &[(Variant, &str)] = &[
    (Variant::EqualRepliesCount, "replies that equal m count as confirmed: fewer nodes are left to confirm"),
    (
        Variant::ReacquireRaises,
        "a repeated acquire raises F under its own key: that node no longer counts for the lease",
    ),
    (Variant::RefillIgnoresTheCounter, "a refill does not check F <= m: the key exists and never counts"),
    (Variant::RefillRaisesNothing, "a refill does not raise F: the next confirm does"),
];
