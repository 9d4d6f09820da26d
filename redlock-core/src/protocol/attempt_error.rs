//! The failure of one attempt to acquire a lock.

use std::fmt;

use crate::decide::backoff::RetryCause;
use crate::inner::Inner;
use crate::protocol::responses::Responses;
use crate::types::error::{Error, ErrorKind};
use crate::types::token::Token;

/// The failure of one attempt. It becomes a public error only if no other attempt follows.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The client was closed, and nothing was sent.
    Closed,
    /// The nodes did not grant the lock, or too late.
    NotGranted(Box<NotGranted>),
}

/// An attempt that was decided against the client.
#[derive(Debug)]
pub(crate) struct NotGranted {
    pub(crate) reason: Reason,
    /// The token of the attempt.
    pub(crate) token: Token,
    /// The responses at the time of the decision.
    pub(crate) responses: Responses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Another client has the resources, on a quorum of nodes.
    Contended,
    /// The nodes deny, and name no client on a quorum of them.
    Split,
    /// Another client took the resources before the fencing token was confirmed.
    ContendedBeforeConfirmation,
    /// Too few nodes replied.
    NoQuorum,
    /// On too many nodes, a key holds a value that is not a lock.
    WrongType,
    /// On too many nodes, a fencing counter is unusable.
    DamagedCounter,
    /// No validity was left when a quorum granted.
    TooSlow,
}

impl Reason {
    /// Returns why another attempt may succeed; `None` if none can.
    pub(crate) fn retry_cause(self) -> Option<RetryCause> {
        match self {
            Self::Contended | Self::Split | Self::ContendedBeforeConfirmation => Some(RetryCause::Contended),
            Self::NoQuorum | Self::TooSlow => Some(RetryCause::Unusable),
            Self::WrongType | Self::DamagedCounter => None,
        }
    }
}

impl NotGranted {
    /// Returns the kind of the public error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self.reason {
            Reason::Contended | Reason::ContendedBeforeConfirmation => ErrorKind::Contended,
            Reason::Split => ErrorKind::Undecided,
            Reason::NoQuorum => ErrorKind::NoQuorum,
            Reason::WrongType => ErrorKind::WrongType,
            Reason::DamagedCounter => ErrorKind::DamagedCounter,
            Reason::TooSlow => ErrorKind::TooSlow,
        }
    }

    /// Returns whether the votes were split: no client is known to hold the lock.
    pub(crate) fn is_split(&self) -> bool {
        self.reason == Reason::Split
    }

    /// Creates the public error about the lock on `resources`.
    pub(crate) fn into_error(self, resources: impl fmt::Display, inner: &Inner) -> Error {
        let responses = &self.responses;
        let message = match self.reason {
            Reason::Contended | Reason::ContendedBeforeConfirmation => {
                let count = responses.too_few("granted", inner);
                match (responses.holder(), self.reason) {
                    (Some(holder), _) if *holder == Token::of_readers() => {
                        format!(
                            "{resources} is locked by readers ({count}); if this program is one of them, it must release first"
                        )
                    }
                    (Some(holder), _) => format!("{resources} is locked by {holder} ({count})"),
                    (None, Reason::ContendedBeforeConfirmation) => format!(
                        "another client locked {resources} before its fencing token was confirmed ({count})"
                    ),
                    (None, _) => format!("{resources} is locked by another client ({count})"),
                }
            }
            Reason::Split => format!(
                "cannot lock {resources}: the votes are split, and no client is known to hold it ({})",
                responses.too_few("granted", inner)
            ),
            Reason::NoQuorum => responses.no_quorum(format_args!("lock {resources}"), inner),
            Reason::WrongType => responses.wrong_type(format_args!("lock {resources}")),
            Reason::DamagedCounter => responses.damaged_counter(format_args!("lock {resources}")),
            Reason::TooSlow => format!("cannot lock {resources}: no validity left when a quorum granted it"),
        };
        responses.error(self.kind(), message, inner)
    }
}
