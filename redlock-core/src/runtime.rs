//! The contract of an async runtime: time, tasks and chance.
//!
//! Core owns no clock, no timer, no executor and no random source; it asks a [`Runtime`]. Feature `tokio` has a
//! ready-made one, feature `smol` another, and an adapter's builder presets its client's. A test hands in a simulated
//! one, and the same seed then replays the same run.
//!
//! # Your own runtime
//!
//! Four small methods, which must not panic. Answer `now` from a clock that counts the time in which the machine was suspended:
//! [`boot_time`](crate::boot_time) does. Timers do not have to count it: core never trusts one for longer than a second
//! without looking at the clock again. `spawn` must accept a future at any time: when there is nothing left to run it,
//! drop it. A `sleep` that completes at once, or a `now` that jumps to the end of time, makes loops that never yield.
//!
//! # Executors
//!
//! Wake tasks by scheduling them: a waker must neither poll nor drop another task that uses locks before it returns.
//! This crate calls and drops wakers without holding its own locks, but `event-listener`, by which tasks wait for
//! changes, calls them while it holds one. Tokio, smol and `FuturesUnordered` schedule.
//!
//! ```
//! use std::time::Duration;
//! use redlock_core::{BoxFuture, Instant, Runtime, boot_time};
//!
//! #[derive(Debug)]
//! struct OneThreadEach;
//!
//! impl Runtime for OneThreadEach {
//!     fn now(&self) -> Instant {
//!         boot_time()
//!     }
//!
//!     fn sleep(&self, duration: Duration) -> BoxFuture<()> {
//!         Box::pin(async move {
//!             smol::Timer::after(duration).await;
//!         })
//!     }
//!
//!     fn spawn(&self, future: BoxFuture<()>) {
//!         std::thread::spawn(|| smol::block_on(future));
//!     }
//! }
//! ```

#[cfg(feature = "smol")]
mod smol;
#[cfg(feature = "tokio")]
mod tokio;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use event_listener::EventListener;

use crate::clock::Instant;

#[cfg(feature = "smol")]
pub use self::smol::SmolRuntime;
#[cfg(feature = "tokio")]
pub use self::tokio::TokioRuntime;

/// A future that owns what it needs and may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Time, tasks and chance; the [module docs](self) are the recipe for one of your own.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// The time. Never goes back.
    fn now(&self) -> Instant;

    /// Completes after `duration` or a little later. Dropping it cancels it.
    fn sleep(&self, duration: Duration) -> BoxFuture<()>;

    /// Runs `future` in the background. Neither blocks nor panics, wherever it is called from; a runtime that has shut
    /// down drops the future.
    fn spawn(&self, future: BoxFuture<()>);

    /// Fills `bytes` with random ones; from the operating system, unless a simulation replaces it. Tokens are made of
    /// them, so they must not be guessable.
    ///
    /// # Panics
    ///
    /// By default, when the operating system has no random numbers.
    fn fill_random(&self, bytes: &mut [u8]) {
        fill_from_os(bytes);
    }
}

#[allow(clippy::disallowed_methods)] // the one place that asks the OS
fn fill_from_os(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random numbers");
}

/// Sleeps until `deadline` by the runtime's clock, also where the clock counts suspension and the timer does not.
pub(crate) async fn sleep_until(runtime: &dyn Runtime, deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(runtime.now());
        if left.is_zero() {
            return;
        }
        runtime.sleep(left.min(LONGEST_SLEEP)).await;
    }
}

/// Sleeps until `deadline`, or until `event` fires.
pub(crate) async fn sleep_until_or(runtime: &dyn Runtime, deadline: Instant, event: EventListener) {
    let (mut timer, mut event) = (pin!(sleep_until(runtime, deadline)), event);
    poll_fn(|cx| match timer.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => Pin::new(&mut event).poll(cx),
    })
    .await;
}

/// A timer that may be set anew at each poll.
#[derive(Default)]
pub(crate) struct Alarm(Option<(Instant, BoxFuture<()>)>);

impl Alarm {
    /// Ready once it is `at` by the runtime's clock.
    pub(crate) fn poll_at(&mut self, runtime: &dyn Runtime, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = runtime.now();
            if now >= at {
                return Poll::Ready(());
            }
            let look = at.min(now + LONGEST_SLEEP);
            // One that rings earlier will do: then it is set again.
            if self.0.as_ref().is_none_or(|(rings, _)| *rings > look) {
                self.0 = Some((look, runtime.sleep(look.saturating_duration_since(now))));
            }
            if let Some((_, timer)) = &mut self.0 {
                ready!(timer.as_mut().poll(cx));
                self.0 = None;
            }
        }
    }
}

/// How long a timer is trusted before the clock is read again.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A random number, for choices that nobody needs to be unable to guess.
pub(crate) fn random(runtime: &dyn Runtime) -> u64 {
    let mut bytes = [0; 8];
    runtime.fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}
