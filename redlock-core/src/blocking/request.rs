//! Lock requests of synchronous programs.

use std::time::Duration;

use super::Thread;
use super::guard::{Guard, Lease};
use crate::client::keep_alive::KeepAlive;
use crate::client::run;
use crate::client::run_error::RunError;
use crate::types::error::Error;
use crate::types::instant::Instant;

/// A lock request: set options, then call [`acquire`](LockRequest::acquire) or [`run`](LockRequest::run).
///
/// Same as [`crate::LockRequest`]. The request waits while another client holds the lock, for up to 10 s by default.
#[derive(Debug)]
#[must_use = "a request does nothing until it acquires"]
pub struct LockRequest {
    request: crate::LockRequest,
    thread: Thread,
}

/// A request that does not wait: call [`acquire`](TryLockRequest::acquire) to get a guard or `None`.
///
/// Same as [`crate::TryLockRequest`]: the attempt is repeated only while the votes are split among several clients.
#[derive(Debug)]
#[must_use = "a request does nothing until it acquires"]
pub struct TryLockRequest {
    request: crate::TryLockRequest,
    thread: Thread,
}

impl LockRequest {
    pub(super) fn new(request: crate::LockRequest, thread: Thread) -> Self {
        Self { request, thread }
    }

    fn with(self, set: impl FnOnce(crate::LockRequest) -> crate::LockRequest) -> Self {
        Self { request: set(self.request), ..self }
    }

    /// Sets how long to wait while another client holds the lock. The default is 10 s.
    ///
    /// Same as [`crate::LockRequest::max_wait`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ErrorKind, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    ///
    /// let request = redlock.lock("orders:42", ttl);
    /// let result = request.max_wait(Duration::from_millis(5)).acquire();
    /// assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn max_wait(self, wait: Duration) -> Self {
        self.with(|request| request.max_wait(wait))
    }

    /// Sets a deadline for the wait. Same as [`crate::LockRequest::wait_until`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// // One deadline limits both waits.
    /// let deadline = redlock.now() + Duration::from_secs(2);
    /// let order = redlock.lock("orders:42", ttl).wait_until(deadline).acquire()?;
    /// let account = redlock.lock("account:7", ttl).wait_until(deadline).acquire()?;
    /// assert!(order.is_held() && account.is_held());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn wait_until(self, deadline: Instant) -> Self {
        self.with(|request| request.wait_until(deadline))
    }

    /// Waits as long as another client holds the lock.
    ///
    /// Same as [`crate::LockRequest::wait_unbounded`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.lock("nightly-report", ttl);
    /// let guard = request.keep_alive(KeepAlive::new()).acquire()?;
    /// // Another thread renews its lock, and releases it while this thread waits.
    /// std::thread::spawn(move || drop(guard));
    /// let next = redlock.lock("nightly-report", ttl).wait_unbounded().acquire()?;
    /// assert!(next.is_held());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn wait_unbounded(self) -> Self {
        self.with(crate::LockRequest::wait_unbounded)
    }

    /// Sets the maximum number of attempts. Same as [`crate::LockRequest::max_attempts`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ErrorKind, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::node::{Token, Ttl};
    /// # let node = MemoryNode::new("a");
    /// # node.set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(node);
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// // Another client holds the lock, and one attempt is enough to find out.
    /// let result = redlock.lock("orders:42", ttl).max_attempts(1).acquire();
    /// assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|request| request.max_attempts(attempts))
    }

    /// Sets the longest delay between two attempts.
    ///
    /// Same as [`crate::LockRequest::retry_delay`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ErrorKind, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::node::{Token, Ttl};
    /// # let node = MemoryNode::new("a");
    /// # node.set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(node);
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// // Another client holds the lock. The delays are 10 ms to 20 ms.
    /// let request = redlock.lock("orders:42", ttl).max_attempts(3);
    /// let result = request.retry_delay(Duration::from_millis(20)).acquire();
    /// assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn retry_delay(self, delay: Duration) -> Self {
        self.with(|request| request.retry_delay(delay))
    }

    /// Renews the lock automatically once it is held, while the program computes.
    ///
    /// Same as [`crate::LockRequest::keep_alive`]. The default is off, except for [`run`](LockRequest::run). Limit
    /// [`KeepAlive::max_hold`] if the program may hang.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let request = redlock.lock("nightly-report", Duration::from_secs(5));
    /// let guard = request.keep_alive(settings).acquire()?;
    /// // ... computes for longer than the TTL ...
    /// guard.check()?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn keep_alive(self, settings: KeepAlive) -> Self {
        self.with(|request| request.keep_alive(settings))
    }

    /// Adds a fencing token to the lock. Same as [`crate::LockRequest::fenced`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let first = redlock.lock("orders:42", ttl).fenced().acquire()?;
    /// let earlier = first.fencing_token();
    /// first.release()?;
    ///
    /// let second = redlock.lock("orders:42", ttl).fenced().acquire()?;
    /// assert!(second.fencing_token() > earlier);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn fenced(self) -> Self {
        self.with(crate::LockRequest::fenced)
    }

    /// Sets the owner label of this request. Same as [`crate::LockRequest::owner`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.lock("nightly-report", ttl);
    /// let guard = request.owner("cron@host-1").acquire()?;
    /// assert_eq!(Some("cron@host-1"), guard.fingerprint().owner());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn owner(self, label: impl AsRef<str>) -> Self {
        self.with(|request| request.owner(label))
    }

    /// Waits for the lock and returns its guard.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// assert!(guard.is_held());
    /// drop(guard); // waits for the release
    /// assert!(redlock.inspect("orders:42")?.is_free());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::LockRequest`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn acquire(self) -> Result<Guard, Error> {
        let Self { request, thread } = self;
        Ok(Guard::new(thread.block_on(request)?, thread))
    }

    /// Runs `work` under the lock and returns its output.
    ///
    /// Waits for the lock, keeps it alive, and releases it. `work` gets a view of the lock. It is not stopped by a loss:
    /// call [`Lease::check`] before each effect.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// let rows = redlock.lock("report", Duration::from_secs(5)).run(|lease| {
    ///     lease.check()?;
    ///     Ok::<_, redlock_core::Error>(42)
    /// })??;
    /// assert_eq!(42, rows);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`crate::LockRequest`] if the lock was not acquired. `work` was not called.
    /// - [`Lost`](crate::ErrorKind::Lost), with the loss and the [output](RunError::output), if the lock was no longer
    ///   held when the work had finished.
    ///
    /// # Panics
    ///
    /// Inside an async runtime, or if `work` panics. The lock is released first.
    pub fn run<T>(self, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError<T>> {
        let guard = self.with(crate::LockRequest::kept_alive).acquire().map_err(RunError::not_run)?;
        let output = work(&guard);
        let (guard, thread) = guard.into_parts();
        let lease = guard.lease();
        let end = run::finished(&lease, output);
        thread.block_on(run::ended(guard, &lease, end))
    }
}

impl TryLockRequest {
    pub(super) fn new(request: crate::TryLockRequest, thread: Thread) -> Self {
        Self { request, thread }
    }

    fn with(self, set: impl FnOnce(crate::TryLockRequest) -> crate::TryLockRequest) -> Self {
        Self { request: set(self.request), ..self }
    }

    /// Renews the lock automatically once it is held.
    ///
    /// Same as [`LockRequest::keep_alive`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let request = redlock.try_lock("nightly-report", Duration::from_secs(5));
    /// if let Some(guard) = request.keep_alive(settings).acquire()? {
    ///     // ... writes the report for longer than the TTL ...
    ///     guard.check()?;
    /// }
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn keep_alive(self, settings: KeepAlive) -> Self {
        self.with(|request| request.keep_alive(settings))
    }

    /// Adds a fencing token to the lock. Same as [`crate::TryLockRequest::fenced`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.try_lock("nightly-report", ttl).fenced();
    /// let guard = request.acquire()?.expect("no other client holds the lock");
    /// // Send it with every write.
    /// assert!(guard.fencing_token().is_some());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn fenced(self) -> Self {
        self.with(crate::TryLockRequest::fenced)
    }

    /// Sets the owner label of this request. Same as [`crate::TryLockRequest::owner`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.try_lock("nightly-report", ttl).owner("cron@host-1");
    /// let guard = request.acquire()?.expect("no other client holds the lock");
    /// assert_eq!(Some("cron@host-1"), guard.fingerprint().owner());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn owner(self, label: impl AsRef<str>) -> Self {
        self.with(|request| request.owner(label))
    }

    /// Acquires the lock; returns `None` if another client or task holds it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// match redlock.try_lock("nightly-report", ttl).acquire()? {
    ///     Some(guard) => assert!(guard.is_held()),
    ///     None => println!("another client writes the report"),
    /// }
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::TryLockRequest`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn acquire(self) -> Result<Option<Guard>, Error> {
        let Self { request, thread } = self;
        Ok(thread.block_on(request)?.map(|guard| Guard::new(guard, thread)))
    }
}
