//! The attempts of one request.
//!
//! A request first waits for its turn among the tasks of this process, then competes with other clients.
//! [`backoff`](crate::decide::backoff) decides how often and when it makes attempts. Between two attempts it watches
//! the nodes, if they support that.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::client::handle::Handle;
use crate::client::held::Held;
use crate::client::keep_alive::{KeepAlive, keep_alive};
use crate::client::waiter::Waiter;
use crate::decide::backoff::{Backoff, RetryCause, RetryPolicy, SplitVotes, collision_delay};
use crate::decide::concurrency::Class;
use crate::decide::grace::Grace;
use crate::decide::standing::Standing;
use crate::lease::mode::Mode;
use crate::queue::limiter::Permit;
use crate::queue::local_queue::QueuePlace;
use crate::round::acquire::Acquire;
use crate::round::engine::{Run, run};
use crate::round::failure::{Cause, Failure};
use crate::runtime::{LONGEST_SLEEP, let_others_run, random, sleep_until};
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::owner::Owner;
use crate::types::resource::Resources;
use crate::types::token::Token;
use crate::types::ttl::Ttl;
use crate::watch::watcher::{LockWatcher, WakeReason};

/// The default waiting time for a lock that another client holds.
///
/// It covers a short critical section or two, and suits requests that a user waits for.
/// [`try_now`](crate::LockRequest::try_now) waits up to as long for the permit of its attempt, so that it survives the
/// same bursts.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// The delay before an attempt of a request that has a place, if the lock is free and not reserved.
///
/// In a local network, clients without a place receive a notification and acquire the lock within it.
const OTHERS_FIRST: Duration = Duration::from_millis(2);

/// The longest delay between two attempts of a request that polls and has a place. Its reservation lasts as long.
const LONGEST_POLL: Duration = Duration::from_millis(500);

/// A request whose settings are valid. All of its attempts use them.
#[derive(Clone)]
pub(crate) struct CheckedRequest {
    pub(crate) handle: Arc<Handle>,
    pub(crate) resources: Resources,
    pub(crate) ttl: Ttl,
    pub(crate) mode: Mode,
    /// The label of the request; it replaces the label of the builder.
    pub(crate) owner: Option<Owner>,
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) grace: Option<Grace>,
    /// The label of the request in metrics.
    pub(crate) label: Option<&'static str>,
}

/// The outcome of one attempt that was not an error of the client.
pub(super) enum Attempted {
    Acquired(Held),
    /// Another task of this process waits for the lock, or holds it: then with its token. Nothing was sent.
    Busy(Option<Token>),
    NotGranted(Failure),
}

/// The number of tokens that a request keeps when it begins to repeat its attempt again.
const KEPT_TOKENS: usize = 32;

/// The attempts of a request that repeats them only while the votes are split.
#[derive(Default)]
pub(super) struct Repetitions {
    votes: SplitVotes,
    /// The tokens of the attempts, whose releases may be under way. Beside each of them, the client that had the lock on a
    /// quorum of only one list.
    tokens: Vec<(Token, Option<Token>)>,
    /// The time after which no attempt is repeated, if there is a limit.
    until: Option<Instant>,
}

impl Repetitions {
    /// Records a failed attempt with this token. Returns the delay before it is repeated; `None` if it is not.
    ///
    /// If an earlier attempt of this request has the resources, no other client holds them.
    fn after(&mut self, token: Token, failure: &mut Failure, now: Instant, random: u64) -> Option<Duration> {
        let is_own =
            || failure.holder().is_some_and(|holder| self.tokens.iter().any(|(own, _)| own == holder));
        let mut holder_of_one_list = None;
        match failure.cause() {
            Cause::Contended | Cause::ContendedOnOneList if is_own() => failure.set_cause(Cause::Split),
            Cause::ContendedOnOneList => {
                // A client that is named again is no attempt, which has ended by now: it holds the lock on its only list.
                holder_of_one_list = failure.holder().cloned();
                let before = self.tokens.last().and_then(|(_, holder)| holder.as_ref());
                let is_known = holder_of_one_list.is_none() || holder_of_one_list.as_ref() == before;
                failure.set_cause(if is_known { Cause::Contended } else { Cause::Split });
            }
            _ => {}
        }
        if !failure.is_split() {
            return None;
        }
        self.tokens.push((token, holder_of_one_list));
        let delay = self.votes.next(random)?;
        self.until.is_none_or(|until| now + delay < until).then_some(delay)
    }

    /// Creates a record of attempts that are not repeated after `until`.
    pub(super) fn until(until: Option<Instant>) -> Self {
        Self { until, ..Self::default() }
    }

    /// Allows as many repetitions as at first. Only the last tokens are kept: the releases of older ones have ended.
    pub(super) fn restart(&mut self) {
        self.votes = SplitVotes::default();
        let old = self.tokens.len().saturating_sub(KEPT_TOKENS);
        self.tokens.drain(..old);
    }
}

/// A request that waits for its turn among the tasks of its process.
///
/// The release of the task before it may enter it on the nodes. However this wait ends, even if its future is dropped, the
/// waiter takes that place over.
struct Queued<'q, 'a> {
    place: &'q mut QueuePlace,
    waiter: &'q mut Waiter<'a>,
    /// The request, its start, and its policy.
    request: (&'q CheckedRequest, Instant, &'q RetryPolicy),
}

impl Drop for Queued<'_, '_> {
    fn drop(&mut self) {
        let entered = if self.place.has_turn() { self.place.take_entered() } else { self.place.withdraw() };
        if let Some(entered) = entered {
            let (request, start, policy) = self.request;
            self.waiter.enter(request.standing(start, policy), entered);
        }
    }
}

impl CheckedRequest {
    /// Makes one attempt; returns `None` if another client or task holds the lock.
    ///
    /// It makes no attempt if another task of this process holds the lock or waits for it. It repeats the attempt only
    /// while the votes are split.
    pub(crate) async fn try_lock(&self, start: Instant) -> Result<Option<Held>, Error> {
        let until = Some(start + DEFAULT_WAIT);
        let result = match self.attempt_until_decided(start, until, &mut Repetitions::default()).await {
            Ok(Attempted::Acquired(held)) => Ok(Some(held)),
            Ok(Attempted::Busy(_)) => Ok(None),
            Ok(Attempted::NotGranted(failure)) if failure.kind() == ErrorKind::Contended => Ok(None),
            Ok(Attempted::NotGranted(failure)) => Err(self.error(failure)),
            Err(error) => Err(error),
        };
        let failure = match &result {
            Ok(Some(_)) => None,
            Ok(None) => Some(ErrorKind::Contended),
            Err(error) => Some(error.kind()),
        };
        self.record(start, failure);
        result
    }

    /// Records the end of a request that may have waited, and adds the time to its error.
    pub(super) fn recorded<T>(&self, start: Instant, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_ok() {
            self.record(start, None);
        }
        result.map_err(|error| self.failed(start, error))
    }

    /// Records the end of a request that failed after a wait, and adds the time to its error.
    pub(super) fn failed(&self, start: Instant, error: Error) -> Error {
        self.record(start, Some(error.kind()));
        error.after(self.handle.now().saturating_duration_since(start))
    }

    pub(super) fn record(&self, start: Instant, failure: Option<ErrorKind>) {
        let waited = || self.handle.now().saturating_duration_since(start);
        telemetry::request_completed(&self.resources, self.label, failure, waited);
    }

    /// Makes one attempt, unless another task of this process uses the resources. `start` was read just now.
    ///
    /// The wait for a permit ends at `until`.
    pub(super) async fn attempt_once(
        &self,
        start: Instant,
        until: Option<Instant>,
    ) -> Result<Attempted, Error> {
        self.attempt_unless_busy(start, until, None).await
    }

    /// Makes one attempt like [`attempt_once`](Self::attempt_once), and repeats it while the votes are split.
    pub(super) async fn attempt_until_decided(
        &self,
        start: Instant,
        until: Option<Instant>,
        repetitions: &mut Repetitions,
    ) -> Result<Attempted, Error> {
        self.attempt_unless_busy(start, until, Some(repetitions)).await
    }

    async fn attempt_unless_busy(
        &self,
        start: Instant,
        until: Option<Instant>,
        mut repetitions: Option<&mut Repetitions>,
    ) -> Result<Attempted, Error> {
        if self.handle.limiter.is_full() {
            return Err(self.overloaded());
        }
        let mut place = self.place();
        if self.handle.is_closed() {
            return Err(Error::closed());
        }
        if let Some(place) = &mut place {
            if !place.try_turn(start) {
                let holder = place.holder().filter(|(_, until)| *until > start);
                return Ok(Attempted::Busy(holder.map(|(token, _)| token)));
            }
        }
        let mut start = start;
        if self.handle.compare_node_lists().await {
            start = self.handle.now();
        }
        loop {
            self.handle.resume_cleanup();
            let (permit, since) = match Permit::try_new(&self.handle.limiter, Class::Attempt) {
                Some(permit) => (permit, start),
                None => (self.permit(until).await?, self.handle.now()),
            };
            let token = self.token();
            let attempt = self.attempt(token.clone(), since, None);
            let mut failure = match self.make(attempt, permit).await? {
                Ok(guard) => return Ok(Attempted::Acquired(self.acquired(guard, place).await)),
                Err(failure) => failure,
            };
            let now = self.handle.now();
            let delay =
                repetitions.as_mut().and_then(|past| past.after(token, &mut failure, now, self.random()));
            let Some(delay) = delay else { return Ok(Attempted::NotGranted(failure)) };
            pause(&self.handle, delay).await;
            start = self.handle.now();
        }
    }

    /// Makes attempts until one succeeds or the retry policy ends. `start` was read just now.
    pub(super) async fn attempt_until_acquired(
        &self,
        start: Instant,
        policy: &RetryPolicy,
    ) -> Result<Held, Error> {
        let handle = &self.handle;
        if handle.limiter.is_full() {
            return Err(self.overloaded());
        }
        let mut place = self.place();
        // The clock was read just now, unless the request has waited since.
        let mut just_now = Some(start);
        // The leases of this process whose releases precede the next attempt and are not confirmed yet.
        let mut unconfirmed = Vec::new();
        // If the request is dropped, this gives its place on the nodes up.
        let mut waiter = Waiter::new(handle, &self.resources);
        if let Some(place) = &mut place {
            // Usually no other task wants the lock, so there is nothing to wait for.
            if !place.try_turn(start) {
                let queued = Queued { place, waiter: &mut waiter, request: (self, start, policy) };
                unconfirmed = Box::pin(Self::in_turn(queued)).await?;
                just_now = None;
            }
        }
        if handle.compare_node_lists().await {
            just_now = None;
        }
        let mut watcher: Option<Box<LockWatcher<'_>>> = None;
        let (mut backoff, mut collisions) = (Backoff::new(policy), 0);
        // A request that does not wait repeats its attempt only while the votes are split.
        let mut repetitions = policy.does_not_wait(start).then(Repetitions::default);
        // The last attempt, if another client held the lock.
        let mut contended: Option<Failure> = None;
        loop {
            // This precedes the permit, because attempts may be held back until cleanup that stopped with its runtime
            // continues.
            handle.resume_cleanup();
            let permit = match Permit::try_new(&handle.limiter, Class::Attempt) {
                Some(permit) => permit,
                None => {
                    just_now = None;
                    match self.permit(self.permit_until(start, policy)).await {
                        Ok(permit) => permit,
                        Err(error) if error.kind() == ErrorKind::Overloaded => {
                            return Err(contended.map_or(error, |failure| self.error(failure)));
                        }
                        Err(error) => return Err(error),
                    }
                }
            };
            let began = just_now.take().unwrap_or_else(|| handle.now());
            let token = self.token();
            let standing = waiter.prepare(|| self.random()).or_else(|| self.standing(start, policy));
            let attempt = self.attempt(token.clone(), began, standing);
            let mut failure = match self.make(attempt, permit).await? {
                Ok(guard) => {
                    waiter.acquired();
                    return Ok(self.acquired(guard, place).await);
                }
                Err(failure) => failure,
            };
            let Some(retry_cause) = failure.retry_cause() else {
                return Err(self.error(failure));
            };
            waiter.keep(failure.take_place(), self.mode.gate());
            if let Some(place) = place.as_ref().filter(|_| !unconfirmed.is_empty()) {
                if Box::pin(self.overtook(&failure, place, &mut unconfirmed, policy)).await {
                    continue;
                }
            }
            let Some(delay) = backoff.after(retry_cause, handle.now(), self.random()) else {
                let (now, random) = (handle.now(), self.random());
                let delay =
                    repetitions.as_mut().and_then(|past| past.after(token, &mut failure, now, random));
                let Some(delay) = delay else { return Err(self.error(failure)) };
                pause(handle, delay).await;
                continue;
            };
            if retry_cause == RetryCause::Unusable {
                contended = None;
                if let Some(watcher) = &mut watcher {
                    watcher.unusable();
                }
                waiter.give_up();
                pause(handle, delay).await;
                continue;
            }
            // With a limit on attempts, each attempt follows a full delay. Without one, the watcher decides.
            let may_exceed = policy.attempts.is_none();
            let watcher = watcher
                .get_or_insert_with(|| Box::new(LockWatcher::new(handle, &self.resources, self.mode.gate())));
            watcher.failed(&failure, waiter.place(), delay);
            // Boxed, because most requests never wait here. Thus the future of a request stays small.
            let wait = Box::pin(watcher.wait(delay, may_exceed, policy.until));
            let wake = while_open(handle, wait).await;
            if wake.is_some_and(|reason| reason != WakeReason::Time) {
                backoff.uncount_attempt();
            }
            match wake {
                // Other clients, which have no place, get their chance. The nodes keep the order of those that have one.
                Some(WakeReason::Free) if waiter.place().is_some() => {
                    pause(handle, policy.bounded(OTHERS_FIRST, handle.now())).await;
                }
                // No client held the lock: the votes were split. All clients with votes receive the next notification at
                // the same moment.
                Some(WakeReason::Free) => {
                    collisions = if failure.is_split() { collisions + 1 } else { 0 };
                    let now = handle.now();
                    let delay =
                        collision_delay(collisions, now.saturating_duration_since(began), self.random());
                    pause(handle, policy.bounded(delay, now)).await;
                }
                Some(WakeReason::Split | WakeReason::Reserved | WakeReason::Time) | None => collisions = 0,
            }
            contended = Some(failure);
        }
    }

    /// Creates a place in the queues of this process.
    ///
    /// `None` for readers, and if the queues are switched off.
    fn place(&self) -> Option<QueuePlace> {
        let queues = self.handle.settings.local_queue && self.mode.gate().is_none();
        queues.then(|| QueuePlace::new(Arc::clone(&self.handle.queues), self.resources.clone()))
    }

    /// Creates the place of this request among the waiters of all processes, which it enters when it is denied.
    ///
    /// `None` for requests outside of the order: those that do not wait, and requests that poll rarely. The last would keep
    /// resources reserved until their next attempt.
    fn standing(&self, start: Instant, policy: &RetryPolicy) -> Option<Standing> {
        let is_ordered = self.handle.keep_places() && !policy.does_not_wait(start);
        // A request that polls finds the reservation at its next attempt.
        let until_next = if self.handle.notify_waiters() { Duration::ZERO } else { policy.delay };
        let is_ordered = is_ordered && until_next <= LONGEST_POLL;
        let is_reader = self.mode.gate().is_some();
        is_ordered.then(|| Standing::new(start, self.node_timeout() + until_next, is_reader))
    }

    /// Waits for the turn among the tasks of this process, within the retry policy.
    ///
    /// Returns the tokens of the leases that handed it over, and whose releases are not confirmed yet.
    #[allow(clippy::manual_async_fn)] // a block uses `queued` where it is, so a task that waits takes less memory
    fn in_turn(queued: Queued<'_, '_>) -> impl Future<Output = Result<Vec<Token>, Error>> + Send {
        async move {
            let (request, _, policy) = queued.request;
            match in_time(&request.handle, policy.until, LONGEST_SLEEP, queued.place.turn()).await {
                Waited::Closed => Err(Error::closed()),
                Waited::TimedOut => {
                    let error = request.queued().at(queued.place.position());
                    Err(match queued.place.holder() {
                        Some((token, until)) => {
                            error.held_by(&token, until.saturating_duration_since(request.handle.now()))
                        }
                        None => error,
                    })
                }
                Waited::Done(()) => Ok(queued.place.unconfirmed()),
            }
        }
    }

    /// Creates the error of a request that another task of this process precedes.
    pub(super) fn queued(&self) -> Error {
        let message = format!("{} is locked by, or queued for, another task in this process", self.resources);
        Error::new(ErrorKind::Contended, message)
    }

    /// Returns whether the attempt overtook the release of a lease of this process, which is confirmed now.
    ///
    /// Such an attempt is repeated once.
    async fn overtook(
        &self,
        failure: &Failure,
        place: &QueuePlace,
        unconfirmed: &mut Vec<Token>,
        policy: &RetryPolicy,
    ) -> bool {
        let Some(position) = unconfirmed.iter().position(|token| Some(token) == failure.holder()) else {
            return false;
        };
        let token = unconfirmed.swap_remove(position);
        self.confirmed(place, &token, policy).await
    }

    /// Waits until the release of a lease of this process is confirmed. Returns `false` if time ran out.
    async fn confirmed(&self, place: &QueuePlace, token: &Token, policy: &RetryPolicy) -> bool {
        let limit = self.handle.now() + self.handle.settings.node_timeout;
        let until = policy.until.map_or(limit, |until| until.min(limit));
        let waited = in_time(&self.handle, Some(until), LONGEST_SLEEP, place.confirmed(token)).await;
        matches!(waited, Waited::Done(()))
    }

    /// Returns the end of the wait for a permit: that of the request, but at least a node timeout after `start`.
    pub(super) fn permit_until(&self, start: Instant, policy: &RetryPolicy) -> Option<Instant> {
        policy.until.map(|until| until.max(start + self.node_timeout()))
    }

    /// Waits until another attempt may be in flight.
    async fn permit(&self, until: Option<Instant>) -> Result<Permit, Error> {
        let handle = &self.handle;
        let poll_interval = handle.limiter.poll_interval(Class::Attempt);
        match in_time(handle, until, poll_interval, Permit::wait(&handle.limiter, Class::Attempt)).await {
            Waited::Done(permit) => Ok(permit),
            Waited::TimedOut => Err(self.overloaded()),
            Waited::Closed => Err(Error::closed()),
        }
    }

    fn overloaded(&self) -> Error {
        if self.handle.is_closed() {
            return Error::closed();
        }
        let (waiting_attempts, waiting_renewals, reason) = self.handle.limiter.waiting();
        if let Some(denied) = self.handle.overload.pass(self.handle.now()) {
            let max_concurrent_attempts = self.handle.settings.max_concurrent_attempts;
            telemetry::overloaded(
                reason,
                denied,
                max_concurrent_attempts,
                waiting_attempts,
                waiting_renewals,
            );
        }
        let message = format!("cannot lock {}: this process is overloaded ({reason})", self.resources);
        Error::new(ErrorKind::Overloaded, message)
    }

    /// Creates the public error of a failed attempt.
    pub(super) fn error(&self, failure: Failure) -> Error {
        failure.into_error(&self.resources, &self.handle)
    }

    fn node_timeout(&self) -> Duration {
        self.handle.rules.timeout_within(self.ttl)
    }

    /// Creates the token of one attempt.
    fn token(&self) -> Token {
        let owner = self.owner.as_ref().or(self.handle.settings.owner.as_ref());
        Token::random(|bytes| self.handle.runtime.fill_random(bytes), owner)
    }

    /// Prepares an attempt. Its validity counts from `since`. It counts as outstanding from now on.
    fn attempt(&self, token: Token, since: Instant, standing: Option<Standing>) -> Run<Acquire> {
        let handle = &self.handle;
        let claim = Claim::labeled(self.resources.clone(), token, self.label);
        let span = telemetry::attempt(&claim);
        let mut round = Acquire::new(handle.rules, claim, self.mode.clone(), self.ttl, since);
        if let Some(grace) = self.grace {
            round = round.with_grace(grace);
        }
        if let Some(standing) = standing {
            round = round.in_line(standing);
        }
        run(handle, round, since, self.node_timeout(), span)
    }

    /// Makes an attempt.
    ///
    /// The permit is returned at the decision. The rest of the work needs none, so another attempt may begin.
    async fn make(&self, attempt: Run<Acquire>, permit: Permit) -> Result<Result<Held, Failure>, Error> {
        let handle = &self.handle;
        // Checked once the attempt counts as outstanding. Thus either `close` sees it, or this sees the closing.
        if handle.is_closed() {
            return Err(Error::closed());
        }
        let acquired = attempt.await;
        drop(permit);
        Ok(acquired.map(|record| Held::new(Arc::clone(handle), record)))
    }

    /// Completes an acquisition: passes on the queue place and starts keep-alive.
    async fn acquired(&self, held: Held, place: Option<QueuePlace>) -> Held {
        if let Some(place) = place {
            held.lease().record.keep_place(place);
        }
        if let Some(settings) = self.keep_alive {
            keep_alive(held.lease(), settings);
            // The new task must leave the LIFO slot of this tokio worker before the holder blocks the thread. No other
            // worker takes tasks from that slot.
            let_others_run().await;
        }
        held
    }

    pub(super) fn random(&self) -> u64 {
        random(&*self.handle.runtime)
    }
}

/// Waits for `delay`, or until the client is closed.
pub(super) async fn pause(handle: &Handle, delay: Duration) {
    while_open(handle, sleep_until(&*handle.runtime, handle.now() + delay)).await;
}

/// The end of a wait.
pub(super) enum Waited<T> {
    Done(T),
    TimedOut,
    /// The client was closed.
    Closed,
}

/// Waits for the output of `wait`, at most until `until`. It polls `wait` at least once in each `poll_interval`.
pub(super) async fn in_time<T>(
    handle: &Handle,
    until: Option<Instant>,
    poll_interval: Duration,
    wait: impl Future<Output = T>,
) -> Waited<T> {
    let mut end = pin!(async {
        loop {
            let left = until.map(|until| until.saturating_duration_since(handle.now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            handle.runtime.sleep(left.map_or(poll_interval, |left| left.min(poll_interval))).await;
        }
    });
    let mut wait = pin!(wait);
    let in_time = poll_fn(|cx| match wait.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Waited::Done(output)),
        Poll::Pending => end.as_mut().poll(cx).map(|()| Waited::TimedOut),
    });
    while_open(handle, in_time).await.unwrap_or(Waited::Closed)
}

/// Returns the output of `wait`; `None` if the client is closed first. The next attempt then reports the closing.
pub(super) async fn while_open<T>(handle: &Handle, wait: impl Future<Output = T>) -> Option<T> {
    let mut closing = handle.listen_for_closing();
    if handle.is_closed() {
        return None;
    }
    let mut wait = pin!(wait);
    // Not with `first`, since a request that waits would take more memory.
    poll_fn(|cx| match wait.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut closing).poll(cx).map(|()| None),
    })
    .await
}
