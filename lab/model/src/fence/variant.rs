//! Variants of the rule: broken ones, each with the property that detects it, and harmless ones.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::Harmless;
use crate::fence::property::Property;
use crate::fence::protocol::Fencing;
use crate::fence::scope::{Counters, Extensions, Scope};

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

variants! {
    Fencing;
    // Grants.
    NoWriteBack: "a quorum of replies is enough, even if they differ" => Unique in GRANTS,
        "the same" => Increasing in GRANTS;
    HalfConfirms: "m is confirmed by N/2" => Unique in GRANTS;
    TokenFollowsLaterReplies:
        "the first quorum of replies counts as agreed, and the token is the greatest of all replies" =>
        Unique in GRANTS;
    AnyReplyCounts: "the token is the greatest of all replies, however far, and nodes accept any token" =>
        Bounded in Scope { lies: true, ..GRANTS };
    OneKeyForTwoAttempts: "two attempts share a lock token" => Unique in GRANTS;
    EqualRepliesCount;
    ReacquireRaises;
    // Confirms.
    WriteBackToAny: "a confirm ignores the owner of the key and only checks F <= m" => Unique in GRANTS;
    ConfirmCreates: "a confirm sets the key where it is missing" => Unique in GRANTS;
    ConfirmIgnoresTheCounter: "a confirm checks the owner of the key, but not F <= m" => Unique in GRANTS;
    ConfirmLowersTheCounter: "the same, and F becomes m" => Unique in GRANTS,
        "the same" => Increasing in Scope { attempts: 3, ..GRANTS };
    ConfirmRaisesNothing: "a confirm checks, and does not raise F" => Unique in GRANTS,
        "the same" => Increasing in GRANTS;
    // Releases.
    ReleaseDropsTheCounter: "a release deletes F with the key" => Unique in GRANTS;
    // Extensions and refills.
    ExtensionIsAPlainSet: "an extension is a SET" => NoLateExtension in EXTENSIONS;
    ExtensionChecksTheOwnerAlone: "an extension checks the owner of the key, but not F <= m" =>
        NoLateExtension in EXTENSIONS,
        "the same" => NoHopelessExtension in Scope { extensions: Extensions::Any, ..GRANTS };
    EarlierRepliesCount: "an extension counts nodes that confirmed before it began" =>
        NoLateExtension in EXTENSIONS;
    RefillLowersTheCounter: "a refill does not check F <= m, and F becomes m" =>
        NoLateExtension in EXTENSIONS;
    RefillIgnoresTheCounter;
    RefillRaisesNothing;
    // The rule as it is.
    [Sound: "(a property that is too strong) the rule as it is" =>
        NoExtensionOnceReturned in Scope { extensions: Extensions::Any, ..GRANTS }]
}

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
