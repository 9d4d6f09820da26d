//! The runtime that needs no async runtime: a thread for each task and each timer.
//!
//! For tests and examples of nodes that depend on no particular runtime. Not for production: threads are dear.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_channel::oneshot;
use redlock_core::{BoxFuture, Instant, Runtime, boot_time};

/// [`Runtime`] on plain threads and the machine's clock: one for each task and each timer. It panics where the system has
/// no thread left, so it is for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadRuntime;

impl Runtime for ThreadRuntime {
    fn now(&self) -> Instant {
        boot_time()
    }

    /// Starts to count at once. Dropping the future leaves a thread that sleeps on and does nothing.
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        let (done, woken) = oneshot::channel();
        thread::spawn(move || {
            thread::sleep(duration);
            // Nobody waits any more: nothing to say.
            let _ = done.send(());
        });
        Box::pin(async move {
            // The thread only ever ends by sending.
            let _ = woken.await;
        })
    }

    fn spawn(&self, future: BoxFuture<()>) {
        thread::spawn(|| block_on(future));
    }
}

/// Runs a future on this thread, which sleeps while there is nothing to do.
///
/// For futures that need no runtime around them, such as those of [`MemoryNode`](crate::MemoryNode).
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
        let start = boot_time();
        ThreadRuntime.spawn(Box::pin(async move {
            ThreadRuntime.sleep(Duration::from_millis(5)).await;
            done.send(()).unwrap();
        }));
        block_on(woken).unwrap();
        assert!(boot_time().saturating_duration_since(start) >= Duration::from_millis(5));
    }
}
