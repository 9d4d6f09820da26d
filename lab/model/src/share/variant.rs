//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::share::property::Property;
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

const PAIR: Scope =
    Scope { roles: [Role::Reader, Role::Writer, Role::Absent], extensions: [0; 3], faults: 0 };

const READERS: Scope = Scope { roles: [Role::Reader, Role::Reader, Role::Absent], ..PAIR };

const fn extended(scope: Scope) -> Scope {
    Scope { extensions: [1, 0, 0], ..scope }
}

const fn broken(variant: Variant, does: &'static str, violates: Property, scope: Scope) -> Broken {
    Broken { variant, does, violates, scope }
}

/// Every broken variant.
pub const CATALOG: &[Broken] = {
    use Property::{CountedEntriesExist, Exclusion, NoTrespass};
    #[allow(clippy::enum_glob_use)] // every variant is in the list
    use Variant::*;
    &[
        broken(OneNodeIsEnoughToRead, "a reader needs one node, a writer a majority", Exclusion, PAIR),
        broken(ReaderJoinsAWriter, "a node adds a reader beside a writer", Exclusion, PAIR),
        broken(WriterReplacesReaders, "a writer is a SET without NX", Exclusion, PAIR),
        broken(
            ValidityFromTheReply,
            "the validity counts from the moment at which the round is won",
            CountedEntriesExist,
            PAIR,
        ),
        broken(OneTokenForAllReaders, "all readers of a process have one token", NoTrespass, READERS),
        broken(
            ReadersAreCounted,
            "a number of readers instead of entries; every release lowers it",
            NoTrespass,
            READERS,
        ),
        broken(ReleaseDeletesTheKey, "the release of a reader deletes the key", NoTrespass, READERS),
        broken(
            LastReaderSetsTheExpiry,
            "each reader sets the expiry of the key, even to an earlier time",
            CountedEntriesExist,
            READERS,
        ),
        broken(
            EntriesExpireEarly,
            "(the assumption) entries expire within the drift allowance",
            Exclusion,
            PAIR,
        ),
        broken(
            AnyReaderIsExtended,
            "an extension is granted if any reader has an entry",
            CountedEntriesExist,
            extended(READERS),
        ),
    ]
};
