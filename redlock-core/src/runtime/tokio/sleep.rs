//! A timer of tokio that follows its task from one runtime to another.
//!
//! Work that a request began in the runtime of its caller may continue in another one. A timer belongs to one runtime:
//! it stands still while nothing drives that runtime, and panics after its shutdown. So it is created again in the
//! runtime that polls it.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::timers;
use crate::runtime::BoxFuture;

/// Waits for at least `duration`. Outside any tokio runtime, the thread for timers serves it.
///
/// # Panics
///
/// If it is polled in a tokio runtime that has no timers or is shutting down.
#[allow(clippy::disallowed_methods)] // other code calls this function instead
pub(super) fn sleep(duration: Duration) -> BoxFuture<()> {
    // A time above the range of the clock never comes.
    let Some(deadline) = Instant::now().checked_add(duration) else { return Box::pin(pending()) };
    Box::pin(async move {
        while let Some(runtime) = current() {
            if sleep_in(runtime, deadline).await {
                return;
            }
        }
        timers::sleep(deadline.saturating_duration_since(Instant::now())).await;
    })
}

/// Waits until `deadline`. Returns `false` if it is not polled in `runtime` any more.
#[allow(clippy::disallowed_methods)] // this is the timer
async fn sleep_in(runtime: Id, deadline: Instant) -> bool {
    let mut timer = pin!(tokio::time::sleep_until(deadline));
    poll_fn(|cx| match current() {
        Some(current) if current == runtime => timer.as_mut().poll(cx).map(|()| true),
        _ => Poll::Ready(false),
    })
    .await
}

fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}
