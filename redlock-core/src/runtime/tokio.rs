//! The runtime of most adapters.

mod dedicated;
mod sleep;
mod timers;

use std::future::pending;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use super::{BoxFuture, Runtime, fill_from_os};
use crate::types::error::Error;
use crate::types::instant::{Instant, machine_now};

/// A [`Runtime`] on tokio: by default, the tokio runtime of the caller.
///
/// It can be created anywhere, even outside a runtime. It remembers the last tokio runtime in which it was used. Thus a
/// guard that is dropped on a thread without a runtime is still released. A task that is spawned after that runtime has
/// shut down is dropped silently. Pending cleanup continues when the lock is next used in another runtime; otherwise
/// the keys expire with their TTL.
///
/// # Several tokio runtimes
///
/// A connection to a node lives in the runtime that opened it. When that runtime shuts down, requests that other
/// runtimes have sent over the connection fail. If runtimes follow each other, the next one reconnects, and there is no
/// problem.
///
/// Runtimes may also exist at the same time, for example because the tests of a file share a static
/// [`Redlock`](crate::Redlock). Then use [`dedicated`](TokioRuntime::dedicated), [`on`](TokioRuntime::on), or one
/// `Redlock` for each runtime. A warning is logged when a second runtime is used while the first still exists.
///
/// # Timers
///
/// Inside a tokio runtime, tokio's timers are used. The runtime of the caller and that of [`on`](TokioRuntime::on) must
/// have been built with `enable_time` or `enable_all`: otherwise requests fail with
/// [`InvalidInput`](crate::ErrorKind::InvalidInput). Outside any tokio runtime, one thread of the process serves all
/// timers.
///
/// If tokio's clock is paused for a test, [`now`](Runtime::now) follows the later of the paused clock and the real one.
/// Thus a loop that sleeps and reads the clock makes progress. Outside the paused runtime it shows the real clock.
#[derive(Debug, Default)]
pub struct TokioRuntime {
    /// The runtime of background tasks, if it does not depend on the caller.
    fixed: Option<Handle>,
    last: Mutex<Option<Handle>>,
    /// `true` if the fixed runtime has timers, or if there is none.
    fixed_has_timers: OnceLock<bool>,
    /// The last runtime of a caller, and whether it has timers.
    checked: Mutex<Option<(Id, bool)>>,
    /// `true` once the use in several runtimes was logged.
    warned: AtomicBool,
}

impl TokioRuntime {
    /// Runs background tasks and connections in the tokio runtime of the caller.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # use redlock_testkit::MemoryNode;
    /// # let node = MemoryNode::new("10.0.0.1:6379");
    /// # let ttl = Duration::from_secs(10);
    /// // A `Redlock` can be created before the runtime that uses it.
    /// let redlock = Redlock::builder(TokioRuntime::new()).node(node).build()?;
    ///
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let guard = runtime.block_on(async { redlock.lock("orders:42", ttl).await })?;
    /// assert!(guard.is_held());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs background tasks and connections in the runtime of `handle`.
    ///
    /// The runtime of the caller has no influence, except that it must have timers. The runtime of `handle` must outlive
    /// the [`Redlock`](crate::Redlock), and something must drive it. A multi-threaded runtime drives itself; a
    /// current-thread runtime runs only while a thread is in its `block_on`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # use redlock_testkit::{MemoryNode, block_on};
    /// # let node = MemoryNode::new("a");
    /// let background = tokio::runtime::Runtime::new()?;
    /// let runtime = TokioRuntime::on(background.handle().clone());
    /// let redlock = Redlock::builder(runtime).node(node).build()?;
    ///
    /// // This thread is outside of any tokio runtime.
    /// let guard = block_on(redlock.lock("orders:42", Duration::from_secs(10)))?;
    /// assert!(guard.is_held());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(handle: Handle) -> Self {
        Self { fixed: Some(handle), ..Self::default() }
    }

    /// Runs background tasks and connections in a tokio runtime on a separate thread.
    ///
    /// The thread ends with the process. All runtimes that are created this way share it, and it starts with the first
    /// of them. They work from any number of tokio runtimes, and from threads without one.
    ///
    /// Locks are renewed even while the caller's runtime is blocked. Thus limit
    /// [`KeepAlive::max_hold`](crate::KeepAlive::max_hold) if a caller may hang. Each request wakes another thread,
    /// which adds latency.
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
    ///     let node = MemoryNode::new("memory");
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

    /// Returns the runtime of [`dedicated`](TokioRuntime::dedicated).
    #[cfg(feature = "blocking")]
    pub(crate) fn dedicated_handle() -> Handle {
        dedicated::handle()
    }

    /// Returns the runtime to spawn in; `None` if this was never used in one.
    fn home(&self) -> Option<Handle> {
        if self.fixed.is_some() {
            return self.fixed.clone();
        }
        self.note_current();
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the runtime of the caller.
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

    /// Returns whether the fixed runtime and that of the caller have timers, as far as they exist.
    fn has_timers(&self) -> bool {
        let of_fixed = || {
            let _inside = self.fixed.as_ref().map(Handle::enter);
            self.fixed.is_none() || has_timers()
        };
        if !*self.fixed_has_timers.get_or_init(of_fixed) {
            return false;
        }
        let Ok(current) = Handle::try_current() else { return true };
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = checked.filter(|(id, _)| *id == current.id());
        let (_, has_timers) = *checked.insert(known.unwrap_or_else(|| (current.id(), has_timers())));
        has_timers
    }

    /// Logs a warning if `before` still exists: from now on, another runtime is used.
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

/// Returns whether the current runtime has timers.
///
/// Only a panic shows that, so tokio prints a message if there are none.
#[allow(clippy::disallowed_methods)] // the check needs tokio's own timer
fn has_timers() -> bool {
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

/// Returns whether a runtime has not shut down.
fn exists(runtime: &Handle) -> bool {
    // A task that is spawned in a runtime that has shut down is dropped at once.
    let probe = runtime.spawn(pending::<()>());
    let exists = !probe.is_finished();
    probe.abort();
    exists
}

/// The same moment on the clock of leases, the monotonic clock, and that of tokio.
///
/// Tokio's is read later here, and earlier afterwards, so it is never ahead by itself.
#[allow(clippy::disallowed_methods)] // tokio's clock counts from here
static ORIGIN: LazyLock<((Instant, Duration), std::time::Instant)> =
    LazyLock::new(|| (machine_now(), std::time::Instant::now()));

impl Runtime for TokioRuntime {
    #[allow(clippy::disallowed_methods)] // other code calls this method instead
    fn now(&self) -> Instant {
        let ((origin, monotonic), tokio) = *ORIGIN;
        let passed = tokio::time::Instant::now().into_std().saturating_duration_since(tokio);
        let (now, later) = machine_now();
        let is_paused = passed > later.saturating_sub(monotonic);
        if is_paused { now.max(origin + passed) } else { now }
    }

    /// Returns a future that completes after `duration`. It may be polled in one runtime after the other.
    ///
    /// # Panics
    ///
    /// If it is polled in a tokio runtime that was built without `enable_time`, or in one that is shutting down.
    /// [`check`](Runtime::check) detects the former before a request is sent.
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        sleep::sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<()>) {
        match self.home() {
            Some(handle) => drop(handle.spawn(future)),
            None => {
                tracing::debug!("background task dropped: this was never used in a tokio runtime");
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        let missing = "the tokio runtime has no timers; build it with `enable_time` or `enable_all`";
        if self.has_timers() { Ok(()) } else { Err(Error::invalid(missing)) }
    }

    /// Every attempt creates its token first, so this notes the current runtime. [`check`](Runtime::check) cannot do it:
    /// a request may move to another runtime while it waits, and its guard may be dropped outside of any.
    fn fill_random(&self, bytes: &mut [u8]) {
        self.note_current();
        fill_from_os(bytes);
    }
}
