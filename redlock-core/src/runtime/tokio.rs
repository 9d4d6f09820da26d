//! The runtime that most adapters run on.

mod dedicated;
mod timers;

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use super::{BoxFuture, Runtime, fill_from_os};
use crate::clock::{Instant, boot_time};

/// [`Runtime`] over tokio: by default, whichever tokio runtime the call is made in.
///
/// It can be created anywhere, even outside a runtime. It remembers the last tokio runtime that it was used in, so a guard
/// that is dropped on a thread without a runtime is still released. Work that is spawned after that runtime has shut down is
/// dropped silently. Pending cleanup continues when the lock is next used in another runtime; otherwise the keys expire
/// with their TTL.
///
/// # Several tokio runtimes
///
/// A connection to a node lives in the runtime that opened it. When that runtime shuts down, requests that other runtimes
/// have sent over the connection fail. Runtimes that follow each other are no problem: the next one connects again. If
/// runtimes exist at the same time, for example because the tests of a file share a static
/// [`Redlock`](crate::Redlock), use [`dedicated`](TokioRuntime::dedicated), [`on`](TokioRuntime::on), or one `Redlock` for
/// each runtime. A warning is logged when a second runtime is used while the first still exists.
///
/// # Timers
///
/// Tokio's timers are used inside of a tokio runtime, which must have been built with `enable_time` or `enable_all`:
/// otherwise tokio panics, and names `enable_time`. Outside of any tokio runtime, one thread of the process serves all
/// timers.
///
/// If tokio's clock is paused for a test, [`now`](Runtime::now) follows the later of the paused clock and the real one, so
/// a loop that sleeps and reads the clock makes progress. Outside of the paused runtime it shows the real clock.
#[derive(Debug, Default)]
pub struct TokioRuntime {
    /// Where background tasks run, if it does not depend on the caller.
    fixed: Option<Handle>,
    last: Mutex<Option<Handle>>,
    /// Whether the use in several runtimes was logged.
    warned: AtomicBool,
}

impl TokioRuntime {
    /// Runs background tasks and connections in the tokio runtime that the caller is in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs background tasks and connections in the runtime of `handle`, whichever runtime the caller is in.
    ///
    /// That runtime must outlive the [`Redlock`](crate::Redlock), and something must drive it: a multi-threaded runtime
    /// drives itself, a current-thread runtime only runs while a thread is in its `block_on`.
    pub fn on(handle: Handle) -> Self {
        Self { fixed: Some(handle), ..Self::default() }
    }

    /// Runs background tasks and connections in a tokio runtime on a thread of its own, which ends with the process.
    ///
    /// All runtimes that are created this way share one thread, which starts with the first of them. They work from any
    /// number of tokio runtimes, and from threads without one. Locks are also renewed while the caller's runtime is
    /// blocked, so limit [`KeepAlive::max_hold`](crate::KeepAlive::max_hold) if a caller may hang. Each request wakes
    /// another thread, which adds latency.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::sync::{Arc, LazyLock};
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// use redlock_core::{Redlock, TokioRuntime};
    ///
    /// static REDLOCK: LazyLock<Redlock> = LazyLock::new(|| {
    ///     // With an adapter: `builder_with(urls, &Options::new(Arc::new(TokioRuntime::dedicated())))`.
    ///     let node = Arc::new(MemoryNode::new("memory"));
    ///     Redlock::builder(TokioRuntime::dedicated()).node(node).build().expect("valid settings")
    /// });
    ///
    /// let thread = || {
    ///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    ///     runtime.block_on(async {
    ///         let guard = REDLOCK.lock("a", Duration::from_secs(10)).await?;
    ///         guard.release().await?;
    ///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    ///     })
    /// };
    /// for thread in [std::thread::spawn(thread), std::thread::spawn(thread)] {
    ///     thread.join().expect("no panic").expect("the lock becomes free");
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// If the operating system cannot start the thread.
    pub fn dedicated() -> Self {
        Self::on(dedicated::handle())
    }

    /// The runtime to spawn in; `None` if this was never used in one.
    fn home(&self) -> Option<Handle> {
        if self.fixed.is_some() {
            return self.fixed.clone();
        }
        self.note_current();
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the runtime that the caller is in.
    fn note_current(&self) {
        if self.fixed.is_some() {
            return;
        }
        let Ok(current) = Handle::try_current() else { return };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| last.id() == current.id()) {
            return;
        }
        let before = last.replace(current);
        drop(last);
        if let Some(before) = before {
            self.left(&before);
        }
    }

    /// The runtime `before` was used until now, and another one is from now on.
    fn left(&self, before: &Handle) {
        if !self.warned.load(Ordering::Relaxed)
            && exists(before)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                target: "redlock",
                "one Redlock used in several tokio runtimes: when the one that opened a connection shuts down, \
                 requests fail in the others; use TokioRuntime::dedicated(), or one Redlock for each runtime"
            );
        }
    }
}

/// Whether a runtime has not shut down.
fn exists(runtime: &Handle) -> bool {
    // What is spawned in one that has shut down is dropped at once.
    let probe = runtime.spawn(pending::<()>());
    let exists = !probe.is_finished();
    probe.abort();
    exists
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

    /// # Panics
    ///
    /// In a tokio runtime that was built without `enable_time`.
    #[allow(clippy::disallowed_methods)] // this is what others are told to ask
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        if Handle::try_current().is_ok() {
            Box::pin(tokio::time::sleep(duration))
        } else {
            timers::sleep(duration)
        }
    }

    fn spawn(&self, future: BoxFuture<()>) {
        match self.home() {
            Some(handle) => drop(handle.spawn(future)),
            None => {
                tracing::debug!("nothing can run in the background: this was never used in a tokio runtime");
            }
        }
    }

    /// Every attempt draws its token before anything else: the place to notice which runtime it is made in.
    fn fill_random(&self, bytes: &mut [u8]) {
        self.note_current();
        fill_from_os(bytes);
    }
}
