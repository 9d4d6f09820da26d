//! Keep-alive, the report of a loss, and the cancellation of work on a loss.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted
#![allow(clippy::disallowed_methods)] // the tests need blocking code and tasks

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::common::*;
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{
    ErrorKind, Guard, KeepAlive, Lease, LeaseState, Loss, Redlock, ReleaseOutcome, TokioRuntime,
};
use redlock_testkit::sim::{Process, Simulation};
use redlock_testkit::{FakeNode, Fault, Faulty, Operation};

/// The time between the report of a loss and the deadline, with a TTL of 10 s.
const MARGIN: Duration = Duration::from_millis(200);

/// The validity of a lock that was just acquired.
const VALIDITY: Duration = Duration::from_millis(9_898);

async fn keep_alive_lock(world: &World) -> Guard {
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
fn work_of_ten_ttls_keeps_the_lock() {
    with_five(async |world| {
        let other = world.other_client();
        let (nodes, process) = (world.nodes.clone(), world.process.clone());
        let work = |lease: Lease| async move {
            for _ in 0..100 {
                process.sleep(TTL / 10).await;
                assert_eq!(LeaseState::Held, lease.state());
                assert!(other.lock("a", TTL).try_now().await.unwrap().is_none());
            }
            nodes.iter().map(|node| node.request_count(Operation::Extend)).collect::<Vec<_>>()
        };
        let extensions = world.redlock.lock("a", TTL).run(work).await.unwrap();
        assert!(extensions.iter().all(|count| (29..=34).contains(count)), "{extensions:?}, three per TTL");

        assert_eq!(0, world.keys(), "the release has completed");
        world.sleep(10 * TTL).await;
        assert_eq!(extensions, world.request_counts(Operation::Extend), "no renewal follows the release");
    });
}

#[test]
fn a_renewal_is_due_when_two_thirds_of_the_ttl_are_left() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        let mut least = guard.remaining();
        for _ in 0..1_000 {
            world.sleep(TTL / 50).await;
            least = least.min(guard.remaining());
        }
        assert!(least > TTL * 6 / 10, "{least:?}");
    });
}

#[test]
fn a_renewal_that_races_a_release_leaves_no_key() {
    // The release comes during a renewal. It reaches slow nodes before the renewal and the others after it.
    for (late, count) in (0..20).flat_map(|late| [(late, 2), (late, 5)]) {
        with_five(async move |world| {
            let guard = keep_alive_lock(&world).await;
            let slow = Fault::delay(10 * MS).on(Operation::Extend);
            world.nodes[..count].iter().for_each(|node| node.inject(slow.clone()));
            while world.request_counts(Operation::Extend)[0] == 0 {
                world.sleep(MS).await;
            }
            world.sleep(late * MS).await;
            assert!(matches!(guard.release().await.unwrap(), ReleaseOutcome::Released));
            world.settle().await;
            let extensions = world.request_counts(Operation::Extend);
            world.sleep(3 * TTL).await;
            assert_eq!(
                extensions,
                world.request_counts(Operation::Extend),
                "{late} ms after the renewal began"
            );
            world.nothing_left().await;
        });
    }
}

#[test]
fn a_renewal_in_flight_ends_with_the_release() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Extend)));
        world.nodes[0].wait_for_requests(Operation::Extend, 1).await;
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        let (given_up, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, given_up);
        assert!(took < MS, "the renewal ends with the release, {took:?}");
        assert_eq!((1, 0), (world.process.tasks(), world.keys()));
    });
}

#[test]
fn a_loss_is_reported_exactly_once() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        let losses = Arc::new(AtomicU32::new(0));
        let (lease, counted, process) = (guard.lease(), losses.clone(), world.process.clone());
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
        assert_eq!(1, losses.load(Ordering::Relaxed));
        assert_eq!(ErrorKind::TooSlow, kind(guard.extend(TTL).await));
    });
}

#[test]
fn max_extensions_bounds_the_renewals() {
    with_five(async |world| {
        let start = world.redlock.now();
        let guard = world.lock().await;
        // A failed attempt does not count.
        let lost = Fault::lose_reply().on(Operation::Extend).once();
        world.nodes[..3].iter().for_each(|node| node.inject(lost.clone()));
        guard.keep_alive(KeepAlive::new().max_extensions(2));
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!(Loss::Expired, reason);
        assert_eq!(vec![3; 5], world.request_counts(Operation::Extend));
        // The lock is lost one TTL after the second extension, which came about two thirds of a TTL after the first
        // one.
        let held = at.saturating_duration_since(start);
        assert!((TTL * 15 / 10..TTL * 18 / 10).contains(&held), "{held:?}");
    });
}

#[test]
fn max_hold_bounds_the_time_of_a_lease() {
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
fn a_max_hold_below_the_ttl_does_not_shorten_the_lease() {
    with_five(async |world| {
        let guard = world.lock().await;
        guard.keep_alive(KeepAlive::new().max_hold(TTL / 2));
        world.sleep(TTL * 9 / 10).await;
        assert!(guard.is_held());
        assert_eq!(vec![0; 5], world.request_counts(Operation::Extend));
    });
}

#[test]
fn a_lease_at_risk_recovers_after_a_transient_failure() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        hang(&world.nodes[..3]);
        let reported = Arc::new(AtomicBool::new(false));
        let (loss, flag) = (guard.lost(), reported.clone());
        world.spawn(async move {
            loss.await;
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
        assert!(!reported.load(Ordering::Relaxed));
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    });
}

#[test]
fn renewals_continue_on_a_quorum() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        hang(&world.nodes[..1]);
        world.nodes[1].inject(Fault::reject().on(Operation::Extend));
        world.sleep(5 * TTL).await;
        assert_eq!(LeaseState::Held, guard.state());
        assert!(world.request_counts(Operation::Extend).iter().all(|count| *count >= 14));
    });
}

#[test]
fn an_error_of_the_work_is_preserved_if_the_release_fails() {
    with_five(async |world| {
        let nodes = world.nodes.clone();
        let work = |_| async move {
            // The release will fail, which must not hide this error.
            hang(&nodes);
            Err::<(), _>("disk full")
        };
        assert_eq!(Err("disk full"), world.redlock.lock("a", TTL).run(work).await.unwrap());
        for node in &world.nodes {
            node.clear_faults();
            node.resume().await;
        }
        world.nothing_left().await;
    });
}

#[test]
fn a_hung_majority_is_reported_before_the_deadline() {
    for hung in [3, 5] {
        with_five(async move |world| {
            let guard = keep_alive_lock(&world).await;
            let deadline = world.redlock.now() + guard.remaining();
            hang(&world.nodes[..hung]);
            let (reason, at) = loss(&world, &guard).await;
            assert_eq!((Loss::Unreachable, deadline - MARGIN), (reason, at));
            assert!(guard.is_held(), "other clients are denied while the work stops");
            let tries = world.request_counts(Operation::Extend)[4];
            assert!((5..40).contains(&tries), "{tries} tries");
        });
    }
}

/// Renews a lock in vain until 1 ms before the end of its validity: three of five nodes reject the renewals.
async fn lost_with_keys(world: &World) -> Guard {
    let guard = keep_alive_lock(world).await;
    world.nodes[2..].iter().for_each(|node| node.inject(Fault::reject().on(Operation::Extend)));
    world.sleep(guard.remaining() - MS).await;
    assert_eq!(5, world.keys(), "other clients are excluded as long as the lock is valid");
    guard
}

/// Failed renewals keep the keys of a minority, and the guard of a lost lock may exist for ever.
#[test]
fn what_failed_renewals_left_is_released_when_the_validity_ends() {
    with_five(async |world| {
        let guard = lost_with_keys(&world).await;
        world.sleep(MS).await;
        world.settle().await;
        assert_eq!(0, world.keys());
        assert_eq!(LeaseState::Lost(Loss::Unreachable), guard.state());
        assert_eq!(ReleaseOutcome::AlreadyExpired, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

/// The last renewal before the end of the longest hold sets the whole TTL, but the lock is valid until that end only.
#[test]
fn the_keys_of_a_lost_lock_are_released_although_no_renewal_has_failed() {
    with_five(async |world| {
        let settings = KeepAlive::new().max_hold(TTL * 3 / 2);
        let guard = world.redlock.lock("a", TTL).keep_alive(settings).await.unwrap();
        assert_eq!(Loss::Expired, guard.lost().await);
        world.sleep(guard.remaining() - MS).await;
        assert_eq!(5, world.keys());
        world.sleep(MS).await;
        world.settle().await;
        assert_eq!(0, world.keys());
        world.nothing_left().await;
    });
}

/// Before the validity ends, the owner may still decide otherwise.
#[test]
fn what_failed_renewals_left_is_kept_if_the_lock_is_forgotten_or_detached() {
    with_five(async |world| {
        drop(lost_with_keys(&world).await.forget());
        world.sleep(3 * TTL).await;
        assert_eq!([0; 5], *world.request_counts(Operation::Release));
    });
    with_five(async |world| {
        let detached = lost_with_keys(&world).await.detach().await;
        world.nodes.iter().for_each(FakeNode::clear_faults);
        let resumed = world.other_client().resume(&detached).await.unwrap();
        world.sleep(TTL / 2).await;
        assert_eq!((5, true), (world.keys(), resumed.is_held()));
        assert_eq!([0; 5], *world.request_counts(Operation::Release));
    });
}

/// Releases that no node has confirmed are repeated, and would delete the keys of the process that resumes the lease.
#[test]
fn a_lost_lock_whose_keys_are_being_deleted_cannot_be_resumed() {
    with_five(async |world| {
        let guard = lost_with_keys(&world).await;
        let fingerprint = guard.fingerprint();
        world.nodes.iter().for_each(|node| node.inject(Fault::reject().on(Operation::Release)));
        world.sleep(MS).await;
        world.settle().await;
        assert_eq!(5, world.keys());
        let detached = guard.detach().await;
        assert_ne!(fingerprint, detached.token().fingerprint());
        world.nodes.iter().for_each(FakeNode::clear_faults);
        let error = world.other_client().resume(&detached).await.unwrap_err();
        assert_eq!(ErrorKind::Lost, error.kind());
        world.nothing_left().await;
    });
}

#[test]
fn a_majority_that_restarted_empty_is_reported_by_the_next_renewal() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        let start = world.redlock.now();
        world.nodes[..3].iter().for_each(FakeNode::restart_empty);
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!(Loss::Revoked { holder: None }, reason);
        assert!(at < start + TTL / 2 && !guard.is_held());
        assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

/// The servers that deny the renewal may have lost their data, and the program may rely on the validity that it has read.
#[test]
fn what_a_revoked_lock_left_is_released_when_the_last_validity_ends() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        let deadline = world.redlock.now() + guard.remaining();
        world.nodes[..3].iter().for_each(FakeNode::restart_empty);
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!(Loss::Revoked { holder: None }, reason);
        world.sleep(deadline.saturating_duration_since(at) - MS).await;
        assert_eq!(2, world.keys());
        world.sleep(MS).await;
        world.settle().await;
        assert_eq!(0, world.keys());
        world.nothing_left().await;
    });
}

#[test]
fn the_loss_names_the_new_holder() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        world.nodes.iter().for_each(|node| node.inner().clear());
        let holder = world.other_client().lock("a", TTL * 100).try_now().await.unwrap().unwrap();
        let (reason, _) = loss(&world, &guard).await;
        assert_eq!(Loss::Revoked { holder: Some(holder.fingerprint()) }, reason);
        let message = guard.extend(TTL).await.unwrap_err().to_string();
        assert!(message.contains(&holder.fingerprint().to_string()), "{message}");
        drop(guard);
        world.sleep(TTL).await;
        assert_eq!(5, world.keys(), "the lock of the other client is untouched");
    });
}

/// Runs forever and asserts on every step that the lock is held.
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
        let error = world.redlock.lock("a", TTL).run(work).await.unwrap_err();
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
fn a_loss_during_a_pause_is_reported_before_the_work_resumes() {
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
            simulation.block_on(&process, async move { redlock.lock("a", TTL).run(work).await }).unwrap_err();
        assert_eq!(Some(&Loss::Expired), error.loss());
        assert!(simulation.now() < Instant::ORIGIN + 5 * TTL + 20 * MS, "reported at once");
        assert!(steps.load(Ordering::Relaxed) > 4_000);
        simulation.run_for(TTL);
        assert!(nodes.iter().all(|node| node.inner().is_empty()));
        assert_eq!(0, process.tasks());
    }
}

#[test]
fn keys_missing_at_the_release_are_a_loss() {
    with_five(async |world| {
        let nodes = world.nodes.clone();
        let work = async move |lease: Lease| {
            for node in &nodes {
                node.inner().clear();
            }
            lease.is_held()
        };
        let error = world.redlock.lock("a", TTL).run(work).await.unwrap_err();
        assert_eq!((ErrorKind::Lost, Some(&Loss::Revoked { holder: None })), (error.kind(), error.loss()));
        assert_eq!(format!("Lost: {error}"), format!("{error:?}"), "`main` prints `Debug`");
        assert_eq!(Some(true), error.into_output(), "the loss was unknown while the work ran");
    });
}

/// A panic in the code of a node ends the renewals and nothing else.
#[test]
fn a_loss_is_reported_even_if_the_renewal_task_panicked() {
    use redlock_core::node::{Begun, LockNode, Request};

    #[derive(Debug)]
    struct Panics(FakeNode);

    impl LockNode for Panics {
        fn label(&self) -> &str {
            self.0.label()
        }

        fn begin(&self, request: &Request) -> Begun {
            match request {
                Request::Extend(..) => Begun::sent(async { panic!("a backend with a bug") }),
                other => self.0.begin(other),
            }
        }
    }

    // In this runtime, a panic ends only its task.
    in_tokio(async |(_, node)| {
        let node = Panics(node);
        let redlock = Redlock::builder(TokioRuntime::new()).node(node).build().unwrap();
        let guard = redlock.lock("a", Duration::from_secs(2)).keep_alive(KeepAlive::new()).await.unwrap();
        // On a machine that stops this test for long, the lock has expired by then.
        let changed = guard.changed().await;
        assert!(matches!(changed, LeaseState::AtRisk | LeaseState::Lost(Loss::Expired)), "{changed:?}");
        assert_eq!(Loss::Expired, guard.lost().await);
    });
}

/// Runs a test in real time, where code can take time without an await.
fn in_tokio<F: Future<Output = ()>>(test: impl FnOnce((Redlock, FakeNode)) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = FakeNode::new("fake", Arc::new(TokioRuntime::new()));
        let builder = Redlock::builder(TokioRuntime::new()).node(node.clone());
        test((builder.build().unwrap(), node)).await;
    });
}

#[test]
fn work_that_blocked_the_renewals_is_canceled_at_its_next_await() {
    in_tokio(async |(redlock, node)| {
        let ttl = Duration::from_millis(50);
        let work = |_: Lease| async move {
            std::thread::sleep(2 * ttl);
            tokio::task::yield_now().await;
            unreachable!("polled without the lock");
        };
        assert_eq!(ErrorKind::Lost, kind(redlock.lock("a", ttl).run(work).await));
        redlock.close().await;
        assert!(node.inner().is_empty());
    });
}

#[test]
fn the_lock_is_released_if_the_work_panics() {
    in_tokio(async |(redlock, node)| {
        let (handle, ttl) = (redlock.clone(), Duration::from_secs(10));
        let task = tokio::spawn(async move {
            handle.lock("a", ttl).run(|_| async { panic!("the panic as it was") }).await
        });
        let panic = task.await.unwrap_err().into_panic();
        assert_eq!(Some(&"the panic as it was"), panic.downcast_ref::<&str>());
        // The work may panic before it returns a future.
        let (handle, ttl) = (redlock.clone(), Duration::from_secs(10));
        let task = tokio::spawn(async move {
            let work = |_: Lease| -> std::future::Ready<()> { panic!("the work panics at once") };
            handle.lock("b", ttl).run(work).await
        });
        assert!(task.await.unwrap_err().is_panic());
        redlock.close().await;
        assert!(node.inner().is_empty());
    });
}

#[test]
fn a_dropped_run_leaves_no_key() {
    with_five(async |world| {
        let in_use = Arc::new(());
        let used = in_use.clone();
        let running = Box::pin(world.redlock.lock("a", TTL).run(|_| async move {
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
        assert_eq!(1, world.process.tasks(), "only the task of the test is left");
    });
}

#[test]
fn no_task_outlives_the_last_guard() {
    with_five(async |world| {
        let guards: Vec<_> = {
            let mut guards = Vec::new();
            for name in ["a", "b", "c", "d"] {
                guards.push(world.redlock.lock(name, TTL).keep_alive(KeepAlive::new()).await.unwrap());
            }
            guards
        };
        world.settle().await;
        assert_eq!(5, world.process.tasks(), "one renewal task per guard, and the test");
        // A new keep-alive replaces the previous one.
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
        assert!(
            matches!(leaked.state(), LeaseState::Held),
            "a forgotten lease is no longer renewed or checked"
        );
    });
}

#[test]
fn a_forgotten_lock_excludes_others_for_its_ttl() {
    with_five(async |world| {
        let lease = keep_alive_lock(&world).await.forget();
        world.sleep(TTL * 9 / 10).await;
        assert_eq!((true, vec![0; 5]), (lease.is_held(), world.request_counts(Operation::Extend)));
        let other = world.other_client();
        assert!(other.lock("a", TTL).try_now().await.unwrap().is_none());
        assert_eq!(Loss::Expired, lease.lost().await);
        world.sleep(TTL / 10).await;
        // The other client has cleaned up its own attempt.
        assert_eq!((0, vec![1; 5]), (world.keys(), world.request_counts(Operation::Release)));
        assert!(other.lock("a", TTL).try_now().await.unwrap().is_some());
    });
}

#[test]
fn waiting_for_a_loss_ends_with_the_release() {
    with_five(async |world| {
        let guard = keep_alive_lock(&world).await;
        let loss = guard.lost();
        let (released, reason) = both(guard.release(), loss).await;
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
fn the_end_of_the_validity_is_reported_without_keep_alive() {
    with_five(async |world| {
        let start = world.redlock.now();
        let guard = world.lock().await;
        let (reason, at) = loss(&world, &guard).await;
        assert_eq!((Loss::Expired, start + VALIDITY - MARGIN), (reason, at));
    });
}

/// A TTL so long that the first regular renewal comes after 10 s at the earliest.
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
fn a_node_that_missed_the_acquire_is_refilled_soon_after_it_recovers() {
    with_five(async |world| {
        let (nodes, redlock) = with_connections(&world);
        let guard = missed_by_the_first(&world, &redlock, &nodes).await;
        nodes[0].restart();
        world.sleep(Duration::from_secs(8)).await;
        assert_eq!(1, nodes[0].inner().len(), "no renewal was brought forward");
        assert_eq!(1, nodes[1].request_count(Operation::Extend), "exactly one renewal was brought forward");
        guard.release().await.unwrap();
        assert_eq!(0, redlock.close().await);
        assert!(nodes.iter().all(|node| node.inner().is_empty()));
    });
}

#[test]
fn a_recovered_node_is_not_refilled_without_an_extension_or_after_the_release() {
    with_five(async |world| {
        let (nodes, redlock) = with_connections(&world);
        let guard = missed_by_the_first(&world, &redlock, &nodes).await;
        nodes[1..].iter().for_each(|node| node.inject(Fault::reject().on(Operation::Extend)));
        nodes[0].restart();
        world.sleep(Duration::from_secs(8)).await;
        assert!(nodes[1].request_count(Operation::Extend) > 0, "a renewal was brought forward");
        assert!(nodes[0].inner().is_empty(), "the key is missing because no quorum extended");
        nodes.iter().for_each(FakeNode::clear_faults);
        guard.release().await.unwrap();
        world.sleep(LONG).await;
        assert!(nodes.iter().all(|node| node.inner().is_empty()));
        assert_eq!(0, redlock.close().await);
    });
}
