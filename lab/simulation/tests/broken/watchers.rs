//! The watchers of a node. Every release notifies all of them, unless the flaw of the node is about notifications.

use std::sync::{Mutex, PoisonError};

use futures_channel::oneshot::{Receiver, Sender, channel};

use super::Flaw::{self, *};

/// The watchers of one server, with the client of each.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<(u64, Sender<()>)>>);

impl Watchers {
    pub(crate) fn join(&self, client: u64) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.with(|watching| watching.push((client, sender)));
        receiver
    }

    /// Notifies the watchers that a client has released a resource.
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
