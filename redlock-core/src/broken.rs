//! Ways to be wrong, on purpose: the project's checks must catch every one of them.
//!
//! Nothing of this is in a build without `--cfg redlock_broken`, which `scripts/variants` alone sets: there [`broken`] is
//! a constant `false`, and the compiler removes what it guards. With it, each thread chooses what is wrong on it; a
//! simulated world lives on one thread.
#![cfg_attr(not(redlock_broken), allow(unreachable_pub, dead_code))] // reachable, and used to the last, with the cfg alone

use crate::claim::Claim;
use crate::clock::Instant;

macro_rules! variants {
    ($(#[doc = $says:literal] $name:ident,)*) => {
        /// One way to be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variant {
            $(#[doc = $says] $name,)*
        }

        impl Variant {
            /// All of them, each with what it does.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $says),)*];
        }
    };
}

variants! {
    /// a quorum is N/2
    HalfQuorum,
    /// validity ignores the time that the round took: it counts from the decision
    ElapsedIgnored,
    /// validity is measured from the first reply, not from before the first send
    ValidityFromReply,
    /// whether any validity is left after the round is not checked
    ValidityUnchecked,
    /// the drift is zero, under drifting clocks
    NoDrift,
    /// one token is reused over attempts
    OneToken,
    /// a round waits for all nodes
    WaitsForAll,
    /// timeouts of a majority are reported as contention
    TimeoutsAreRefusals,
    /// release deletes without comparing the token
    ReleaseComparesNothing,
    /// release goes only to the nodes that granted
    ReleaseOnGrantingNodes,
    /// a straggler of a lost attempt is never released
    StragglerKept,
    /// a cancelled attempt is not undone
    CancelledKept,
    /// a chase gives up at the first release that fails
    ChaseGivesUp,
    /// a chase ends at the first answer, whatever it says
    ChaseEndsAtFirstAnswer,
    /// a chase ends when the TTL has passed at the client
    ChaseEndsWithTtl,
    /// extension wants a quorum only of as many nodes as granted at first
    ExtensionOfFirstNodes,
    /// extension re-creates a missing key, and that counts
    ExtensionRecreates,
    /// extension can shorten a key
    ExtensionShortens,
    /// a failed extension unlocks
    FailedExtensionUnlocks,
    /// extension revives a lease that has expired
    ExpiredRevived,
    /// a fencing token is never written back to the nodes
    TokenUnconfirmed,
    /// who waits decides to sleep before the watch stands: what it says of the key is not looked at
    SleepsBeforeArming,
    /// a node whose connection is lost counts as free
    LostIsFree,
    /// whoever waits tries at every change, also when the holder extends
    TriesAtEveryChange,
    /// a node that tells of changes that are none is asked again at once
    AskedWithoutEnd,
    /// nodes are trusted to tell of every change: nothing is tried in case that they do not
    NoSafetyPoll,
    /// expiry is left to the nodes to tell
    ExpiryLeftToNodes,
    /// a fencing token is written back to nodes that did not grant, and they count
    ConfirmAnywhere,
    /// a confirmation does not look at the counter
    ConfirmIgnoresCounter,
    /// extension of a fenced lock is a plain one, which looks at no counter
    FencedExtensionIsPlain,
    /// extension of a fenced lock acquires it again
    FencedExtensionAcquires,
    /// a confirmation gives the lock back to a node that has lost it, which counts
    ConfirmRefills,
    /// an acquire that arrives twice counts twice
    AcquireCountsTwice,
}

#[cfg(not(redlock_broken))]
pub(crate) use self::nothing::{broken, has_expired, note_expiry};
#[cfg(redlock_broken)]
pub use self::something::{broken, choose};
#[cfg(redlock_broken)]
pub(crate) use self::something::{has_expired, note_expiry};

#[cfg(redlock_broken)]
mod something {
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    use super::{Claim, Instant, Variant};
    use crate::token::Token;

    thread_local! {
        static CHOSEN: Cell<Option<Variant>> = const { Cell::new(None) };
        static EXPIRY: RefCell<HashMap<Token, Instant>> = RefCell::default();
    }

    /// Chooses what is wrong on this thread from now on, if anything.
    pub fn choose(variant: Option<Variant>) {
        CHOSEN.set(variant);
        EXPIRY.take();
    }

    /// Whether this is wrong on this thread.
    pub fn broken(variant: Variant) -> bool {
        CHOSEN.get() == Some(variant)
    }

    /// When the keys of a claim expire by the client's clock.
    pub(crate) fn note_expiry(claim: &Claim, at: Instant) {
        if broken(Variant::ChaseEndsWithTtl) {
            EXPIRY.with_borrow_mut(|expiry| expiry.insert(claim.token().clone(), at));
        }
    }

    /// Whether they have: the end of a chase, where [`ChaseEndsWithTtl`](Variant::ChaseEndsWithTtl) was chosen.
    pub(crate) fn has_expired(claim: &Claim, now: Instant) -> bool {
        EXPIRY.with_borrow(|expiry| expiry.get(claim.token()).is_some_and(|at| *at <= now))
    }
}

#[cfg(not(redlock_broken))]
mod nothing {
    use super::{Claim, Instant, Variant};

    pub(crate) const fn broken(_: Variant) -> bool {
        false
    }

    pub(crate) const fn note_expiry(_: &Claim, _: Instant) {}

    pub(crate) const fn has_expired(_: &Claim, _: Instant) -> bool {
        false
    }
}
