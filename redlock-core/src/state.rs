//! Waiting for a lease to change.
//!
//! Each wait has a timer of its own, so a loss with time is told whoever else hangs, panics or has gone. And the clock is
//! read at each poll, whatever caused it: after a pause in which no timer ran, the first poll tells the truth.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use event_listener::EventListener;

use crate::decide::hold::LeaseState;
use crate::lease::Lease;
use crate::runtime::Alarm;

/// Waits for a state that `accept` accepts.
pub(crate) struct UntilState<F> {
    lease: Lease,
    accept: F,
    changed: Option<EventListener>,
    alarm: Alarm,
}

impl<F> UntilState<F> {
    pub(crate) fn new(lease: Lease, accept: F) -> Self {
        Self { lease, accept, changed: None, alarm: Alarm::default() }
    }
}

impl<T, F> Future for UntilState<F>
where
    F: FnMut(LeaseState) -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        loop {
            // Listen first, then look: what changes in between is not missed.
            let changed = this.changed.get_or_insert_with(|| this.lease.listen());
            let look = this.lease.look();
            if let Some(accepted) = (this.accept)(look.state) {
                return Poll::Ready(accepted);
            }
            if Pin::new(changed).poll(cx).is_ready() {
                this.changed = None;
                continue;
            }
            // A timer that does not count suspension is late by as much, so none is trusted for longer than the margin.
            let runtime = &*this.lease.shared().runtime;
            let look_again = runtime.now() + look.lasts.min(look.margin);
            ready!(this.alarm.poll_at(runtime, look_again, cx));
        }
    }
}
