//! The contract of an async runtime: time, tasks and random numbers.
//!
//! The core has no clock, no timer, no executor and no random source; it uses a [`Runtime`]. The features `tokio` and
//! `smol` add a ready-made one each. The builder of an adapter presets the runtime of its client. A test can use a
//! simulated runtime, and the same seed then replays the same run.
//!
//! # Custom runtimes
//!
//! Implement these methods. They must not panic.
//!
//! - `now` uses a clock that counts the time in which the machine was suspended, such as
//!   [`suspend_aware_now`].
//! - `sleep` need not count that time: the core reads the clock again after one second at the latest. A `sleep` that
//!   completes at once, or a `now` that jumps to the end of time, causes loops that never yield.
//! - `spawn` accepts a future at any time. If nothing is left to run it, drop it.
//! - `fill_random` has a default.
//!
//! # Executors
//!
//! A waker must schedule its task. It must neither poll nor drop another task that uses locks before it returns. This
//! crate calls and drops wakers without holding its own mutexes. But `event-listener`, with which tasks wait for
//! changes, calls them while it holds one. Tokio, smol and `FuturesUnordered` schedule tasks.
//!
//! ```
//! use std::time::Duration;
//! use redlock_core::runtime::{BoxFuture, Instant, Runtime, suspend_aware_now};
//!
//! #[derive(Debug)]
//! struct OneThreadEach;
//!
//! impl Runtime for OneThreadEach {
//!     fn now(&self) -> Instant {
//!         suspend_aware_now()
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
pub(crate) mod smol;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use event_listener::EventListener;

pub use crate::types::BoxFuture;
use crate::types::error::Error;
pub use crate::types::instant::{Instant, suspend_aware_now};

/// Time, tasks and random numbers.
///
/// The [module docs](self) describe how to implement a custom runtime.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// Returns the present time, which never goes back.
    fn now(&self) -> Instant;

    /// Returns a future that completes after `duration` or slightly later.
    ///
    /// Dropping it cancels it. If requests may continue in another executor than that of their caller, the future must
    /// work in the executor that polls it.
    fn sleep(&self, duration: Duration) -> BoxFuture<()>;

    /// Runs `future` in the background.
    ///
    /// Neither blocks nor panics, on any thread, inside or outside the runtime. A runtime that has shut down drops the
    /// future.
    fn spawn(&self, future: BoxFuture<()>);

    /// Checks that requests can run where they are called.
    ///
    /// Called before anything is sent. The default returns `Ok`.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput): the runtime of the caller or that of background tasks
    ///   lacks something, for example timers.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Fills `bytes` with random numbers from the operating system.
    ///
    /// Tokens are made of them, so they must not be predictable. A simulation may replace this method.
    ///
    /// # Panics
    ///
    /// The default panics if the operating system has no random numbers.
    fn fill_random(&self, bytes: &mut [u8]) {
        fill_from_os(bytes);
    }
}

#[allow(clippy::disallowed_methods)] // the one place that reads random numbers from the OS
fn fill_from_os(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("cannot read random bytes from the operating system");
}

/// Sleeps until `deadline` on the runtime's clock.
///
/// The clock may count suspension even if the timer does not.
pub(crate) async fn sleep_until(runtime: &dyn Runtime, deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(runtime.now());
        if left.is_zero() {
            return;
        }
        runtime.sleep(left.min(LONGEST_SLEEP)).await;
    }
}

/// Sleeps until `deadline`, or until `event` is notified.
pub(crate) async fn sleep_until_or(runtime: &dyn Runtime, deadline: Instant, event: EventListener) {
    first(sleep_until(runtime, deadline), event).await;
}

/// A timer that can be set again at each poll.
#[derive(Default)]
pub(crate) struct Alarm(Option<(Instant, BoxFuture<()>)>);

impl Alarm {
    /// Returns `Ready` once the runtime's clock has reached `at`.
    pub(crate) fn poll_at(&mut self, runtime: &dyn Runtime, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = runtime.now();
            if now >= at {
                return Poll::Ready(());
            }
            let look = at.min(now + LONGEST_SLEEP);
            // An earlier timer is sufficient, because it is then set again.
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

/// Runs two futures at the same time, and returns both outputs.
pub(crate) async fn both<A: Future, B: Future>(one: A, two: B) -> (A::Output, B::Output) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none() {
            first = output(one.as_mut().poll(cx));
        }
        if second.is_none() {
            second = output(two.as_mut().poll(cx));
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            outputs => {
                (first, second) = outputs;
                Poll::Pending
            }
        }
    })
    .await
}

/// Returns the output of the future that is ready first. `one` is polled before `two`.
pub(crate) async fn first<T>(one: impl Future<Output = T>, two: impl Future<Output = T>) -> T {
    let (mut one, mut two) = (pin!(one), pin!(two));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => two.as_mut().poll(cx),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}

fn output<T>(polled: Poll<T>) -> Option<T> {
    match polled {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Lets the other tasks of the executor run once.
pub(crate) async fn let_others_run() {
    let mut turns = 0..1;
    poll_fn(|cx| match turns.next() {
        Some(_) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        None => Poll::Ready(()),
    })
    .await;
}

/// The longest time for which a timer is trusted before the clock is read again.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Returns a random number, for choices that may be predictable.
pub(crate) fn random(runtime: &dyn Runtime) -> u64 {
    let mut bytes = [0; 8];
    runtime.fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}
