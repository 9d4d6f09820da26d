//! The admission of a node, read around one request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::decide::admission::uncounted;
use crate::inner::Peer;
use crate::node::{Admission, QuarantineReason};
use crate::types::report::Outcome;

/// The check whether the vote on one request counts.
pub(crate) struct Check<'a> {
    peer: &'a Peer,
    before: Before<'a>,
}

/// The admission when the request is sent.
enum Before<'a> {
    Unread,
    /// The node is being connected. The request is not sent before, so that one without an effect is known.
    Connecting(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    Read(Admission),
}

impl<'a> Check<'a> {
    pub(crate) fn new(peer: &'a Peer) -> Self {
        Self { peer, before: Before::Unread }
    }

    /// Returns whether the admission is read, so that the request may have been sent.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.before, Before::Read(_))
    }

    /// Completes when the admission is read. The request must not be sent before.
    pub(crate) fn poll_before(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.before = match &mut self.before {
                Before::Read(_) => return Poll::Ready(()),
                Before::Unread => {
                    let admission = self.peer.admission();
                    if self.peer.node.connection().is_none() || is_unchecked(admission) {
                        Before::Connecting(self.peer.node.connected())
                    } else {
                        Before::Read(admission)
                    }
                }
                Before::Connecting(connected) => {
                    ready!(connected.as_mut().poll(cx));
                    Before::Read(self.peer.admission())
                }
            }
        }
    }

    /// Returns the outcome of the request, according to the admission when the reply is read.
    pub(crate) fn judge(&self, outcome: Outcome) -> Outcome {
        let granted = match outcome {
            Outcome::Granted | Outcome::GrantedFenced(_) => true,
            Outcome::Denied(_) | Outcome::Superseded(_) | Outcome::Free | Outcome::Held(_) => false,
            _ => return outcome,
        };
        let Before::Read(before) = self.before else { return outcome };
        match uncounted(before, self.peer.admission()) {
            Some(quarantine) => Outcome::Quarantined { granted, quarantine },
            None => outcome,
        }
    }
}

fn is_unchecked(admission: Admission) -> bool {
    matches!(admission, Admission::Quarantined(quarantine) if quarantine.reason == QuarantineReason::NotChecked)
}
