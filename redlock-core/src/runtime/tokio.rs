//! The runtime that most adapters run on.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event_listener::Event;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use super::{BoxFuture, Runtime, fill_from_os};
use crate::clock::{Instant, boot_time};

/// [`Runtime`] over tokio: whichever tokio runtime the call is made in.
///
/// Made anywhere, also outside a runtime; it remembers the last tokio runtime that it was used in, so that a guard
/// dropped on a thread without one is still released. Once that runtime has shut down, spawned work is dropped in
/// silence; what it was to undo is undone when the lock is next used in another runtime, or else left to its TTL.
///
/// The tokio runtime needs its timer, and its I/O for nodes that connect: `enable_all`. Without the timer, `sleep` panics
/// inside of requests, with a message of tokio's.
///
/// Where tokio's clock is paused for a test, [`now`](Runtime::now) moves with whichever goes ahead, the paused clock or
/// the real one, so that a loop that sleeps and looks at the clock gets on. Read outside of the paused runtime it shows
/// the real one.
#[derive(Debug, Default)]
pub struct TokioRuntime {
    last: Mutex<Option<Handle>>,
}

impl TokioRuntime {
    /// A runtime to hand to a builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tokio runtime to use: the current one, or else the last that was.
    fn last(&self) -> MutexGuard<'_, Option<Handle>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(current) = Handle::try_current() {
            *last = Some(current);
        }
        last
    }
}

/// One moment on both clocks; on tokio's it is the later, so that it is never ahead by itself. None where tokio's cannot be
/// paused, as in any program that is no test: then it need not be read, and a reading takes longer than an allocation.
#[allow(clippy::disallowed_methods)] // tokio's clock counts from here
static ORIGIN: LazyLock<Option<(Instant, std::time::Instant)>> =
    LazyLock::new(|| can_pause().then(|| (boot_time(), std::time::Instant::now())));

/// Whether tokio was compiled with its feature `test-util`. Its builder has a method then, which goes before that of a trait.
fn can_pause() -> bool {
    Builder::new_current_thread().start_paused(false).is_tokios()
}

/// Called where tokio's builder has no such method.
#[allow(dead_code)] // it depends on tokio's features
trait WithoutTestUtil {
    fn start_paused(&mut self, _: bool) -> Missing {
        Missing
    }
}

impl WithoutTestUtil for Builder {}

struct Missing;

trait Method {
    fn is_tokios(&self) -> bool;
}

impl Method for Builder {
    fn is_tokios(&self) -> bool {
        true
    }
}

impl Method for Missing {
    fn is_tokios(&self) -> bool {
        false
    }
}

impl Runtime for TokioRuntime {
    #[allow(clippy::disallowed_methods)] // this is what others are told to ask
    fn now(&self) -> Instant {
        match *ORIGIN {
            None => boot_time(),
            Some((boot, origin)) => {
                let paused = tokio::time::Instant::now().into_std().saturating_duration_since(origin);
                boot_time().max(boot + paused)
            }
        }
    }

    /// Outside a tokio runtime there is no timer of tokio's: a thread of its own then sleeps.
    #[allow(clippy::disallowed_methods)] // this is what others are told to ask
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        if Handle::try_current().is_ok() {
            return Box::pin(sleep(duration));
        }
        let over = Event::new();
        let woken = over.listen();
        std::thread::spawn(move || {
            std::thread::sleep(duration);
            over.notify(usize::MAX);
        });
        Box::pin(woken)
    }

    fn spawn(&self, future: BoxFuture<()>) {
        let handle = self.last().clone();
        match handle {
            Some(handle) => drop(handle.spawn(future)),
            None => {
                tracing::debug!("nothing can run in the background: this was never used in a tokio runtime");
            }
        }
    }

    /// Every attempt draws its token before anything else: the place to notice which runtime it is made in.
    fn fill_random(&self, bytes: &mut [u8]) {
        drop(self.last());
        fill_from_os(bytes);
    }
}
