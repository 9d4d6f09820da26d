//! The cost of a lock as allocations and requests, which do not depend on the machine.
//!
//! The nodes reply at once, so everything happens in the calling thread, whose allocations are counted. Each request
//! takes one allocation: the boxed future of its reply. The core makes the others.
#![cfg(not(feature = "metrics"))] // each vote would cost a label; `scripts/test features` runs this without it
#![allow(clippy::unwrap_used, clippy::unnecessary_wraps)] // a panic fails the test

use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use redlock_core::Redlock;
use redlock_core::node::{Begun, Denial, LockNode, NodeError, Reply, Request, Token};
use redlock_core::runtime::{BoxFuture, Runtime, suspend_aware_now};
use redlock_testkit::{ThreadRuntime, block_on};

const TTL: Duration = Duration::from_secs(10);

/// A node that counts requests and gives every one the same reply, without allocating.
struct Instant {
    label: String,
    denial: Option<Denial>,
    requests: [AtomicU64; 3],
}

const ACQUIRE: usize = 0;
const EXTEND: usize = 1;
const RELEASE: usize = 2;

impl Instant {
    fn vote(&self, operation: usize) -> Reply {
        self.requests[operation].fetch_add(1, Ordering::Relaxed);
        self.denial.clone().map_or(Reply::Granted, Reply::Denied)
    }
}

impl LockNode for Instant {
    fn label(&self) -> &str {
        &self.label
    }

    fn begin(&self, request: &Request) -> Begun {
        Begun::sent(ready(match request {
            Request::Acquire(..) => Ok(self.vote(ACQUIRE)),
            Request::Extend(..) => Ok(self.vote(EXTEND)),
            Request::Release(_) => Ok(Reply::Deleted(self.vote(RELEASE) == Reply::Granted)),
            other => Err(NodeError::unsupported(other)),
        }))
    }
}

/// A runtime that counts how often the clock is read.
#[derive(Debug, Default)]
struct Clock(Arc<AtomicU64>);

impl Runtime for Clock {
    fn now(&self) -> redlock_core::runtime::Instant {
        self.0.fetch_add(1, Ordering::Relaxed);
        suspend_aware_now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        ThreadRuntime.sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<()>) {
        ThreadRuntime.spawn(future);
    }
}

struct World {
    nodes: Vec<Arc<Instant>>,
    redlock: Redlock,
    clock: Arc<AtomicU64>,
}

impl World {
    fn new(nodes: usize, denial: Option<&Denial>) -> Self {
        let node = |number| Instant {
            label: format!("instant-{number}"),
            denial: denial.cloned(),
            requests: [const { AtomicU64::new(0) }; 3],
        };
        let nodes: Vec<_> = (0..nodes).map(|number| Arc::new(node(number))).collect();
        let clones = nodes.iter().map(|node| Arc::clone(node) as Arc<dyn LockNode>);
        let runtime = Clock::default();
        let clock = Arc::clone(&runtime.0);
        let redlock = Redlock::builder(runtime).nodes(clones).build().unwrap();
        Self { nodes, redlock, clock }
    }

    async fn cycle(&self) {
        self.redlock.lock("invoice:42", TTL).await.unwrap().release().await.unwrap();
    }

    async fn denied(&self) {
        assert!(self.redlock.lock("invoice:42", TTL).try_now().await.unwrap().is_none());
    }

    /// Returns the requests of each kind, which must be equal on all nodes.
    fn requests(&self) -> [u64; 3] {
        let of = |node: &Arc<Instant>| node.requests.each_ref().map(|count| count.load(Ordering::Relaxed));
        let first = of(&self.nodes[0]);
        assert!(
            self.nodes.iter().all(|node| of(node) == first),
            "the nodes received different numbers of requests"
        );
        first
    }
}

fn granting(nodes: usize) -> World {
    World::new(nodes, None)
}

fn denying(nodes: usize) -> World {
    World::new(nodes, Some(&Denial::by(Token::from_bytes("other"))))
}

/// Returns the allocations of one run, without one-time initialization.
fn allocations<F: Future>(run: impl Fn() -> F) -> u64 {
    const RUNS: u64 = 10;
    block_on(run());
    let counted = allocation_counter::measure(|| {
        block_on(async {
            for _ in 0..RUNS {
                run().await;
            }
        });
    });
    assert_eq!(0, counted.count_current, "memory is leaked");
    // The integer division discards the waker of `block_on`.
    counted.count_total / RUNS
}

#[test]
fn a_cycle_is_one_acquire_and_one_release_per_node() {
    let world = granting(5);
    block_on(world.cycle());
    assert_eq!([1, 0, 1], world.requests());
}

/// Reading the clock takes longer than an allocation.
///
/// The clock is read at the lock request, at the replies of the nodes, and when the release is requested and
/// confirmed.
#[test]
fn a_cycle_reads_the_clock_four_times() {
    for nodes in [1, 5, 9] {
        let world = granting(nodes);
        block_on(world.cycle());
        assert_eq!(4, world.clock.load(Ordering::Relaxed), "N = {nodes}");
    }
}

#[test]
fn an_extension_is_one_request_per_node() {
    let world = granting(5);
    block_on(async {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        guard.extend(TTL).await.unwrap();
        guard.release().await.unwrap();
    });
    assert_eq!([1, 1, 1], world.requests());
}

#[test]
fn a_denied_attempt_is_one_acquire_and_one_release_per_node() {
    let world = denying(5);
    block_on(world.denied());
    assert_eq!([1, 0, 1], world.requests());
}

#[test]
fn allocations_of_a_cycle() {
    let counted = [1, 3, 5, 9].map(|nodes| {
        let world = granting(nodes);
        allocations(|| world.cycle())
    });
    assert_eq!([12, 16, 20, 35], counted, "at N = 1, 3, 5, 9");
}

#[test]
fn allocations_of_a_denied_attempt() {
    let counted = [1, 3, 5, 9].map(|nodes| {
        let world = denying(nodes);
        allocations(|| world.denied())
    });
    assert_eq!([11, 15, 19, 33], counted, "at N = 1, 3, 5, 9");
}

#[test]
fn a_task_that_waits_in_the_queue_takes_less_than_2_kb() {
    const TASKS: usize = 100;
    let world = granting(5);
    let _guard = block_on(world.redlock.lock("invoice:42", TTL)).unwrap();
    let mut requests: Vec<_> =
        (0..=TASKS).map(|_| world.redlock.lock("invoice:42", TTL).into_future()).collect();
    // The first task watches, and the others wait in the queue behind it.
    let mut wait = |at: usize| assert!(requests[at].as_mut().now_or_never().is_none());
    wait(0);
    let counted = allocation_counter::measure(|| (1..=TASKS).for_each(wait));
    let bytes = usize::try_from(counted.bytes_current).unwrap() / TASKS;
    // The size includes the allocation of the request itself, which its task makes.
    let of_request = size_of_val(&*requests[0]);
    assert!(bytes + of_request < 2_000, "{bytes} bytes, and {of_request} of the request");
}
