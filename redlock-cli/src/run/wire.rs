//! The messages between supervisor and keeper: one line of JSON each.
//!
//! The deadline of the lock is not among them. It is on the [board](super::board), so that a supervisor that was stopped
//! reads the present deadline first, and not an old one from a queue.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use serde::{Deserialize, Serialize};

use crate::request::{Kind, NotAcquired, Slot};
use crate::settings::Servers;

/// The lock that the keeper acquires, and its servers. Secrets are sent here, never in arguments.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The process of the supervisor.
    pub(crate) supervisor: i32,
    pub(crate) servers: Servers,
    pub(crate) resources: Vec<Vec<u8>>,
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) wait_for_servers: bool,
    pub(crate) fenced: bool,
    pub(crate) owner: String,
    /// The holders under which this program itself runs.
    pub(crate) ancestors: Vec<String>,
    /// The names for which some of them have read locks.
    pub(crate) read_by_ancestors: Vec<Vec<u8>>,
    /// The time for which the command may continue after the keys were deleted.
    pub(crate) stolen_grace: Duration,
    pub(crate) grace: Option<Duration>,
    pub(crate) debug: bool,
}

/// The wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    /// A single attempt, which is repeated only while the votes are split.
    No,
    /// A wait of at most this time.
    For(Duration),
    /// A wait without a limit.
    Forever,
    /// A wait of at most this time while no other client is known to hold the lock, and none otherwise.
    WhileUndecided(Duration),
}

/// A message of the supervisor.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToKeeper {
    /// The first message.
    Task(Box<Task>),
    /// The command has started.
    Started {
        /// The pid of the command.
        pid: i32,
        /// `true` if the process leads its own group.
        own_group: bool,
    },
    /// The command and its descendants have ended.
    Ended {
        /// The time for which to keep the lock from now on.
        keep: Option<Duration>,
    },
    /// The request is withdrawn.
    Cancel,
}

/// A message of the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromKeeper {
    /// Another client holds the lock.
    Waiting {
        /// The message with the holder, for stderr.
        message: String,
    },
    /// The lock is held, until the deadline on the board.
    Held(Held),
    /// The lock was not acquired.
    NotAcquired(NotAcquired),
    /// The lock is lost, or about to be.
    Lost(Lost),
    /// The lock was released, kept for the rest of a period, or neither.
    Released {
        /// A reason for a warning.
        warning: Option<String>,
        /// The time for which the lock is kept.
        kept: Option<Duration>,
    },
    /// A line for the log.
    Log(String),
}

/// A granted lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// The moment of the grant, on the boot clock.
    pub(crate) granted: Nanos,
    pub(crate) holder: String,
    pub(crate) fencing_token: Option<u64>,
    pub(crate) slot: Option<Slot>,
    pub(crate) waited: Duration,
}

/// A loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) reason: String,
    /// `true` if the keys are gone, so that the lock no longer excludes other clients.
    pub(crate) revoked: bool,
    /// `true` if the keeper sends `SIGKILL` right after this message.
    pub(crate) killing: bool,
}

/// A point in time on the boot clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nanos(u64);

impl From<Instant> for Nanos {
    fn from(instant: Instant) -> Self {
        Self(u64::try_from(instant.elapsed_since_origin().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Instant {
    fn from(Nanos(nanos): Nanos) -> Self {
        Self::since_origin(Duration::from_nanos(nanos))
    }
}

/// Returns a message as a line.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have only string keys");
    line.push(b'\n');
    line
}

/// Splits received bytes into messages.
#[derive(Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Adds bytes that have arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next complete message. Lines that are not messages are skipped.
    pub(crate) fn next<T: for<'a> Deserialize<'a>>(&mut self) -> Option<T> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<_> = self.0.drain(..=end).collect();
            if let Ok(message) = serde_json::from_slice(&line) {
                return Some(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_split() {
        let messages = [
            FromKeeper::Waiting { message: "\"a\nb\" is locked".into() },
            FromKeeper::Released { warning: None, kept: Some(Duration::from_millis(1500)) },
        ];
        let bytes: Vec<_> = messages.iter().flat_map(line).collect();
        for size in 1..bytes.len() {
            let mut lines = Lines::default();
            let mut read = Vec::new();
            for part in bytes.chunks(size) {
                lines.push(part);
                while let Some(message) = lines.next::<FromKeeper>() {
                    read.push(message);
                }
            }
            assert_eq!(messages.as_slice(), read);
        }
    }
}
