//! The settings of a server, which include its faults.

use std::collections::BTreeSet;

/// The identity and the condition of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The version, which decides about commands.
    pub release: Release,
    /// The identity of the process.
    pub run_id: String,
    /// The identity of the data before the last promotion; zeros if there was none.
    pub replid2: String,
    /// True if it is a replica: it rejects writes.
    pub is_replica: bool,
    /// True if there is no memory for new keys.
    pub out_of_memory: bool,
    /// An error reply to every command, such as `LOADING ..` or `BUSY ..`.
    pub unavailable: Option<String>,
    /// The commands that the access rules deny, in lower case.
    pub denied: BTreeSet<&'static str>,
    /// The password of the default user, if one is required.
    pub password: Option<String>,
    /// The time since the Unix epoch of the last start, in microseconds.
    pub started: u64,
}

/// The version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Redis 6.2, without `SET .. NX GET` and `PEXPIRE .. GT`.
    Redis6,
    /// Redis 7.0.
    Redis7,
    /// Valkey 9.0, with `DELIFEQ`.
    Valkey9,
    /// Redis 8.4, with `DELEX`.
    Redis8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            release: Release::Redis7,
            run_id: "0".repeat(39) + "1",
            replid2: "0".repeat(40),
            is_replica: false,
            out_of_memory: false,
            unavailable: None,
            denied: BTreeSet::new(),
            password: None,
            started: 0,
        }
    }
}

impl Release {
    /// Returns the version of Redis that the server reports.
    pub(crate) fn redis_version(self) -> &'static str {
        match self {
            Self::Redis6 => "6.2.14",
            Self::Redis7 => "7.0.15",
            Self::Valkey9 => "7.2.4",
            Self::Redis8 => "8.4.0",
        }
    }

    /// Returns whether the features of Redis 7.0 exist.
    pub(crate) fn has_7(self) -> bool {
        self != Self::Redis6
    }
}
