//! A recorder of the `tracing` output.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// An event with its message, level, other fields and enclosing spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) message: String,
    pub(crate) level: String,
    pub(crate) fields: String,
    pub(crate) spans: Vec<String>,
}

/// A recorder of all events.
#[derive(Clone, Default)]
pub(crate) struct Recording(pub(crate) Arc<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    /// `true` if only the levels from INFO on are recorded.
    pub(crate) is_quiet: bool,
    pub(crate) events: Mutex<Vec<Recorded>>,
    pub(crate) spans: Mutex<Vec<String>>,
    pub(crate) entered: Mutex<Vec<u64>>,
    pub(crate) next: AtomicU64,
}

struct Fields<'a>(&'a mut Recorded);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.message = format!("{value:?}"),
            name => write!(self.0.fields, " {name}={value:?}").expect("writing to a String succeeds"),
        }
    }
}

impl Subscriber for Recording {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock") && (!self.0.is_quiet || *metadata.level() <= Level::INFO)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut recorded = Recorded::default();
        span.record(&mut Fields(&mut recorded));
        assert_eq!(("redlock", Level::DEBUG), (span.metadata().target(), *span.metadata().level()));
        self.0.spans.lock().unwrap().push(format!("{}{}", span.metadata().name(), recorded.fields));
        Id::from_u64(self.0.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut recorded = Recorded { level: event.metadata().level().to_string(), ..Recorded::default() };
        event.record(&mut Fields(&mut recorded));
        let spans = self.0.spans.lock().unwrap();
        let entered = self.0.entered.lock().unwrap();
        recorded.spans = entered.iter().map(|id| spans[usize::try_from(*id).unwrap() - 1].clone()).collect();
        self.0.events.lock().unwrap().push(recorded);
    }

    fn enter(&self, span: &Id) {
        self.0.entered.lock().unwrap().push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        assert_eq!(Some(span.into_u64()), self.0.entered.lock().unwrap().pop());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

impl Recording {
    /// Returns the events since the last call.
    pub(crate) fn events(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.0.events.lock().unwrap())
    }

    /// Returns the events with one message since the last call.
    pub(crate) fn of(&self, message: &str) -> Vec<Recorded> {
        let mut events = self.events();
        events.retain(|event| event.message == message);
        events
    }
}
