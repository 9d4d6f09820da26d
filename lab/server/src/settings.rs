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
    /// Redis 8.0, with `CLIENT SETINFO`. It pushes a flush before the reply to it.
    Redis80,
    /// Valkey 8, which has no further command of the library.
    Valkey8,
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
    /// Returns the release with the commands of a real server, from its `INFO server`.
    ///
    /// `None` if the text contains no version.
    pub fn of(info: &str) -> Option<Self> {
        let version = |name: &str| {
            let version = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let mut numbers = version.trim().split('.').map(str::parse::<u32>);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        };
        Some(match (version("valkey_version"), version("redis_version")?) {
            (Some((9.., _)), _) => Self::Valkey9,
            (Some(_), _) => Self::Valkey8,
            (None, (8, 4..) | (9.., _)) => Self::Redis8,
            (None, (8, _) | (7, 2..)) => Self::Redis80,
            (None, (7, _)) => Self::Redis7,
            (None, _) => Self::Redis6,
        })
    }

    /// Returns the name of the server, and its version.
    pub(crate) fn version(self) -> (&'static str, &'static str) {
        match self {
            Self::Valkey8 => ("valkey", "8.1.0"),
            Self::Valkey9 => ("valkey", "9.0.0"),
            _ => ("redis", self.redis_version()),
        }
    }

    /// Returns the version of Redis that the server reports.
    pub(crate) fn redis_version(self) -> &'static str {
        match self {
            Self::Redis6 => "6.2.14",
            Self::Redis7 => "7.0.15",
            Self::Redis80 => "8.0.2",
            Self::Valkey8 | Self::Valkey9 => "7.2.4",
            Self::Redis8 => "8.4.0",
        }
    }

    /// Returns whether the server is Valkey.
    pub(crate) fn is_valkey(self) -> bool {
        matches!(self, Self::Valkey8 | Self::Valkey9)
    }

    /// Returns whether `CLIENT SETINFO` exists, and error replies name the user: from Redis 7.2 on.
    pub(crate) fn has_7_2(self) -> bool {
        !matches!(self, Self::Redis6 | Self::Redis7)
    }

    /// Returns whether a connection that flushes learns of this before the reply.
    pub(crate) fn pushes_own_flush_first(self) -> bool {
        matches!(self, Self::Redis80 | Self::Redis8)
    }

    /// Returns whether the features of Redis 7.0 exist.
    pub(crate) fn has_7(self) -> bool {
        self != Self::Redis6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_server_has_the_release_with_its_commands() {
        for (redis, valkey, release) in [
            ("6.2.14", None, Release::Redis6),
            ("7.0.15", None, Release::Redis7),
            ("7.2.4", None, Release::Redis80),
            ("8.0.2", None, Release::Redis80),
            ("8.4.0", None, Release::Redis8),
            ("7.2.4", Some("8.1.1"), Release::Valkey8),
            ("7.2.4", Some("9.0.0"), Release::Valkey9),
        ] {
            let valkey = valkey.map_or(String::new(), |version| format!("valkey_version:{version}\r\n"));
            let info = format!("# Server\r\nredis_version:{redis}\r\n{valkey}run_id:0\r\n");
            assert_eq!(Some(release), Release::of(&info), "{info}");
        }
        assert_eq!(None, Release::of("# Server\r\n"));
    }
}
