//! Requests of readers, and the guards that they get.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::guard::Guard;
use crate::client::keep_alive::KeepAlive;
use crate::client::lease::Lease;
use crate::client::request::LockRequest;
use crate::client::run_error::RunError;
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::report::ReleaseOutcome;

/// A request for a read lock: set options, then `.await` it.
///
/// The request waits while a writer holds the lock or waits for it, for up to 10 s by default.
///
/// # Errors
///
/// - [`Contended`](ErrorKind::Contended) if the waiting time is used up.
/// - [`Undecided`](ErrorKind::Undecided) if it is used up, and the votes of the last attempt were split.
/// - [`Unsupported`](ErrorKind::Unsupported) if a node does not support readers. Nothing is sent then.
/// - The others of a [`LockRequest`].
///
/// # Cancel safety
///
/// If this future is dropped, the library cleans up all that it sent, on all nodes and in the background. Nothing is
/// sent before the first poll.
#[must_use = "a request does nothing until it is awaited"]
pub struct ReadRequest(LockRequest);

impl ReadRequest {
    pub(super) fn new(request: LockRequest) -> Self {
        Self(request)
    }

    /// Sets how long to wait for writers. Same as [`LockRequest::max_wait`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{ErrorKind, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let import = catalog.write(ttl).await?;
    /// let request = catalog.read(ttl).max_wait(Duration::from_millis(5));
    /// assert_eq!(ErrorKind::Contended, request.await.unwrap_err().kind());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn max_wait(self, wait: Duration) -> Self {
        Self(self.0.max_wait(wait))
    }

    /// Sets a deadline for the wait. Same as [`LockRequest::wait_until`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// // One deadline limits both waits.
    /// let deadline = redlock.now() + Duration::from_secs(2);
    /// let catalog = redlock.rw_lock("catalog")?.read(ttl).wait_until(deadline).await?;
    /// let prices = redlock.rw_lock("prices")?.read(ttl).wait_until(deadline).await?;
    /// assert!(catalog.is_held() && prices.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn wait_until(self, deadline: Instant) -> Self {
        Self(self.0.wait_until(deadline))
    }

    /// Waits for writers without a limit. Same as [`LockRequest::wait_unbounded`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let import = catalog.write(ttl).keep_alive(KeepAlive::new()).await?;
    /// // An import of hours, which renews its lock, ends while this task waits.
    /// std::thread::spawn(move || drop(import));
    /// assert!(catalog.read(ttl).wait_unbounded().await?.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn wait_unbounded(self) -> Self {
        Self(self.0.wait_unbounded())
    }

    /// Renews the lock automatically once it is held.
    ///
    /// Same as [`LockRequest::keep_alive`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.rw_lock("catalog")?.read(ttl);
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let reader = request.keep_alive(settings).await?;
    /// // ... an export that takes longer than the TTL ...
    /// assert!(reader.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn keep_alive(self, settings: KeepAlive) -> Self {
        Self(self.0.keep_alive(settings))
    }

    /// Sets the owner label of this request. Same as [`LockRequest::owner`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.rw_lock("catalog")?.read(ttl);
    /// let reader = request.owner("request-7").await?;
    /// assert_eq!(Some("request-7"), reader.fingerprint().owner());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn owner(self, label: impl AsRef<str>) -> Self {
        Self(self.0.owner(label))
    }

    /// Acquires the lock without a wait; returns `None` if a writer holds or awaits it.
    ///
    /// The attempt is repeated only while the votes are [split](crate::TryLockRequest) among several clients. If they
    /// stay split, the error is [`Undecided`](ErrorKind::Undecided).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let import = catalog.write(ttl).await?;
    /// assert!(catalog.read(ttl).try_now().await?.is_none(), "an import runs");
    ///
    /// import.release().await?;
    /// assert!(catalog.read(ttl).try_now().await?.is_some());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`ReadRequest`], except [`Contended`](ErrorKind::Contended), which is `Ok(None)`.
    ///
    /// # Cancel safety
    ///
    /// Same as [`ReadRequest`].
    pub async fn try_now(self) -> Result<Option<ReadGuard>, Error> {
        match self.max_wait(Duration::ZERO).await {
            Err(error) if error.kind() == ErrorKind::Contended => Ok(None),
            result => result.map(Some),
        }
    }

    /// Runs `work` under the read lock, and returns its output.
    ///
    /// Same as [`LockRequest::run`]: the lock is kept alive, and the work is dropped if the lock is lost.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// let request = redlock.rw_lock("catalog")?.read(Duration::from_secs(5));
    /// assert_eq!(42, request.run(async |_lease| 42).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`LockRequest::run`].
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the lock is released in the background.
    pub async fn run<F, W>(self, work: F) -> Result<W::Output, RunError<W::Output>>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        self.0.run(work).await
    }
}

impl Future for ReadRequest {
    type Output = Result<ReadGuard, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|result| result.map(ReadGuard))
    }
}

impl fmt::Debug for ReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadRequest").field(&self.0).finish()
    }
}

/// A guard that releases its read lock on [`release`](ReadGuard::release) or on drop.
///
/// It derefs to its [`Lease`], which has no fencing token. Drop hands the release to the runtime and returns, as that
/// of a [`Guard`] does.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped; bind it as `let _guard`, since `let _` drops it at once"]
pub struct ReadGuard(Guard);

impl ReadGuard {
    /// Releases the read lock on all nodes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, ReleaseOutcome};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let (first, last) = (catalog.read(ttl).await?, catalog.read(ttl).await?);
    /// first.release().await?;
    /// assert!(catalog.try_write(ttl).await?.is_none(), "one reader is left");
    /// assert_eq!(ReleaseOutcome::Released, last.release().await?);
    /// assert!(catalog.try_write(ttl).await?.is_some());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the release continues in the background.
    pub async fn release(self) -> Result<ReleaseOutcome, Error> {
        self.0.release().await
    }

    /// Renews the read lock automatically from now on. Same as [`Guard::keep_alive`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let reader = redlock.rw_lock("catalog")?.read(ttl).await?;
    /// // The export turns out to take longer than the TTL.
    /// reader.keep_alive(KeepAlive::new().max_hold(Duration::from_secs(3600)));
    /// assert!(reader.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn keep_alive(&self, settings: KeepAlive) {
        self.0.keep_alive(settings);
    }

    /// Returns a view of the read lock that outlives the guard, for other tasks.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Loss, Redlock, ReleaseOutcome};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let reader = redlock.rw_lock("catalog")?.read(ttl).await?;
    /// let lease = reader.lease();
    /// let (loss, released) = tokio::join!(lease.lost(), reader.release());
    /// assert_eq!((Loss::Released, ReleaseOutcome::Released), (loss, released?));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn lease(&self) -> Lease {
        self.0.lease()
    }
}

impl Deref for ReadGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}
