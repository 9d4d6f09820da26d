//! The guard and the lease of synchronous programs.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::Handle;

use super::Thread;
use crate::client::keep_alive::KeepAlive;
use crate::types::detached::DetachedLease;
use crate::types::error::Error;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::report::ReleaseOutcome;

/// A guard that releases its lock on [`release`](Guard::release) or on drop.
///
/// It derefs to its [`Lease`].
///
/// # Drop behavior
///
/// Drop waits until a quorum of nodes has confirmed the release, for at most the node timeout. If the program then ends
/// without [`close`](super::Redlock::close), keys may remain on a minority of the nodes until their TTL expires. Inside
/// an async runtime, drop does not wait: the release runs in the background. It never panics.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped; bind it as `let _guard`, since `let _` drops it at once"]
pub struct Guard {
    /// `None` once a method has consumed the guard.
    guard: Option<crate::Guard>,
    lease: Lease,
}

/// A view of a held lock.
///
/// It derefs to the async [`Lease`](crate::Lease), for all methods that do not wait: [`is_held`](crate::Lease::is_held),
/// [`remaining`](crate::Lease::remaining), [`state`](crate::Lease::state) and others. The methods here block instead of
/// returning a future.
#[derive(Clone, Debug)]
pub struct Lease {
    lease: crate::Lease,
    thread: Thread,
}

impl Guard {
    pub(super) fn new(guard: crate::Guard, thread: Thread) -> Self {
        let lease = Lease { lease: guard.lease(), thread };
        Self { guard: Some(guard), lease }
    }

    pub(super) fn into_parts(mut self) -> (crate::Guard, Thread) {
        (self.take(), self.lease.thread.clone())
    }

    fn take(&mut self) -> crate::Guard {
        self.guard.take().expect("a guard is consumed once")
    }

    /// Returns a view of the lock that outlives the guard, for other threads.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// let lease = guard.lease();
    /// let monitor = std::thread::spawn(move || lease.lost());
    /// guard.release()?;
    /// assert_eq!("lock released", monitor.join().unwrap().to_string());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Releases the lock on all nodes. Same as [`crate::Guard::release`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ReleaseOutcome, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// if guard.release()? != ReleaseOutcome::Released {
    ///     println!("the lock ended before the work did");
    /// }
    /// assert!(redlock.inspect("orders:42")?.is_free());
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
        let (guard, thread) = self.into_parts();
        thread.block_on(guard.release())
    }

    /// Renews the lock automatically from now on. Same as [`crate::Guard::keep_alive`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// // The import turns out to take longer than the TTL.
    /// guard.keep_alive(KeepAlive::new().max_hold(Duration::from_secs(3600)));
    /// guard.check()?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn keep_alive(&self, settings: KeepAlive) {
        if let Some(guard) = &self.guard {
            guard.keep_alive(settings);
        }
    }

    /// Keeps the lock for `rest` from now on, and consumes the guard.
    ///
    /// Same as [`crate::Guard::keep_for`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("nightly-report", ttl).acquire()?;
    /// // No other program writes the report in the next 8 h.
    /// guard.keep_for(Duration::from_secs(8 * 3600))?;
    /// let remaining = redlock.inspect("nightly-report")?.remaining();
    /// assert!(remaining > Some(Duration::from_secs(7 * 3600)));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::Guard::keep_for`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn keep_for(self, rest: Duration) -> Result<(), Error> {
        let (guard, thread) = self.into_parts();
        thread.block_on(guard.keep_for(rest))
    }

    /// Detaches the lock, so that another process can resume it.
    ///
    /// Same as [`crate::Guard::detach`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let detached = redlock.lock("orders:42", ttl).acquire()?.detach();
    /// // Another process receives the lease, which is a secret, and resumes it.
    /// let guard = redlock.resume(&detached)?;
    /// assert!(guard.is_held());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn detach(self) -> DetachedLease {
        let (guard, thread) = self.into_parts();
        thread.block_on(guard.detach())
    }

    /// Keeps the lock until its validity ends, without a release.
    ///
    /// Same as [`crate::Guard::forget`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// if let Some(guard) = redlock.try_lock("cleanup", ttl).acquire()? {
    ///     // At most one program starts a cleanup within the TTL.
    ///     let lease = guard.forget();
    ///     assert!(lease.is_held());
    /// }
    /// assert!(redlock.try_lock("cleanup", ttl).acquire()?.is_none());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn forget(mut self) -> Lease {
        self.take().forget();
        self.lease.clone()
    }
}

impl Lease {
    /// Returns an error once the lock is no longer held, or is about to be lost.
    ///
    /// It sends no request: the [state](crate::Lease::state) follows the clock. Call it before each effect.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ErrorKind, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// guard.check()?; // the lock is held, so the program charges the customer
    ///
    /// let lease = guard.lease();
    /// guard.release()?;
    /// assert_eq!(ErrorKind::Lost, lease.check().unwrap_err().kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<(), Error> {
        match self.lease.state() {
            LeaseState::Lost(loss) => Err(crate::client::run::lost(&self.lease, loss)),
            _ => Ok(()),
        }
    }

    /// Makes the lock valid for `ttl` from now, less clock drift.
    ///
    /// Same as [`crate::Lease::extend`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// // The next step takes up to 1 min.
    /// guard.extend(Duration::from_secs(60))?;
    /// assert!(guard.remaining() > ttl);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::Lease::extend`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.thread.block_on(self.lease.extend(ttl))
    }

    /// Makes the lock valid for its TTL from now, less clock drift.
    ///
    /// Same as [`crate::Lease::renew`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:archive", ttl).acquire()?;
    /// for _page in 0..3 {
    ///     let before = guard.deadline();
    ///     guard.renew()?; // each page has the whole TTL
    ///     assert!(guard.deadline() > before);
    /// }
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`crate::Lease::extend`].
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn renew(&self) -> Result<(), Error> {
        self.thread.block_on(self.lease.renew())
    }

    /// Waits until the lock is lost, and returns the reason.
    ///
    /// Same as [`crate::Lease::lost`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Loss, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// let lease = guard.lease();
    /// let monitor = std::thread::spawn(move || lease.lost());
    /// guard.release()?;
    /// assert_eq!(Loss::Released, monitor.join().unwrap());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn lost(&self) -> Loss {
        self.thread.block_on(self.lease.lost())
    }

    /// Waits until the state differs from the present one.
    ///
    /// Same as [`crate::Lease::changed`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{LeaseState, Loss, TokioRuntime, blocking};
    /// # use redlock_testkit::MemoryNode;
    /// # let builder = redlock_core::Redlock::builder(TokioRuntime::dedicated()).node(MemoryNode::new("a"));
    /// # let redlock = blocking::Redlock::new(builder)?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("orders:42", ttl).acquire()?;
    /// let lease = guard.lease();
    /// let monitor = std::thread::spawn(move || lease.changed());
    /// guard.release()?;
    /// assert_eq!(LeaseState::Lost(Loss::Released), monitor.join().unwrap());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Inside an async runtime.
    pub fn changed(&self) -> LeaseState {
        self.thread.block_on(self.lease.changed())
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Deref for Lease {
    type Target = crate::Lease;

    fn deref(&self) -> &crate::Lease {
        &self.lease
    }
}

/// Waits for the release; see [`Guard`].
impl Drop for Guard {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        if Handle::try_current().is_ok() {
            // Released in the background.
            return drop(guard);
        }
        let thread = &self.lease.thread;
        // A panic that leaves this function during another one would end the process.
        drop(catch_unwind(AssertUnwindSafe(|| thread.block_on(guard.release()))));
    }
}
