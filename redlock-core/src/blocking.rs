//! Locks for synchronous programs: no `async`, and no runtime to set up.
//!
//! The requests are those of async programs. Each function here takes a [request](crate::LockRequest) of any kind, or any
//! future, and blocks its thread. Connections, renewals and cleanup run on a thread named `redlock`, which starts with the
//! first use and lives as long as the process. Thus a lock is kept alive while the program computes.
//!
//! An adapter crate has a `blocking::builder`, which takes addresses. With custom nodes:
//!
//! ```
//! use std::time::Duration;
//! use redlock_core::{KeepAlive, Redlock, TokioRuntime, blocking};
//! use redlock_testkit::MemoryNode;
//!
//! // Nodes and tasks run on the same thread.
//! let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
//!
//! let request = redlock.lock("report", Duration::from_secs(5));
//! let request = request.max_wait(Duration::from_secs(1)).keep_alive(KeepAlive::new());
//! let guard = blocking::acquire(request)?;
//! for _page in 0..100 {
//!     // A loss becomes an error.
//!     guard.check()?;
//! }
//! guard.release()?;
//! blocking::wait_at_most(Duration::from_secs(1), redlock.close());
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! # Losses
//!
//! A synchronous program cannot be stopped in the middle. Call [`Lease::check`] before each effect, or compare
//! [`remaining`](Lease::remaining) with the time that the effect takes. [`run`] checks the lock again when the work has
//! finished.
//!
//! # End of the program
//!
//! The background thread ends with the process. [Wait](wait_at_most) for [`Redlock::close`](crate::Redlock::close) at the
//! end of `main`, or keys may remain until their TTL expires: see [Short programs].
//!
//! [Short programs]: https://github.com/redlock-rs/redlock/blob/main/docs/patterns.md#short-programs
//!
//! # Async code
//!
//! Every function that blocks panics inside an async runtime, because it would block a thread that runs other tasks. Await
//! the request there, or call the function in `tokio::task::spawn_blocking`. Only tokio runtimes are detected.

use std::future::IntoFuture;
use std::iter;
use std::ops::{ControlFlow, Deref};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::consume_budget;

use crate::client::inspect::Inspection;
use crate::client::kind::{Exclusive, Kind, Sole};
use crate::client::lead::Candidate;
use crate::client::lease::Lease;
use crate::client::observe::{Observer, is_final};
use crate::client::once_per::JobOutcome;
use crate::client::request::LockRequest;
use crate::client::run;
use crate::client::run_error::RunError;
use crate::runtime::tokio::TokioRuntime;
use crate::types::error::Error;
use crate::types::report::ReleaseOutcome;

/// Waits for a future, and returns its output.
///
/// Use it for all that has no function here: [`inspect`](crate::Redlock::inspect), [`health`](crate::Redlock::health),
/// [`resume`](crate::Redlock::resume) and others.
///
/// ```
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// assert!(blocking::wait(redlock.health()).is_available());
/// assert!(blocking::wait(redlock.inspect("orders:42"))?.is_free());
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Panics
///
/// Inside an async runtime.
pub fn wait<F: IntoFuture>(future: F) -> F::Output {
    assert!(
        !is_in_task(),
        "redlock: a blocking function was called inside an async runtime; await the request there, or use \
         `tokio::task::spawn_blocking`"
    );
    let runtime = TokioRuntime::dedicated_handle();
    let _entered = runtime.enter();
    pollster::block_on(future.into_future())
}

/// Waits for a future, but not longer than `limit`. Returns `None` if the time is over.
///
/// The future is dropped then.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// // At the end of `main`: waits for releases in the background.
/// assert_eq!(Some(0), blocking::wait_at_most(Duration::from_secs(1), redlock.close()));
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Panics
///
/// Inside an async runtime.
pub fn wait_at_most<F: IntoFuture>(limit: Duration, future: F) -> Option<F::Output> {
    wait(async { tokio::time::timeout(limit, future.into_future()).await.ok() })
}

/// Acquires a lock.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// # let ttl = Duration::from_secs(10);
/// // Every kind of lock: here a slot with a fencing token.
/// let slots = redlock.slots("disks", 4)?;
/// let slot = blocking::acquire(slots.acquire(ttl).fenced())?;
/// println!("disk {}, {:?}", slot.index(), slot.token());
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Errors
///
/// Those of the [request](LockRequest).
///
/// # Panics
///
/// Inside an async runtime.
pub fn acquire<K: Kind>(request: LockRequest<K>) -> Result<Guard<K>, Error> {
    wait(request).map(Guard::new)
}

/// Makes a single attempt, and returns `None` if another client or task holds the lock.
///
/// Same as [`LockRequest::try_now`].
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// # let ttl = Duration::from_secs(10);
/// let guard = blocking::acquire(redlock.lock("orders:42", ttl))?;
/// assert!(blocking::try_now(redlock.lock("orders:42", ttl))?.is_none());
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`LockRequest::try_now`].
///
/// # Panics
///
/// Inside an async runtime.
pub fn try_now<K: Kind>(request: LockRequest<K>) -> Result<Option<Guard<K>>, Error> {
    Ok(wait(request.try_now())?.map(Guard::new))
}

/// Runs `work` under the lock, and returns its output.
///
/// Same as [`LockRequest::run`], except that nothing ends the work if the lock is lost. Call [`Lease::check`] in it.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// let request = redlock.lock("report", Duration::from_secs(5));
/// let pages = blocking::run(request, |lease| {
///     (0..100).try_fold(0, |pages, _page| lease.check().map(|()| pages + 1))
/// })??;
/// assert_eq!(100, pages);
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`LockRequest::run`].
///
/// # Panics
///
/// Inside an async runtime. A panic of the work is propagated once the lock is released.
pub fn run<K: Kind, T>(request: LockRequest<K>, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError<T>> {
    let guard = acquire(request.kept_alive()).map_err(RunError::not_run)?;
    let lease = guard.lease();
    let end = run::finished(&lease, work(&lease));
    wait(run::ended(guard.into_async(), &lease, end))
}

/// Runs a job once a period, on one of several machines.
///
/// Same as [`LockRequest::once_per`], except that nothing ends the job if the lock is lost. Call [`Lease::check`] in it.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::{JobOutcome, Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// let (request, hour) = (redlock.lock("reminders", Duration::from_secs(30)), Duration::from_secs(3600));
/// let outcome = blocking::once_per(request, hour, |_lease| Ok::<_, std::io::Error>("sent"))?;
/// assert!(matches!(outcome, JobOutcome::Ran(Ok("sent"))));
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`LockRequest::once_per`].
///
/// # Panics
///
/// Inside an async runtime. If the job panics, the lock is released in the background.
#[allow(clippy::type_complexity)] // the type of the async method
pub fn once_per<K: Sole, T, E>(
    request: LockRequest<K>,
    period: Duration,
    job: impl FnOnce(&Lease) -> Result<T, E>,
) -> Result<JobOutcome<Result<T, E>>, RunError<Result<T, E>>> {
    wait(request.once_per(period, async |lease| job(&lease)))
}

/// Runs `work` in each term of a candidate until the work is complete.
///
/// Same as [`Candidate::run`], except that nothing ends the work if the lock is lost. Call [`Lease::check`] in it, and
/// return `Continue` after an error.
///
/// ```
/// # use std::ops::ControlFlow;
/// # use std::time::Duration;
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// let candidate = redlock.lock("scheduler", Duration::from_secs(5)).lead();
/// let jobs = blocking::lead(candidate, |lease| match lease.check() {
///     Ok(()) => ControlFlow::Break(42),
///     Err(_) => ControlFlow::Continue(()),
/// })?;
/// assert_eq!(42, jobs);
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`Candidate::run`].
///
/// # Panics
///
/// Inside an async runtime. If the work panics, the lock is released in the background.
pub fn lead<K: Kind, T>(
    candidate: Candidate<K>,
    mut work: impl FnMut(&Lease) -> ControlFlow<T>,
) -> Result<T, RunError<T>> {
    wait(candidate.run(|lease| std::future::ready(work(&lease))))
}

/// Returns the holders of a resource, one after the other: an iterator that waits for each change.
///
/// Same as [`Observer::changed`]. It ends after an error that is final. After any other error, the next item waits until
/// the nodes reply again.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::{Redlock, TokioRuntime, blocking};
/// # use redlock_testkit::MemoryNode;
/// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
/// for inspection in blocking::observe(redlock.observe("scheduler")) {
///     println!("{}", inspection?);
///     # break;
/// }
/// # Ok::<(), redlock_core::Error>(())
/// ```
///
/// # Panics
///
/// Each item: inside an async runtime.
pub fn observe(mut observer: Observer) -> impl Iterator<Item = Result<Inspection, Error>> {
    let mut ended = false;
    iter::from_fn(move || {
        let item = (!ended).then(|| wait(observer.changed()));
        ended |= matches!(&item, Some(Err(error)) if is_final(error.kind()));
        item
    })
}

/// A guard that releases its lock on [`release`](Guard::release) or on drop.
///
/// It derefs to the [guard of async programs](crate::Guard), for all methods that do not wait.
///
/// # Drop behavior
///
/// Drop waits until a quorum of nodes has confirmed the release, for at most the node timeout. If the program then ends
/// without [`close`](crate::Redlock::close), keys may remain on a minority of the nodes until their TTL expires. Inside
/// an async runtime, drop does not wait: the release runs in the background. It never panics.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped; bind it as `let _guard`, since `let _` drops it at once"]
pub struct Guard<K: Kind = Exclusive> {
    /// `None` once a method has consumed the guard.
    guard: Option<crate::Guard<K>>,
}

impl<K: Kind> Guard<K> {
    fn new(guard: crate::Guard<K>) -> Self {
        Self { guard: Some(guard) }
    }

    /// Returns the guard of async programs, for its methods that consume it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = blocking::acquire(redlock.lock("orders:42", ttl))?;
    /// let detached = blocking::wait(guard.into_async().detach());
    /// // Another process can resume it.
    /// blocking::wait(redlock.release(&detached))?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    #[allow(clippy::missing_panics_doc)] // only methods that consume the guard take it
    pub fn into_async(mut self) -> crate::Guard<K> {
        self.guard.take().expect("a guard is consumed once")
    }

    /// Releases the lock on all nodes. Same as [`crate::Guard::release`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, ReleaseOutcome, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = blocking::acquire(redlock.lock("orders:42", ttl))?;
    /// if guard.release()? != ReleaseOutcome::Released {
    ///     println!("the lock ended before the work did");
    /// }
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied. The release is then repeated in the
    /// background.
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn release(self) -> Result<ReleaseOutcome, Error> {
        wait(self.into_async().release())
    }

    /// Makes the lock valid for `ttl` from now, less clock drift. Same as [`crate::Lease::extend`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let redlock = Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = blocking::acquire(redlock.lock("orders:42", ttl))?;
    /// guard.extend(Duration::from_secs(60))?;
    /// assert!(guard.remaining() > ttl);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`crate::Lease::extend`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        wait(self.lease().extend(ttl))
    }
}

impl<K: Kind> Deref for Guard<K> {
    type Target = crate::Guard<K>;

    fn deref(&self) -> &crate::Guard<K> {
        self.guard.as_ref().expect("a guard is consumed once")
    }
}

impl<K: Kind> Drop for Guard<K> {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        if is_in_task() {
            // Released in the background.
            return drop(guard);
        }
        // A panic that leaves this function during another one would end the process.
        drop(catch_unwind(AssertUnwindSafe(|| wait(guard.release()))));
    }
}

/// Returns whether the calling thread polls a task of tokio, which must not block.
///
/// A thread of `spawn_blocking` has a current runtime as well, and may block. Only a task has a cooperative budget,
/// which is used up within `MAX_BUDGET` polls. Tokio offers no other check, except one that panics.
fn is_in_task() -> bool {
    const MAX_BUDGET: u32 = u8::MAX as u32 + 1;
    let mut cx = Context::from_waker(Waker::noop());
    let mut is_used_up = || pin!(consume_budget()).poll(&mut cx).is_pending();
    Handle::try_current().is_ok() && (0..MAX_BUDGET).any(|_| is_used_up())
}
