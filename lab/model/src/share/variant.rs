//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::catalog::Broken;
use crate::share::property::Property;
use crate::share::protocol::Sharing;
use crate::share::scope::{Role, Scope};

/// The sound rule, or a rule with one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the catalog describes each
pub enum Variant {
    Sound,
    // Grants.
    OneNodeIsEnoughToRead,
    ReaderJoinsAWriter,
    WriterReplacesReaders,
    ValidityFromTheReply,
    // Entries.
    OneTokenForAllReaders,
    ReadersAreCounted,
    ReleaseDeletesTheKey,
    LastReaderSetsTheExpiry,
    EntriesExpireEarly,
    // Extensions.
    AnyReaderIsExtended,
}

const PAIR: Scope =
    Scope { roles: [Role::Reader, Role::Writer, Role::Absent], extensions: [0; 3], faults: 0 };

const READERS: Scope = Scope { roles: [Role::Reader, Role::Reader, Role::Absent], ..PAIR };

const fn extended(scope: Scope) -> Scope {
    Scope { extensions: [1, 0, 0], ..scope }
}

/// Every broken variant.
pub const CATALOG: &[Broken<Sharing>] = {
    use Property::{CountedEntriesExist, Exclusion, NoTrespass};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        Broken::new(OneNodeIsEnoughToRead, "a reader needs one node, a writer a majority", Exclusion, PAIR),
        Broken::new(ReaderJoinsAWriter, "a node adds a reader beside a writer", Exclusion, PAIR),
        Broken::new(WriterReplacesReaders, "a writer is a SET without NX", Exclusion, PAIR),
        Broken::new(
            ValidityFromTheReply,
            "the validity counts from the moment at which the round is won",
            CountedEntriesExist,
            PAIR,
        ),
        Broken::new(OneTokenForAllReaders, "all readers of a process have one token", NoTrespass, READERS),
        Broken::new(
            ReadersAreCounted,
            "a number of readers instead of entries; every release lowers it",
            NoTrespass,
            READERS,
        ),
        Broken::new(ReleaseDeletesTheKey, "the release of a reader deletes the key", NoTrespass, READERS),
        Broken::new(
            LastReaderSetsTheExpiry,
            "each reader sets the expiry of the key, even to an earlier time",
            CountedEntriesExist,
            READERS,
        ),
        Broken::new(
            EntriesExpireEarly,
            "(the assumption) entries expire within the drift allowance",
            Exclusion,
            PAIR,
        ),
        Broken::new(
            AnyReaderIsExtended,
            "an extension is granted if any reader has an entry",
            CountedEntriesExist,
            extended(READERS),
        ),
    ]
};
