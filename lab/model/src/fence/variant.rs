//! Variants of the rule: broken ones, each with the property that detects it, and harmless ones.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::{Broken, Harmless};
use crate::fence::property::Property;
use crate::fence::protocol::Fencing;
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

/// Every broken variant.
pub const CATALOG: &[Broken<Fencing>] = {
    use Property::{
        Bounded, Increasing, NoExtensionOnceReturned, NoHopelessExtension, NoLateExtension, Unique,
    };
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        Broken::new(NoWriteBack, "a quorum of replies is enough, even if they differ", Unique, GRANTS),
        Broken::new(NoWriteBack, "the same", Increasing, GRANTS),
        Broken::new(HalfConfirms, "m is confirmed by N/2", Unique, GRANTS),
        Broken::new(
            TokenFollowsLaterReplies,
            "the first quorum of replies counts as agreed, and the token is the greatest of all replies",
            Unique,
            GRANTS,
        ),
        Broken::new(
            AnyReplyCounts,
            "the token is the greatest of all replies, however far, and nodes accept any token",
            Bounded,
            Scope { lies: true, ..GRANTS },
        ),
        Broken::new(OneKeyForTwoAttempts, "two attempts share a lock token", Unique, GRANTS),
        Broken::new(
            WriteBackToAny,
            "a confirm ignores the owner of the key and only checks F <= m",
            Unique,
            GRANTS,
        ),
        Broken::new(ConfirmCreates, "a confirm sets the key where it is missing", Unique, GRANTS),
        Broken::new(
            ConfirmIgnoresTheCounter,
            "a confirm checks the owner of the key, but not F <= m",
            Unique,
            GRANTS,
        ),
        Broken::new(ConfirmLowersTheCounter, "the same, and F becomes m", Unique, GRANTS),
        Broken::new(ConfirmLowersTheCounter, "the same", Increasing, Scope { attempts: 3, ..GRANTS }),
        Broken::new(ConfirmRaisesNothing, "a confirm checks, and does not raise F", Unique, GRANTS),
        Broken::new(ConfirmRaisesNothing, "the same", Increasing, GRANTS),
        Broken::new(ReleaseDropsTheCounter, "a release deletes F with the key", Unique, GRANTS),
        Broken::new(ExtensionIsAPlainSet, "an extension is a SET", NoLateExtension, EXTENSIONS),
        Broken::new(
            ExtensionChecksTheOwnerAlone,
            "an extension checks the owner of the key, but not F <= m",
            NoLateExtension,
            EXTENSIONS,
        ),
        Broken::new(
            ExtensionChecksTheOwnerAlone,
            "the same",
            NoHopelessExtension,
            Scope { extensions: Extensions::Any, ..GRANTS },
        ),
        Broken::new(
            EarlierRepliesCount,
            "an extension counts nodes that confirmed before it began",
            NoLateExtension,
            EXTENSIONS,
        ),
        Broken::new(
            RefillLowersTheCounter,
            "a refill does not check F <= m, and F becomes m",
            NoLateExtension,
            EXTENSIONS,
        ),
        Broken::new(
            Sound,
            "(a property that is too strong) the rule as it is",
            NoExtensionOnceReturned,
            Scope { extensions: Extensions::Any, ..GRANTS },
        ),
    ]
};

/// The scope of the harmless variants.
const HARMLESS_IN: Scope =
    Scope { attempts: 3, counters: Counters::Any, extensions: Extensions::Behind, ..GRANTS };

/// Variants that violate no property of tokens.
pub const HARMLESS: &[Harmless<Fencing>] = &[
    Harmless::new(
        Variant::EqualRepliesCount,
        "replies that equal m count as confirmed: fewer nodes are left to confirm",
        HARMLESS_IN,
    ),
    Harmless::new(
        Variant::ReacquireRaises,
        "a repeated acquire raises F under its own key: that node no longer counts for the lease",
        HARMLESS_IN,
    ),
    Harmless::new(
        Variant::RefillIgnoresTheCounter,
        "a refill does not check F <= m: the key exists and never counts",
        HARMLESS_IN,
    ),
    Harmless::new(
        Variant::RefillRaisesNothing,
        "a refill does not raise F: the next confirm does",
        HARMLESS_IN,
    ),
];
