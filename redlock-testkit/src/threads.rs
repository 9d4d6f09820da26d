//! A runtime without an async runtime: one thread for each task and each timer.
//!
//! It is for tests and examples of nodes that depend on no particular runtime. Do not use it in production: threads are
//! expensive.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_channel::oneshot;
use redlock_core::runtime::{BoxFuture, Instant, Runtime, suspend_aware_now};

/// A [`Runtime`] on plain threads and the clock of the machine, for tests.
///
/// It starts a thread for each task and each timer, and panics if the system cannot start one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadRuntime;

impl Runtime for ThreadRuntime {
    fn now(&self) -> Instant {
        suspend_aware_now()
    }

    /// Starts to count at once. If the future is dropped, its thread sleeps to the end without effect.
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        let (done, woken) = oneshot::channel();
        thread::spawn(move || {
            thread::sleep(duration);
            // An error means that the future was dropped.
            let _ = done.send(());
        });
        Box::pin(async move {
            // The thread ends only by sending.
            let _ = woken.await;
        })
    }

    fn spawn(&self, future: BoxFuture<()>) {
        thread::spawn(|| block_on(future));
    }
}

/// Runs a future on this thread, which sleeps while the future is not ready.
///
/// Use it for futures that need no runtime, such as those of [`MemoryNode`](crate::MemoryNode).
///
/// ```
/// # redlock_testkit::example!(|redlock, ttl| {
/// // In a plain `#[test]`, without an async runtime.
/// let guard = redlock.lock("orders:42", ttl).await?;
/// guard.extend(ttl).await?;
/// assert!(guard.is_held());
/// # });
/// ```
pub fn block_on<T>(future: impl IntoFuture<Output = T>) -> T {
    let mut future = pin!(future.into_future());
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_timers_run() {
        let (done, woken) = oneshot::channel();
        let start = suspend_aware_now();
        ThreadRuntime.spawn(Box::pin(async move {
            ThreadRuntime.sleep(Duration::from_millis(5)).await;
            done.send(()).unwrap();
        }));
        block_on(woken).unwrap();
        assert!(suspend_aware_now().saturating_duration_since(start) >= Duration::from_millis(5));
    }
}
