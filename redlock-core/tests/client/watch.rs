//! Waiting for a lock that another process holds, with nodes that notify waiters.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::*;
use redlock_core::node::{
    Availability, Backend, Begun, Denial, LockNode, NodeError, Profile, Quarantine, QuarantineReason, Reply,
    Request, Token, Ttl, Watch,
};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{Builder, ErrorKind, Guard, KeepAlive, Redlock};
use redlock_testkit::sim::{Process, Simulation, for_each_seed};
use redlock_testkit::{FakeNode, Fault, Operation};

/// Runs a test with another client and five nodes that notify waiters.
fn with_watched<F, T>(test: impl FnOnce(World, Redlock) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    watched(1, 5, test)
}

fn watched<F, T>(seed: u64, count: usize, test: impl FnOnce(World, Redlock) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let simulation = Simulation::new(seed).max_polls(1_000_000);
    let process = simulation.process("client");
    let node = |number| FakeNode::new(format!("fake-{number}"), process.runtime()).watching();
    let nodes: Vec<_> = (0..count).map(node).collect();
    let redlock = builder(&process, &nodes).build().unwrap();
    let other = builder(&process, &nodes).build().unwrap();
    simulation.block_on(&process.clone(), test(World { process, nodes, redlock }, other))
}

/// Waits for the lock in a separate task.
fn waiting(world: &World, wait: Duration) -> futures_channel::oneshot::Receiver<(Guard, Duration)> {
    let (sender, receiver) = futures_channel::oneshot::channel();
    let there = world.clone();
    world.spawn(async move {
        let (guard, took) = there.time(there.redlock.lock("a", TTL).max_wait(wait)).await;
        drop(sender.send((guard.unwrap(), took)));
    });
    receiver
}

#[test]
fn a_release_notifies_waiters() {
    with_watched(async |world, other| {
        let guard = other.lock("a", 100 * TTL).await.unwrap();
        let waiting = waiting(&world, 10 * TTL);
        world.sleep(Duration::from_millis(4_321)).await;
        let attempts = world.request_counts(Operation::Acquire);
        assert_eq!(vec![2; 5], attempts, "one attempt per client, and no polling");
        guard.release().await.unwrap();
        let (_, took) = waiting.await.unwrap();
        assert_eq!(Duration::from_millis(4_321), took);
        assert_eq!(vec![3; 5], world.request_counts(Operation::Acquire));
    });
}

#[test]
fn a_release_by_another_program_notifies_waiters() {
    with_watched(async |world, _| {
        for node in &world.nodes {
            node.inner().set_holder("a", Token::from_bytes("legacy"), Ttl::MAX);
        }
        let waiting = waiting(&world, 10 * TTL);
        world.sleep(777 * MS).await;
        world.nodes.iter().for_each(|node| node.inner().clear());
        assert_eq!(779 * MS, waiting.await.unwrap().1, "clients without a place come first");
    });
}

#[test]
fn waiters_notice_an_expiry_without_a_notification() {
    with_watched(async |world, other| {
        let ttl = TTL / 4;
        drop(other.lock("a", ttl).await.unwrap().forget());
        let (_, took) = waiting(&world, 10 * TTL).await.unwrap();
        assert!(took > ttl && took <= ttl + 7 * MS, "{took:?}");
        assert_eq!(
            vec![3, 3],
            world.request_counts(Operation::Acquire)[..2],
            "the waiter attempts once while the lock is held and once after its expiry"
        );
    });
}

#[test]
fn renewals_of_the_holder_cause_no_thundering_herd() {
    with_watched(async |world, other| {
        let guard = other.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let waiting = waiting(&world, 100 * TTL);
        world.sleep(10 * TTL).await;
        let attempts = world.request_counts(Operation::Acquire)[0];
        // The waiter attempts every 5 s in case notifications get lost.
        assert!((15..=22).contains(&attempts), "{attempts} attempts");
        let (watches, renewals) =
            (world.request_counts(Operation::Watch)[0], world.request_counts(Operation::Extend)[0]);
        assert!(watches <= renewals + 2 * attempts, "{watches} watches for {renewals} renewals");
        guard.release().await.unwrap();
        world.settle().await;
        assert!(waiting.await.is_ok());
    });
}

/// The release comes at every point between the denied attempt and the sleep.
#[test]
fn a_release_between_the_denial_and_the_sleep_is_not_missed() {
    for_each_seed(200, |seed| {
        watched(seed, 3, async move |world, other| {
            let guard = other.lock("a", 100 * TTL).await.unwrap();
            // Every kind of request has a different short delay.
            for node in &world.nodes {
                node.inject(Fault::delay(MS * u32::try_from(seed % 4).unwrap()).on(Operation::Watch));
                node.inject(Fault::delay(MS * u32::try_from(seed / 4 % 3).unwrap()).on(Operation::Release));
            }
            let waiting = waiting(&world, 10 * TTL);
            for _ in 0..seed / 12 {
                world.sleep(MS / 2).await;
            }
            guard.release().await.unwrap();
            let (_, took) = waiting.await.unwrap();
            assert!(took < 40 * MS, "{took:?}");
        });
    });
}

#[test]
fn a_release_notifies_waiters_with_one_node_of_a_minimal_quorum_hung() {
    with_watched(async |world, other| {
        world.nodes[3..].iter().for_each(|node| node.inject(Fault::deny().on(Operation::Acquire).once()));
        let guard = other.lock("a", 100 * TTL).await.unwrap();
        world.settle().await;
        let waiting = waiting(&world, 10 * TTL);
        world.sleep(MS).await;
        world.nodes[0].inject(Fault::hang());
        world.sleep(TTL).await;
        drop(guard);
        let before = world.redlock.now();
        assert!(waiting.await.is_ok());
        // The two nodes that denied are free, and so are two of the three others.
        assert!(world.redlock.now().saturating_duration_since(before) < 10 * MS);
    });
}

#[test]
fn nodes_that_restart_are_watched_again() {
    with_watched(async |world, other| {
        let guard = other.lock("a", 100 * TTL).await.unwrap();
        let waiting = waiting(&world, 10 * TTL);
        world.sleep(MS).await;
        world.nodes.iter().for_each(redlock_testkit::Faulty::crash);
        world.sleep(100 * MS).await;
        world.nodes.iter().for_each(redlock_testkit::Faulty::restart);
        world.sleep(TTL / 5).await;
        guard.release().await.unwrap();
        let before = world.redlock.now();
        assert!(waiting.await.is_ok());
        assert_eq!(before, world.redlock.now());
    });
}

#[test]
fn a_node_with_false_notifications_is_watched_at_growing_intervals() {
    with_watched(async |world, other| {
        let _guard = other.lock("a", 100 * TTL).await.unwrap();
        let _waiting = waiting(&world, 10 * TTL);
        // The tracking table of this node is too small, so every watch of it notifies at once.
        let there = world.clone();
        world.spawn(async move {
            loop {
                there.nodes[0].inner().set_holder("a", Token::from_bytes("again"), Ttl::MAX);
                there.sleep(MS / 10).await;
            }
        });
        world.sleep(TTL).await;
        let watches = world.request_counts(Operation::Watch)[0];
        assert!(watches < 80, "{watches} in {TTL:?}");
        assert!(world.request_counts(Operation::Watch)[1] < 10);
    });
}

#[test]
fn waiters_poll_if_a_majority_sends_no_notifications() {
    with_watched(async |world, other| {
        let guard = other.lock("a", 100 * TTL).await.unwrap();
        world.nodes[..3].iter().for_each(|node| {
            node.inject(Fault::fail(NodeError::unsupported("watch")).on(Operation::Watch));
        });
        let waiting = waiting(&world, 10 * TTL);
        world.sleep(TTL).await;
        let attempts = world.request_counts(Operation::Acquire)[0];
        assert!((50..=105).contains(&attempts), "{attempts} attempts, each 100 to 200 ms");
        drop(guard);
        assert!(waiting.await.unwrap().1 < TTL + 200 * MS);
    });
}

#[test]
fn an_attempt_after_a_notification_does_not_count_towards_max_attempts() {
    with_watched(async |world, other| {
        let _guard = other.lock("a", 100 * TTL).await.unwrap();
        let (result, took) = world.time(world.redlock.lock("a", TTL).max_attempts(4)).await;
        assert_eq!(ErrorKind::Contended, kind(result));
        assert!(took >= 300 * MS && took <= 600 * MS, "three delays: {took:?}");
        assert_eq!(5, world.request_counts(Operation::Acquire)[0]);
    });
}

#[test]
fn one_waiter_waits_for_several_resources_together() {
    with_watched(async |world, other| {
        let first = other.lock("a", 100 * TTL).await.unwrap();
        let second = other.lock("b", 100 * TTL).await.unwrap();
        let there = world.clone();
        let (sender, receiver) = futures_channel::oneshot::channel();
        world.spawn(
            async move { drop(sender.send(there.time(there.redlock.lock(["a", "b", "c"], TTL)).await)) },
        );
        world.sleep(MS).await;
        let attempts = world.request_counts(Operation::Acquire);
        first.release().await.unwrap();
        world.sleep(MS).await;
        let again = world.request_counts(Operation::Acquire);
        let expected: Vec<_> = attempts.iter().map(|attempts| attempts + 1).collect();
        assert_eq!(expected[..], again[..], "the turn on `a` passes on, since `b` is still locked");
        second.release().await.unwrap();
        let (guard, took) = receiver.await.unwrap();
        assert_eq!((true, 2 * MS), (guard.is_ok(), took));
    });
}

/// Many waiters are notified together. One acquires the lock soon, and all acquire it in the end.
#[test]
fn waiters_notified_together_do_not_collide_forever() {
    for_each_seed(20, |seed| {
        let simulation = Simulation::new(seed).max_polls(3_000_000);
        let process = simulation.process("client");
        let node = |number| FakeNode::new(format!("fake-{number}"), process.runtime()).watching();
        let nodes: Vec<_> = (0..5).map(node).collect();
        let held = Arc::new(AtomicU32::new(0));
        for _ in 0..8 {
            let redlock = builder(&process, &nodes).build().unwrap();
            let (held, timers) = (held.clone(), process.clone());
            process.spawn(Box::pin(async move {
                for _ in 0..10 {
                    let guard = redlock.lock("a", TTL).wait_unbounded().await.unwrap();
                    held.fetch_add(1, Ordering::Relaxed);
                    timers.sleep(MS).await;
                    guard.release().await.unwrap();
                }
            }));
        }
        // Requests take about a millisecond, with a different delay on each node.
        for (number, node) in (1_u32..).zip(&nodes) {
            node.inject(Fault::delay(MS / 2 + MS / 10 * number));
        }
        simulation.run_for(Duration::from_secs(3));
        assert_eq!(80, held.load(Ordering::Relaxed), "80 holds of 1 ms");
    });
}

/// The holder renews, and every node takes a moment to report that the lock is still held.
#[test]
fn renewals_cause_no_thundering_herd_even_if_nodes_are_slow() {
    with_watched(async |world, other| {
        for (number, node) in (1_u32..).zip(&world.nodes) {
            node.inject(Fault::delay(MS / 2 * number).on(Operation::Watch));
        }
        let guard = other.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let waiting = waiting(&world, 100 * TTL);
        world.sleep(10 * TTL).await;
        let attempts = world.request_counts(Operation::Acquire)[0];
        // The waiter attempts every 5 s in case notifications get lost, and at every fourth renewal.
        assert!((15..=27).contains(&attempts), "{attempts} attempts");
        guard.release().await.unwrap();
        assert!(waiting.await.is_ok());
    });
}

/// A client that has just released the lock is the first one to learn that it is free.
#[test]
fn no_waiter_starves_behind_a_holder_that_reacquires_at_once() {
    for (seed, hold) in [(0, 20), (1, 100), (2, 500)] {
        let simulation = Simulation::new(seed).max_polls(3_000_000);
        let process = simulation.process("client");
        let node = |number| FakeNode::new(format!("fake-{number}"), process.runtime()).watching();
        let nodes: Vec<_> = (0..5).map(node).collect();
        for (number, node) in (10_u32..).zip(&nodes) {
            node.inject(Fault::delay(MS / 100 * number));
        }
        let counts = [0; 3].map(|_| Arc::new(AtomicU32::new(0)));
        for count in &counts {
            let redlock = builder(&process, &nodes).build().unwrap();
            let (held, timers) = (Arc::clone(count), process.clone());
            process.spawn(Box::pin(async move {
                loop {
                    let guard = redlock.lock("a", TTL).wait_unbounded().await.unwrap();
                    held.fetch_add(1, Ordering::Relaxed);
                    timers.sleep(hold * MS).await;
                    guard.release().await.unwrap();
                }
            }));
        }
        simulation.run_for(Duration::from_secs(60));
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        assert!(counts.iter().all(|held| *held >= 5), "holds of {hold} ms: {counts:?}");
    }
}

/// A node that reports a free lock and denies every attempt.
struct FalselyFree {
    label: String,
    attempts: Arc<AtomicU32>,
}

#[redlock_core::node::async_trait]
impl Backend for FalselyFree {
    fn label(&self) -> &str {
        &self.label
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(..) => {
                assert!(self.attempts.fetch_add(1, Ordering::Relaxed) < 10_000, "a hot loop");
                Ok(Reply::Denied(Denial::by(Token::from_bytes("other"))))
            }
            Request::Extend(..) => Ok(Reply::Denied(Denial::default())),
            Request::Release(_) => Ok(Reply::Deleted(false)),
            Request::Watch(_) => Ok(Reply::Watching(Watch::new(Availability::Free, std::future::pending()))),
            other => Err(NodeError::unsupported(other)),
        }
    }

    fn profile(&self) -> Profile {
        Profile::default().with_watch()
    }
}

#[test]
fn nodes_that_report_a_free_lock_and_deny_cause_no_hot_loop() {
    let simulation = Simulation::new(1).max_polls(1_000_000);
    let process = simulation.process("client");
    let attempts = Arc::new(AtomicU32::new(0));
    let node =
        |number| FalselyFree { label: format!("falsely-free-{number}"), attempts: Arc::clone(&attempts) };
    let nodes = (0..3).map(|number| Arc::new(Arc::new(node(number))) as Arc<dyn LockNode>);
    let redlock = Redlock::builder(process.clone()).nodes(nodes).build().unwrap();
    let result = simulation.block_on(&process, async move {
        redlock.lock("a", TTL).max_wait(Duration::from_secs(1)).await.map(drop)
    });
    assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    assert!(attempts.load(Ordering::Relaxed) <= 3 * 1_001, "{attempts:?}: at most one attempt a millisecond");
}

/// A short TTL is renewed several times a second, and none of these renewals frees the lock.
///
/// Waiters keep watching the nodes nevertheless, instead of polling.
#[test]
fn frequent_renewals_do_not_make_waiters_poll() {
    with_watched(async |world, other| {
        let guard = other.lock("a", TTL / 20).keep_alive(KeepAlive::new()).await.unwrap();
        let waiting = waiting(&world, 100 * TTL);
        world.sleep(TTL).await;
        let attempts = world.request_counts(Operation::Acquire)[0];
        assert!(attempts <= 5, "{attempts} attempts in {TTL:?}");
        guard.release().await.unwrap();
        world.settle().await;
        assert!(waiting.await.is_ok());
    });
}

/// An attempt is carried out after 2 ms, and a watch 2 ms later.
///
/// On each of three nodes the key is deleted before, with or after either, in every order.
#[test]
fn a_release_notifies_the_waiter_in_every_interleaving_with_attempt_and_watches() {
    for order in 0..5_u32.pow(3) {
        for seed in 0..4 {
            watched(seed, 3, async move |world, _| {
                for node in &world.nodes {
                    node.inner().set_holder("a", Token::from_bytes("legacy"), Ttl::MAX);
                    node.inject(Fault::delay(2 * MS).on(Operation::Acquire));
                    node.inject(Fault::delay(2 * MS).on(Operation::Watch));
                }
                for (turn, node) in (0..3).zip(world.nodes.clone()) {
                    let there = world.clone();
                    world.spawn(async move {
                        there.sleep(MS * (order / 5_u32.pow(turn) % 5 + 1)).await;
                        node.inner().clear();
                    });
                }
                let (_, took) = waiting(&world, 10 * TTL).await.unwrap();
                // The last key is gone after 5 ms. A watch, an attempt and a false collision follow, but no retry
                // delay.
                assert!(took <= 12 * MS, "order {order}, seed {seed}: {took:?}");
            });
        }
    }
}

#[test]
fn a_flapping_node_neither_causes_attempts_nor_hides_a_release() {
    with_watched(async |world, other| {
        let guard = other.lock("a", 100 * TTL).await.unwrap();
        let waiting = waiting(&world, 10 * TTL);
        let (there, attempts) = (world.clone(), world.request_counts(Operation::Acquire)[1]);
        world.spawn(async move {
            loop {
                there.sleep(30 * MS).await;
                there.nodes[0].crash();
                there.sleep(30 * MS).await;
                there.nodes[0].restart();
            }
        });
        world.sleep(TTL).await;
        let tried = world.request_counts(Operation::Acquire)[1] - attempts;
        assert!(tried <= 4, "{tried} attempts in {TTL:?}");
        let watches = world.request_counts(Operation::Watch)[0];
        assert!(watches <= 200, "{watches} watches in {TTL:?}");
        assert!(world.request_counts(Operation::Watch)[1] <= 4);
        let before = world.redlock.now();
        guard.release().await.unwrap();
        assert!(waiting.await.is_ok());
        let took = world.redlock.now().saturating_duration_since(before);
        assert!(took < 10 * MS, "{took:?}");
    });
}

#[test]
fn waiters_share_the_limit_of_concurrent_attempts_for_their_watches() {
    with_watched(async |world, other| {
        let names = ["a", "b", "c"];
        let mut held = Vec::new();
        for name in names {
            held.push(other.lock(name, 100 * TTL).await.unwrap());
        }
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(10 * MS).on(Operation::Watch)));
        let redlock = builder(&world.process, &world.nodes).max_concurrent_attempts(1).build().unwrap();
        let acquired = Arc::new(AtomicU32::new(0));
        for name in names {
            let (redlock, acquired) = (redlock.clone(), Arc::clone(&acquired));
            world.spawn(async move {
                drop(redlock.lock(name, TTL).max_wait(10 * TTL).await.unwrap());
                acquired.fetch_add(1, Ordering::SeqCst);
            });
        }
        for watches in 1..=3 {
            world.settle().await;
            assert_eq!(vec![watches; 5], world.request_counts(Operation::Watch));
            world.sleep(10 * MS).await;
        }
        drop(held);
        world.sleep(200 * MS).await;
        assert_eq!(3, acquired.load(Ordering::SeqCst));
    });
}

#[test]
fn nodes_in_quarantine_are_not_free() {
    with_watched(async |world, _| {
        world.nodes.iter().for_each(|node| node.inner().set_longest_ttl(TTL));
        let client = || builder(&world.process, &world.nodes).build().unwrap();
        let (holder, waiter) = (client(), client());
        // Two nodes hold the lock, one is in quarantine, and two are free.
        world.nodes[3..].iter().for_each(|node| node.inject(Fault::reject()));
        let guard = holder.lock("a", TTL).await.unwrap();
        world.nodes[3..].iter().for_each(FakeNode::clear_faults);
        world.nodes[2].inner().clear();
        world.settle().await;
        let before = world.request_counts(Operation::Acquire)[4];
        assert_eq!(ErrorKind::Undecided, kind(waiter.lock("a", TTL).max_wait(TTL / 4).await));
        let attempts = world.request_counts(Operation::Acquire)[4] - before;
        assert!(attempts <= 2, "{attempts} attempts");
        drop(guard);
        waiter.close().await;
        holder.close().await;
        world.nothing_left().await;
    });
}

/// A node whose votes do not count before a certain time. Its status and its watches do not show this, as if the node lists
/// of programs did not agree.
struct Uncounted {
    node: FakeNode,
    process: Process,
    counts_at: Instant,
}

impl LockNode for Uncounted {
    fn label(&self) -> &str {
        self.node.label()
    }

    fn profile(&self) -> Profile {
        self.node.profile()
    }

    fn begin(&self, request: &Request) -> Begun {
        let is_uncounted = request.operation() == Operation::Acquire && self.process.now() < self.counts_at;
        self.node.begin(request).map(move |reply| {
            let quarantine = Quarantine::new(QuarantineReason::NodeListNotCompared);
            reply.map(
                |reply| if is_uncounted { Reply::Quarantined(Box::new(reply), quarantine) } else { reply },
            )
        })
    }
}

/// A quorum seems free, but one of its votes does not count, so attempts fail. No notification arrives when the vote counts
/// again.
#[test]
fn nodes_with_uncounted_votes_are_polled_at_the_retry_delay() {
    for is_slot in [false, true] {
        watched(1, 3, async move |world, _| {
            let (wait, delay) = (2 * TTL / 5, 100 * MS);
            let counts_at = world.process.now() + wait;
            let node = |(number, node): (usize, &FakeNode)| -> Arc<dyn LockNode> {
                let (node, process) = (node.clone(), world.process.clone());
                if number == 2 { Arc::new(Uncounted { node, process, counts_at }) } else { Arc::new(node) }
            };
            let nodes = world.nodes.iter().enumerate().map(node);
            let waiter = Builder::new(world.process.runtime()).nodes(nodes).build().unwrap();
            // One node holds the lock, one is free, and votes of the last one do not count.
            let (name, ttl) = ("a:slot:0", Ttl::new(6 * TTL).unwrap());
            world.nodes[0].inner().set_holder(name, Token::from_bytes("other"), ttl);
            let request = async {
                if is_slot {
                    let request = waiter.slots("a", 1).unwrap().acquire(TTL);
                    request.retry_delay(delay).wait_unbounded().await.map(Guard::into_any)
                } else {
                    waiter.lock(name, TTL).retry_delay(delay).wait_unbounded().await.map(Guard::into_any)
                }
            };
            let (guard, took) = world.time(request).await;
            assert!(took >= wait && took < wait + 250 * MS, "{took:?}");
            // Each delay is random between half of this and all of it. A search for a slot adds a delay after split votes.
            let attempts = world.request_counts(Operation::Acquire)[1];
            assert!((25..=80).contains(&attempts), "{attempts} attempts in {wait:?}");
            guard.unwrap().release().await.unwrap();
        });
    }
}
