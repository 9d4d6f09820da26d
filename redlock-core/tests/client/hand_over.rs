//! A task that sends its attempt behind the release of another task of its process.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::common::{MS, NODE_TIMEOUT, TTL};
use redlock_core::node::{
    Begun, ConnectionId, Denial, Exchange, LockNode, NodeError, Profile, Reply, Request, Status,
};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{Builder, Redlock};
use redlock_testkit::MemoryNode;
use redlock_testkit::sim::{Process, Simulation};

/// The time of a message in one direction.
const WAY: Duration = Duration::from_millis(10);

/// A round trip.
const TRIP: Duration = Duration::from_millis(20);

/// A node whose messages take some time, on an ordered connection.
struct Distant {
    store: MemoryNode,
    process: Process,
    quirks: Quirks,
    connection: AtomicU64,
    acquires: AtomicU64,
    /// The time at which the last request arrives.
    last_arrival: Mutex<Instant>,
    /// The next task, in the test that polls it by hand.
    next: Arc<NextTask>,
    /// For each release, `true` if the next task was awake when it was sent.
    awake_at_releases: Mutex<Vec<bool>>,
}

/// A task that is polled by hand.
#[derive(Default)]
struct NextTask {
    is_awake: AtomicBool,
}

impl Wake for NextTask {
    fn wake(self: Arc<Self>) {
        self.is_awake.store(true, Ordering::Relaxed);
    }
}

/// The deviations of a node from an ideal one.
#[derive(Clone, Copy, Default)]
struct Quirks {
    /// True if the node does not state its connection.
    unordered: bool,
    /// The additional time until a release is carried out, as if its script had to be sent again.
    release_lag: Duration,
    /// The additional time until the reply to an acquire arrives.
    reply_lag: Duration,
    /// True if the node does not keep places.
    has_no_places: bool,
}

impl Distant {
    /// Waits until a request arrives that is sent now, behind all earlier ones.
    async fn arrival(&self) {
        let arrival = {
            let mut last = self.last_arrival.lock().unwrap();
            *last = (*last + Duration::from_nanos(1)).max(self.process.now() + WAY);
            *last
        };
        self.process.sleep(arrival.saturating_duration_since(self.process.now())).await;
    }
}

/// A handle to a node, for the futures of its replies.
#[derive(Clone)]
struct Handle(Arc<Distant>);

impl LockNode for Handle {
    fn label(&self) -> &str {
        self.0.store.label()
    }

    fn profile(&self) -> Profile {
        let profile = Profile::default();
        if self.0.quirks.has_no_places { profile } else { profile.with_places() }
    }

    fn status(&self) -> Status {
        self.0.connection().map_or_else(Status::default, |connection| Status::default().over(connection))
    }

    fn begin(&self, request: &Request) -> Begun {
        let (Self(node), request) = (self.clone(), request.clone());
        let connection = node.connection();
        let reply = async move {
            match request {
                Request::Acquire(..) => node.acquire(request).await,
                Request::Extend(..) => Ok(Reply::Denied(Denial::default())),
                Request::Release(_) => node.release(request).await,
                other => Err(NodeError::unsupported(&other)),
            }
        };
        Begun::Sent(Exchange { connection, server: None, reply: Box::pin(reply) })
    }
}

impl Distant {
    fn connection(&self) -> Option<ConnectionId> {
        (!self.quirks.unordered).then(|| ConnectionId(self.connection.load(Ordering::Relaxed)))
    }

    async fn acquire(&self, request: Request) -> Result<Reply, NodeError> {
        self.acquires.fetch_add(1, Ordering::Relaxed);
        self.arrival().await;
        let vote = self.store.call(request).await;
        self.process.sleep(WAY + self.quirks.reply_lag).await;
        vote
    }

    async fn release(&self, request: Request) -> Result<Reply, NodeError> {
        self.awake_at_releases.lock().unwrap().push(self.next.is_awake.load(Ordering::Relaxed));
        self.arrival().await;
        self.process.sleep(self.quirks.release_lag).await;
        let deleted = self.store.call(request).await;
        self.process.sleep(WAY).await;
        deleted
    }
}

/// One process and its nodes, in virtual time.
#[derive(Clone)]
struct World {
    process: Process,
    nodes: Vec<Arc<Distant>>,
    redlock: Redlock,
    /// The times of the holds in milliseconds, in their order.
    holds: Arc<Mutex<Vec<(u32, u128)>>>,
}

fn with<F>(nodes: &[Quirks], test: impl FnOnce(World) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let simulation = Simulation::new(1).max_polls(1_000_000);
    let process = simulation.process("client");
    let next = Arc::<NextTask>::default();
    let node = |(number, quirks): (usize, &Quirks)| {
        let store = MemoryNode::with_runtime(format!("distant-{number}"), process.runtime());
        Arc::new(Distant {
            store,
            process: process.clone(),
            quirks: *quirks,
            connection: AtomicU64::new(0),
            acquires: AtomicU64::new(0),
            last_arrival: Mutex::new(Instant::ORIGIN),
            next: Arc::clone(&next),
            awake_at_releases: Mutex::default(),
        })
    };
    let nodes: Vec<_> = nodes.iter().enumerate().map(node).collect();
    let redlock = client(&process, &nodes);
    let world = World { process: process.clone(), nodes, redlock, holds: Arc::default() };
    simulation.block_on(&process, test(world));
}

fn client(process: &Process, nodes: &[Arc<Distant>]) -> Redlock {
    let nodes = nodes.iter().map(|node| Arc::new(Handle(Arc::clone(node))) as Arc<dyn LockNode>);
    Builder::new(process.runtime()).nodes(nodes).node_timeout(NODE_TIMEOUT).build().unwrap()
}

impl World {
    /// Starts a task that acquires the lock and releases it at once.
    async fn contender(&self, name: u32) {
        self.contender_of(&self.redlock, name, Duration::ZERO).await;
    }

    /// Starts a task, and waits until its request is queued.
    async fn contender_of(&self, redlock: &Redlock, name: u32, lasts: Duration) {
        let (there, redlock) = (self.clone(), redlock.clone());
        self.process.spawn(Box::pin(async move {
            let guard = redlock.lock("a", TTL).max_wait(100 * TTL).retry_delay(MS).await.unwrap();
            there.holds.lock().unwrap().push((name, there.millis()));
            there.process.sleep(lasts).await;
            guard.release().await.unwrap();
        }));
        self.sleep(Duration::from_nanos(1)).await;
    }

    async fn contenders(&self, count: u32) {
        for name in 0..count {
            self.contender(name).await;
        }
    }

    fn millis(&self) -> u128 {
        self.process.now().elapsed_since_origin().as_millis()
    }

    async fn sleep(&self, duration: Duration) {
        self.process.sleep(duration).await;
    }

    /// Returns the milliseconds from each hold to the next one.
    fn gaps(&self) -> Vec<u128> {
        let holds = self.holds.lock().unwrap();
        holds.windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
    }

    fn names(&self) -> Vec<u32> {
        self.holds.lock().unwrap().iter().map(|(name, _)| *name).collect()
    }

    /// Returns the number of acquires that each node has received.
    fn acquires(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.acquires.load(Ordering::Relaxed)).collect()
    }
}

/// Runs this many contenders of one process. Returns the gaps between their holds, and the acquires of each node.
fn hand_overs(nodes: &[Quirks], tasks: u32) -> (Vec<u128>, Vec<u64>) {
    let result = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let results = Arc::clone(&result);
    with(nodes, async move |world| {
        world.contenders(tasks).await;
        world.sleep(TTL).await;
        assert_eq!((0..tasks).collect::<Vec<_>>(), world.names(), "first come, first served");
        assert_eq!(0, world.redlock.close().await);
        assert!(world.nodes.iter().all(|node| node.store.is_empty()), "keys are left");
        *results.lock().unwrap() = (world.gaps(), world.acquires());
    });
    Arc::try_unwrap(result).unwrap().into_inner().unwrap()
}

const IDEAL: Quirks =
    Quirks { unordered: false, release_lag: Duration::ZERO, reply_lag: Duration::ZERO, has_no_places: false };

const ONE_TRIP: u128 = TRIP.as_millis();
const TWO_TRIPS: u128 = 2 * TRIP.as_millis();

#[test]
fn a_hand_over_takes_one_round_trip() {
    for nodes in [1, 3, 5] {
        assert_eq!((vec![ONE_TRIP; 9], vec![10; nodes]), hand_overs(&vec![IDEAL; nodes], 10));
    }
}

/// The guard is dropped before the request is queued, and the release is sent afterwards.
#[test]
fn a_request_right_after_the_drop_of_a_guard_takes_one_round_trip() {
    with(&[IDEAL; 5], async |world| {
        drop(world.redlock.lock("a", TTL).await.unwrap());
        let start = world.millis();
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        assert_eq!(ONE_TRIP, world.millis() - start);
        guard.release().await.unwrap();
    });
}

/// On a runtime with one thread, the next task then runs before the tasks of the connections.
///
/// Thus each connection sends the release and the attempt in one write.
#[test]
fn the_next_task_is_woken_before_the_releases_are_sent() {
    with(&[IDEAL; 5], async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let next = Arc::clone(&world.nodes[0].next);
        let mut request = world.redlock.lock("a", TTL).into_future();
        let waker = Waker::from(Arc::clone(&next));
        assert!(request.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(!next.is_awake.load(Ordering::Relaxed), "the second task must wait for the turn");
        guard.release().await.unwrap();
        for node in &world.nodes {
            assert_eq!(vec![true], *node.awake_at_releases.lock().unwrap());
        }
        request.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn without_ordered_connections_the_next_task_waits_for_the_confirmation() {
    let unordered = Quirks { unordered: true, ..IDEAL };
    assert_eq!(vec![TWO_TRIPS; 9], hand_overs(&[unordered; 5], 10).0);
    let most = [unordered, unordered, unordered, IDEAL, IDEAL];
    assert_eq!(vec![TWO_TRIPS; 9], hand_overs(&most, 10).0, "only a minority is ordered");
    let few = [unordered, unordered, IDEAL, IDEAL, IDEAL];
    assert_eq!(vec![ONE_TRIP; 9], hand_overs(&few, 10).0, "a quorum is ordered");
}

/// Otherwise, other processes would have no chance before the tasks of this one.
#[test]
fn without_places_the_next_task_waits_for_the_confirmation() {
    let placeless = Quirks { has_no_places: true, ..IDEAL };
    assert_eq!(vec![TWO_TRIPS; 9], hand_overs(&[placeless, placeless, IDEAL], 10).0);
    assert_eq!(vec![ONE_TRIP; 9], hand_overs(&[placeless, IDEAL, IDEAL], 10).0, "a quorum keeps places");
}

#[test]
fn a_node_with_an_unanswered_write_does_not_count() {
    let slow = Quirks { reply_lag: 5 * TRIP, ..IDEAL };
    let unordered = Quirks { unordered: true, ..IDEAL };
    assert_eq!(vec![TWO_TRIPS; 3], hand_overs(&[slow, unordered, IDEAL], 4).0);
    assert_eq!(vec![ONE_TRIP; 3], hand_overs(&[slow, IDEAL, IDEAL], 4).0, "a quorum counts");
}

#[test]
fn an_attempt_that_overtook_the_release_is_repeated_behind_its_confirmation() {
    let late = Quirks { release_lag: 3 * MS, ..IDEAL };
    let (gaps, acquires) = hand_overs(&[late; 5], 2);
    assert_eq!(vec![TWO_TRIPS + 3], gaps, "no delay follows the confirmation");
    assert_eq!(vec![3; 5], acquires);
    // A minority that is late costs nothing.
    let (gaps, acquires) = hand_overs(&[late, late, IDEAL, IDEAL, IDEAL], 2);
    assert_eq!((vec![ONE_TRIP], vec![2; 5]), (gaps, acquires));
}

#[test]
fn a_request_that_times_out_behind_a_release_passes_the_turn_on() {
    let late = Quirks { release_lag: 50 * MS, ..IDEAL };
    with(&[late; 3], async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let (there, hasty) = (world.clone(), 25 * MS);
        world.process.spawn(Box::pin(async move {
            assert!(there.redlock.lock("a", TTL).max_wait(hasty).await.is_err());
        }));
        world.sleep(Duration::from_nanos(1)).await;
        world.contender(1).await;
        guard.release().await.unwrap();
        world.sleep(TTL).await;
        assert_eq!(vec![1], world.names());
    });
}

#[test]
fn while_another_client_contends_some_turns_pass_at_the_confirmation() {
    with(&[IDEAL; 3], async |world| {
        let other = client(&world.process, &world.nodes);
        world.contender_of(&other, 100, 100 * MS).await;
        // The first task is denied by the other client, and the rest follows it.
        world.contenders(64).await;
        world.sleep(TTL).await;
        assert_eq!([100, 0, 1, 2], world.names()[..4]);
        let gaps = world.gaps().split_off(1);
        let open = gaps.iter().filter(|gap| **gap == TWO_TRIPS).count();
        assert!((1..10).contains(&open), "one of 16 turns is open for clients without a place: {gaps:?}");
        assert_eq!(gaps.len() - open, gaps.iter().filter(|gap| **gap == ONE_TRIP).count(), "{gaps:?}");
    });
}
