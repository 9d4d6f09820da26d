//! What a simulated server is asked by who watches, in the terms of its other answers.

use std::sync::{Arc, Mutex, PoisonError};

use event_listener::EventListener;
use redlock_core::{Availability, Refusal, Vote};

/// Where a server puts what fires at the next change of a resource, once it has carried out a request to watch it.
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

/// Granted is free.
pub(super) fn as_vote(availability: Availability) -> Vote {
    match availability {
        Availability::Free => Vote::Granted,
        Availability::Taken(Some(remaining)) => Vote::Refused(Refusal::default().expiring_in(remaining)),
        _ => Vote::Refused(Refusal::default()),
    }
}

pub(super) fn as_availability(vote: &Vote) -> Availability {
    match vote {
        Vote::Refused(Refusal { remaining, .. }) => Availability::Taken(*remaining),
        _ => Availability::Free,
    }
}
