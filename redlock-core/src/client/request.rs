//! Lock requests: options first, then `.await`.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use crate::client::attempts::{CheckedRequest, DEFAULT_WAIT};
use crate::client::guard::Guard;
use crate::client::handle::Handle;
use crate::client::keep_alive::KeepAlive;
use crate::client::kind::{Exclusive, Fenceable, Fenced, Kind};
use crate::client::lease::Lease;
use crate::client::run_error::RunError;
use crate::decide::backoff::RetryPolicy;
use crate::decide::grace::Grace;
use crate::decide::lease_status::LEAST_MARGIN;
use crate::lease::mode::Mode;
use crate::runtime::{BoxFuture, let_others_run};
use crate::telemetry::Counted;
use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::owner::Owner;
use crate::types::resource::Resource;
use crate::types::ttl::Ttl;

/// A lock request: set options, then `.await` it to acquire the lock.
///
/// It becomes a future with `.await`. Pass [`into_future`](IntoFuture::into_future) to functions that take a future, such
/// as `tokio::spawn`. `K` is the [kind](crate::kind) of the lock; all kinds have the same options.
///
/// The request waits while another client holds the lock, for up to 10 s by default. Tasks that share a
/// [`Redlock`](crate::Redlock) first wait in a queue of this process, and that time counts. Unreachable nodes end the
/// request sooner: it fails after three attempts in a row without a usable quorum.
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
/// - [`DamagedCounter`](crate::ErrorKind::DamagedCounter) if the lock is [fenced](LockRequest::fenced) and too many
///   nodes have a damaged fencing counter.
/// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if a name, the TTL or the owner label is invalid.
/// - [`Unsupported`](crate::ErrorKind::Unsupported) if the lock is [fenced](LockRequest::fenced) and a node does not
///   support it.
/// - [`Closed`](crate::ErrorKind::Closed) after [`close`](crate::Redlock::close).
///
/// # Cancel safety
///
/// If this future is dropped, the library cleans up all that it sent, on all nodes and in the background. Nothing is
/// sent before the first poll.
#[derive(Clone)]
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest<K: Kind = Exclusive> {
    handle: Arc<Handle>,
    kind: Result<K, Error>,
    ttl: Duration,
    /// Replaces the label of the builder.
    owner: Option<Result<Owner, Error>>,
    keep_alive: Option<KeepAlive>,
    grace: Duration,
    label: Option<&'static str>,
    /// The default of the use applies if this is not set.
    wait: Option<Wait>,
    attempts: Option<u32>,
    retry_delay: Duration,
}

#[derive(Clone, Copy)]
enum Wait {
    For(Duration),
    Until(Instant),
    Unbounded,
}

impl<K: Kind> fmt::Debug for LockRequest<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, ttl, .. } = self;
        f.debug_struct("LockRequest").field("kind", kind).field("ttl", ttl).finish_non_exhaustive()
    }
}

impl<K: Kind> LockRequest<K> {
    pub(crate) fn new(handle: Arc<Handle>, kind: Result<K, Error>, ttl: Duration) -> Self {
        let retry_delay = handle.settings.retry_delay;
        let (owner, keep_alive, grace, label) = (None, None, Duration::ZERO, None);
        let (wait, attempts) = (None, None);
        Self { handle, kind, ttl, owner, keep_alive, grace, label, wait, attempts, retry_delay }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Returns a resource that every holder of this lock holds.
    pub(super) fn common_resource(&self) -> Result<Resource, Error> {
        self.kind.as_ref().map_err(Clone::clone)?.common_resource()
    }

    fn of_kind<L: Kind>(self, of: impl FnOnce(K) -> L) -> LockRequest<L> {
        let Self { handle, kind, ttl, owner, keep_alive, grace, label, wait, attempts, retry_delay } = self;
        LockRequest {
            handle,
            kind: kind.map(of),
            ttl,
            owner,
            keep_alive,
            grace,
            label,
            wait,
            attempts,
            retry_delay,
        }
    }

    /// Sets how long to wait while another client holds the lock.
    ///
    /// The default is 10 s, measured from the first poll. No attempt starts after that. `Duration::ZERO` makes a single
    /// attempt, which is repeated only while the votes are [split](LockRequest::try_now).
    ///
    /// If too many attempts are [in flight](crate::Builder::max_concurrent_attempts), the first attempt waits for its
    /// turn for at least the node timeout. If its turn does not come, the request fails with
    /// [`Overloaded`](crate::ErrorKind::Overloaded).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).await?;
    ///
    /// let request = redlock.lock("report", ttl);
    /// let result = request.max_wait(Duration::from_millis(5)).await;
    /// assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    /// # });
    /// ```
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Sets a deadline for the wait, on the clock of [`Redlock::now`].
    ///
    /// It replaces [`max_wait`](LockRequest::max_wait), so that one deadline can limit several steps. A deadline that
    /// has passed makes a single attempt, which is repeated only while the votes are [split](LockRequest::try_now).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let deadline = redlock.now() + Duration::from_secs(2);
    /// let invoice = redlock.lock("invoice:42", ttl).wait_until(deadline).await?;
    /// let account = redlock.lock("account:7", ttl).wait_until(deadline).await?;
    /// # });
    /// ```
    ///
    /// [`Redlock::now`]: crate::Redlock::now
    pub fn wait_until(mut self, deadline: Instant) -> Self {
        self.wait = Some(Wait::Until(deadline));
        self
    }

    /// Waits as long as another client holds the lock.
    ///
    /// Three attempts in a row without a usable quorum still end the request.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = loop {
    ///     match redlock.lock("report", ttl).wait_unbounded().await {
    ///         // Retries during an outage of the nodes.
    ///         Err(error) if error.kind() == ErrorKind::NoQuorum => continue,
    ///         result => break result?,
    ///     }
    /// };
    /// # });
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
    /// waiting time is used up. [`try_now`](LockRequest::try_now) does not wait.
    ///
    /// A [writer](crate::RwLock::write) that has to wait makes up to this number of attempts for the gate, and then up
    /// to this number for the lock. With [`lead`](LockRequest::lead), the candidate requests the lock again after the
    /// last attempt.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock
    ///     .lock("report", ttl)
    ///     .max_attempts(3)
    ///     .retry_delay(Duration::from_millis(50))
    ///     .await?;
    /// # });
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
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// // The first attempt fails, and the next one follows soon.
    /// faulty.inject(Fault::unavailable().once());
    /// let request = redlock.lock("orders:42", ttl);
    /// let guard = request.retry_delay(Duration::from_millis(10)).await?;
    /// assert_eq!(2, faulty.request_count(Operation::Acquire));
    /// # });
    /// ```
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Renews the lock automatically once it is held.
    ///
    /// Same as [`Guard::keep_alive`]. The default is off, except for [`run`](LockRequest::run),
    /// [`once_per`](LockRequest::once_per) and [`lead`](LockRequest::lead).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let settings = KeepAlive::new().max_hold(Duration::from_secs(3600));
    /// let guard = redlock.lock("report", ttl).keep_alive(settings).await?;
    /// # });
    /// ```
    pub fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.keep_alive = Some(settings);
        self
    }

    /// Sets how long the work has to finish before the lock is lost. The default is zero.
    ///
    /// When the lock will be lost within this period, [`Lease::ending`] is ready, and the work can stop in an orderly
    /// way. The lock is not renewed any more then. At the loss, [`run`](LockRequest::run) drops the work, as without a
    /// grace period. This happens if the nodes cannot be reached for long, and before the end of
    /// [`max_hold`](KeepAlive::max_hold).
    ///
    /// An attempt that succeeds so late that the grace period is not left counts as failed. No grace period helps if
    /// this process is suspended, or if a quorum reports that the keys are gone.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let work = async |lease: Lease| {
    ///     lease.ending().await;
    ///     "stored the position"
    /// };
    /// let end = KeepAlive::new().max_hold(Duration::from_secs(1));
    /// let request = redlock.lock("report", Duration::from_secs(1)).keep_alive(end);
    /// assert_eq!("stored the position", request.grace(Duration::from_millis(200)).run(work).await?);
    /// # });
    /// ```
    ///
    /// The period and a fiftieth of the TTL must not exceed a third of the TTL, so that renewals have time to be
    /// repeated. Otherwise the request fails with [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is awaited,
    /// and names the shortest TTL that allows the period. [`Grace`](crate::supervise::Grace) has the exact rule.
    pub fn grace(mut self, period: Duration) -> Self {
        self.grace = period;
        self
    }

    /// Sets the owner label of this request, for example the ID of an HTTP request.
    ///
    /// The format and the default are those of [`Builder::owner`](crate::Builder::owner). An invalid label is an error
    /// of the kind [`InvalidInput`](crate::ErrorKind::InvalidInput) when the request is awaited.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).owner("request-7").await?;
    /// assert_eq!(Some("request-7"), guard.fingerprint().owner());
    /// # });
    /// ```
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.owner = Some(Owner::new(label.as_ref()));
        self
    }

    /// Sets the value of `label` in the metrics of this request and its lock. The default is no label.
    ///
    /// Metrics have no label for the resource, because there may be millions. A label names the use instead, such as
    /// `invoices`. It has an effect only with the feature `metrics`, and in the event `request completed`.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// // redlock_wait_seconds{label="invoices"}
    /// let guard = redlock.lock("invoice:42", ttl).label("invoices").await?;
    /// # });
    /// ```
    pub fn label(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    /// Makes a single attempt, and returns `None` if another client or task holds the lock.
    ///
    /// `None` has one of three meanings. To wait for a limited time instead, use [`max_wait`](LockRequest::max_wait).
    ///
    /// - A quorum of nodes named another client as the holder.
    /// - The lock is free, but [reserved] for another client that has waited longer.
    /// - A task of this process holds the lock or is ahead in the queue.
    ///
    /// If too many attempts are [in flight](crate::Builder::max_concurrent_attempts), the attempt first waits for its
    /// turn: up to 10 s for an exclusive or a write lock, and one node timeout for the other kinds. If its turn does
    /// not come, the request fails with [`Overloaded`](crate::ErrorKind::Overloaded).
    ///
    /// If several clients attempt at the same moment, each may get too few votes. Then no client holds the lock, and the
    /// attempt is repeated up to 12 times, with growing random delays. Usually the second or third attempt decides. The
    /// delays take at most 1.6 s in total. Each attempt takes at most one node timeout, or two if the lock is fenced.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let request = redlock.lock("nightly", ttl).keep_alive(KeepAlive::new());
    /// if let Some(guard) = request.try_now().await? {
    ///     // Only one client at a time runs this.
    ///     guard.release().await?;
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`LockRequest`], except [`Contended`](crate::ErrorKind::Contended), which is `Ok(None)`.
    /// [`Undecided`](crate::ErrorKind::Undecided) means that the votes were split in each of the attempts.
    ///
    /// [reserved]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md#order-of-waiters
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the library cleans up all that it sent, on all nodes and in the background. Nothing is
    /// sent before the first poll.
    pub async fn try_now(self) -> Result<Option<Guard<K>>, Error> {
        let (kind, request, start, policy) = self.max_wait(Duration::ZERO).check()?;
        let acquired = kind.try_acquire(&request, start, policy).await;
        if !matches!(acquired, Ok(Some(_))) {
            // The request may not have waited at all. If the caller tries again at once, other tasks must run, the holder
            // among them.
            let_others_run().await;
        }
        Ok(acquired?.map(|(held, extra)| Guard::new(held, extra)))
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
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// use std::time::Duration;
    ///
    /// let rows = redlock
    ///     .lock("report", Duration::from_secs(5))
    ///     .keep_alive(KeepAlive::new().max_hold(Duration::from_secs(3600)))
    ///     .run(|lease| async move {
    ///         assert!(lease.is_held());
    ///         42
    ///     })
    ///     .await?;
    /// assert_eq!(42, rows);
    /// # });
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
        let guard = self.kept_alive().await.map_err(RunError::not_run)?;
        guard.run(work).await
    }

    /// Checks the request. Returns what each attempt needs, the start, and the limits.
    pub(super) fn check(self) -> Result<(K, CheckedRequest, Instant, RetryPolicy), Error> {
        let Self { handle, kind, ttl, owner, keep_alive, grace, label, wait, attempts, retry_delay } = self;
        let kind = kind?;
        let (resources, mode) = (kind.resources()?, kind.mode());
        let (ttl, owner) = (handle.check_ttl(Ttl::new(ttl)?)?, owner.transpose()?);
        let grace =
            (!grace.is_zero()).then(|| Grace::new(ttl.as_duration(), grace, LEAST_MARGIN)).transpose()?;
        handle.check_call(&resources)?;
        let together = resources.with_gate(mode.gate());
        if together.len() > 1 && kind.is_one_claim() {
            handle.check_together(&together)?;
        }
        match &mode {
            Mode::Exclusive => {}
            Mode::Fenced => handle.check_fencing()?,
            Mode::Shared { gate } => handle.check_sharing(gate)?,
        }
        let start = handle.now();
        let until = match wait.unwrap_or(Wait::For(DEFAULT_WAIT)) {
            Wait::For(wait) => Some(start + wait),
            Wait::Until(deadline) => Some(deadline),
            Wait::Unbounded => None,
        };
        let policy = RetryPolicy { until, attempts, delay: retry_delay, outlasts_outages: false };
        let request = CheckedRequest { handle, resources, ttl, mode, owner, keep_alive, grace, label };
        Ok((kind, request, start, policy))
    }

    /// Sets how long to wait, unless it is set already.
    pub(super) fn wait_by_default(mut self, wait: Duration) -> Self {
        self.wait.get_or_insert(Wait::For(wait));
        self
    }

    /// Switches keep-alive on, unless it has settings.
    pub(crate) fn kept_alive(mut self) -> Self {
        self.keep_alive.get_or_insert_default();
        self
    }

    async fn acquire(self) -> Result<Guard<K>, Error> {
        let _pending = Counted::request(self.label);
        let (kind, request, start, policy) = self.check()?;
        let acquired = kind.acquire(&request, start, policy).await;
        request.recorded(start, acquired).map(|(held, extra)| Guard::new(held, extra))
    }
}

impl<K: Fenceable> LockRequest<K> {
    /// Adds a [fencing token](Guard::token) to the lock.
    ///
    /// The token is a number that increases with every fenced lock on these resources, for all clients. A protected
    /// resource rejects numbers that are smaller than the greatest one it has seen. Then a stale holder cannot write to
    /// it, however long it was paused.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let first = redlock.lock("report", ttl).fenced().await?;
    /// let earlier = first.token();
    /// first.release().await?;
    ///
    /// let second = redlock.lock("report", ttl).fenced().await?;
    /// assert!(second.token() > earlier);
    /// # });
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
    pub fn fenced(self) -> LockRequest<Fenced<K>> {
        self.of_kind(Fenced)
    }
}

impl<K: Kind> IntoFuture for LockRequest<K> {
    type Output = Result<Guard<K>, Error>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}
