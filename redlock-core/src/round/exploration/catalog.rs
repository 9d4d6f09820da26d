//! Every broken variant, and the property that detects it. An exploration without a violation means something only if it
//! detects these.

use redlock_model::Broken;

use crate::round::exploration::broken::Variant;
use crate::round::exploration::model::Rounds;
use crate::round::exploration::property::Property;
use crate::round::exploration::scope::{Keys, Kinds, Scope, Transport};

/// One attempt of each of two clients.
pub(super) const LOCKS: Scope = Scope {
    transport: Transport::Streams,
    attempts: [1, 1],
    extensions: [0, 0],
    overlapping: false,
    faults: 0,
    kinds: Kinds::NONE,
    readers: [false; 2],
    fenced: false,
    counters: [0; 3],
    keys: Keys::Timed,
};

/// A reader and a writer.
pub(super) const READER_AND_WRITER: Scope = Scope { readers: [true, false], ..LOCKS };

/// Two readers.
pub(super) const READERS: Scope = Scope { readers: [true; 2], ..LOCKS };

/// One lease that is extended once.
pub(super) const EXTENSION: Scope = Scope { attempts: [1, 0], extensions: [1, 0], ..LOCKS };

/// The attempts of two clients, with tokens, where keys may vanish.
pub(super) const TOKENS: Scope =
    Scope { fenced: true, counters: [1, 1, 2], keys: Keys::Forgotten, overlapping: true, ..LOCKS };

/// The attempt of one client.
pub(super) const ALONE: Scope = Scope { attempts: [1, 0], ..LOCKS };

pub(super) const fn faults(faults: u8, scope: Scope) -> Scope {
    Scope { faults, kinds: Kinds::ALL, ..scope }
}

/// Adds faults of scopes in which keys vanish: a reply is lost, a failed attempt of a third client raises a counter, or one
/// node begins to reply with false counters.
pub(super) const fn token_faults(faults: u8, scope: Scope) -> Scope {
    Scope { faults, ..scope }
}

/// Leaves only the faults of the network, and dropped attempts.
pub(super) const fn only(scope: Scope) -> Scope {
    Scope { kinds: Kinds::NONE, ..scope }
}

/// With tokens, and nodes whose counters differ.
pub(super) const fn fenced(scope: Scope) -> Scope {
    Scope { fenced: true, counters: [0, 0, 1], ..scope }
}

pub(super) const fn datagrams(scope: Scope) -> Scope {
    Scope { transport: Transport::Datagrams, ..scope }
}

pub(super) const fn extended(extensions: [u8; 2], scope: Scope) -> Scope {
    Scope { extensions, ..scope }
}

/// Two extensions of the first client may be in progress at once.
pub(super) const fn twice_at_once(scope: Scope) -> Scope {
    Scope { extensions: [2, 0], overlapping: true, ..scope }
}

const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken<Rounds> {
    Broken::new(variant, does, violates, scope)
}

pub(super) const CATALOG: &[Broken<Rounds>] = {
    use Property::{
        Bounded, CountedKeysExist, CountersCover, Exclusion, Increasing, NoLateExtension, NoRevival,
        NoTrespass, NothingLeftBehind, OneResult, Quorum, RefillFollowsQuorum, ReleaseOutcome, Revocation,
        Unique,
    };
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(GrantCountsTwice, "a grant counts for two nodes", Exclusion, LOCKS),
        broken(GrantCountsTwice, "the same", Quorum, ALONE),
        broken(GrantCountsTwice, "the same", Exclusion, READER_AND_WRITER),
        broken(ReaderJoinsAWriter, "a node adds a reader beside a writer", Exclusion, READER_AND_WRITER),
        broken(WriterReplacesReaders, "a writer is a SET without NX", Exclusion, READER_AND_WRITER),
        broken(ReleaseRemovesReaders, "the release of a reader deletes the key of all", NoTrespass, READERS),
        broken(
            ReadersAreCounted,
            "a node counts readers, and every release lowers the count",
            NoTrespass,
            READERS,
        ),
        broken(
            LastReaderSetsTheExpiry,
            "each reader sets the expiry of all, even to an earlier time",
            CountedKeysExist,
            READERS,
        ),
        broken(
            AnyReaderIsExtended,
            "an extension is granted if any reader has an entry",
            CountedKeysExist,
            extended([1, 0], READERS),
        ),
        broken(
            ExtensionShortens,
            "an extension sets the expiry of its key even to an earlier time",
            CountedKeysExist,
            twice_at_once(ALONE),
        ),
        broken(QuarantinedCounts, "a grant in quarantine counts", Quorum, faults(1, ALONE)),
        broken(SupersededCounts, "a node with a greater counter counts", Unique, TOKENS),
        broken(SupersededCounts, "the same", NoLateExtension, extended([1, 0], TOKENS)),
        broken(
            SilenceExtends,
            "a node that does not reply counts for an extension",
            Quorum,
            faults(2, EXTENSION),
        ),
        broken(
            SilenceRevokes,
            "a node that does not reply denies an extension",
            Revocation,
            faults(2, EXTENSION),
        ),
        broken(
            ValidityFromTheReply,
            "the validity counts from the end of the round",
            CountedKeysExist,
            ALONE,
        ),
        broken(LateGrantRestartsValidity, "a late grant restarts the validity", CountedKeysExist, ALONE),
        broken(DeadlineIgnored, "a result does not depend on the time", NoRevival, ALONE),
        broken(DeadlineIgnored, "the same", NoRevival, EXTENSION),
        broken(
            OneTokenForAllAttempts,
            "all attempts of a client have one token",
            CountedKeysExist,
            Scope { attempts: [2, 0], ..ALONE },
        ),
        broken(OneTokenForAllAttempts, "the same", CountedKeysExist, Scope { attempts: [2, 0], ..READERS }),
        broken(
            NothingConfirmed,
            "a quorum of grants is enough, even if their counters differ",
            Unique,
            TOKENS,
        ),
        broken(NothingConfirmed, "the same", Increasing, TOKENS),
        broken(NothingConfirmed, "the same", CountersCover, TOKENS),
        broken(HalfConfirms, "a confirmation counts for two nodes", Unique, TOKENS),
        broken(SmallerTokenConfirmed, "a smaller token is confirmed", Unique, TOKENS),
        broken(
            AnyReplyCounts,
            "the greatest counter of the first quorum is the token, however far",
            Bounded,
            token_faults(1, TOKENS),
        ),
        broken(ConfirmIgnoresOwner, "a confirm ignores the owner of the key", Unique, TOKENS),
        broken(ConfirmCreates, "a confirm counts where the key is missing", Unique, TOKENS),
        broken(ConfirmIgnoresCounter, "a confirm ignores a greater counter", Unique, TOKENS),
        broken(ConfirmLowersCounter, "a confirm lowers a greater counter", Unique, TOKENS),
        broken(ConfirmRaisesNothing, "a confirm does not raise the counter", Unique, TOKENS),
        broken(ConfirmRaisesNothing, "the same", Increasing, TOKENS),
        broken(
            ExtensionIgnoresCounter,
            "an extension ignores a greater counter",
            NoLateExtension,
            extended([1, 0], TOKENS),
        ),
        broken(
            ExtensionIgnoresEverything,
            "an extension ignores the owner, a missing key and the counter",
            NoLateExtension,
            extended([1, 0], TOKENS),
        ),
        broken(
            RefillLowersCounter,
            "a refill lowers a greater counter",
            CountersCover,
            extended([1, 0], TOKENS),
        ),
        broken(RemovalDropsCounter, "the counter is removed with the key", Unique, TOKENS),
        broken(
            RefillAtOnce,
            "a node is refilled before a quorum has extended",
            RefillFollowsQuorum,
            EXTENSION,
        ),
        broken(
            RefillAfterTheRelease,
            "a refill is sent although the lease was released",
            NothingLeftBehind,
            EXTENSION,
        ),
        broken(
            RefillForgotten,
            "the record does not know which refills were sent",
            NothingLeftBehind,
            faults(1, EXTENSION),
        ),
        broken(ExtensionCreates, "an extension creates a missing key", NothingLeftBehind, EXTENSION),
        broken(LostAttemptNotReleased, "an attempt that is lost is not released", NothingLeftBehind, LOCKS),
        broken(
            ReleaseOnlyWhereGranted,
            "a release is sent only to nodes that granted",
            NothingLeftBehind,
            ALONE,
        ),
        broken(DropForgotten, "a dropped attempt continues", NothingLeftBehind, faults(1, ALONE)),
        broken(
            InterruptionForgotten,
            "a release is forgotten with its runtime",
            NothingLeftBehind,
            faults(1, ALONE),
        ),
        broken(NoFollowUp, "a release is sent once and never repeated", NothingLeftBehind, datagrams(ALONE)),
        broken(
            SilenceEndsCleanup,
            "a release without a reply ends the cleanup",
            NothingLeftBehind,
            faults(1, datagrams(ALONE)),
        ),
        broken(OneReplyEndsCleanup, "any reply ends the cleanup", NothingLeftBehind, datagrams(ALONE)),
        broken(
            DeletionEndsCleanup,
            "a deletion ends the cleanup of all writes",
            NothingLeftBehind,
            faults(1, EXTENSION),
        ),
        broken(
            DeletionSettlesAll,
            "a deletion ends the cleanup of two unsettled writes",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        broken(
            StaleDeletionCounts,
            "a deletion ends the cleanup of a write, although an earlier one has set the key",
            NothingLeftBehind,
            faults(1, EXTENSION),
        ),
        broken(SecondReleaseAtOnce, "the second release does not wait", NothingLeftBehind, datagrams(ALONE)),
        broken(SentForgotten, "the record does not know what was sent", NothingLeftBehind, ALONE),
        broken(UnsentCountsAsSent, "a write whose call is open counts as sent", NothingLeftBehind, ALONE),
        broken(
            AnyConnectionIsOrdered,
            "a release follows a write on any connection",
            NothingLeftBehind,
            faults(2, ALONE),
        ),
        broken(
            LastConnectionIsKept,
            "only the connection of the last of several unsettled writes is remembered",
            NothingLeftBehind,
            faults(2, EXTENSION),
        ),
        broken(
            StateReadAtTheReply,
            "the writes are read at the reply to a release",
            NothingLeftBehind,
            faults(1, ALONE),
        ),
        broken(
            KeysExpireEarly,
            "(the assumption) keys expire within the drift allowance",
            CountedKeysExist,
            ALONE,
        ),
        broken(
            DeniedWriteForgotten,
            "a deletion ends the cleanup of a write, although a copy of an earlier, denied one can have set the key",
            NothingLeftBehind,
            only(faults(1, datagrams(Scope { attempts: [2, 0], ..EXTENSION }))),
        ),
        broken(ResultForgotten, "a round has no result once a call has failed", OneResult, ALONE),
        broken(DenialReleases, "a release reports success where there was no key", ReleaseOutcome, ALONE),
    ]
};
