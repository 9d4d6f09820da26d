//! A client of a run: the real core, and the record of its requests and their results.

use std::future::IntoFuture;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use redlock_core::kind::Kind;
use redlock_core::node::{Begun, LockNode, Profile, Request, Status};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{Error, ErrorKind, Guard, Lease, Redlock, Resource};
use redlock_simulation::history::{EventKind, TokenNumber};
use redlock_simulation::network::{Direction, Network};
use redlock_testkit::sim::Process;

use crate::world::{NODE_TIMEOUT, NODES};

pub(crate) struct Client {
    number: usize,
    pub(crate) process: Process,
    network: Network,
    pub(crate) redlock: Redlock,
    pub(crate) chance: fastrand::Rng,
}

/// The servers that a client lists, by their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) nodes: &'a [usize],
    /// The previous nodes, during a change.
    pub(crate) previous: Option<&'a [usize]>,
    /// True if requests wait in the order of their places.
    pub(crate) places: bool,
}

impl Client {
    pub(crate) fn new(
        number: usize,
        process: Process,
        network: Network,
        chance: fastrand::Rng,
        listed: Listed<'_>,
    ) -> Self {
        let nodes: Vec<_> = network.nodes_on(number, &process.runtime());
        let of = |list: &[usize]| {
            let node = |server: &usize| -> Arc<dyn LockNode> {
                let node = nodes[*server].clone();
                if listed.places { node } else { Arc::new(WithoutPlaces(node)) }
            };
            list.iter().map(node).collect::<Vec<_>>()
        };
        let mut builder =
            Redlock::builder(process.clone()).nodes(of(listed.nodes)).node_timeout(NODE_TIMEOUT);
        if let Some(previous) = listed.previous {
            builder = builder.previous_nodes(of(previous));
        }
        let redlock = builder.build().expect("the labels of the servers are unique");
        Self { number, process, network, redlock, chance }
    }

    /// Makes a request with a single attempt. In one of eight cases, the client drops it if it `may_drop`.
    pub(crate) async fn request<G: Deref<Target = Lease>>(
        &mut self,
        ttl: Duration,
        request: impl IntoFuture<Output = Result<G, Error>, IntoFuture: Unpin>,
        may_drop: bool,
    ) -> Option<(G, TokenNumber)> {
        let client = self.number;
        let (resources, once) = (vec![0], true);
        self.record(EventKind::Requested { client, resources, ttl, once, fenced: false });
        let patience = if may_drop && self.chance.u32(..8) == 0 {
            self.millis(1, 60)
        } else {
            Duration::from_secs(3600)
        };
        let guard = match select(request.into_future(), self.process.sleep(patience)).await {
            Either::Left((Ok(guard), _)) => guard,
            Either::Left((Err(error), _)) => return self.not_granted(Some(error.kind())),
            Either::Right(_) => return self.not_granted(None),
        };
        let token = self.network.recorder().number_of(&guard.fingerprint());
        let (resources, until, fence) = (vec![0], self.until(&guard), guard.fencing_token());
        self.record(EventKind::Granted { client, resources, token, until, fence });
        Some((guard, token))
    }

    fn not_granted<T>(&self, why: Option<ErrorKind>) -> Option<T> {
        self.record(EventKind::NotGranted { client: self.number, why });
        None
    }

    /// Extends a lease, unless it is lost.
    pub(crate) async fn extend(&self, lease: &Lease, token: TokenNumber, ttl: Duration) {
        let client = self.number;
        if !lease.is_held() {
            return;
        }
        self.record(EventKind::Extending { client, token, ttl });
        self.record(match lease.extend(ttl).await {
            Ok(()) => EventKind::Extended { client, token, until: self.until(lease) },
            Err(error) => EventKind::NotExtended { client, token, why: Some(error.kind()) },
        });
    }

    /// Releases a lock, and waits for the outcome in one of two cases.
    pub(crate) async fn release<K: Kind>(&mut self, guard: Guard<K>, token: TokenNumber) {
        let (client, waits) = (self.number, self.chance.bool());
        self.record(self.network.recorder().releasing(client, token, waits));
        if waits {
            let outcome = guard.release().await.map_err(|error| error.kind());
            self.record(EventKind::Released { client, token, outcome });
        }
    }

    /// Keeps the handle: cleanup ends a minute after the last handle is dropped.
    pub(crate) async fn clean_up(self) {
        self.process.sleep(Duration::from_secs(60)).await;
    }

    /// Keeps a lock for a time. In one of five cases, the client drops the operation.
    pub(crate) async fn keep(&mut self, guard: Guard, token: TokenNumber, rest: Duration) {
        let client = self.number;
        self.record(EventKind::Keeping { client, token });
        let until = self.network.now() + rest;
        self.record(EventKind::Noticed { client, token, until });
        let patience = if self.chance.u32(..5) == 0 { self.millis(0, 20) } else { Duration::from_secs(3600) };
        let result = match select(Box::pin(guard.keep_for(rest)), self.process.sleep(patience)).await {
            Either::Left((result, _)) => result.map_err(|error| Some(error.kind())),
            Either::Right(_) => Err(None),
        };
        self.record(match result {
            Ok(()) => EventKind::Kept { client, token, until },
            // The history has no event of its own for that.
            Err(why) => EventKind::NotExtended { client, token, why },
        });
    }

    /// Cuts the connections to this number of servers, in one direction.
    pub(crate) fn cut_off(&mut self, count: usize) {
        let first = self.chance.usize(..NODES);
        for server in (first..first + count).map(|server| server % NODES) {
            let is_request = self.chance.bool();
            let direction = if is_request { Direction::Requests } else { Direction::Replies };
            self.network.cut(self.number, server, direction);
        }
    }

    /// Cuts the connections to some of this number of servers, in one direction.
    pub(crate) fn cut_off_at_random(&mut self, servers: usize) {
        for server in 0..servers {
            match self.chance.u32(..4) {
                0 => self.network.cut(self.number, server, Direction::Requests),
                1 => self.network.cut(self.number, server, Direction::Replies),
                _ => {}
            }
        }
    }

    /// Ends all cuts.
    pub(crate) fn reconnect(&self) {
        self.network.heal_all();
    }

    pub(crate) async fn idle(&mut self, least: u64, most: u64) {
        let time = self.millis(least, most);
        self.process.sleep(time).await;
    }

    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.chance.u64(least * 1_000..most * 1_000))
    }

    fn until(&self, lease: &Lease) -> Instant {
        self.network.now() + lease.remaining()
    }

    pub(crate) fn now(&self) -> Instant {
        self.network.now()
    }

    fn record(&self, event: EventKind) {
        self.network.recorder().record(event);
    }
}

/// A node without an order of waiters, which has a model of its own. A reservation denies what another model grants.
struct WithoutPlaces(Arc<dyn LockNode>);

impl LockNode for WithoutPlaces {
    fn label(&self) -> &str {
        self.0.label()
    }

    fn profile(&self) -> Profile {
        let mut profile = self.0.profile();
        profile.places = false;
        profile
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        self.0.begin(request)
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        self.0.check(resource)
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.set_node_timeout(timeout);
    }
}
