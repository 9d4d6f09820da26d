//! Who is told that something was released: all who watch anything, unless the node's flaw is about that.

use std::sync::{Mutex, PoisonError};

use futures_channel::oneshot::{Receiver, Sender, channel};

use super::Flaw::{self, *};

/// Those who watch one server, and as which client.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<(u64, Sender<()>)>>);

impl Watchers {
    pub(crate) fn join(&self, client: u64) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.with(|watching| watching.push((client, sender)));
        receiver
    }

    /// A client has released something.
    pub(crate) fn tell(&self, by: u64, flaw: Flaw) {
        self.with(|watching| match flaw {
            WatchMissesItsOwn => watching.retain(|(client, _)| *client == by),
            WatchMissesOthers => watching.retain(|(client, _)| *client != by),
            WatchTellsOne => drop(watching.pop()),
            _ => watching.clear(),
        });
    }

    fn with(&self, change: impl FnOnce(&mut Vec<(u64, Sender<()>)>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
