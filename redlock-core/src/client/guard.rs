//! The guard, which owns a lock.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::client::held::Held;
use crate::client::keep_alive::{self, KeepAlive};
use crate::client::kind::{Exclusive, Fenceable, Fenced, Indexed, Kind, Owned};
use crate::client::lease::Lease;
use crate::round::engine::run;
use crate::round::keep::Keep;
use crate::round::release;
use crate::telemetry::{self, Counted};
use crate::types::claim::Claim;
use crate::types::detached::DetachedLease;
use crate::types::error::{Error, ErrorKind};
use crate::types::report::ReleaseOutcome;
use crate::types::token::Token;

/// A guard that releases its lock on [`release`](Guard::release) or on drop.
///
/// It derefs to its [`Lease`]. To get a view for another task, call [`lease`](Guard::lease), or write
/// `Lease::clone(&guard)`. A guard itself cannot be cloned.
///
/// # Drop behavior
///
/// Drop hands the release to the runtime and returns. It neither waits nor panics, on any thread, inside or outside a
/// runtime. Only a custom [`Runtime`](crate::runtime::Runtime) that panics can make it panic, and not during another
/// panic. If the runtime has shut down, nothing is sent, and the keys are left to their TTL.
///
/// Call [`release`](Guard::release) to get the outcome. Call [`close`](crate::Redlock::close) to wait for releases that
/// drops have started. If the process ends right after the drop, the keys nearly always remain until their TTL expires:
/// see [Short programs].
///
/// [Short programs]: https://github.com/redlock-rs/redlock/blob/main/docs/patterns.md#short-programs
#[must_use = "the lock is released as soon as the guard is dropped; bind it as `let _guard`, since `let _` drops it at once"]
pub struct Guard<K: Kind = Exclusive> {
    held: Held,
    /// What this kind of guard knows beyond its lease.
    extra: K::Extra,
    counted: Counted,
}

impl<K: Kind> Guard<K> {
    /// Releases the lock on all nodes.
    ///
    /// Returns once a quorum has confirmed; the remaining requests continue in the background. If the process ends
    /// earlier, keys may remain on a minority of the nodes until their TTL expires. [`close`](crate::Redlock::close)
    /// waits for these requests. If the lock expired or was lost before, that is an outcome, not an error.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("report", ttl).await?;
    /// match guard.release().await? {
    ///     ReleaseOutcome::Released => println!("held until now"),
    ///     // Another client may have held the lock since.
    ///     outcome => println!("too late: {outcome:?}"),
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied. The release is then repeated in the
    /// background until the nodes reply.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the release continues in the background.
    pub async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        self.held.released = true;
        let lease = &self.held.lease;
        release::begin(&lease.handle, &lease.record).await.map_err(|failure| lease.error(failure))
    }

    /// Renews the lock automatically from now on, in a background task.
    ///
    /// The task renews the lock until it is released, dropped, forgotten, detached or lost, or a limit of `settings` is
    /// reached. It replaces an earlier keep-alive.
    ///
    /// The task starts when the caller next awaits something. Until then, blocking the thread may prevent renewals even
    /// if other threads of the runtime are free. [`LockRequest::keep_alive`](crate::LockRequest::keep_alive) has
    /// started the task by the time the request returns.
    ///
    /// A renewal to which too few nodes replied is retried while validity is left. None follows one that can no longer
    /// succeed: the lock is lost, or [superseded](crate::ErrorKind::Superseded). The lease's [`state`](Lease::state)
    /// shows the progress, and [`lost`](Lease::lost) reports the loss.
    ///
    /// When the validity has ended, the task deletes the keys, even if the guard still exists. Nodes may have carried out
    /// a renewal that failed, and would deny other clients for up to a TTL more.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).await?;
    /// guard.keep_alive(KeepAlive::new().max_hold(Duration::from_secs(3600)));
    /// # });
    /// ```
    pub fn keep_alive(&self, settings: KeepAlive) {
        keep_alive::keep_alive(self, settings);
    }

    /// Keeps the lock until its validity ends, without a release.
    ///
    /// Other clients are excluded for the whole TTL, and keep-alive stops. Use this for work that must run at most once
    /// per TTL across all clients.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// if let Some(guard) = redlock.lock("cleanup", ttl).try_now().await? {
    ///     guard.forget();
    ///     // At most one client runs this within the TTL.
    /// }
    /// assert!(redlock.lock("cleanup", ttl).try_now().await?.is_none());
    /// # });
    /// ```
    pub fn forget(mut self) -> Lease {
        self.held.released = true;
        self.record.next_epoch();
        self.lease()
    }

    /// Returns a view of the lock that outlives the guard, for other tasks.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let guard = redlock.lock("report", ttl).await?;
    /// let lease = guard.lease();
    /// tokio::spawn(async move {
    ///     println!("the lock ended: {}", lease.lost().await);
    /// });
    /// # Ok(()) }
    /// ```
    pub fn lease(&self) -> Lease {
        self.held.lease.clone()
    }

    pub(crate) fn new(held: Held, extra: K::Extra) -> Self {
        Self::counted_as(K::NAME, held, extra)
    }

    /// Creates a guard that metrics count as one of this kind.
    pub(crate) fn counted_as(kind: &'static str, held: Held, extra: K::Extra) -> Self {
        let counted = Counted::guard(kind, &held.lease.record.claim);
        Self { held, extra, counted }
    }
}

impl<K: Owned> Guard<K> {
    /// Keeps the lock for `rest` from now on, and consumes the guard.
    ///
    /// Renewals end. Then the keys get this time to live on all nodes, even if it is shorter than before. Use it after
    /// a job that is to run once a period: see [Patterns]. On this side the lock counts as
    /// [lost](crate::Loss::Detached).
    ///
    /// `rest` is at least 10 ms, and at most 24 days less one second. The keys live at least this long even on servers
    /// whose clocks are fast by the [clock drift factor](crate::Builder::clock_drift_factor), or by 500 ms in all, if
    /// that is less. Returns once a quorum has confirmed. The remaining requests continue in the background.
    ///
    /// Writes of the lock that are still in flight are awaited first, for at most two node timeouts. A key may still
    /// live for up to its TTL in two cases: the outcome of such a write stays unknown, or the connection of a renewal
    /// in flight breaks.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let request = redlock.lock("nightly", Duration::from_secs(30)).keep_alive(KeepAlive::new());
    /// if let Some(guard) = request.try_now().await? {
    ///     // ... the job, then no other run for the rest of the period:
    ///     guard.keep_for(Duration::from_secs(21 * 3600)).await?;
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// If nothing was sent to the nodes yet, the lock is released. Otherwise, the keys are left to their TTL.
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if `rest` is out of these bounds.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if a node does not support it.
    /// - [`Lost`](crate::ErrorKind::Lost) if the lock is no longer held.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped while it waits for writes in flight, the lock is released in the background. If it is
    /// dropped later, the requests continue in the background.
    ///
    /// [Patterns]: https://github.com/redlock-rs/redlock/blob/main/docs/patterns.md
    pub async fn keep_for(self, rest: Duration) -> Result<(), Error> {
        let lease = self.lease();
        let (handle, record) = (&lease.handle, &lease.record);
        let ttl = handle.rules.drift.kept_ttl(rest)?;
        handle.check_keep()?;
        // The lock may also be lost after the check.
        if !self.is_held() || !self.end_here().await {
            let resources = record.claim.all_resources();
            let message = format!("cannot keep the lock on {resources}: it is no longer held");
            return Err(Error::new(ErrorKind::Lost, message));
        }
        let (start, limit) = (handle.now(), handle.rules.node_timeout.min(ttl.as_duration()));
        let round = Keep::new(handle.rules, record.claim.clone(), ttl, start);
        let kept = run(handle, round, start, limit, telemetry::extension(&record.claim)).await;
        kept.map_err(|failure| lease.error(failure))
    }

    /// Detaches the lock, so that another task, process or machine can resume it.
    ///
    /// The other side continues with [`Redlock::resume`]. Keep-alive stops, and the keys keep the rest of their TTL. On
    /// this side the lock counts as [lost](crate::Loss::Detached).
    ///
    /// Waits for writes of the acquisition and of refills that are still in flight, for at most two node timeouts. If
    /// the outcome of a write stays unknown, it is not cleaned up, because that could delete the resumed lock. Its key
    /// expires with its TTL.
    ///
    /// If [keep-alive](Guard::keep_alive) has begun to delete the keys of a lost lock, the detached lease has a new token,
    /// and can never be resumed. With the old token, the process that resumes it would lose its lock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).await?;
    /// let detached = guard.detach().await;
    /// // Send it to another process. It is a secret.
    /// let guard = redlock.resume(&detached).await?;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it completes, the lock is released in the background.
    ///
    /// [`Redlock::resume`]: crate::Redlock::resume
    pub async fn detach(self) -> DetachedLease {
        let lease = self.lease();
        let is_complete = self.end_here().await;
        let mut detached = lease.record.detached();
        if !is_complete {
            let token = Token::random(|bytes| lease.handle.runtime.fill_random(bytes), None);
            detached.claim = Claim::new(detached.claim.all_resources().clone(), token);
        }
        detached
    }

    /// Ends the lease here without a release, and waits for its writes.
    ///
    /// Returns `false` if it was lost before, and its keys are being deleted.
    async fn end_here(mut self) -> bool {
        let Lease { handle, record } = &self.held.lease;
        let now = handle.now();
        let is_complete = record.detach(now);
        // Two timeouts, because a delayed process gives its requests slightly more time than one.
        self.writes_ended(now + 2 * handle.rules.node_timeout).await;
        self.held.released = true;
        is_complete
    }

    /// Returns the guard without what its kind knows, for code that handles several kinds.
    ///
    /// The token of a fenced lock is still that of the [lease](Lease::fencing_token). Call [`index`](Guard::index) of a
    /// slot before.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let fenced = true;
    /// let request = redlock.lock("orders:42", ttl);
    /// let guard: Guard = if fenced { request.fenced().await?.into_any() } else { request.await? };
    /// assert!(guard.fencing_token().is_some());
    /// # });
    /// ```
    pub fn into_any(self) -> Guard {
        Guard { held: self.held, extra: (), counted: self.counted }
    }
}

impl<K: Fenceable> Guard<Fenced<K>> {
    /// Returns the [fencing token](crate::FencingToken). That of a slot is a [`SlotToken`](crate::SlotToken).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let first = redlock.lock("report", ttl).fenced().await?;
    /// let earlier = first.token();
    /// first.release().await?;
    ///
    /// assert!(redlock.lock("report", ttl).fenced().await?.token() > earlier);
    /// # });
    /// ```
    #[allow(clippy::missing_panics_doc)] // a fenced attempt is not won without a token
    pub fn token(&self) -> K::Token {
        let number = self.fencing_token().expect("a fenced lock has a token");
        K::token(&self.resources()[0], number)
    }
}

impl<K: Indexed> Guard<K> {
    /// Returns the index of the slot, from 0.
    ///
    /// No other client holds the same index at the same time. Use it, for example, to choose one of K ports or
    /// directories.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let slots = redlock.slots("browsers", 3)?;
    /// let (one, other) = (slots.acquire(ttl).await?, slots.acquire(ttl).await?);
    /// assert_ne!(9222 + one.index(), 9222 + other.index(), "each browser has a separate port");
    /// # });
    /// ```
    pub fn index(&self) -> usize {
        self.extra
    }
}

impl<K: Kind> Deref for Guard<K> {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.held.lease
    }
}

impl<K: Kind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("lease", &self.held.lease).finish_non_exhaustive()
    }
}
