//! Tasks of one process that wait for the same resource.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use redlock_core::{ErrorKind, KeepAlive, Loss};
use redlock_testkit::{FakeNode, Fault, Operation};

/// Spawns a task that acquires the lock and adds its name to `log`.
fn contender(world: &World, name: u32, log: &Arc<Mutex<Vec<u32>>>, wait: Duration) {
    let (there, log) = (world.clone(), Arc::clone(log));
    world.spawn(async move {
        if let Ok(guard) = there.redlock.lock("a", TTL).max_wait(wait).await {
            log.lock().unwrap().push(name);
            there.sleep(10 * MS).await;
            drop(guard);
        }
    });
}

#[test]
fn tasks_are_served_in_order_and_one_of_them_contends_at_the_nodes() {
    with_five(async |world| {
        let holder = world.other_client().lock("a", 100 * TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire)[0];
        let log = Arc::default();
        for name in 0..1_000 {
            contender(&world, name, &log, 1_000 * TTL);
            world.settle().await;
        }
        world.sleep(TTL).await;
        let attempts = world.request_counts(Operation::Acquire)[0] - before;
        assert!(attempts <= 101, "one contender every 100 to 200 ms: {attempts} attempts");
        holder.release().await.unwrap();
        world.sleep(1_000 * 11 * MS).await;
        assert_eq!((0..1_000).collect::<Vec<_>>(), *log.lock().unwrap());
        // No task was denied after the first one had acquired the lock.
        assert!(world.request_counts(Operation::Acquire)[0] - before - attempts <= 1_001);
        world.nothing_left().await;
    });
}

#[test]
fn waiters_that_give_up_are_skipped() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let log = Arc::default();
        for name in 0..100 {
            // Every second task soon gives up.
            contender(&world, name, &log, if name % 2 == 0 { 50 * MS } else { 10 * TTL });
            world.settle().await;
        }
        world.sleep(100 * MS).await;
        drop(guard);
        world.sleep(TTL).await;
        assert_eq!((0..100).filter(|name| name % 2 == 1).collect::<Vec<_>>(), *log.lock().unwrap());
    });
}

#[test]
fn try_lock_returns_at_once_while_a_task_holds_the_lock_or_waits_for_it() {
    with_five(async |world| {
        let guard = world.redlock.lock(["a", "b"], TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire);
        assert!(world.redlock.lock(["b", "c"], TTL).try_now().await.unwrap().is_none());
        assert_eq!(before, world.request_counts(Operation::Acquire), "no request was sent");
        assert!(world.redlock.lock("c", TTL).try_now().await.unwrap().is_some());
        guard.release().await.unwrap();

        let other = world.other_client().lock("a", TTL).await.unwrap();
        contender(&world, 0, &Arc::default(), TTL);
        world.sleep(MS).await;
        other.release().await.unwrap();
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none(), "another task waits");
        world.sleep(TTL).await;
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_some());
    });
}

#[test]
fn the_turn_is_bounded_by_the_validity() {
    with_five(async |world| {
        // The lock is forgotten, lost or detached, so it is never released.
        let start = world.redlock.now();
        let lease = world.redlock.lock("a", TTL).await.unwrap().forget();
        let request = world.redlock.lock("a", TTL).retry_delay(2 * MS).max_wait(2 * TTL);
        let (guard, took) = world.time(request).await;
        assert!(guard.unwrap().is_held());
        assert!(took >= TTL && took <= TTL + 3 * MS, "{took:?}");
        // Requests to the nodes start when the lock has expired, not before.
        let waited = world.redlock.now().saturating_duration_since(start);
        assert!(world.request_counts(Operation::Acquire)[0] <= 2 + 102, "{waited:?}");
        drop(lease);
    });
}

#[test]
fn the_next_waiter_keeps_waiting_after_an_extension() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire);
        let log = Arc::default();
        contender(&world, 0, &log, 10 * TTL);
        guard.keep_alive(KeepAlive::new());
        world.sleep(3 * TTL).await;
        assert_eq!((before, 0), (world.request_counts(Operation::Acquire), log.lock().unwrap().len()));
        guard.release().await.unwrap();
        world.settle().await;
        assert_eq!(1, log.lock().unwrap().len());
    });
}

#[test]
fn a_lock_that_was_lost_or_detached_ends_the_turn_at_once() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.nodes.iter().for_each(FakeNode::restart_empty);
        let (next, loss) = both(world.redlock.lock("a", TTL).max_wait(TTL), guard.lost()).await;
        assert_eq!(Loss::Revoked { holder: None }, loss);
        let detached = next.unwrap().detach().await;
        let (next, resumed) = both(world.redlock.lock("a", TTL), async {
            world.sleep(MS).await;
            drop(world.redlock.resume(&detached).await.unwrap());
        })
        .await;
        assert!(next.is_ok());
        assert_eq!((), resumed);
    });
}

#[test]
fn requests_for_the_same_names_in_either_order_do_not_deadlock() {
    with_five(async |world| {
        let rounds = |names: [&'static str; 2]| {
            let there = world.clone();
            async move {
                for _ in 0..100 {
                    let guard = there.redlock.lock(names, TTL).await.unwrap();
                    there.sleep(MS).await;
                    drop(guard);
                    there.settle().await;
                }
            }
        };
        let (((), ()), took) = world.time(both(rounds(["a", "b"]), rounds(["b", "a"]))).await;
        assert!(took < 250 * MS, "{took:?} for 200 holds of 1 ms");
        assert_eq!(vec![200; 5], world.request_counts(Operation::Acquire), "no attempt was denied");
    });
}

#[test]
fn time_in_the_queue_counts_as_waiting() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", 10 * TTL).owner("first").await.unwrap();
        let before = world.request_counts(Operation::Acquire);
        let (result, took) = world.time(world.redlock.lock("a", TTL).max_wait(TTL)).await;
        let error = result.unwrap_err();
        assert_eq!(Some(guard.fingerprint()), error.holder());
        assert_eq!(Some(guard.remaining()), error.remaining());
        assert_eq!(
            (ErrorKind::Contended, TTL, before),
            (error.kind(), took, world.request_counts(Operation::Acquire))
        );
        assert!(error.to_string().contains("queued for, another task in this process"), "{error}");
        let (result, took) = world.time(world.redlock.lock("a", TTL).max_wait(Duration::ZERO)).await;
        assert_eq!((ErrorKind::Contended, Duration::ZERO), (kind(result), took));
    });
}

#[test]
fn a_failed_release_ends_the_turn_too() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let log = Arc::default();
        contender(&world, 0, &log, 3 * TTL);
        world.nodes.iter().for_each(|node| node.inject(Fault::unavailable().on(Operation::Release)));
        assert_eq!(ErrorKind::NoQuorum, kind(guard.release().await));
        world.nodes.iter().for_each(redlock_testkit::Faulty::clear_faults);
        world.sleep(TTL).await;
        assert_eq!(1, log.lock().unwrap().len(), "after the release was retried");
    });
}

#[test]
fn without_a_local_queue_tasks_contend_at_the_nodes() {
    with_five(async |world| {
        let redlock = builder(&world.process, &world.nodes).local_queue(false).build().unwrap();
        let _guard = redlock.lock("a", TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire)[0];
        assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        assert_eq!(before + 1, world.request_counts(Operation::Acquire)[0]);
    });
}

#[test]
fn a_dropped_request_leaves_the_queue() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        for _ in 0..100 {
            let waiting = world.redlock.lock("a", TTL).into_future();
            drop(futures_util::future::select(waiting, Box::pin(world.sleep(MS))).await);
        }
        guard.release().await.unwrap();
        // No other task is ahead of this one.
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_some());
    });
}

#[test]
fn try_lock_in_a_loop_lets_other_tasks_run() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.spawn(async move { drop(guard) });
        for _ in 0..10_000 {
            if world.redlock.lock("a", TTL).try_now().await.unwrap().is_some() {
                return;
            }
        }
        panic!("no other task had a turn");
    });
}
