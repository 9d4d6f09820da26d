//! Locks for synchronous programs: no `async`, and no runtime to set up.
//!
//! The module has the same types as the root of the crate, and each method blocks its thread instead of returning a
//! future. Connections, renewals and cleanup run on a thread named `redlock`, which starts with the first
//! [`Redlock`] and lives as long as the process. Thus a lock is kept alive while the program
//! computes.
//!
//! An adapter crate has a `blocking::builder`, which takes addresses. With custom nodes:
//!
//! ```
//! use std::time::Duration;
//! use redlock_core::{KeepAlive, TokioRuntime, blocking};
//! use redlock_testkit::MemoryNode;
//!
//! // Nodes and tasks run on the same thread.
//! let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
//! let redlock = blocking::Redlock::new(builder)?;
//!
//! let request = redlock.lock("report", Duration::from_secs(5));
//! let guard = request.max_wait(Duration::from_secs(1)).keep_alive(KeepAlive::new()).acquire()?;
//! for _page in 0..100 {
//!     // A loss becomes an error.
//!     guard.check()?;
//! }
//! guard.release()?;
//! # Ok::<(), redlock_core::Error>(())
//! ```
//!
//! # Losses
//!
//! A synchronous program cannot be stopped in the middle. Call [`Lease::check`] before each effect, or compare
//! [`remaining`](crate::Lease::remaining) with the time that the effect takes. [`LockRequest::run`] checks the lock again
//! when the work has finished.
//!
//! # End of the program
//!
//! The background thread ends with the process. Call [`Redlock::close`] at the end of `main`, or keys may remain until
//! their TTL expires: see [Short programs].
//!
//! [Short programs]: https://github.com/redlock-rs/redlock/blob/main/docs/patterns.md#short-programs
//!
//! # Async code
//!
//! Every method that blocks panics inside an async runtime, because it would block a thread that runs other tasks. Use
//! [`crate::Redlock`] there, or call the method in `tokio::task::spawn_blocking`. Only tokio runtimes are detected.

mod guard;
mod request;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::consume_budget;

pub use self::guard::{Guard, Lease};
pub use self::request::{LockRequest, TryLockRequest};
use crate::client::builder::Builder;
use crate::client::health::Health;
use crate::client::inspect::Inspection;
use crate::client::run_error::RunError;
use crate::runtime::tokio::TokioRuntime;
use crate::types::detached::DetachedLease;
use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::report::ReleaseOutcome;
use crate::types::resource::{IntoResource, IntoResources};

/// A distributed lock over N independent nodes, for synchronous programs.
///
/// Cloning is cheap, and clones share everything. See the [module](self) for an example.
///
/// # Drop behavior
///
/// Same as [`crate::Redlock`]: connections close after the last handle, guard or lease is dropped. The thread of the
/// locks ends with the program. If cleanup may be pending, call [`close`](Redlock::close) before the program ends.
#[derive(Clone, Debug)]
pub struct Redlock {
    redlock: crate::Redlock,
    thread: Thread,
}

impl Redlock {
    /// Builds a `Redlock` whose methods block.
    ///
    /// The builder and its nodes must run on [`TokioRuntime::dedicated`], or on another runtime that some thread drives
    /// all the time. Otherwise nothing is renewed while the program computes.
    ///
    /// ```
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// // Nodes and tasks run on the same thread.
    /// let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated());
    /// let redlock = blocking::Redlock::new(builder.node(MemoryNode::new("a")))?;
    /// assert!(redlock.health().is_available());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Builder::build`].
    pub fn new(builder: Builder) -> Result<Self, Error> {
        Ok(Self { redlock: builder.build()?, thread: Thread::dedicated() })
    }

    /// Returns the async handle, for methods without a blocking form, such as [`slots`](crate::Redlock::slots).
    ///
    /// Its futures run in any runtime, and in `block_on`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::{MemoryNode, block_on};
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.as_async().slots("thumbnails", 2)?;
    /// // The `block_on` of any async runtime.
    /// let slot = block_on(slots.acquire(ttl))?;
    /// assert!(slot.is_held() && slot.index() < 2);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn as_async(&self) -> &crate::Redlock {
        &self.redlock
    }

    /// Locks a resource, or several: all or none.
    ///
    /// Returns a [`LockRequest`]: set options, then call [`acquire`](LockRequest::acquire) or
    /// [`run`](LockRequest::run). Same as [`crate::Redlock::lock`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock(["account:1", "account:2"], ttl).acquire()?;
    /// assert!(redlock.try_lock("account:2", ttl).acquire()?.is_none());
    /// guard.release()?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn lock(&self, resources: impl IntoResources, ttl: Duration) -> LockRequest {
        LockRequest::new(self.redlock.lock(resources, ttl), self.thread.clone())
    }

    /// Locks a resource, or several, without a wait for another holder: all or none.
    ///
    /// Returns a [`TryLockRequest`]: set options, then call [`acquire`](TryLockRequest::acquire). To wait for a limited
    /// time instead, use [`lock`](Redlock::lock) with [`max_wait`](LockRequest::max_wait). Same as
    /// [`crate::Redlock::try_lock`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.try_lock("nightly-report", ttl).acquire()?;
    /// assert!(guard.is_some(), "this program writes the report");
    /// let second = redlock.try_lock("nightly-report", ttl).acquire()?;
    /// assert!(second.is_none(), "another one skips it");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn try_lock(&self, resources: impl IntoResources, ttl: Duration) -> TryLockRequest {
        TryLockRequest::new(self.redlock.try_lock(resources, ttl), self.thread.clone())
    }

    /// Runs `work` under the lock and returns its output.
    ///
    /// Short for [`lock`](Redlock::lock) and [`LockRequest::run`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let copied = redlock.run("orders:archive", ttl, |lease| {
    ///     // A loss ends the work.
    ///     (0..100).take_while(|_order| lease.check().is_ok()).count()
    /// })?;
    /// assert_eq!(100, copied);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`LockRequest::run`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime, or if `work` panics. The lock is released first.
    pub fn run<T>(
        &self,
        resources: impl IntoResources,
        ttl: Duration,
        work: impl FnOnce(&Lease) -> T,
    ) -> Result<T, RunError<T>> {
        self.lock(resources, ttl).run(work)
    }

    /// Resumes a lock that was [detached](Guard::detach), or that another program holds.
    ///
    /// Same as [`crate::Redlock::resume`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let detached = redlock.lock("orders:42", ttl).acquire()?.detach();
    /// // Another process continues with it.
    /// let guard = redlock.resume(&detached)?;
    /// assert!(guard.is_held());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::Redlock::resume`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn resume(&self, lease: &DetachedLease) -> Result<Guard, Error> {
        let guard = self.thread.block_on(self.redlock.resume(lease))?;
        Ok(Guard::new(guard, self.thread.clone()))
    }

    /// Releases a lock that was [detached](Guard::detach), or that another program holds.
    ///
    /// Same as [`crate::Redlock::release`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ReleaseOutcome, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let detached = redlock.lock("orders:42", ttl).acquire()?.detach();
    /// assert_eq!(ReleaseOutcome::Released, redlock.release(&detached)?);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::Redlock::release`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn release(&self, lease: &DetachedLease) -> Result<ReleaseOutcome, Error> {
        self.thread.block_on(self.redlock.release(lease))
    }

    /// Returns the holder of a resource, according to a quorum of nodes.
    ///
    /// Same as [`crate::Redlock::inspect`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).owner("host-1:4242").acquire()?;
    /// let inspection = redlock.inspect("orders:42")?;
    /// println!("{inspection}");
    /// assert!(inspection.is_held_by(&guard));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::Redlock::inspect`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn inspect(&self, resource: impl IntoResource) -> Result<Inspection, Error> {
        self.thread.block_on(self.redlock.inspect(resource))
    }

    /// Checks which nodes can vote now. Same as [`crate::Redlock::health`].
    ///
    /// ```
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// let health = redlock.health();
    /// // Prints the totals and one line for each node.
    /// println!("{health}");
    /// assert!(health.is_available());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn health(&self) -> Health {
        self.thread.block_on(self.redlock.health())
    }

    /// Returns the time on the clock of leases. Same as [`crate::Redlock::now`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let deadline = redlock.now() + Duration::from_secs(1);
    /// let guard = redlock.lock("orders:42", ttl).wait_until(deadline).acquire()?;
    /// assert!(guard.deadline() > Some(redlock.now()));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn now(&self) -> Instant {
        self.redlock.now()
    }

    /// Rejects new locks from now on, and waits for pending cleanup for up to `limit`.
    ///
    /// Returns the number of abandoned cleanups, as [`crate::Redlock::close`] does; `None` if the limit was reached.
    /// The remaining cleanup then continues on the thread of the locks, until the process ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ErrorKind, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// // At the end of `main`. No cleanup was abandoned.
    /// assert_eq!(Some(0), redlock.close(Duration::from_secs(5)));
    ///
    /// let late = redlock.lock("orders:42", ttl).acquire();
    /// assert_eq!(ErrorKind::Closed, late.unwrap_err().kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn close(&self, limit: Duration) -> Option<u64> {
        self.thread.block_on(async { tokio::time::timeout(limit, self.redlock.close()).await.ok() })
    }
}

/// The thread on which connections and renewals run.
#[derive(Clone, Debug)]
struct Thread(Arc<Handle>);

impl Thread {
    fn dedicated() -> Self {
        Self(Arc::new(TokioRuntime::dedicated_handle()))
    }

    /// Blocks the calling thread until `future` completes.
    ///
    /// # Panics
    ///
    /// Panics inside an async runtime.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        assert!(
            !is_in_task(),
            "redlock: a blocking method was called inside an async runtime; use the async `Redlock` there, or \
             `tokio::task::spawn_blocking`"
        );
        self.0.block_on(future)
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
