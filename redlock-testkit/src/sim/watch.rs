//! The watch requests of simulated servers, in terms of their other replies.

use std::sync::{Arc, Mutex, PoisonError};

use event_listener::EventListener;
use redlock_core::{Availability, Denial, Vote};

/// The event of the next change of a resource.
///
/// The server stores it here when it has carried out a request to watch the resource.
#[derive(Clone, Default)]
pub(super) struct Armed(Arc<Mutex<Option<EventListener>>>);

impl Armed {
    pub(super) fn put(&self, changed: Option<EventListener>) {
        if changed.is_some() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = changed;
        }
    }

    pub(super) fn take(&self) -> Option<EventListener> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Converts an availability: a grant means free.
pub(super) fn as_vote(availability: Availability) -> Vote {
    match availability {
        Availability::Free => Vote::Granted,
        Availability::Taken(Some(remaining)) => Vote::Denied(Denial::default().expiring_in(remaining)),
        _ => Vote::Denied(Denial::default()),
    }
}

pub(super) fn as_availability(vote: &Vote) -> Availability {
    match vote {
        Vote::Denied(Denial { remaining, .. }) => Availability::Taken(*remaining),
        _ => Availability::Free,
    }
}
