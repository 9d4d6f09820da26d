//! The replies of a node.

use super::Watch;
use crate::types::denial::Denial;
use crate::types::entry::LockEntry;
use crate::types::fencing_token::FencingToken;
use crate::types::quarantine::Quarantine;

/// The reply of a node to a [`Request`](super::Request). Errors are not replies.
///
/// The variants of [`Request`](super::Request) state which replies belong to a request. The core treats any other reply
/// as an error with an unknown effect.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request was carried out on every resource.
    Granted,
    /// A fenced acquisition was carried out on every resource; the counters have this value.
    Counted(FencingToken),
    /// The request was denied, and nothing was changed.
    Denied(Denial),
    /// The resources hold the token, but a counter is greater than the fencing token.
    ///
    /// Nothing was changed. The value is this counter. A newer claim has set it, so the node never counts for this
    /// claim again.
    Superseded(FencingToken),
    /// The reply to a release: `true` if a resource was deleted.
    Deleted(bool),
    /// The reply to an inspection: the resource is free.
    Free {
        /// The number of [places](super::Place) that wait for the resource; `None` if the node does not state it.
        waiters: Option<u32>,
    },
    /// The reply to an inspection: the lock of the resource.
    Held(LockEntry),
    /// The reply to a watch.
    Watching(Watch),
    /// A reply that has no vote, because the server may have lost locks. See [`Admission`](super::Admission).
    Quarantined(Box<Reply>, Quarantine),
}

/// Replies are equal if they are the same, so tests can compare them. A watch equals no other.
impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Granted, Self::Granted) => true,
            (Self::Counted(one), Self::Counted(other)) | (Self::Superseded(one), Self::Superseded(other)) => {
                one == other
            }
            (Self::Denied(one), Self::Denied(other)) => one == other,
            (Self::Deleted(one), Self::Deleted(other)) => one == other,
            (Self::Free { waiters: one }, Self::Free { waiters: other }) => one == other,
            (Self::Held(one), Self::Held(other)) => one == other,
            (Self::Quarantined(one, why), Self::Quarantined(other, other_why)) => {
                one == other && why == other_why
            }
            _ => false,
        }
    }
}

impl Reply {
    /// Returns whether the request was carried out on every resource.
    ///
    /// ```
    /// # use redlock_core::node::{Denial, Reply};
    /// assert!(Reply::Granted.is_grant());
    /// assert!(!Reply::Denied(Denial::default()).is_grant());
    /// ```
    pub fn is_grant(&self) -> bool {
        matches!(self, Self::Granted | Self::Counted(_))
    }
}
