//! The program of a client: it requests locks in every way, holds, extends and releases them, and sometimes drops an
//! operation.

use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redlock_core::kind::{Kind, Owned};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{Error, ErrorKind, Guard, KeepAlive, Lease, LockRequest, Redlock};
use redlock_testkit::sim::Process;

use super::writer::{Pace, Writer};
use super::{Behavior, Client};
use crate::experiment::Activity;
use crate::history::{EventKind, TokenNumber};

pub(super) struct Program {
    pub(super) client: Client,
    pub(super) process: Process,
    pub(super) redlock: Redlock,
    pub(super) chance: fastrand::Rng,
}

/// The longest retry delay of clients; the shortest is half of it. It is short, so that contenders meet often.
pub const RETRY_DELAY: Duration = Duration::from_millis(60);

/// The rounding difference of a deadline that is converted to true time repeatedly.
const ROUNDING: Duration = Duration::from_micros(1);

/// Returns the name of a resource.
pub(in crate::experiment) fn name(resource: usize) -> String {
    format!("r{resource}")
}

impl Program {
    pub(super) fn new(client: Client, process: &Process, chance: fastrand::Rng) -> Self {
        let (shared, process) = (&client.0, process.clone());
        let nodes = shared.network.nodes_on(shared.number, &process.runtime());
        let builder = Redlock::builder(process.clone());
        let builder = match &shared.change {
            None => builder.nodes(nodes),
            Some((lists, times)) => lists.list(*times, builder, &shared.network, &nodes),
        };
        let redlock = builder
            .node_timeout(shared.behavior.node_timeout)
            .retry_delay(RETRY_DELAY)
            .clock_drift_factor(shared.behavior.drift_factor)
            .build()
            .expect("server labels are unique, and the drift factor is valid");
        Self { client, process, redlock, chance }
    }

    pub(super) async fn run(mut self) {
        let does = self.client.0.behavior.does;
        if does == Activity::Waiting {
            self.keep_waiting().await;
        }
        if does == Activity::Sharing {
            self.read_and_write().await;
        } else if does == Activity::Keeping {
            self.lock_and_keep().await;
        } else if let Some(script) = self.client.0.behavior.script {
            self.follow(&script).await;
        } else {
            self.request_at_random().await;
        }
        self.redlock.close().await;
        self.record(EventKind::Closed { client: self.client.0.number });
        self.client.ended();
    }

    /// Requests locks at random.
    async fn request_at_random(&mut self) {
        while !self.client.is_closing() {
            self.idle(400).await;
            let resources = self.choose_resources();
            // Sometimes the next request is queued behind a release that is not sent yet.
            while let Some((guard, token)) = self.acquire(resources.clone()).await {
                self.hold(&guard, token, &resources).await;
                self.release(guard, token).await;
                if self.client.is_closing() || self.chance.u32(..3) > 0 {
                    break;
                }
            }
        }
    }

    /// Selects one resource. If there are several, it sometimes selects two, in either order.
    pub(super) fn choose_resources(&mut self) -> Vec<usize> {
        let all = self.client.0.behavior.resources;
        let first = self.chance.usize(..all);
        if all == 1 || self.chance.u32(..4) > 0 {
            return vec![first];
        }
        vec![first, (first + self.chance.usize(1..all)) % all]
    }

    pub(super) async fn acquire(&mut self, resources: Vec<usize>) -> Option<(Guard, TokenNumber)> {
        let (client, ttl) = (self.client.0.number, self.ttl());
        let way = self.chance.u32(..10);
        // Plain and fenced locks exclude each other, so the client alternates between them.
        let fenced = self.client.0.protected.is_some() && self.chance.u32(..4) > 0;
        self.record(EventKind::Requested {
            client,
            resources: resources.clone(),
            ttl,
            once: way < 4,
            fenced,
        });
        let names: Vec<_> = resources.iter().map(|resource| name(*resource)).collect();
        let request = self.redlock.lock(names, ttl);
        let result = if fenced {
            self.request_in(way, request.fenced()).await
        } else {
            self.request_in(way, request).await
        };
        self.granted(resources, result)
    }

    async fn request_in<K: Owned>(
        &mut self,
        way: u32,
        request: LockRequest<K>,
    ) -> Option<Result<Option<Guard>, Error>> {
        let result = match way {
            ..4 => Some(request.try_now().await),
            4..8 => {
                let wait = self.millis(0, 1_500);
                Some(request.max_wait(wait).await.map(Some))
            }
            // The request is dropped at a random moment, very soon in half of the cases.
            _ => {
                let most = if self.chance.bool() { 10 } else { 400 };
                let patience = self.micros(0, most * 1_000);
                self.within(patience, request.into_future()).await.map(|result| result.map(Some))
            }
        };
        result.map(|result| result.map(|guard| guard.map(Guard::into_any)))
    }

    /// Records the result of a request; `None` if the client dropped it.
    pub(super) fn granted<G: Deref<Target = Lease>>(
        &self,
        resources: Vec<usize>,
        result: Option<Result<Option<G>, Error>>,
    ) -> Option<(G, TokenNumber)> {
        let client = self.client.0.number;
        let why = match result {
            Some(Ok(Some(guard))) => return Some(self.granted_as(resources, guard)),
            Some(Ok(None)) => Some(ErrorKind::Contended),
            Some(Err(error)) => Some(error.kind()),
            None => None,
        };
        self.record(EventKind::NotGranted { client, why });
        None
    }

    /// Records a grant, and returns its token, too.
    pub(super) fn granted_as<G: Deref<Target = Lease>>(
        &self,
        resources: Vec<usize>,
        guard: G,
    ) -> (G, TokenNumber) {
        let client = self.client.0.number;
        let token = self.client.0.network.recorder().number_of(&guard.fingerprint());
        let until = self.until(&guard);
        let fence = guard.fencing_token();
        self.record(EventKind::Granted { client, resources, token, until, fence });
        (guard, token)
    }

    pub(super) async fn hold(&mut self, guard: &Guard, token: TokenNumber, resources: &[usize]) {
        let client = self.client.0.number;
        let mut known = self.until(guard);
        let mut writer = Writer::new(self, token, guard.fencing_token());
        let kept = self.chance.u32(..4) == 0;
        if kept {
            self.record(EventKind::KeepsAlive { client, token });
            guard.keep_alive(KeepAlive::new());
        }
        for _ in 0..self.chance.u32(..6) {
            self.idle(1_200).await;
            if guard.is_held() {
                self.record_deadline(guard, token, &mut known);
                if self.client.0.behavior.careless {
                    self.idle(200).await;
                }
                self.record(EventKind::Acted { client, token });
                if let Some(writer) = &mut writer {
                    let resource = resources[self.chance.usize(..resources.len())];
                    writer.change(resource, &mut Pace::Random(&mut self.chance)).await;
                }
            }
            if !kept && self.chance.bool() {
                self.extend(guard, token).await;
                known = self.until(guard);
            }
        }
    }

    pub(super) async fn extend(&mut self, guard: &Lease, token: TokenNumber) {
        let (client, ttl) = (self.client.0.number, self.ttl());
        self.record(EventKind::Extending { client, token, ttl });
        let result: Option<Result<(), Error>> = if self.chance.u32(..5) == 0 {
            let patience = self.micros(0, 20_000);
            self.within(patience, guard.extend(ttl)).await
        } else {
            Some(guard.extend(ttl).await)
        };
        self.record(match result {
            Some(Ok(())) => EventKind::Extended { client, token, until: self.until(guard) },
            Some(Err(error)) => EventKind::NotExtended { client, token, why: Some(error.kind()) },
            None => EventKind::NotExtended { client, token, why: None },
        });
    }

    pub(super) async fn release<K: Kind>(&mut self, guard: Guard<K>, token: TokenNumber) {
        let waits = self.chance.bool();
        self.end(guard, token, waits).await;
    }

    /// Releases a lock, and waits for the outcome if `waits` is true.
    pub(super) async fn end<K: Kind>(&self, guard: Guard<K>, token: TokenNumber, waits: bool) {
        let client = self.client.0.number;
        self.record(self.client.0.network.recorder().releasing(client, token, waits));
        if waits {
            let outcome = guard.release().await.map_err(|error| error.kind());
            self.record(EventKind::Released { client, token, outcome });
        } else {
            drop(guard);
        }
    }

    /// Records that the deadline of a lease has moved, if it has.
    pub(super) fn record_deadline(&self, guard: &Lease, token: TokenNumber, known: &mut Instant) {
        let (client, until) = (self.client.0.number, self.until(guard));
        if until > *known + ROUNDING {
            self.record(EventKind::Noticed { client, token, until });
            *known = until;
        }
    }

    /// Returns the deadline of a lease in true time.
    pub(super) fn until(&self, guard: &Lease) -> Instant {
        self.client.0.network.now() + self.client.0.clock.true_duration(guard.remaining())
    }

    pub(super) async fn idle(&mut self, most: u64) {
        let duration = self.micros(0, most * 1_000);
        self.process.sleep(duration).await;
    }

    pub(super) async fn within<T>(&self, time: Duration, work: impl Future<Output = T>) -> Option<T> {
        within(&self.process, time, work).await
    }

    pub(super) fn ttl(&mut self) -> Duration {
        let Behavior { shortest_ttl, longest_ttl, .. } = self.client.0.behavior;
        let range = u64::try_from(longest_ttl.saturating_sub(shortest_ttl).as_millis()).unwrap_or(1);
        shortest_ttl + self.millis(0, range)
    }

    pub(super) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.chance.u64(least..most))
    }

    pub(super) fn micros(&mut self, least: u64, most: u64) -> Duration {
        micros(&mut self.chance, least, most)
    }

    pub(super) fn record(&self, kind: EventKind) {
        self.client.0.network.recorder().record(kind);
    }
}

/// Returns the output of a future, which is dropped when the time is over.
pub(super) fn within<T, F: Future<Output = T>>(
    process: &Process,
    time: Duration,
    work: F,
) -> impl Future<Output = Option<T>> + use<T, F> {
    let mut timer = process.sleep(time);
    async move {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => timer.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}

pub(super) fn micros(chance: &mut fastrand::Rng, least: u64, most: u64) -> Duration {
    Duration::from_micros(chance.u64(least..most))
}
