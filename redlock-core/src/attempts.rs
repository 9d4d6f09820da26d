//! The attempts of one request: in turn with the other tasks of this process, then against everybody else.
//!
//! How often and when is decided in [`backoff`](crate::decide::backoff). Between two attempts the nodes are watched, where
//! they can be.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::acquire;
use crate::broken::{Variant, broken};
use crate::claim::Claim;
use crate::clock::Instant;
use crate::decide::backoff::{Backoff, Patience, Setback, scatter};
use crate::decide::concurrency::Class;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::keepalive::KeepAlive;
use crate::lease::Lease;
use crate::limiter::Permit;
use crate::observe;
use crate::owner::Owner;
use crate::report::NodeReports;
use crate::resource::Resources;
use crate::runtime::{LONGEST_SLEEP, random, sleep_until};
use crate::shared::{Presence, Shared};
use crate::token::Token;
use crate::ttl::Ttl;
use crate::wait::vigil::{Vigil, Wake};
use crate::wait::{COURTESY, Place};

/// How long a request waits for a lock that another client holds, by default: long enough for a short critical section or
/// two, short enough for the request that a user waits for. [`try_lock`](crate::Redlock::try_lock) waits as long until it may
/// make its attempt, so that it survives the same bursts.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// What every attempt of a request is made with.
pub(crate) struct Attempts {
    pub(crate) presence: Arc<Presence>,
    pub(crate) resources: Resources,
    pub(crate) ttl: Ttl,
    pub(crate) fenced: bool,
    /// Instead of the builder's.
    pub(crate) owner: Option<Owner>,
    pub(crate) keep_alive: Option<KeepAlive>,
}

impl Attempts {
    /// Makes one attempt, unless another task of this process has the lock or waits for it. `None`: it is taken.
    pub(crate) async fn once(&self) -> Result<Option<Guard>, Error> {
        let asked = self.presence.now();
        let result = self.only_one(asked).await;
        let failure = match &result {
            Ok(Some(_)) => None,
            Ok(None) => Some(ErrorKind::Contended),
            Err(error) => Some(error.kind()),
        };
        observe::waited(&self.presence, &self.resources, asked, failure);
        if failure.is_some() {
            // It may not have waited for anything. Whoever tries again at once lets the others run, the holder among them.
            let_others_run().await;
        }
        result
    }

    /// Makes attempts until one succeeds or the patience is over, having been asked just now.
    pub(crate) async fn until_taken(&self, asked: Instant, patience: &Patience) -> Result<Guard, Error> {
        let result = self.one_after_another(asked, patience).await;
        observe::waited(&self.presence, &self.resources, asked, result.as_ref().err().map(Error::kind));
        result
    }

    async fn only_one(&self, asked: Instant) -> Result<Option<Guard>, Error> {
        if self.presence.limiter.is_full() {
            return Err(self.overloaded());
        }
        let mut place = self.place();
        if self.presence.is_closed() {
            return Err(Error::closed());
        }
        if place.as_mut().is_some_and(|place| !place.try_turn(asked)) {
            return Ok(None);
        }
        self.presence.resume_chases();
        let (permit, since) = match Permit::try_new(&self.presence, Class::Attempt) {
            Some(permit) => (permit, asked),
            None => (self.permit(Some(asked + DEFAULT_WAIT)).await?, self.presence.now()),
        };
        match self.make(self.token(), since, permit).await {
            Ok(guard) => Ok(Some(self.taken(guard, place).await)),
            Err(error) if error.kind() == ErrorKind::Contended => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn one_after_another(&self, asked: Instant, patience: &Patience) -> Result<Guard, Error> {
        let presence = &self.presence;
        if presence.limiter.is_full() {
            return Err(self.overloaded());
        }
        let mut place = self.place();
        // The clock was read just now, unless there was somebody to wait for.
        let mut just_now = Some(asked);
        if let Some(place) = &mut place {
            // Mostly nobody else wants it, and then there is nothing to wait for.
            if !place.try_turn(asked) {
                self.in_turn(place, patience).await?;
                just_now = None;
            }
        }
        let mut vigil = None;
        let mut backoff = Backoff::new(*patience);
        let mut collisions = 0;
        let reused = broken(Variant::OneToken).then(|| self.token());
        // The last attempt, if another client had the lock then.
        let mut contended = None;
        loop {
            // Before the permit: attempts may be held back until cleanup that a runtime has taken with it goes on.
            presence.resume_chases();
            let permit = match Permit::try_new(presence, Class::Attempt) {
                Some(permit) => permit,
                None => {
                    just_now = None;
                    match self
                        .permit(patience.until.map(|until| until.max(asked + self.node_timeout())))
                        .await
                    {
                        Ok(permit) => permit,
                        Err(error) => return Err(contended.unwrap_or(error)),
                    }
                }
            };
            let began = just_now.take().unwrap_or_else(|| presence.now());
            let token = reused.clone().unwrap_or_else(|| self.token());
            let error = match self.make(token, began, permit).await {
                Ok(guard) => return Ok(self.taken(guard, place).await),
                Err(error) => error,
            };
            let setback = match error.kind() {
                ErrorKind::Contended => Setback::Contended,
                ErrorKind::NoQuorum | ErrorKind::Expired => Setback::Unusable,
                _ => return Err(error),
            };
            let Some(delay) = backoff.after(setback, presence.now(), self.random()) else {
                return Err(error);
            };
            if setback == Setback::Unusable {
                contended = None;
                pause(presence, delay).await;
                continue;
            }
            // Attempts are counted by delays: who counts them waits for each.
            let patient = patience.attempts.is_none();
            let vigil = vigil.get_or_insert_with(|| Vigil::new(presence, &self.resources));
            match while_open(presence, vigil.wait(delay, patient, patience.until)).await {
                Some(Wake::Free) => {
                    backoff.came_early();
                    // Nobody had it: the votes were split, and those who share them hear of the next chance together.
                    collisions = if error.is_split(presence.quorum()) { collisions + 1 } else { 0 };
                    let now = presence.now();
                    let delay = scatter(collisions, now.saturating_duration_since(began), self.random());
                    pause(presence, patience.bounded(delay, now)).await;
                }
                Some(Wake::Time) | None => collisions = 0,
            }
            contended = Some(error);
        }
    }

    /// A place in the queues of this process; `None` where there are none.
    fn place(&self) -> Option<Place> {
        let shared: &Arc<Shared> = &self.presence;
        shared.settings.local_queue.then(|| Place::new(Arc::clone(shared), self.resources.clone()))
    }

    /// Waits for the turn among the tasks of this process, no longer than the patience lasts.
    async fn in_turn(&self, place: &mut Place, patience: &Patience) -> Result<(), Error> {
        let presence = &self.presence;
        match in_time(presence, patience.until, LONGEST_SLEEP, place.turn()).await {
            None => Err(Error::closed()),
            Some(None) => {
                let resources = &self.resources;
                let message = format!(
                    "{resources} is held by another task of this process, or others have waited longer"
                );
                Err(Error::new(ErrorKind::Contended, message, NodeReports::default()))
            }
            Some(Some(())) => {
                if place.owes_courtesy() {
                    pause(presence, patience.bounded(COURTESY, presence.now())).await;
                }
                Ok(())
            }
        }
    }

    /// Waits until another attempt may be in flight.
    async fn permit(&self, until: Option<Instant>) -> Result<Permit, Error> {
        let presence = &self.presence;
        let poll_interval = presence.limiter.poll_interval();
        match in_time(presence, until, poll_interval, Permit::wait(presence, Class::Attempt)).await {
            None => Err(Error::closed()),
            Some(Some(permit)) => Ok(permit),
            Some(None) => Err(self.overloaded()),
        }
    }

    fn overloaded(&self) -> Error {
        if self.presence.is_closed() {
            return Error::closed();
        }
        let obstacle = observe::overloaded(&self.presence);
        let message = format!("cannot lock {}: this process is overloaded ({obstacle})", self.resources);
        Error::new(ErrorKind::Overloaded, message, NodeReports::default())
    }

    fn node_timeout(&self) -> Duration {
        acquire::node_timeout(self.presence.settings.node_timeout, self.ttl)
    }

    /// A token for one attempt.
    fn token(&self) -> Token {
        let owner = self.owner.as_ref().or(self.presence.settings.owner.as_ref());
        Token::random(&*self.presence.runtime, owner)
    }

    /// Makes one attempt. Its clock has started at `since`.
    async fn make(&self, token: Token, since: Instant, permit: Permit) -> Result<Guard, Error> {
        let claim = Claim::new(self.resources.clone(), token);
        let lease = Lease::new(Arc::clone(&self.presence), claim, self.fenced, since);
        acquire::attempt(&self.presence, lease, self.ttl, permit).await
    }

    /// The lock was taken.
    async fn taken(&self, guard: Guard, place: Option<Place>) -> Guard {
        if let Some(place) = place {
            guard.keep_place(place);
        }
        if let Some(settings) = self.keep_alive {
            guard.keep_alive(settings);
            // The new task must leave this worker's LIFO slot, which no other worker takes from, before the holder blocks it.
            let_others_run().await;
        }
        guard
    }

    fn random(&self) -> u64 {
        random(&*self.presence.runtime)
    }
}

async fn let_others_run() {
    let mut turns = 0..1;
    poll_fn(|cx| match turns.next() {
        Some(_) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        None => Poll::Ready(()),
    })
    .await;
}

/// Waits for `delay`, or until there is no point in waiting any more.
async fn pause(presence: &Presence, delay: Duration) {
    while_open(presence, sleep_until(&*presence.runtime, presence.now() + delay)).await;
}

/// The output of `wait`, or `None` if it was not there by `until`; `None` when there is no point in waiting any more. It is
/// polled at least once in each `poll_interval`.
async fn in_time<T>(
    presence: &Presence,
    until: Option<Instant>,
    poll_interval: Duration,
    wait: impl Future<Output = T>,
) -> Option<Option<T>> {
    let mut end = pin!(async {
        loop {
            let left = until.map(|until| until.saturating_duration_since(presence.now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            presence.runtime.sleep(left.map_or(poll_interval, |left| left.min(poll_interval))).await;
        }
    });
    let mut wait = pin!(wait);
    let in_time = poll_fn(|cx| match wait.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => end.as_mut().poll(cx).map(|()| None),
    });
    while_open(presence, in_time).await
}

/// The output of `wait`; `None` when there is no point in waiting any more: the next attempt will say so.
async fn while_open<T>(presence: &Presence, wait: impl Future<Output = T>) -> Option<T> {
    let mut closing = presence.listen_for_closing();
    if presence.is_closed() {
        return None;
    }
    let mut wait = pin!(wait);
    poll_fn(|cx| match wait.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut closing).poll(cx).map(|()| None),
    })
    .await
}
