//! A subscriber that collects the warnings of one thread.

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// The messages of the warnings so far.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Collects the warnings of this thread until the returned value is dropped.
    ///
    /// If a process has one subscriber, `tracing` caches the interest of the first thread that reaches an event. A thread
    /// of another test, which has no subscriber, would disable the event. With two subscribers, it consults both.
    pub(crate) fn subscribe(&self) -> (DefaultGuard, Dispatch) {
        let second = Dispatch::new(NoSubscriber::new());
        (subscriber::set_default(self.clone()), second)
    }

    pub(crate) fn about(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|message| message.contains(what)).count()
    }
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        self.0.lock().unwrap().push(message);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
