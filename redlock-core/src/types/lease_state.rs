//! The state of a lease, and the reasons of its end.

use std::fmt;

use crate::types::token::Fingerprint;

/// The state of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, but its renewal is at risk.
    ///
    /// The last extension failed, or the keep-alive has ended. A later extension that succeeds makes the state
    /// [`Held`](LeaseState::Held) again. Otherwise the lock will be lost. After a
    /// [superseded](crate::ErrorKind::Superseded) extension, no later one succeeds.
    AtRisk,
    /// The lock is no longer held, or will not be in a moment. This state is final.
    Lost(Loss),
}

/// The reason why a lock is no longer held.
///
/// A loss that time causes is reported a margin before the validity ends; see [`Lease::state`](crate::Lease::state).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The validity ended without an extension.
    ///
    /// There was no keep-alive, it had reached a limit, or its task had ended.
    Expired,
    /// The validity ended, and too few nodes replied to its extension.
    Unreachable,
    /// The validity ended, and newer claims prevented its extension.
    ///
    /// The nodes that have the lock count for newer claims.
    Superseded,
    /// A quorum of nodes reports that this client no longer holds the lock.
    ///
    /// The nodes have lost the lock, or another client deleted it.
    Revoked {
        /// The current holder, if the nodes reported it.
        holder: Option<Fingerprint>,
    },
    /// The guard was released or dropped.
    Released,
    /// The guard was detached, so that another owner can resume the lock.
    Detached,
}

/// The loss as the end of a sentence. Example: `cannot extend the lock on "a": lease expired`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("lease expired"),
            Self::Unreachable => {
                f.write_str("lease expired before it could be renewed: too few nodes responded")
            }
            Self::Superseded => f.write_str("lease expired: a newer claim advanced the fencing counters"),
            Self::Revoked { holder: None } => f.write_str("keys gone on a quorum of nodes"),
            Self::Revoked { holder: Some(holder) } => {
                write!(f, "keys gone on a quorum of nodes, {holder} holds the lock")
            }
            Self::Released => f.write_str("lock released"),
            Self::Detached => f.write_str("lock detached"),
        }
    }
}
