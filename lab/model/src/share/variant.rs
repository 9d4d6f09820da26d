//! Broken variants of the rule, each with the property that detects it.
//!
//! Every variant changes one rule, at the one place that implements it.

use crate::share::property::Property;
use crate::share::protocol::Sharing;
use crate::share::scope::{Role, Scope};

const PAIR: Scope =
    Scope { roles: [Role::Reader, Role::Writer, Role::Absent], extensions: [0; 3], faults: 0 };

const READERS: Scope = Scope { roles: [Role::Reader, Role::Reader, Role::Absent], ..PAIR };

const fn extended(scope: Scope) -> Scope {
    Scope { extensions: [1, 0, 0], ..scope }
}

variants! {
    Sharing;
    // Grants.
    OneNodeIsEnoughToRead: "a reader needs one node, a writer a majority" => Exclusion in PAIR;
    ReaderJoinsAWriter: "a node adds a reader beside a writer" => Exclusion in PAIR;
    WriterReplacesReaders: "a writer is a SET without NX" => Exclusion in PAIR;
    ValidityFromTheReply: "the validity counts from the moment at which the round is won" =>
        CountedEntriesExist in PAIR;
    // Entries.
    OneTokenForAllReaders: "all readers of a process have one token" => NoTrespass in READERS;
    ReadersAreCounted: "a number of readers instead of entries; every release lowers it" =>
        NoTrespass in READERS;
    ReleaseDeletesTheKey: "the release of a reader deletes the key" => NoTrespass in READERS;
    LastReaderSetsTheExpiry: "each reader sets the expiry of the key, even to an earlier time" =>
        CountedEntriesExist in READERS;
    EntriesExpireEarly: "(the assumption) entries expire within the drift allowance" => Exclusion in PAIR;
    // Extensions.
    AnyReaderIsExtended: "an extension is granted if any reader has an entry" =>
        CountedEntriesExist in extended(READERS);
}
