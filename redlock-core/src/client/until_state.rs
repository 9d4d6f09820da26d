//! Waiting for a change of a lease.
//!
//! Each wait has its own timer. Thus an expiry is reported even if another task hangs, panics or is gone. The clock is
//! read at each poll: after a pause in which no timer ran, the first poll returns the correct state.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use event_listener::EventListener;

use crate::client::handle::Handle;
use crate::lease::record::{Look, Record};
use crate::runtime::Alarm;

/// A future that waits for a state that `accept` accepts.
pub(crate) struct UntilState<F> {
    handle: Arc<Handle>,
    record: Arc<Record>,
    accept: F,
    changed: Option<EventListener>,
    alarm: Alarm,
}

impl<T, F: FnMut(&Look) -> Option<T>> UntilState<F> {
    pub(crate) fn new(handle: Arc<Handle>, record: Arc<Record>, accept: F) -> Self {
        Self { handle, record, accept, changed: None, alarm: Alarm::default() }
    }
}

impl<T, F> Future for UntilState<F>
where
    F: FnMut(&Look) -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        loop {
            // Listen before the state is read, so that no change in between is missed.
            let changed = this.changed.get_or_insert_with(|| this.record.listen());
            let runtime = &*this.handle.runtime;
            let look = this.record.look(runtime.now());
            if let Some(accepted) = (this.accept)(&look) {
                return Poll::Ready(accepted);
            }
            if Pin::new(changed).poll(cx).is_ready() {
                this.changed = None;
                continue;
            }
            // A timer that does not count suspension is late by that time, so none is trusted for longer than the
            // margin.
            let look_again = runtime.now() + look.lasts.min(look.margin);
            ready!(this.alarm.poll_at(runtime, look_again, cx));
        }
    }
}
