//! A lock as it is asked for: settings first, then an await.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::acquire;
use crate::clock::Instant;
use crate::decide::backoff::{Backoff, Patience, Setback};
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::keepalive::KeepAlive;
use crate::lease::Lease;
use crate::observe;
use crate::owner::Owner;
use crate::report::NodeReports;
use crate::resource::Resources;
use crate::run;
use crate::runtime::{BoxFuture, random, sleep_until_or};
use crate::shared::{Presence, Shared};
use crate::ttl::Ttl;
use crate::wait::Place;

/// How long a request waits for a lock that someone else has, unless told otherwise: long enough for a short critical
/// section or two, short enough for the request that a user waits for.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// A lock to be waited for: set what matters, then await it.
///
/// Waiting for someone else to let go is bounded by time: 10 s by default. The tasks that share a
/// [`Redlock`](crate::Redlock) wait in a queue of their own, and the time in it counts. Nodes that cannot be reached are not waited
/// for that long: three rounds in a row without a usable quorum end the request.
///
/// # Errors
///
/// [`Contended`](ErrorKind::Contended) when the time, or the number of attempts, is up;
/// [`NoQuorum`](ErrorKind::NoQuorum) when too few nodes answer; [`Expired`](ErrorKind::Expired) when nodes are so slow
/// that nothing of the TTL is left; [`WrongType`](ErrorKind::WrongType) when a name is used for something else;
/// [`Invalid`](ErrorKind::Invalid) for a bad argument;
/// [`Closed`](ErrorKind::Closed) after [`close`](crate::Redlock::close).
///
/// # Cancel safety
///
/// Dropped at any await, whatever was sent is undone on all nodes in the background.
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
/// As of [`LockRequest`], but [`Contended`](ErrorKind::Contended): that is `Ok(None)`.
///
/// # Cancel safety
///
/// Dropped at any await, whatever was sent is undone on all nodes in the background.
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
}

/// The same, checked.
struct Attempts {
    presence: Arc<Presence>,
    resources: Resources,
    ttl: Ttl,
    owner: Option<Owner>,
    keep_alive: Option<KeepAlive>,
}

impl Attempt {
    fn new(presence: Arc<Presence>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        Self { presence, resources, ttl, owner: None, keep_alive: None }
    }

    fn check(self) -> Result<Attempts, Error> {
        let Self { presence, resources, ttl, owner, keep_alive } = self;
        let (resources, ttl, owner) = (resources?, Ttl::new(ttl)?, owner.transpose()?);
        Ok(Attempts { presence, resources, ttl, owner, keep_alive })
    }
}

impl Attempts {
    /// A place in the queues of this process; `None` where there are none.
    fn place(&self) -> Option<Place> {
        let shared: &Arc<Shared> = &self.presence;
        shared.settings.local_queue.then(|| Place::new(Arc::clone(shared), self.resources.clone()))
    }

    async fn make(&self) -> Result<Guard, Error> {
        acquire::attempt(&self.presence, &self.resources, self.ttl, self.owner.as_ref()).await
    }

    /// The lock was taken.
    fn taken(&self, guard: Guard, place: Option<Place>) -> Guard {
        if let Some(place) = place {
            guard.keep_place(place);
        }
        if let Some(settings) = self.keep_alive {
            guard.keep_alive(settings);
        }
        guard
    }
}

impl Attempts {
    /// Makes one attempt, unless another task of this process has the lock or waits for it. `None`: it is taken.
    async fn once(&self) -> Result<Option<Guard>, Error> {
        let mut place = self.place();
        if self.presence.is_closed() {
            return Err(Error::closed());
        }
        if place.as_mut().is_some_and(|place| !place.try_turn()) {
            return Ok(None);
        }
        match self.make().await {
            Ok(guard) => Ok(Some(self.taken(guard, place))),
            Err(error) if error.kind() == ErrorKind::Contended => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes attempts, in turn with other tasks of this process, until one succeeds or the patience is over.
    async fn until_taken(&self, patience: Patience) -> Result<Guard, Error> {
        let presence = &self.presence;
        let mut place = self.place();
        if let Some(place) = &mut place {
            if !in_turn(presence, place, patience.until).await {
                return Err(out_of_turn(presence, &self.resources));
            }
        }
        let mut backoff = Backoff::new(patience);
        loop {
            let error = match self.make().await {
                Ok(guard) => return Ok(self.taken(guard, place)),
                Err(error) => error,
            };
            let setback = match error.kind() {
                ErrorKind::Contended => Setback::Contended,
                ErrorKind::NoQuorum | ErrorKind::Expired => Setback::Unusable,
                _ => return Err(error),
            };
            match backoff.after(setback, presence.now(), random(&*presence.runtime)) {
                Some(delay) => pause(presence, delay).await,
                None => return Err(error),
            }
        }
    }

    /// Tells what has come of it. `failure` is `None` when it has the lock.
    fn observe(&self, asked: Instant, failure: Option<ErrorKind>) {
        observe::waited(&self.presence, &self.resources, asked, failure);
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
    /// attempt. 10 s if not set.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Wait::For(wait);
        self
    }

    /// Waits until `deadline`, a time on [`Redlock::now`](crate::Redlock::now)'s clock: one deadline for several steps.
    pub fn wait_until(mut self, deadline: Instant) -> Self {
        self.wait = Wait::Until(deadline);
        self
    }

    /// Waits however long someone else has the lock.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Wait::ForEver;
        self
    }

    /// Makes at most so many attempts, and at least one. Not bounded if not set: the time is.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// The longest delay between two attempts; each is random between half of it and the whole, and at least 1 ms. The
    /// [builder's](crate::Builder::retry_delay) if not set.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Keeps the lock alive once it is held, as [`Guard::keep_alive`] does.
    pub fn keep_alive(mut self, settings: KeepAlive) -> Self {
        self.attempt.keep_alive = Some(settings);
        self
    }

    /// Who locks, for people, such as the request that is being served: a label as of
    /// [`Builder::owner`](crate::Builder::owner), which counts if this is not set.
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.attempt.owner = Some(Owner::new(label.as_ref()));
        self
    }

    /// Runs `work` under the lock: waits for the lock, keeps it alive, stops the work when the lock is lost, and releases
    /// it. Answers what the work answered.
    ///
    /// `work` gets a view of the lock. It is polled in the caller's task, and before each of its polls the clock is read:
    /// so it does not go on after a pause that outlasted the lock. Without settings of one's own the lock is
    /// [kept alive](LockRequest::keep_alive) without limits. The release is waited for; that it fails is logged, and
    /// never hides what the work answered.
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
    /// As of the request, and then `work` was not called; or [`Lost`](ErrorKind::Lost), with the reason, when the lock was
    /// lost before the work had finished: it was dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it drops the work, and the lock is released in the background. So it is when the work panics.
    pub async fn run<F, W>(mut self, work: F) -> Result<W::Output, Error>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        self.attempt.keep_alive.get_or_insert_default();
        run::run(self.acquire().await?, work).await
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
        let result = attempt.until_taken(Patience { until, attempts, delay: retry_delay }).await;
        attempt.observe(asked, result.as_ref().err().map(Error::kind));
        result
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

    /// Who locks, for people: as of [`LockRequest::owner`].
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.attempt.owner = Some(Owner::new(label.as_ref()));
        self
    }

    async fn acquire(self) -> Result<Option<Guard>, Error> {
        let attempt = self.attempt.check()?;
        let asked = attempt.presence.now();
        let result = attempt.once().await;
        attempt.observe(
            asked,
            match &result {
                Ok(Some(_)) => None,
                Ok(None) => Some(ErrorKind::Contended),
                Err(error) => Some(error.kind()),
            },
        );
        result
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

/// Waits for the turn among the tasks of this process; `false` when that has lasted until `until`, or there is no point in
/// it any more.
async fn in_turn(presence: &Presence, place: &mut Place, until: Option<Instant>) -> bool {
    let end = async {
        let closing = presence.listen_for_closing();
        match until {
            _ if presence.is_closed() => {}
            Some(until) => sleep_until_or(&*presence.runtime, until, closing).await,
            None => closing.await,
        }
    };
    let (mut turn, mut end) = (pin!(place.turn()), pin!(end));
    poll_fn(|cx| match turn.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => end.as_mut().poll(cx).map(|()| false),
    })
    .await
}

fn out_of_turn(presence: &Presence, resources: &Resources) -> Error {
    if presence.is_closed() {
        return Error::closed();
    }
    let message =
        format!("{resources} is held by another task of this process, or others have waited longer");
    Error::new(ErrorKind::Contended, message, NodeReports::default())
}

/// Waits for `delay`, or until there is no point in waiting any more.
async fn pause(presence: &Presence, delay: Duration) {
    let closing = presence.listen_for_closing();
    if !presence.is_closed() {
        sleep_until_or(&*presence.runtime, presence.now() + delay, closing).await;
    }
}
