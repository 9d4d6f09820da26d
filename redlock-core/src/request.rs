//! A lock as it is asked for: settings first, then an await.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use crate::attempts::{Attempts, DEFAULT_WAIT};
use crate::clock::Instant;
use crate::decide::backoff::Patience;
use crate::error::Error;
use crate::guard::Guard;
use crate::keepalive::KeepAlive;
use crate::lease::Lease;
use crate::owner::Owner;
use crate::resource::Resources;
use crate::run;
use crate::run_error::RunError;
use crate::runtime::BoxFuture;
use crate::shared::Presence;
use crate::ttl::Ttl;

/// A lock to be waited for: set what matters, then await it.
///
/// Waiting for someone else to let go is bounded by time: 10 s by default. The tasks that share a
/// [`Redlock`](crate::Redlock) wait in a queue of their own, and the time in it counts. Nodes that cannot be reached are not waited
/// for that long: three rounds in a row without a usable quorum end the request.
///
/// # Errors
///
/// [`Contended`](crate::ErrorKind::Contended) when the time, or the number of attempts, is up;
/// [`NoQuorum`](crate::ErrorKind::NoQuorum) when too few nodes answer; [`Expired`](crate::ErrorKind::Expired) when nodes are so slow
/// that nothing of the TTL is left; [`WrongType`](crate::ErrorKind::WrongType) when a name is used for something else;
/// [`Invalid`](crate::ErrorKind::Invalid) for a bad name, TTL or owner's label;
/// [`Unsupported`](crate::ErrorKind::Unsupported) when it is to be [fenced](LockRequest::fenced) and a node cannot;
/// [`Closed`](crate::ErrorKind::Closed) after [`close`](crate::Redlock::close).
///
/// # Cancel safety
///
/// Dropped at any await, whatever was sent is undone on all nodes in the background. Nothing is sent before the first
/// poll.
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest {
    attempt: Attempt,
    wait: Wait,
    attempts: Option<u32>,
    retry_delay: Duration,
}

/// One attempt at a lock, to be awaited: the guard, or `None` when someone else has the lock.
///
/// # Errors
///
/// As of [`LockRequest`], but [`Contended`](crate::ErrorKind::Contended): that is `Ok(None)`.
///
/// # Cancel safety
///
/// Dropped at any await, whatever was sent is undone on all nodes in the background. Nothing is sent before the first
/// poll.
#[must_use = "a request does nothing until it is awaited"]
pub struct TryLockRequest {
    attempt: Attempt,
}

/// What every attempt of a request is made with, as it was given.
struct Attempt {
    presence: Arc<Presence>,
    resources: Result<Resources, Error>,
    ttl: Duration,
    /// Instead of the builder's.
    owner: Option<Result<Owner, Error>>,
    keep_alive: Option<KeepAlive>,
    fenced: bool,
}

impl Attempt {
    fn new(presence: Arc<Presence>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        Self { presence, resources, ttl, owner: None, keep_alive: None, fenced: false }
    }

    fn check(self) -> Result<Attempts, Error> {
        let Self { presence, resources, ttl, owner, keep_alive, fenced } = self;
        let (resources, ttl, owner) = (resources?, Ttl::new(ttl)?, owner.transpose()?);
        presence.check_names(&resources)?;
        if fenced {
            presence.check_fencing()?;
        }
        Ok(Attempts { presence, resources, ttl, fenced, owner, keep_alive })
    }
}

#[derive(Clone, Copy)]
enum Wait {
    For(Duration),
    Until(Instant),
    ForEver,
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt: Attempt { resources, ttl, .. }, .. } = self;
        f.debug_struct("LockRequest").field("resources", resources).field("ttl", ttl).finish_non_exhaustive()
    }
}

impl fmt::Debug for TryLockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { resources, ttl, .. } = &self.attempt;
        f.debug_struct("TryLockRequest").field("resources", resources).field("ttl", ttl).finish()
    }
}

impl LockRequest {
    pub(crate) fn new(presence: Arc<Presence>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        let retry_delay = presence.settings.retry_delay;
        let attempt = Attempt::new(presence, resources, ttl);
        Self { attempt, wait: Wait::For(DEFAULT_WAIT), attempts: None, retry_delay }
    }

    /// Waits so long for someone else to let go, from the first poll on. No attempt begins after that; zero is one
    /// attempt. 10 s if not set. If too many attempts are [in flight](crate::Builder::max_concurrent_attempts), the first attempt
    /// waits for its turn at least as long as the node timeout, and the request fails with
    /// [`Overloaded`](crate::ErrorKind::Overloaded) if it does not come.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Wait::For(wait);
        self
    }

    /// Waits until `deadline`, a time on [`Redlock::now`](crate::Redlock::now)'s clock: one deadline for several steps.
    /// One that has passed is one attempt.
    pub fn wait_until(mut self, deadline: Instant) -> Self {
        self.wait = Wait::Until(deadline);
        self
    }

    /// Waits however long someone else has the lock. Three rounds in a row without a usable quorum end the request all the
    /// same.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Wait::ForEver;
        self
    }

    /// Ends after so many attempts, at least one, [a delay](LockRequest::retry_delay) apart, if the [wait](LockRequest::wait)
    /// is not over before. Attempts that nodes bring about before a delay is over, by telling that the lock may be free,
    /// come on top and use up none. Not bounded if not set: the time is.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// The longest delay between two attempts where nodes do not tell when to try, as of
    /// [`Builder::retry_delay`](crate::Builder::retry_delay), which counts if this is not set. Each is random between half
    /// of it and the whole, and at least 1 ms.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Keeps the lock alive once it is held, as [`Guard::keep_alive`] does.
    pub fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.attempt.keep_alive = Some(settings);
        self
    }

    /// Has the lock carry a [fencing token](Lease::fencing_token): a number that grows with every fenced lock on these
    /// resources, whoever takes it. A resource that refuses smaller numbers than it has seen cannot be written by a holder
    /// that comes too late, however long it was paused.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{LockNode, Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
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
    /// It costs one round trip, as a plain lock does, and a second one where the nodes' counters differ: after a failure, or
    /// when their clocks pass from one step to the next. Fenced and plain locks exclude each other; only fenced ones are
    /// ordered. Numbers stay unique and grow as long as the nodes keep their data; the chapter on fencing says what else
    /// it takes where they do not.
    ///
    /// Every node must be able to, or nothing is sent: [`Unsupported`](crate::ErrorKind::Unsupported).
    pub fn fenced(mut self) -> Self {
        self.attempt.fenced = true;
        self
    }

    /// Who locks, for people, such as the request that is being served: a label as of
    /// [`Builder::owner`](crate::Builder::owner), which counts if this is not set. One that is no label is
    /// [`Invalid`](crate::ErrorKind::Invalid) when the request is awaited.
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.attempt.owner = Some(Owner::new(label.as_ref()));
        self
    }

    /// Runs `work` under the lock and returns its output.
    ///
    /// Waits for the lock, keeps it alive, drops the work when the lock is lost, and releases the lock. Unless
    /// [`keep_alive`](LockRequest::keep_alive) sets a limit, the lock is renewed until the work ends.
    ///
    /// `work` gets a view of the lock. It is polled in the caller's task, and the clock is read before each poll: so the
    /// work does not continue after a pause that outlasted the lock. The clock is read again when the work has finished.
    ///
    /// Waits for the release to complete. A failed release is logged and does not replace the output of `work`.
    ///
    /// # Blocking work
    ///
    /// Renewals run in a background task. Work that blocks its thread prevents them only if no other thread of the runtime
    /// is free: always on a single-threaded runtime. Run blocking code with `tokio::task::spawn_blocking`.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::sync::Arc;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{KeepAlive, LockNode, Redlock, TokioRuntime};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let nodes = ["a", "b", "c"].map(|label| Arc::new(MemoryNode::new(label)) as Arc<dyn LockNode>);
    /// # let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build()?;
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
    /// - [`Lost`](crate::ErrorKind::Lost), with the [loss](RunError::loss), if the lock was lost before the work finished.
    ///   The work was dropped.
    /// - [`Lost`](crate::ErrorKind::Lost), with the loss and the [output](RunError::output), if the work finished but the
    ///   lock was no longer held then: it had expired, or a quorum of nodes no longer had it.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the lock is released in the background.
    pub async fn run<F, W>(mut self, work: F) -> Result<W::Output, RunError<W::Output>>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        self.attempt.keep_alive.get_or_insert_default();
        let guard = self.acquire().await.map_err(RunError::not_run)?;
        run::run(guard, work).await
    }

    async fn acquire(self) -> Result<Guard, Error> {
        let Self { attempt, wait, attempts, retry_delay } = self;
        let attempt = attempt.check()?;
        let asked = attempt.presence.now();
        let until = match wait {
            Wait::For(wait) => Some(asked + wait),
            Wait::Until(deadline) => Some(deadline),
            Wait::ForEver => None,
        };
        attempt.until_taken(asked, &Patience { until, attempts, delay: retry_delay }).await
    }
}

impl TryLockRequest {
    pub(crate) fn new(presence: Arc<Presence>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        Self { attempt: Attempt::new(presence, resources, ttl) }
    }

    /// Keeps the lock alive once it is held, as [`Guard::keep_alive`] does.
    pub fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.attempt.keep_alive = Some(settings);
        self
    }

    /// Has the lock carry a fencing token: as of [`LockRequest::fenced`].
    pub fn fenced(mut self) -> Self {
        self.attempt.fenced = true;
        self
    }

    /// Who locks, for people: as of [`LockRequest::owner`].
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.attempt.owner = Some(Owner::new(label.as_ref()));
        self
    }

    async fn acquire(self) -> Result<Option<Guard>, Error> {
        self.attempt.check()?.once().await
    }
}

impl IntoFuture for LockRequest {
    type Output = Result<Guard, Error>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

impl IntoFuture for TryLockRequest {
    type Output = Result<Option<Guard>, Error>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}
