//! Requests for a slot: options first, then `.await`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::guard::{SlotGuard, SlotLease};
use super::{Slots, search};
use crate::client::keep_alive::KeepAlive;
use crate::client::request::LockRequest;
use crate::client::run;
use crate::client::run_error::RunError;
use crate::runtime::BoxFuture;
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;

/// A request for any free slot: set options, then `.await` it.
///
/// The request waits while all slots are held, for up to 10 s by default. See [`Slots`] for the order of waiters.
///
/// # Errors
///
/// Same as [`LockRequest`](crate::LockRequest). [`Contended`](ErrorKind::Contended) means that no slot became free in
/// time.
///
/// # Cancel safety
///
/// If this future is dropped, the library cleans up all that it sent, on all nodes and in the background. Nothing is
/// sent before the first poll.
#[must_use = "a request does nothing until it is awaited"]
pub struct SlotRequest {
    slots: Slots,
    /// The options. It names all slots, and is never sent.
    request: LockRequest,
    /// The request in progress, from its first poll on.
    running: Option<BoxFuture<Result<SlotGuard, Error>>>,
}

impl SlotRequest {
    pub(super) fn new(slots: Slots, request: LockRequest) -> Self {
        Self { slots, request, running: None }
    }

    fn with(self, set: impl FnOnce(LockRequest) -> LockRequest) -> Self {
        Self { request: set(self.request), ..self }
    }

    /// Sets how long to wait while all slots are held.
    ///
    /// The default is 10 s, measured from the first poll. With `Duration::ZERO`, each slot is attempted once.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{ErrorKind, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("thumbnails", 1)?;
    /// let guard = slots.acquire(ttl).await?;
    /// let late = slots.acquire(ttl).max_wait(Duration::from_millis(5)).await;
    /// assert_eq!(ErrorKind::Contended, late.unwrap_err().kind());
    /// # Ok(()) }
    /// ```
    pub fn max_wait(self, wait: Duration) -> Self {
        self.with(|request| request.max_wait(wait))
    }

    /// Sets a deadline for the wait. Same as [`LockRequest::wait_until`](crate::LockRequest::wait_until).
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
    /// let video = redlock.lock("video:42", ttl).wait_until(deadline).await?;
    /// let slots = redlock.slots("transcoders", 4)?;
    /// let slot = slots.acquire(ttl).wait_until(deadline).await?;
    /// assert!(video.is_held() && slot.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn wait_until(self, deadline: Instant) -> Self {
        self.with(|request| request.wait_until(deadline))
    }

    /// Waits as long as all slots are held. Same as [`LockRequest::wait_unbounded`](crate::LockRequest::wait_unbounded).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("transcoders", 1)?;
    /// let busy = slots.acquire(ttl).keep_alive(KeepAlive::new()).await?;
    /// // A job of hours, which renews its slot, ends while this task waits.
    /// std::thread::spawn(move || drop(busy));
    /// assert!(slots.acquire(ttl).wait_unbounded().await?.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn wait_unbounded(self) -> Self {
        self.with(LockRequest::wait_unbounded)
    }

    /// Renews the slot automatically once it is held.
    ///
    /// Same as [`Guard::keep_alive`](crate::Guard::keep_alive). The default is off, except for
    /// [`run`](SlotRequest::run).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.slots("transcoders", 4)?.acquire(ttl);
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let slot = request.keep_alive(settings).await?;
    /// // ... a video that takes longer than the TTL ...
    /// assert!(slot.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn keep_alive(self, settings: KeepAlive) -> Self {
        self.with(|request| request.keep_alive(settings))
    }

    /// Adds a fencing token to the slot: see [`SlotLease::token_of_slot`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("disks", 1)?;
    /// let earlier = slots.acquire(ttl).fenced().await?;
    /// let token_of_earlier = earlier.token_of_slot();
    /// earlier.release().await?;
    ///
    /// let slot = slots.acquire(ttl).fenced().await?;
    /// assert!(slot.token_of_slot() > token_of_earlier);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn fenced(self) -> Self {
        self.with(LockRequest::fenced)
    }

    /// Sets the owner label of this request. Same as [`LockRequest::owner`](crate::LockRequest::owner).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("thumbnails", 1)?;
    /// let slot = slots.acquire(ttl).owner("host-1:4242").await?;
    /// let inspections = slots.inspect().await?;
    /// let holder = inspections[0].holder().expect("the slot is held");
    /// assert_eq!(Some("host-1:4242"), holder.owner());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn owner(self, label: impl AsRef<str>) -> Self {
        self.with(|request| request.owner(label))
    }

    /// Acquires a free slot without a wait; returns `None` if all slots are held.
    ///
    /// Each slot is attempted once. The attempts are repeated only while the votes on a slot are
    /// [split](crate::TryLockRequest) among several clients. If they stay split, the error is
    /// [`Undecided`](ErrorKind::Undecided).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("thumbnails", 1)?;
    /// let slot = slots.acquire(ttl).try_now().await?;
    /// assert!(slot.is_some());
    /// assert!(slots.acquire(ttl).try_now().await?.is_none(), "it is held");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`SlotRequest`], except [`Contended`](ErrorKind::Contended), which is `Ok(None)`.
    ///
    /// # Cancel safety
    ///
    /// Same as [`SlotRequest`].
    pub async fn try_now(self) -> Result<Option<SlotGuard>, Error> {
        match self.max_wait(Duration::ZERO).await {
            Err(error) if error.kind() == ErrorKind::Contended => Ok(None),
            result => result.map(Some),
        }
    }

    /// Runs `work` while a slot is held, and returns its output.
    ///
    /// Same as [`LockRequest::run`](crate::LockRequest::run): the slot is kept alive, and the work is dropped if the
    /// slot is lost.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// let request = redlock.slots("thumbnails", 8)?.acquire(Duration::from_secs(5));
    /// let index = request.run(async |slot| slot.index()).await?;
    /// assert!(index < 8);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`LockRequest::run`](crate::LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the slot is released in the background.
    pub async fn run<F, W>(self, work: F) -> Result<W::Output, RunError<W::Output>>
    where
        F: FnOnce(SlotLease) -> W,
        W: Future,
    {
        let slot = self.kept_alive().await.map_err(RunError::not_run)?;
        let (guard, lease) = slot.into_parts();
        run::run(guard, |_| work(lease)).await
    }

    /// Switches keep-alive on, unless it has settings.
    fn kept_alive(self) -> Self {
        self.with(LockRequest::kept_alive)
    }
}

impl Future for SlotRequest {
    type Output = Result<SlotGuard, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(running) = &mut this.running {
            return running.as_mut().poll(cx);
        }
        let (slots, request) = (this.slots.clone(), this.request.take());
        this.running.insert(Box::pin(search::acquire(slots, request))).as_mut().poll(cx)
    }
}

impl fmt::Debug for SlotRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRequest").field("slots", &self.slots).finish_non_exhaustive()
    }
}
