//! Lock requests: options first, then `.await`.

use std::fmt;
use std::future::{Future, ready};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::attempts::{CheckedRequest, DEFAULT_WAIT};
use crate::client::guard::Guard;
use crate::client::handle::Handle;
use crate::client::keep_alive::KeepAlive;
use crate::client::lease::Lease;
use crate::client::run;
use crate::client::run_error::RunError;
use crate::client::rw_lock::write;
use crate::decide::backoff::RetryPolicy;
use crate::lease::mode::Mode;
use crate::runtime::BoxFuture;
use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::owner::Owner;
use crate::types::resource::{Resource, Resources};
use crate::types::ttl::Ttl;

/// A lock request: set options, then `.await` it to acquire the lock.
///
/// It is a future, so it can be passed to `tokio::spawn`, `block_on` and `join!` as it is. Options that are set after
/// its first poll have no effect.
///
/// The request waits while another client holds the lock, for up to 10 s by default. Tasks that share a
/// [`Redlock`](crate::Redlock) first wait in a queue of this process, and that time counts. Unreachable nodes end the
/// request sooner: it fails after three rounds in a row without a usable quorum.
///
/// # Errors
///
/// - [`Contended`](crate::ErrorKind::Contended) if the waiting time, or the number of attempts, is used up, and another
///   client or task holds the lock.
/// - [`Undecided`](crate::ErrorKind::Undecided) if it is used up, and the votes of the last attempt were split.
/// - [`Overloaded`](crate::ErrorKind::Overloaded) if too many attempts are
///   [in flight](crate::Builder::max_concurrent_attempts) in this process.
/// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied.
/// - [`TooSlow`](crate::ErrorKind::TooSlow) if the nodes were so slow that no validity was left.
/// - [`WrongType`](crate::ErrorKind::WrongType) if a name is used for something other than a lock.
/// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if a name, the TTL or the owner label is invalid.
/// - [`Unsupported`](crate::ErrorKind::Unsupported) if the lock is [fenced](LockRequest::fenced) and a node does not
///   support it.
/// - [`Closed`](crate::ErrorKind::Closed) after [`close`](crate::Redlock::close).
///
/// # Cancel safety
///
/// If this future is dropped, the library cleans up all that it sent, on all nodes and in the background. Nothing is
/// sent before the first poll.
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest {
    settings: RequestSettings,
    /// The default of the request's kind applies if this is not set.
    wait: Option<Wait>,
    attempts: Option<u32>,
    retry_delay: Duration,
    /// The gate that keeps new readers out while this write request waits for the present ones.
    gate: Option<Resource>,
    /// The request in progress, from its first poll on.
    running: Option<BoxFuture<Result<Guard, Error>>>,
}

/// A request that does not wait for another holder: `.await` it to get a guard or `None`.
///
/// `None` has one of two meanings. A quorum of nodes named another client as the holder. Or a task of this process holds
/// the lock or is ahead in the queue. To wait for a limited time instead, use [`lock`](crate::Redlock::lock) with
/// [`max_wait`](LockRequest::max_wait).
///
/// If several clients attempt at the same moment, each may get too few votes. Then no client holds the lock, and the
/// attempt is repeated up to 12 times, with growing random delays. Usually the second or third attempt decides. The delays
/// take at most 1.6 s in total. Each attempt takes at most one node timeout, or two if the lock is fenced.
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
/// # use std::time::Duration;
/// # use redlock_testkit::MemoryNode;
/// # use redlock_core::{KeepAlive, Redlock, TokioRuntime};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
/// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
/// # let ttl = Duration::from_secs(10);
/// let request = redlock.try_lock("nightly", ttl);
/// if let Some(guard) = request.keep_alive(KeepAlive::new()).await? {
///     // Only one client at a time runs this.
///     guard.release().await?;
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Same as [`LockRequest`], except [`Contended`](crate::ErrorKind::Contended), which is `Ok(None)`.
/// [`Undecided`](crate::ErrorKind::Undecided) means that the votes were split in each of the attempts.
///
/// # Cancel safety
///
/// If this future is dropped, the library cleans up all that it sent, on all nodes and in the background. Nothing is
/// sent before the first poll.
#[must_use = "a request does nothing until it is awaited"]
pub struct TryLockRequest {
    settings: RequestSettings,
    /// The request in progress, from its first poll on.
    running: Option<BoxFuture<Result<Option<Guard>, Error>>>,
}

/// The settings of every attempt of a request, not checked yet.
struct RequestSettings {
    handle: Arc<Handle>,
    resources: Result<Resources, Error>,
    ttl: Duration,
    /// Replaces the label of the builder.
    owner: Option<Result<Owner, Error>>,
    keep_alive: Option<KeepAlive>,
    mode: Mode,
}

impl RequestSettings {
    fn new(handle: Arc<Handle>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        Self { handle, resources, ttl, owner: None, keep_alive: None, mode: Mode::Exclusive }
    }

    /// Moves the settings out of a request that is polled for the first time.
    fn take(&mut self) -> Self {
        let resources = match &mut self.resources {
            Ok(resources) => Ok(resources.clone()),
            invalid => mem::replace(invalid, Err(Error::closed())),
        };
        let (handle, mode) = (Arc::clone(&self.handle), self.mode.clone());
        Self { handle, resources, owner: self.owner.take(), mode, ..*self }
    }

    fn check(self) -> Result<CheckedRequest, Error> {
        let Self { handle, resources, ttl, owner, keep_alive, mode } = self;
        let (resources, ttl, owner) = (resources?, handle.check_ttl(Ttl::new(ttl)?)?, owner.transpose()?);
        handle.check_call(&resources)?;
        match &mode {
            Mode::Exclusive => {}
            Mode::Fenced => handle.check_fencing()?,
            Mode::Shared { gate } => handle.check_sharing(gate)?,
        }
        Ok(CheckedRequest { handle, resources, ttl, mode, owner, keep_alive })
    }
}

#[derive(Clone, Copy)]
enum Wait {
    For(Duration),
    Until(Instant),
    Unbounded,
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings: RequestSettings { resources, ttl, .. }, .. } = self;
        f.debug_struct("LockRequest").field("resources", resources).field("ttl", ttl).finish_non_exhaustive()
    }
}

impl fmt::Debug for TryLockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestSettings { resources, ttl, .. } = &self.settings;
        f.debug_struct("TryLockRequest")
            .field("resources", resources)
            .field("ttl", ttl)
            .finish_non_exhaustive()
    }
}

impl LockRequest {
    pub(crate) fn new(handle: Arc<Handle>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        let retry_delay = handle.settings.retry_delay;
        let settings = RequestSettings::new(handle, resources, ttl);
        Self { settings, wait: None, attempts: None, retry_delay, gate: None, running: None }
    }

    /// Makes the request one of a reader, which shares the lock unless a writer has locked the gate.
    pub(super) fn shared(mut self, gate: Resource) -> Self {
        self.settings.mode = Mode::Shared { gate };
        self
    }

    /// Makes the request one of a writer, which locks the gate while it waits for readers.
    pub(super) fn before_readers(mut self, gate: Resource) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Sets how long to wait while another client holds the lock.
    ///
    /// The default is 10 s, measured from the first poll. No attempt starts after that. `Duration::ZERO` makes a single
    /// attempt, which is repeated only while the votes are [split](TryLockRequest).
    ///
    /// If too many attempts are [in flight](crate::Builder::max_concurrent_attempts), the first attempt waits for its
    /// turn for at least the node timeout. If its turn does not come, the request fails with
    /// [`Overloaded`](crate::ErrorKind::Overloaded).
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{ErrorKind, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("report", ttl).await?;
    ///
    /// let request = redlock.lock("report", ttl);
    /// let result = request.max_wait(Duration::from_millis(5)).await;
    /// assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    /// # Ok(()) }
    /// ```
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Sets a deadline for the wait, on the clock of [`Redlock::now`].
    ///
    /// It replaces [`max_wait`](LockRequest::max_wait), so that one deadline can limit several steps. A deadline that
    /// has passed makes a single attempt, which is repeated only while the votes are [split](TryLockRequest).
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let deadline = redlock.now() + Duration::from_secs(2);
    /// let invoice = redlock.lock("invoice:42", ttl).wait_until(deadline).await?;
    /// let account = redlock.lock("account:7", ttl).wait_until(deadline).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// [`Redlock::now`]: crate::Redlock::now
    pub fn wait_until(mut self, deadline: Instant) -> Self {
        self.wait = Some(Wait::Until(deadline));
        self
    }

    /// Waits as long as another client holds the lock.
    ///
    /// Three rounds in a row without a usable quorum still end the request.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{ErrorKind, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = loop {
    ///     match redlock.lock("report", ttl).wait_unbounded().await {
    ///         // Retries during an outage of the nodes.
    ///         Err(error) if error.kind() == ErrorKind::NoQuorum => continue,
    ///         result => break result?,
    ///     }
    /// };
    /// # Ok(()) }
    /// ```
    pub fn wait_unbounded(mut self) -> Self {
        self.wait = Some(Wait::Unbounded);
        self
    }

    /// Sets the maximum number of attempts.
    ///
    /// The number is unlimited by default, because the waiting time is limited; 0 counts as 1. The attempts are
    /// [a delay](LockRequest::retry_delay) apart, and the [wait](LockRequest::max_wait) still limits them. Attempts
    /// that a notification triggers before a delay is over do not count.
    ///
    /// Waiting behind other tasks of this process is not an attempt: even a single attempt may wait there until the
    /// waiting time is used up. [`try_lock`](crate::Redlock::try_lock) does not wait.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock
    ///     .lock("report", ttl)
    ///     .max_attempts(3)
    ///     .retry_delay(Duration::from_millis(50))
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Sets the longest delay between two attempts of this request.
    ///
    /// The default is [`Builder::retry_delay`](crate::Builder::retry_delay). Each delay is random between half of this
    /// value and all of it, and at least 1 ms. The delay applies if the nodes do not show when to retry: after
    /// failures, or if too few nodes notify the waiter.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{FakeNode, Fault, Operation, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let node = FakeNode::new("a", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// // The first attempt fails, and the next one follows soon.
    /// node.inject(Fault::unavailable().once());
    /// let request = redlock.lock("orders:42", ttl);
    /// let guard = request.retry_delay(Duration::from_millis(10)).await?;
    /// assert_eq!(2, node.request_count(Operation::Acquire));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Renews the lock automatically once it is held.
    ///
    /// Same as [`Guard::keep_alive`]. The default is off, except for [`run`](LockRequest::run).
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{KeepAlive, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let guard = redlock.lock("report", ttl).keep_alive(settings).await?;
    /// # Ok(()) }
    /// ```
    pub fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.settings.keep_alive = Some(settings);
        self
    }

    /// Adds a [fencing token](Lease::fencing_token) to the lock.
    ///
    /// The token is a number that increases with every fenced lock on these resources, for all clients. A protected
    /// resource rejects numbers that are smaller than the greatest one it has seen. Then a stale holder cannot write to
    /// it, however long it was paused.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let first = redlock.lock("report", ttl).fenced().await?;
    /// let earlier = first.fencing_token();
    /// first.release().await?;
    ///
    /// let second = redlock.lock("report", ttl).fenced().await?;
    /// assert!(second.fencing_token() > earlier);
    /// # Ok(()) }
    /// ```
    ///
    /// A fenced lock costs one round trip, as a plain lock does. It costs a second one if the counters of the nodes
    /// differ. They differ after a failure, or when the nodes' clocks pass from one step to the next. Fenced and plain
    /// locks exclude each other; only fenced locks are ordered.
    ///
    /// Tokens are unique and increase as long as the nodes keep their data. For nodes that lose data, see
    /// [Fencing tokens].
    ///
    /// Every node must support fencing. Otherwise the request fails with
    /// [`Unsupported`](crate::ErrorKind::Unsupported), and nothing is sent.
    ///
    /// [Fencing tokens]: https://github.com/redlock-rs/redlock/blob/main/docs/fencing.md
    pub fn fenced(mut self) -> Self {
        self.settings.mode = Mode::Fenced;
        self
    }

    /// Sets the owner label of this request, for example the ID of an HTTP request.
    ///
    /// The format and the default are those of [`Builder::owner`](crate::Builder::owner). An invalid label is an error
    /// of the kind [`InvalidInput`](crate::ErrorKind::InvalidInput) when the request is awaited.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = redlock.lock("report", ttl).owner("request-7").await?;
    /// assert_eq!(Some("request-7"), guard.fingerprint().owner());
    /// # Ok(()) }
    /// ```
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.settings.owner = Some(Owner::new(label.as_ref()));
        self
    }

    /// Runs `work` under the lock and returns its output.
    ///
    /// Waits for the lock, keeps it alive, drops the work if the lock is lost, and releases the lock. Unless
    /// [`keep_alive`](LockRequest::keep_alive) sets a limit, the lock is renewed until the work ends.
    ///
    /// `work` gets a view of the lock. It is polled in the caller's task, and the clock is read before each poll. Thus
    /// the work does not continue after a pause that outlasted the lock. The clock is read again when the work has
    /// finished.
    ///
    /// Waits for the release to complete. A failed release is logged and does not replace the output of `work`.
    ///
    /// # Blocking work
    ///
    /// Renewals run in a background task. Work that blocks its thread prevents them only if no other thread of the
    /// runtime is free: always on a single-threaded runtime. Run blocking code with `tokio::task::spawn_blocking`.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{KeepAlive, Redlock, TokioRuntime};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// let rows = redlock
    ///     .lock("report", Duration::from_secs(5))
    ///     .keep_alive(KeepAlive::new().max_hold(Duration::from_secs(3600)))
    ///     .run(|lease| async move {
    ///         assert!(lease.is_held());
    ///         42
    ///     })
    ///     .await?;
    /// assert_eq!(42, rows);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`LockRequest`] if the lock was not acquired. `work` was not called.
    /// - [`Lost`](crate::ErrorKind::Lost), with the [loss](RunError::loss), if the lock was lost before the work
    ///   finished. The work was dropped.
    /// - [`Lost`](crate::ErrorKind::Lost), with the loss and the [output](RunError::output), if the work finished but
    ///   the lock was no longer held then. It was expired, or a quorum of nodes no longer held it.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the lock is released in the background.
    pub async fn run<F, W>(self, work: F) -> Result<W::Output, RunError<W::Output>>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        let guard = self.kept_alive().begin().await.map_err(RunError::not_run)?;
        run::run(guard, work).await
    }

    /// Runs `work` under the lock, with errors of the type that `work` has.
    ///
    /// Same as [`run`](LockRequest::run) for work that returns a `Result`. The errors of the lock become errors of the
    /// work, so a single `?` handles both. The output of work that finished without the lock is dropped.
    ///
    /// The compiler infers the type of the error if the result is returned as it is. Otherwise name the type in the
    /// work, as in `Ok::<_, MyError>(rows)`.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build().unwrap();
    /// # assert_eq!(42, report(&redlock).await.unwrap());
    /// # }
    /// # async fn rebuild() -> Result<u64, std::io::Error> { Ok(42) }
    /// type Error = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// async fn report(redlock: &Redlock) -> Result<u64, Error> {
    ///     let request = redlock.lock("report", Duration::from_secs(5));
    ///     request.try_run(async |_lease| Ok(rebuild().await?)).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the work, or those of [`run`](LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](LockRequest::run).
    pub async fn try_run<T, E, F, W>(self, work: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnOnce(Lease) -> W,
        W: Future<Output = Result<T, E>>,
    {
        self.run(work).await.unwrap_or_else(|error| Err(error.into_error().into()))
    }

    /// Checks the settings. Also returns the start of the request, and the limits of its attempts.
    pub(super) fn check(self) -> Result<(CheckedRequest, Instant, RetryPolicy), Error> {
        let Self { settings, wait, attempts, retry_delay, .. } = self;
        let request = settings.check()?;
        let start = request.handle.now();
        let until = match wait.unwrap_or(Wait::For(DEFAULT_WAIT)) {
            Wait::For(wait) => Some(start + wait),
            Wait::Until(deadline) => Some(deadline),
            Wait::Unbounded => None,
        };
        Ok((request, start, RetryPolicy { until, attempts, delay: retry_delay, outlasts_outages: false }))
    }

    /// Sets how long to wait, unless the request has a limit.
    pub(super) fn wait_by_default(mut self, wait: Duration) -> Self {
        self.wait.get_or_insert(Wait::For(wait));
        self
    }

    /// Switches keep-alive on, unless it has settings.
    pub(crate) fn kept_alive(mut self) -> Self {
        self.settings.keep_alive.get_or_insert_default();
        self
    }

    /// Moves the settings out of a request that is polled for the first time.
    pub(super) fn take(&mut self) -> Self {
        Self { settings: self.settings.take(), gate: self.gate.clone(), running: None, ..*self }
    }

    /// Begins the request, unless it was polled before.
    ///
    /// The future holds the state of one kind of request, without the settings. It is small, because many tasks may
    /// wait at once.
    fn begin(mut self) -> BoxFuture<Result<Guard, Error>> {
        if let Some(running) = self.running {
            return running;
        }
        let gate = self.gate.take();
        match (self.check(), gate) {
            (Err(error), _) => Box::pin(ready(Err(error))),
            (Ok((request, start, policy)), None) => Box::pin(async move {
                let result = request.attempt_until_acquired(start, &policy).await;
                request.recorded(start, result)
            }),
            (Ok((request, start, policy)), Some(gate)) => Box::pin(async move {
                let result = write::acquire(&request, gate, start, policy).await;
                request.recorded(start, result)
            }),
        }
    }
}

impl TryLockRequest {
    pub(crate) fn new(handle: Arc<Handle>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        Self { settings: RequestSettings::new(handle, resources, ttl), running: None }
    }

    /// Renews the lock automatically once it is held.
    ///
    /// Same as [`Guard::keep_alive`]. The default is off.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// // A report takes minutes, and never longer than an hour.
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let request = redlock.try_lock("nightly-report", ttl);
    /// if let Some(guard) = request.keep_alive(settings).await? {
    ///     assert!(guard.is_held());
    /// }
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.settings.keep_alive = Some(settings);
        self
    }

    /// Adds a fencing token to the lock. Same as [`LockRequest::fenced`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let request = redlock.try_lock("orders:42", ttl).fenced();
    /// if let Some(guard) = request.await? {
    ///     let token = guard.fencing_token().expect("a fenced lock has a token");
    ///     // UPDATE orders SET fence = $1, .. WHERE id = 42 AND fence <= $1
    ///     let parameter = i64::from(token);
    /// }
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn fenced(mut self) -> Self {
        self.settings.mode = Mode::Fenced;
        self
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
    /// let request = redlock.try_lock("orders:42", ttl).owner("request-7");
    /// let guard = request.await?.expect("the lock is free");
    /// assert_eq!(Some("request-7"), guard.fingerprint().owner());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.settings.owner = Some(Owner::new(label.as_ref()));
        self
    }

    /// Runs `work` under the lock if it is free; returns `None` if it is not.
    ///
    /// Same as [`LockRequest::run`], without a wait for another holder. The lock is kept alive while the work runs, and
    /// the work is dropped if the lock is lost.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// match redlock.try_lock("report", ttl).run(async |_lease| 42).await? {
    ///     Some(rows) => println!("{rows} rows"),
    ///     None => println!("another client builds the report"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`TryLockRequest`] if the attempt failed. `work` was not called.
    /// - [`Lost`](crate::ErrorKind::Lost) in the cases of [`LockRequest::run`].
    ///
    /// # Cancel safety
    ///
    /// Same as [`LockRequest::run`].
    pub async fn run<F, W>(self, work: F) -> Result<Option<W::Output>, RunError<W::Output>>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        match self.kept_alive().begin().await.map_err(RunError::not_run)? {
            Some(guard) => run::run(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// Begins the request, unless it was polled before.
    pub(super) fn begin(self) -> BoxFuture<Result<Option<Guard>, Error>> {
        if let Some(running) = self.running {
            return running;
        }
        match self.settings.check() {
            Err(error) => Box::pin(ready(Err(error))),
            Ok(request) => Box::pin(async move { request.try_lock().await }),
        }
    }

    /// Switches keep-alive on, unless it has settings.
    pub(crate) fn kept_alive(mut self) -> Self {
        self.settings.keep_alive.get_or_insert_default();
        self
    }
}

impl Future for LockRequest {
    type Output = Result<Guard, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(running) = &mut this.running {
            return running.as_mut().poll(cx);
        }
        let request = this.take();
        this.running.insert(request.begin()).as_mut().poll(cx)
    }
}

impl Future for TryLockRequest {
    type Output = Result<Option<Guard>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(running) = &mut this.running {
            return running.as_mut().poll(cx);
        }
        let request = Self { settings: this.settings.take(), running: None };
        this.running.insert(request.begin()).as_mut().poll(cx)
    }
}
