//! The failure of one extension.

use std::fmt;

use crate::inner::Inner;
use crate::lease::record::LeaseRecord;
use crate::protocol::responses::Responses;
use crate::types::error::{Error, ErrorKind};
use crate::types::lease_state::{LeaseState, Loss};

/// The failure of one extension. It becomes a public error if the caller of an extension receives it.
#[derive(Debug)]
pub(crate) enum ExtendError {
    /// The lease had ended before the extension began.
    AlreadyLost(Loss),
    /// The lease was released before a quorum extended it.
    Released,
    /// The nodes did not extend the lease, or too late.
    NotExtended(Box<(NotExtended, Responses)>),
}

/// The reason of a round that did not extend a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotExtended {
    /// The lease ended before a quorum extended it.
    TooSlow,
    /// A quorum has lost the keys of the lease.
    KeysLost,
    /// A newer claim has advanced the fencing counters.
    Superseded,
    /// Too few nodes replied.
    NoQuorum,
}

impl ExtendError {
    pub(crate) fn not_extended(reason: NotExtended, responses: &Responses) -> Self {
        Self::NotExtended(Box::new((reason, responses.clone())))
    }

    /// Returns whether another extension of the lease may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        self.kind() == ErrorKind::NoQuorum
    }

    /// Returns the kind of the public error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::AlreadyLost(Loss::Expired | Loss::Unreachable | Loss::Superseded) => ErrorKind::TooSlow,
            Self::AlreadyLost(_) | Self::Released => ErrorKind::Lost,
            Self::NotExtended(failure) => match failure.0 {
                NotExtended::TooSlow => ErrorKind::TooSlow,
                NotExtended::KeysLost => ErrorKind::Lost,
                NotExtended::Superseded => ErrorKind::Superseded,
                NotExtended::NoQuorum => ErrorKind::NoQuorum,
            },
        }
    }

    /// Creates the public error about the extension of `lease`.
    pub(crate) fn into_error(self, lease: &LeaseRecord) -> Error {
        let kind = self.kind();
        match self {
            Self::AlreadyLost(loss) => not_extended(lease, kind, &loss).with_loss(loss),
            Self::Released => not_extended(lease, kind, "it was released before a quorum extended it")
                .with_loss(Loss::Released),
            Self::NotExtended(failure) => {
                let (reason, responses) = *failure;
                let error = responses.error(kind, message(reason, &responses, lease), lease.inner());
                match (reason, lease.look().state) {
                    (NotExtended::KeysLost | NotExtended::TooSlow, LeaseState::Lost(loss)) => {
                        error.with_loss(loss)
                    }
                    _ => error,
                }
            }
        }
    }
}

/// Creates the error of an extension that failed for a reason other than the nodes.
pub(crate) fn not_extended(lease: &LeaseRecord, kind: ErrorKind, why: impl fmt::Display) -> Error {
    Error::new(kind, format!("cannot extend the lock on {}: {why}", lease.claim().all_resources()))
}

fn message(reason: NotExtended, responses: &Responses, lease: &LeaseRecord) -> String {
    let (resources, inner): (_, &Inner) = (lease.claim().all_resources(), lease.inner());
    match reason {
        NotExtended::TooSlow => {
            format!("lost the lock on {resources}: the lease ended before a quorum extended it")
        }
        NotExtended::KeysLost => {
            let denied = responses.denied(inner);
            format!("lost the lock on {resources}: its keys are gone or owned by another client on {denied}")
        }
        NotExtended::Superseded => {
            let count = responses.too_few("extended", inner);
            format!(
                "cannot extend the lock on {resources}: a newer claim advanced the fencing counters ({count}); \
                 release it and acquire a new one"
            )
        }
        NotExtended::NoQuorum => {
            let count = responses.too_few("extended", inner);
            format!("cannot extend the lock on {resources}: {count}")
        }
    }
}
