//! The environment of a case: two clients of one server, time, and checks of the contract.
//!
//! A case must not depend on the speed of the machine. Steps that must complete within a TTL are repeated with more
//! time until they do ([`Stage::in_time`]). An expiry is judged only by certain times, those before sending and after
//! the reply ([`Stage::expires`]).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{Begun, Claim, Exchange, LockNode, Reply, Request, Token, Ttl};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{IntoResources, Resource};

pub(super) struct Stage {
    pub(super) node: Arc<dyn LockNode>,
    /// Another client of the same server.
    pub(super) other_node: Arc<dyn LockNode>,
    pub(super) runtime: Arc<dyn Runtime>,
    /// A key that holds a non-lock value.
    pub(super) no_lock: Option<Resource>,
    /// Deletes all data of the server.
    pub(super) lose: Option<Box<dyn Fn()>>,
    /// Sets the clock of the server forward.
    pub(super) forward: Option<Box<dyn Fn(Duration)>>,
}

/// A resource whose key was set between two moments.
pub(super) struct Armed {
    pub(super) resource: String,
    not_before: Instant,
    not_after: Instant,
    ttl: Ttl,
}

/// The TTLs to try, in milliseconds. The first one suffices on a machine that is not overloaded.
pub(super) const TIMES: [u64; 3] = [100, 500, 2_500];

pub(super) const TOO_SLOW: &str = "this machine or this backend is too slow for a result";

/// The maximum delay of an expiry. It is generous: the checks are about expiry, not about punctuality.
const LATE: Duration = Duration::from_secs(1);

impl Stage {
    pub(super) async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Reply {
        self.reply(Request::Acquire(claim.clone(), ttl)).await
    }

    pub(super) async fn extend(&self, claim: &Claim, ttl: Ttl) -> Reply {
        self.reply(Request::Extend(claim.clone(), ttl)).await
    }

    pub(super) async fn release(&self, claim: &Claim) -> Reply {
        self.reply(Request::Release(claim.clone())).await
    }

    pub(super) async fn keep_for(&self, claim: &Claim, ttl: Ttl) -> Reply {
        self.reply(Request::Keep(claim.clone(), ttl)).await
    }

    /// Returns the reply of the node, which must not fail.
    pub(super) async fn reply(&self, request: Request) -> Reply {
        reply(&*self.node, request).await
    }

    /// Returns the key that holds a non-lock value, for cases that need one.
    pub(super) fn no_lock(&self) -> &Resource {
        self.no_lock.as_ref().expect("a case that needs it is skipped without it")
    }

    /// Returns true if a resource holds a token. It uses the shortest extension, which changes nothing relevant.
    pub(super) async fn holds(&self, resource: impl IntoResources, token: impl AsRef<[u8]>) -> bool {
        self.extend(&claim(resource, token), Ttl::MIN).await == Reply::Granted
    }

    /// Returns true if a resource is free, and leaves it unchanged.
    pub(super) async fn is_free(&self, resource: impl IntoResources) -> bool {
        let stranger = claim(resource, "another client");
        let free = self.acquire(&stranger, hour()).await == Reply::Granted;
        if free {
            granted(
                self.release(&stranger).await,
                "release deletes each resource that still holds the token",
            );
        }
        free
    }

    /// Runs steps that must complete within a TTL.
    ///
    /// The steps first set the resource's key with the TTL, and end while it certainly exists. If they take too long,
    /// they run again on a fresh resource with a longer TTL.
    pub(super) async fn in_time<T>(&self, steps: impl AsyncFn(&str, Ttl) -> T) -> (T, Armed) {
        self.in_time_of(&TIMES, steps).await
    }

    /// Same as [`in_time`](Stage::in_time), with TTLs of these milliseconds.
    pub(super) async fn in_time_of<T>(
        &self,
        times: &[u64],
        steps: impl AsyncFn(&str, Ttl) -> T,
    ) -> (T, Armed) {
        for (round, ttl) in times.iter().copied().enumerate() {
            let (resource, ttl) = (format!("timed-{round}"), millis(ttl));
            let not_before = self.runtime.now();
            let result = steps(&resource, ttl).await;
            let not_after = self.runtime.now();
            if not_after.saturating_duration_since(not_before) < ttl.as_duration() * 3 / 4 {
                return (result, Armed { resource, not_before, not_after, ttl });
            }
        }
        panic!("a few requests took longer than 2 s: this machine or this backend is too slow for a result")
    }

    /// Waits until a resource is free: neither before its TTL is over nor long after.
    ///
    /// Returns true if the resource was seen held in the last quarter of its time. A slow machine may have missed an
    /// early expiry.
    pub(super) async fn expires(&self, armed: &Armed, sentence: &str) -> bool {
        let ttl = armed.ttl.as_duration();
        // The tolerance of Redlock for clocks: 1 % and 2 ms.
        let (earliest, drift) = (armed.not_before + ttl, ttl / 100 + Duration::from_millis(2));
        let mut held_at = armed.not_before;
        loop {
            let queried_at = self.runtime.now();
            let free = self.is_free(armed.resource.as_str()).await;
            if free {
                let early = earliest.saturating_duration_since(self.runtime.now());
                assert!(
                    early <= drift,
                    "{BROKEN}{sentence}\n  free {early:?} before its TTL of {ttl:?} was over"
                );
                return held_at >= armed.not_before + ttl * 3 / 4;
            }
            held_at = queried_at;
            let late = queried_at.saturating_duration_since(armed.not_after + ttl);
            assert!(
                late < LATE,
                "{BROKEN}{sentence}\n  still held {late:?} after its TTL of {ttl:?} was over"
            );
            self.pause(5).await;
        }
    }

    /// Waits for a number of milliseconds.
    pub(super) async fn pause(&self, millis: u64) {
        self.runtime.sleep(Duration::from_millis(millis)).await;
    }
}

/// The beginning of every message about a violated sentence.
pub(super) const BROKEN: &str = "contract broken: ";

pub(super) fn claim(resources: impl IntoResources, token: impl AsRef<[u8]>) -> Claim {
    Claim::new(resources.into_resources().expect("cases use valid names"), Token::from_bytes(token))
}

pub(super) fn millis(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).expect("cases use valid TTLs")
}

/// A TTL that is longer than any case.
pub(super) fn hour() -> Ttl {
    millis(3_600_000)
}

/// Asserts that a request was carried out; a release deletes a resource then.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // reads as a sentence at each call
pub(super) fn granted(reply: Reply, sentence: &str) {
    let is_granted = reply.is_grant() || matches!(reply, Reply::Deleted(true));
    assert!(is_granted, "{BROKEN}{sentence}\n  it was not granted: {reply:?}");
}

/// Asserts that a request was denied; a release deletes nothing then.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // reads as a sentence at each call
pub(super) fn denied(reply: Reply, sentence: &str) {
    let is_denied = matches!(reply, Reply::Denied(_) | Reply::Deleted(false));
    assert!(is_denied, "{BROKEN}{sentence}\n  it was not denied: {reply:?}");
}

/// Asserts a sentence.
#[track_caller]
pub(super) fn holds_true(fact: bool, sentence: &str) {
    assert!(fact, "{BROKEN}{sentence}");
}

/// Begins a request on a node that is connected, or becomes so.
pub(super) async fn begin(node: &dyn LockNode, request: &Request) -> Exchange {
    loop {
        match node.begin(request) {
            Begun::Sent(exchange) => return exchange,
            Begun::Connecting(attempt) => attempt.await,
        }
    }
}

/// Returns the reply of a node, which must not fail.
pub(super) async fn reply(node: &dyn LockNode, request: Request) -> Reply {
    match node.call(request.clone()).await {
        Ok(reply) => reply,
        Err(error) => panic!("{request:?} failed on a healthy server: {error:?}"),
    }
}

/// Polls a call once, as sending does. Returns the reply, if it is already available.
pub(super) async fn poll_once<T>(call: &mut Pin<Box<impl Future<Output = T> + ?Sized>>) -> Option<T> {
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(reply) => Poll::Ready(Some(reply)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs all futures concurrently, in one task.
pub(super) async fn join_all<F: Future>(calls: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = calls.into_iter().map(|call| (Box::pin(call), None)).collect();
    poll_fn(|context| {
        let mut done = true;
        for (call, reply) in &mut running {
            if reply.is_none() {
                match call.as_mut().poll(context) {
                    Poll::Ready(ready) => *reply = Some(ready),
                    Poll::Pending => done = false,
                }
            }
        }
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, reply)| reply).collect()
}

/// Returns the output of the faster future, and drops the other.
pub(super) async fn first<T>(left: impl Future<Output = T>, right: impl Future<Output = T>) -> T {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| match left.as_mut().poll(context) {
        Poll::Pending => right.as_mut().poll(context),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}
