//! The watchers of one server: a release notifies all of them, unless the flaw of the node concerns notifications.

use std::sync::{Mutex, PoisonError};

use futures_channel::oneshot::{Receiver, Sender, channel};

use super::Flaw::{self, *};

/// The watchers of one server, by client.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<(u64, Sender<()>)>>);

impl Watchers {
    pub(crate) fn join(&self, client: u64) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.with(|watching| watching.push((client, sender)));
        receiver
    }

    /// Notifies the watchers of a release by a client.
    pub(crate) fn notify(&self, by: u64, flaw: Flaw) {
        self.with(|watching| match flaw {
            WatchMissesItsOwn => watching.retain(|(client, _)| *client == by),
            WatchMissesOthers => watching.retain(|(client, _)| *client != by),
            WatchNotifiesOne => drop(watching.pop()),
            _ => watching.clear(),
        });
    }

    fn with(&self, change: impl FnOnce(&mut Vec<(u64, Sender<()>)>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
