//! Keep-alive, the report of a loss, and work that is canceled by it.
#![allow(clippy::unchecked_time_subtraction)] // constants of the test
#![allow(clippy::unwrap_used)] // test helpers may panic
#![allow(clippy::disallowed_methods)] // the tests need blocking code and tasks of the service

mod common;

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use common::*;
use redlock_core::{
    ErrorKind, Guard, Instant, KeepAlive, Lease, LeaseState, Loss, Redlock, ReleaseOutcome, Runtime,
    TokioRuntime,
};
use redlock_testkit::sim::{Process, Simulation};
use redlock_testkit::{FakeNode, Fault, Faulty, Operation};

/// The time between the report of a loss and the deadline, with a TTL of 10 s.
const MARGIN: Duration = Duration::from_millis(200);

/// The validity of a lock that was just acquired.
const VALIDITY: Duration = Duration::from_millis(9_898);

async fn kept(world: &World) -> Guard {
    let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
    world.settle().await;
    guard
}

/// Waits for the loss of a lock, and returns it with the time of the report.
async fn loss(world: &World, lease: &Lease) -> (Loss, Instant) {
    let loss = lease.lost().await;
    (loss, world.redlock.now())
}

fn hang(nodes: &[FakeNode]) {
    for node in nodes {
        node.inject(Fault::hang());
    }
}

#[test]
fn work_ten_times_as_long_as_the_ttl_keeps_the_lock() {
    with_five(async |world| {
        let stranger = world.stranger();
        let (nodes, process) = (world.nodes.clone(), world.process.clone());
        let work = |lease: Lease| async move {
            for _ in 0..100 {
                process.sleep(TTL / 10).await;
                assert_eq!(LeaseState::Held, lease.state());
                assert!(stranger.try_lock("a", TTL).await.unwrap().is_none());
            }
            nodes.iter().map(|node| node.request_count(Operation::Extend)).collect::<Vec<_>>()
        };
        let extensions = world.redlock.run("a", TTL, work).await.unwrap();
        assert!(extensions.iter().all(|count| (29..=34).contains(count)), "{extensions:?}, three a TTL");

        assert_eq!(0, world.keys(), "the release was waited for");
        world.sleep(10 * TTL).await;
        assert_eq!(extensions, world.seen(Operation::Extend), "and none after the release");
    });
}

#[test]
fn a_renewal_is_due_when_two_thirds_of_the_ttl_are_left() {
    with_five(async |world| {
        let guard = kept(&world).await;
        let mut least = guard.remaining();
        for _ in 0..1_000 {
            world.sleep(TTL / 50).await;
            least = least.min(guard.remaining());
        }
        assert!(least > TTL * 6 / 10, "{least:?}");
    });
}

#[test]
fn renewal_races_release() {
    // The release comes during a renewal: before it at the slow nodes, and after it at the others.
    for (late, count) in (0..20).flat_map(|late| [(late, 2), (late, 5)]) {
        with_five(async move |world| {
            let guard = kept(&world).await;
            let slow = Fault::delay(10 * MS).on(Operation::Extend);
            world.nodes[..count].iter().for_each(|node| node.inject(slow.clone()));
            while world.seen(Operation::Extend)[0] == 0 {
                world.sleep(MS).await;
            }
            world.sleep(late * MS).await;
            assert!(matches!(guard.release().await.unwrap(), ReleaseOutcome::Released));
            world.settle().await;
            let extensions = world.seen(Operation::Extend);
            world.sleep(3 * TTL).await;
            assert_eq!(extensions, world.seen(Operation::Extend), "{late} ms after the renewal began");
            world.nothing_left().await;
        });
    }
}

#[test]
fn a_renewal_under_way_ends_with_the_release() {
    with_five(async |world| {
        let guard = kept(&world).await;
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Extend)));
        world.nodes[0].wait_for_requests(Operation::Extend, 1).await;
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        let (abandoned, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, abandoned);
        assert!(took < MS, "its end is waited for, {took:?}");
        assert_eq!((1, 0), (world.process.tasks(), world.keys()));
    });
}

#[test]
fn loss_exactly_once() {
    with_five(async |world| {
        let guard = kept(&world).await;
        let told = Arc::new(AtomicU32::new(0));
        let (lease, counted, process) = (guard.lease(), told.clone(), world.process.clone());
        world.spawn(async move {
            let mut state = lease.state();
            while !matches!(state, LeaseState::Lost(_)) {
                state = lease.changed().await;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            // The loss is final, so from now on every call returns it at once.
            assert_eq!(state, lease.changed().await);
            assert_eq!(LeaseState::Lost(lease.lost().await), state);
            process.sleep(TTL).await;
            assert_eq!(state, lease.state());
        });
        hang(&world.nodes);
        world.sleep(TTL).await;
        world.nodes.iter().for_each(Faulty::clear_faults);
        for node in &world.nodes {
            node.resume().await;
        }
        world.sleep(2 * TTL).await;
        assert_eq!(1, told.load(Ordering::Relaxed));
        assert_eq!(ErrorKind::TooSlow, kind(guard.extend(TTL).await));
    });
}

#[test]
fn extension_cap() {
    with_five(async |world| {
        let start = world.redlock.now();
        let guard = world.lock().await;
        // A failed attempt does not count.
        let lost = Fault::lose_reply().on(Operation::Extend).once();
        world.nodes[..3].iter().for_each(|node| node.inject(lost.clone()));
        guard.keep_alive(KeepAlive::new().max_extensions(2));
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!(Loss::Expired, reason);
        assert_eq!(vec![3; 5], world.seen(Operation::Extend));
        // The lock is lost with the TTL of the second extension. That came about two thirds of a TTL after the first
        // one.
        let held = at.saturating_duration_since(start);
        assert!((TTL * 15 / 10..TTL * 18 / 10).contains(&held), "{held:?}");
    });
}

#[test]
fn maximum_hold_time() {
    with_five(async |world| {
        let start = world.redlock.now();
        let hold = Duration::from_secs(25);
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new().max_hold(hold)).await.unwrap();
        world.sleep(hold - MARGIN - MS).await;
        assert_eq!(LeaseState::Held, guard.state());
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!((Loss::Expired, start + hold - MARGIN), (reason, at));
        world.sleep(MARGIN).await;
        assert!(!guard.is_held());
    });
}

#[test]
fn a_maximum_hold_time_below_the_ttl_takes_nothing_away() {
    with_five(async |world| {
        let guard = world.lock().await;
        guard.keep_alive(KeepAlive::new().max_hold(TTL / 2));
        world.sleep(TTL * 9 / 10).await;
        assert!(guard.is_held());
        assert_eq!(vec![0; 5], world.seen(Operation::Extend));
    });
}

#[test]
fn transient_failure_then_recovery() {
    with_five(async |world| {
        let guard = kept(&world).await;
        hang(&world.nodes[..3]);
        let told = Arc::new(AtomicBool::new(false));
        let (lost, flag) = (guard.lost(), told.clone());
        world.spawn(async move {
            lost.await;
            flag.store(true, Ordering::Relaxed);
        });
        assert_eq!(LeaseState::AtRisk, guard.changed().await);
        assert!(guard.is_held() && guard.remaining() < TTL * 7 / 10);
        for node in &world.nodes {
            node.clear_faults();
            node.resume().await;
        }
        assert_eq!(LeaseState::Held, guard.changed().await);
        assert!(guard.remaining() > TTL * 9 / 10);
        world.sleep(3 * TTL).await;
        assert!(!told.load(Ordering::Relaxed));
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    });
}

#[test]
fn partial_extension_continues() {
    with_five(async |world| {
        let guard = kept(&world).await;
        hang(&world.nodes[..1]);
        world.nodes[1].inject(Fault::reject().on(Operation::Extend));
        world.sleep(5 * TTL).await;
        assert_eq!(LeaseState::Held, guard.state());
        assert!(world.seen(Operation::Extend).iter().all(|count| *count >= 14));
    });
}

#[test]
fn body_error_preserved() {
    with_five(async |world| {
        let nodes = world.nodes.clone();
        let work = |_| async move {
            // The release will fail, which does not hide this error.
            hang(&nodes);
            Err::<(), _>("disk full")
        };
        assert_eq!(Err("disk full"), world.redlock.run("a", TTL, work).await.unwrap());
        for node in &world.nodes {
            node.clear_faults();
            node.resume().await;
        }
        world.nothing_left().await;
    });
}

#[test]
fn all_nodes_or_a_majority_hung_is_told_before_the_deadline() {
    for hung in [3, 5] {
        with_five(async move |world| {
            let guard = kept(&world).await;
            let deadline = world.redlock.now() + guard.remaining();
            hang(&world.nodes[..hung]);
            let (reason, at) = loss(&world, &guard).await;
            assert_eq!((Loss::Unreachable, deadline - MARGIN), (reason, at));
            assert!(guard.is_held(), "others are kept out while the work stops");
            let tries = world.seen(Operation::Extend)[4];
            assert!((5..40).contains(&tries), "{tries} tries");
        });
    }
}

#[test]
fn a_majority_that_restarted_empty_is_told_with_the_next_renewal() {
    with_five(async |world| {
        let guard = kept(&world).await;
        let start = world.redlock.now();
        world.nodes[..3].iter().for_each(FakeNode::restart_empty);
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!(Loss::Revoked { holder: None }, reason);
        assert!(at < start + TTL / 2 && !guard.is_held());
        assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn another_holder_in_place_is_told_by_name() {
    with_five(async |world| {
        let guard = kept(&world).await;
        world.nodes.iter().for_each(|node| node.inner().clear());
        let thief = world.stranger().try_lock("a", TTL * 100).await.unwrap().unwrap();
        let (reason, _) = loss(&world, &guard).await;
        assert_eq!(Loss::Revoked { holder: Some(thief.fingerprint()) }, reason);
        let message = guard.extend(TTL).await.unwrap_err().to_string();
        assert!(message.contains(&thief.fingerprint().to_string()), "{message}");
        drop(guard);
        world.sleep(TTL).await;
        assert_eq!(5, world.keys(), "the other's lock is left alone");
    });
}

/// Endless work that asserts that the lock is held.
async fn tick(lease: Lease, process: Process, step: Duration, ticks: Arc<AtomicU32>) {
    loop {
        assert!(lease.is_held(), "polled without the lock");
        ticks.fetch_add(1, Ordering::Relaxed);
        process.sleep(step).await;
    }
}

#[test]
fn work_stops_when_the_lock_is_lost() {
    with_five(async |world| {
        let ticks = Arc::new(AtomicU32::new(0));
        let (nodes, process) = (world.nodes.clone(), world.process.clone());
        world.spawn(async move {
            process.sleep(TTL).await;
            hang(&nodes);
        });
        let (process, counted) = (world.process.clone(), ticks.clone());
        let work = |lease| tick(lease, process, TTL / 100, counted);
        let error = world.redlock.run("a", TTL, work).await.unwrap_err();
        assert_eq!((ErrorKind::Lost, Some(&Loss::Unreachable)), (error.kind(), error.loss()));
        assert!(error.to_string().ends_with("; the work was canceled"), "{error}");
        assert_eq!(None, error.output());
        let stopped = ticks.load(Ordering::Relaxed);
        assert!(stopped > 100);
        world.sleep(TTL).await;
        assert_eq!(stopped, ticks.load(Ordering::Relaxed));
    });
}

/// The program pauses for longer than the validity, or the machine is suspended.
///
/// The loss is reported before the next step of the work.
#[test]
fn a_program_that_stood_still_is_told_before_its_work_goes_on() {
    for suspended in [false, true] {
        let simulation = Simulation::new(1);
        let (process, outside) = (simulation.process("client"), simulation.process("outside"));
        let nodes: Vec<_> =
            (0..5).map(|number| FakeNode::new(format!("fake-{number}"), outside.runtime())).collect();
        let redlock: Redlock = builder(&process, &nodes).build().unwrap();
        let steps = Arc::new(AtomicU32::new(0));
        let (counted, timers) = (steps.clone(), process.clone());
        let work = move |lease| tick(lease, timers, 7 * MS, counted);
        let (stopped, wakes) = (process.clone(), outside.clone());
        outside.spawn(Box::pin(async move {
            wakes.sleep(3 * TTL + 3 * MS).await;
            if suspended {
                stopped.suspend();
            } else {
                stopped.pause();
            }
            wakes.sleep(2 * TTL).await;
            stopped.resume();
        }));
        let error =
            simulation.block_on(&process, async move { redlock.run("a", TTL, work).await }).unwrap_err();
        assert_eq!(Some(&Loss::Expired), error.loss());
        assert!(simulation.now() < Instant::ORIGIN + 5 * TTL + 20 * MS, "told at once");
        assert!(steps.load(Ordering::Relaxed) > 4_000);
        simulation.run_for(TTL);
        assert!(nodes.iter().all(|node| node.inner().is_empty()));
        assert_eq!(0, process.tasks());
    }
}

#[test]
fn keys_that_a_release_does_not_find_are_a_loss() {
    with_five(async |world| {
        let nodes = world.nodes.clone();
        let work = async move |lease: Lease| {
            for node in &nodes {
                node.inner().clear();
            }
            lease.is_held()
        };
        let error = world.redlock.run("a", TTL, work).await.unwrap_err();
        assert_eq!((ErrorKind::Lost, Some(&Loss::Revoked { holder: None })), (error.kind(), error.loss()));
        assert_eq!(Some(true), error.into_output(), "it could not know");
    });
}

/// A node whose code panics ends the renewals, and nothing else.
#[test]
fn a_renewing_task_that_panics_is_not_what_tells_the_loss() {
    use redlock_core::{Claim, LockNode, NodeError, Ttl, Vote, async_trait};

    #[derive(Debug)]
    struct Panics(FakeNode);

    #[async_trait]
    impl LockNode for Panics {
        fn label(&self) -> &str {
            self.0.label()
        }
        async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
            self.0.acquire(claim, ttl).await
        }
        async fn extend(&self, _: &Claim, _: Ttl) -> Result<Vote, NodeError> {
            panic!("a backend with a bug")
        }
        async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
            self.0.release(claim).await
        }
    }

    // In this runtime, a panic ends its task and nothing else.
    in_tokio(async |(_, node)| {
        let node = Panics(node);
        let redlock = Redlock::builder(TokioRuntime::new()).node(Arc::new(node)).build().unwrap();
        let guard = redlock.lock("a", Duration::from_secs(2)).keep_alive(KeepAlive::new()).await.unwrap();
        assert_eq!(LeaseState::AtRisk, guard.changed().await);
        assert_eq!(Loss::Expired, guard.lost().await);
    });
}

/// Runs a test in real time, where code can take time without an await.
fn in_tokio<F: Future<Output = ()>>(test: impl FnOnce((Redlock, FakeNode)) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = FakeNode::new("fake", Arc::new(TokioRuntime::new()));
        let builder = Redlock::builder(TokioRuntime::new()).node(Arc::new(node.clone()));
        test((builder.build().unwrap(), node)).await;
    });
}

#[test]
fn the_output_of_work_that_blocked_for_too_long_is_in_the_error() {
    in_tokio(async |(redlock, node)| {
        let ttl = Duration::from_millis(50);
        let work = |lease: Lease| async move {
            std::thread::sleep(2 * ttl);
            lease.is_held()
        };
        let error = redlock.run("a", ttl, work).await.unwrap_err();
        assert_eq!((ErrorKind::Lost, Some(&Loss::Expired)), (error.kind(), error.loss()));
        assert!(error.to_string().ends_with("; the work finished without it"), "{error}");
        assert_eq!(Some(false), error.into_output());
        redlock.close().await;
        assert!(node.inner().is_empty());
    });
}

#[test]
fn work_that_kept_the_runtime_from_renewing_is_stopped_at_its_next_await() {
    in_tokio(async |(redlock, node)| {
        let ttl = Duration::from_millis(50);
        let work = |_: Lease| async move {
            std::thread::sleep(2 * ttl);
            tokio::task::yield_now().await;
            unreachable!("polled without the lock");
        };
        assert_eq!(ErrorKind::Lost, kind(redlock.run("a", ttl, work).await));
        redlock.close().await;
        assert!(node.inner().is_empty());
    });
}

#[test]
fn work_that_panics_still_releases() {
    in_tokio(async |(redlock, node)| {
        let (handle, ttl) = (redlock.clone(), Duration::from_secs(10));
        let task =
            tokio::spawn(
                async move { handle.run("a", ttl, |_| async { panic!("the panic as it was") }).await },
            );
        let panic = task.await.unwrap_err().into_panic();
        assert_eq!(Some(&"the panic as it was"), panic.downcast_ref::<&str>());
        // The same applies to a panic before there is a future.
        let (handle, ttl) = (redlock.clone(), Duration::from_secs(10));
        let task = tokio::spawn(async move {
            let work = |_: Lease| -> std::future::Ready<()> { panic!("not even begun") };
            handle.run("b", ttl, work).await
        });
        assert!(task.await.unwrap_err().is_panic());
        redlock.close().await;
        assert!(node.inner().is_empty());
    });
}

#[test]
fn work_dropped_from_outside_leaves_no_key() {
    with_five(async |world| {
        let in_use = Arc::new(());
        let used = in_use.clone();
        let running = Box::pin(world.redlock.run("a", TTL, |_| async move {
            pending::<()>().await;
            drop(used);
        }));
        let pause = Box::pin(world.sleep(2 * TTL));
        assert!(matches!(
            futures_util::future::select(running, pause).await,
            futures_util::future::Either::Right(_)
        ));
        assert_eq!(1, Arc::strong_count(&in_use), "the work was dropped");
        world.nothing_left().await;
        assert_eq!(1, world.process.tasks(), "the test itself");
    });
}

#[test]
fn no_task_is_left_behind_the_last_guard() {
    with_five(async |world| {
        let guards: Vec<_> = {
            let mut guards = Vec::new();
            for name in ["a", "b", "c", "d"] {
                guards.push(world.redlock.lock(name, TTL).keep_alive(KeepAlive::new()).await.unwrap());
            }
            guards
        };
        world.settle().await;
        assert_eq!(5, world.process.tasks(), "one each, and the test itself");
        // The last keep-alive replaces the one before.
        guards[0].keep_alive(KeepAlive::new());
        world.settle().await;
        assert_eq!(5, world.process.tasks());
        let mut guards = guards.into_iter();
        drop(guards.next());
        guards.next().unwrap().release().await.unwrap();
        let leaked = guards.next().unwrap().forget();
        world.settle().await;
        assert_eq!(2, world.process.tasks());
        world.nodes.iter().for_each(|node| node.inner().clear());
        guards.next().unwrap().lost().await;
        world.settle().await;
        assert_eq!(1, world.process.tasks());
        assert!(matches!(leaked.state(), LeaseState::Held), "as far as it knows");
    });
}

#[test]
fn a_leaked_lock_keeps_others_out_for_its_ttl() {
    with_five(async |world| {
        let lease = kept(&world).await.forget();
        world.sleep(TTL * 9 / 10).await;
        assert_eq!((true, vec![0; 5]), (lease.is_held(), world.seen(Operation::Extend)));
        let stranger = world.stranger();
        assert!(stranger.try_lock("a", TTL).await.unwrap().is_none());
        assert_eq!(Loss::Expired, lease.lost().await);
        world.sleep(TTL / 10).await;
        // The other client cleaned up its own attempt.
        assert_eq!((0, vec![1; 5]), (world.keys(), world.seen(Operation::Release)));
        assert!(stranger.try_lock("a", TTL).await.unwrap().is_some());
    });
}

#[test]
fn whoever_waits_for_a_loss_is_told_of_the_release() {
    with_five(async |world| {
        let guard = kept(&world).await;
        let told = guard.lost();
        let (released, reason) = both(guard.release(), told).await;
        assert_eq!((ReleaseOutcome::Released, Loss::Released), (released.unwrap(), reason));
    });
}

#[test]
fn a_short_ttl_is_renewed_in_time() {
    with_five(async |world| {
        let ttl = 10 * MS;
        let guard = world.redlock.lock("a", ttl).keep_alive(KeepAlive::new()).await.unwrap();
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(MS)));
        world.sleep(TTL).await;
        assert_eq!(LeaseState::Held, guard.state());
        hang(&world.nodes);
        assert_eq!(Loss::Unreachable, guard.lost().await);
    });
}

#[test]
fn validity_is_told_to_the_end_without_keep_alive() {
    with_five(async |world| {
        let start = world.redlock.now();
        let guard = world.lock().await;
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!((Loss::Expired, start + VALIDITY - MARGIN), (reason, at));
    });
}

/// A long TTL: a regular renewal comes after 10 s at the earliest.
const LONG: Duration = Duration::from_secs(60);

async fn missed_by_the_first(world: &World, redlock: &Redlock, nodes: &[FakeNode]) -> Guard {
    nodes[0].crash();
    let guard = redlock.lock("a", LONG).keep_alive(KeepAlive::new()).await.unwrap();
    world.sleep(Duration::from_millis(500)).await;
    assert!(nodes[0].inner().is_empty() && nodes[1].inner().len() == 1);
    guard
}

fn with_connections(world: &World) -> (Vec<FakeNode>, Redlock) {
    let node = |number| FakeNode::new(format!("connected-{number}"), world.process.runtime()).ordered();
    let nodes: Vec<_> = (0..5).map(node).collect();
    let redlock = builder(&world.process, &nodes).build().unwrap();
    (nodes, redlock)
}

#[test]
fn a_node_that_missed_the_acquisition_gets_the_key_soon_after_it_is_back() {
    with_five(async |world| {
        let (nodes, redlock) = with_connections(&world);
        let guard = missed_by_the_first(&world, &redlock, &nodes).await;
        nodes[0].restart();
        world.sleep(Duration::from_secs(8)).await;
        assert_eq!(1, nodes[0].inner().len(), "no renewal was brought forward");
        assert_eq!(1, nodes[1].request_count(Operation::Extend), "and once is enough");
        guard.release().await.unwrap();
        assert_eq!(0, redlock.close().await);
        assert!(nodes.iter().all(|node| node.inner().is_empty()));
    });
}

#[test]
fn a_node_that_is_back_gets_no_key_of_a_lock_that_was_released_or_is_not_extended() {
    with_five(async |world| {
        let (nodes, redlock) = with_connections(&world);
        let guard = missed_by_the_first(&world, &redlock, &nodes).await;
        nodes[1..].iter().for_each(|node| node.inject(Fault::reject().on(Operation::Extend)));
        nodes[0].restart();
        world.sleep(Duration::from_secs(8)).await;
        assert!(nodes[1].request_count(Operation::Extend) > 0, "no renewal was brought forward");
        assert!(nodes[0].inner().is_empty(), "only a quorum that has extended allows it");
        nodes.iter().for_each(FakeNode::clear_faults);
        guard.release().await.unwrap();
        world.sleep(LONG).await;
        assert!(nodes.iter().all(|node| node.inner().is_empty()));
        assert_eq!(0, redlock.close().await);
    });
}
