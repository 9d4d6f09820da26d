//! The violations that the checks find.

use std::fmt;

use crate::hold::Interval;
use crate::line::{HoldId, Key, Mode};

/// A violation.
///
/// `first` was acquired first. `both` is the time during which both clients held the lock. `between` is the time from
/// the end of the earlier acquisition to the beginning of the later one, or the other way around if both were in flight
/// at the same time. `ttl` is the reply of `PTTL`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Violation {
    /// Two clients held a lock at the same time.
    Overlap { resource: String, first: (HoldId, Mode), second: (HoldId, Mode), both: Interval },
    /// A fencing token is not greater than that of an acquisition that ended before, or equal to any other.
    Token { resource: String, first: (HoldId, u64), second: (HoldId, u64), between: Interval },
    /// A server has a key at the end that is not a documented service key.
    Leftover { server: String, key: String, ttl: i64 },
}

impl Violation {
    pub(crate) fn leftover(key: &Key) -> Self {
        Self::Leftover { server: key.server.clone(), key: key.key.clone(), ttl: key.ttl }
    }

    /// Returns the lock, the time and the leases for a picture.
    pub(crate) fn place(&self) -> Option<(&str, Interval, Vec<&HoldId>)> {
        match self {
            Self::Overlap { resource, first, second, both } => {
                Some((resource, *both, vec![&first.0, &second.0]))
            }
            Self::Token { resource, first, second, between } => {
                Some((resource, *between, vec![&first.0, &second.0]))
            }
            Self::Leftover { .. } => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { resource, first, second, both } => write!(
                f,
                "overlap: {} ({}) and {} ({}) held {resource} at the same time, for {:.6} s",
                first.0,
                first.1,
                second.0,
                second.1,
                seconds(both.until - both.from)
            ),
            Self::Token { resource, first, second, .. } => write!(
                f,
                "token: {} acquired {resource} with {}, but {} received {} before",
                second.0, second.1, first.0, first.1
            ),
            Self::Leftover { server, key, ttl } => {
                write!(f, "leftover: server {server} still has the key {key} (PTTL {ttl})")
            }
        }
    }
}

/// Returns nanoseconds in seconds.
#[allow(clippy::cast_precision_loss)] // for the eye
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
