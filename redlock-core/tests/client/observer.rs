//! Observers: the holders of a resource, one after the other.
#![allow(clippy::disallowed_methods)] // the tests need tasks

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use redlock_core::runtime::Runtime;
use redlock_core::{ErrorKind, Inspection, KeepAlive, LockStatus, Observer};
use redlock_testkit::sim::for_each_seed;
use redlock_testkit::{FakeNode, Fault, Operation};

/// Returns the label of the next holder; `None` if the lock is free.
async fn next(observer: &mut Observer) -> Option<String> {
    let inspection = observer.changed().await.unwrap();
    assert_ne!(&LockStatus::Undecided, inspection.status(), "{inspection}");
    inspection.holder().map(|holder| holder.owner().unwrap().to_owned())
}

#[test]
fn an_observer_returns_the_present_holder_and_every_change() {
    with_watching(async |world| {
        let mut observer = world.redlock.observe("a");
        assert_eq!(None, next(&mut observer).await);
        let guard = world.redlock.lock("a", TTL).owner("one").await.unwrap();
        assert_eq!(Some("one".into()), next(&mut observer).await);
        guard.release().await.unwrap();
        assert_eq!(None, next(&mut observer).await);
        let _guard = world.redlock.lock("a", TTL).owner("two").await.unwrap();
        assert_eq!(Some("two".into()), next(&mut observer).await);
    });
}

#[test]
fn a_release_is_seen_at_once_and_an_expiry_in_time() {
    with_watching(async |world| {
        let mut observer = world.redlock.observe("a");
        let guard = world.redlock.lock("a", TTL).owner("one").await.unwrap();
        assert_eq!(Some("one".into()), next(&mut observer).await);
        let ((_, free), elapsed) = world.time(both(guard.release(), next(&mut observer))).await;
        assert_eq!(None, free);
        assert!(elapsed <= 5 * MS, "{elapsed:?}");

        world.redlock.lock("a", TTL).owner("two").await.unwrap().forget();
        assert_eq!(Some("two".into()), next(&mut observer).await);
        let (free, elapsed) = world.time(next(&mut observer)).await;
        assert_eq!(None, free);
        assert!(elapsed <= TTL + NODE_TIMEOUT, "{elapsed:?}");
    });
}

/// Drops the future after a time.
async fn for_a_time(world: &World, time: Duration, future: impl Future) {
    let sleep = pin!(world.sleep(time));
    drop(futures_util::future::select(sleep, pin!(future)).await);
}

fn observing(world: &World) -> Vec<u64> {
    let counts =
        |node: &FakeNode| node.request_count(Operation::Watch) + node.request_count(Operation::Inspect);
    world.nodes.iter().map(counts).collect()
}

#[test]
fn a_renewal_costs_one_watch_and_a_quiet_lock_nothing() {
    with_watching(async |world| {
        let guard = world.redlock.lock("a", TTL).owner("one").keep_alive(KeepAlive::new()).await.unwrap();
        let mut observer = world.redlock.observe("a");
        assert_eq!(Some("one".into()), next(&mut observer).await);
        let (watches, inspections) =
            (world.request_counts(Operation::Watch), world.request_counts(Operation::Inspect));
        for_a_time(&world, 10 * TTL, observer.changed()).await;
        for (node, fake) in world.nodes.iter().enumerate() {
            let inspected = fake.request_count(Operation::Inspect) - inspections[node];
            assert!((1..=4).contains(&inspected), "one each 30 s: {inspected}");
            let renewals = fake.request_count(Operation::Watch) - watches[node];
            assert!((29..=36).contains(&renewals), "one for each renewal: {renewals}");
        }
        guard.release().await.unwrap();
        assert_eq!(None, next(&mut observer).await);
        let before = observing(&world);
        for_a_time(&world, Duration::from_secs(29), observer.changed()).await;
        assert_eq!(before, observing(&world));
    });
}

#[test]
fn nodes_that_cannot_notify_are_asked_every_second() {
    with_five(async |world| {
        let mut observer = world.redlock.observe("a");
        let (free, elapsed) = world.time(next(&mut observer)).await;
        assert_eq!((None, true), (free, elapsed < NODE_TIMEOUT), "{elapsed:?}");
        let _guard = world.redlock.lock("a", TTL).owner("one").await.unwrap();
        let (holder, elapsed) = world.time(next(&mut observer)).await;
        assert_eq!(Some("one".into()), holder);
        assert!(elapsed <= Duration::from_secs(1), "{elapsed:?}");
        let before = world.request_counts(Operation::Inspect);
        for_a_time(&world, Duration::from_secs(5), observer.changed()).await;
        let now = world.request_counts(Operation::Inspect);
        assert!(now.iter().zip(before).all(|(now, before)| now - before <= 6), "{now:?}");
    });
}

#[test]
fn an_outage_is_one_error_and_the_observer_continues_after_it() {
    with_watching(async |world| {
        let mut observer = world.redlock.observe("a");
        assert_eq!(None, next(&mut observer).await);
        world.nodes[..3].iter().for_each(FakeNode::crash);
        assert_eq!(ErrorKind::NoQuorum, kind(observer.changed().await));
        for_a_time(&world, Duration::from_secs(20), async {
            panic!("reported twice: {:?}", observer.changed().await);
        })
        .await;
        world.nodes.iter().for_each(FakeNode::restart);
        assert_eq!(None, next(&mut observer).await);
    });
}

#[test]
fn a_change_during_a_dropped_wait_is_not_missed() {
    with_watching(async |world| {
        let mut observer = world.redlock.observe("a");
        assert_eq!(None, next(&mut observer).await);
        let before = observing(&world);
        for _ in 0..100 {
            for_a_time(&world, 10 * MS, observer.changed()).await;
        }
        assert_eq!(before, observing(&world), "the watches stay");
        let guard = world.redlock.lock("a", TTL).owner("one").await.unwrap();
        assert_eq!(Some("one".into()), next(&mut observer).await);
        guard.release().await.unwrap();
        assert_eq!(None, next(&mut observer).await);
    });
}

#[test]
fn an_invalid_name_and_a_closed_client_are_final_errors() {
    with_watching(async |world| {
        let mut observer = world.redlock.observe("");
        assert_eq!(ErrorKind::InvalidInput, kind(observer.changed().await));
        assert_eq!(ErrorKind::InvalidInput, kind(observer.changed().await));
        let mut observer = world.redlock.observe("a");
        assert_eq!(None, next(&mut observer).await);
        let (error, _) = both(observer.changed(), world.redlock.close()).await;
        assert_eq!(ErrorKind::Closed, kind(error));
        assert_eq!(ErrorKind::Closed, kind(observer.changed().await));
    });
}

#[test]
fn followers_see_each_leader() {
    with_watching(async |world| {
        let candidates = ["one", "two", "three"].map(|label| (label, world.other_client()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        for (label, redlock) in candidates {
            let candidate = redlock.lock("a", TTL).owner(label).lead();
            let (mut leader, seen) = (candidate.leadership().leader(), Arc::clone(&seen));
            world.spawn(async move {
                while let Ok(inspection) = leader.changed().await {
                    let holder = inspection.holder().and_then(|holder| holder.owner().map(str::to_owned));
                    seen.lock().unwrap().push((label, holder));
                }
            });
            let process = world.process.clone();
            world.spawn(async move {
                let work = |_lease| async {
                    process.sleep(TTL / 2).await;
                    ControlFlow::Break(())
                };
                candidate.run(work).await.unwrap();
            });
        }
        world.sleep(3 * TTL).await;
        let seen = seen.lock().unwrap();
        for observer in ["one", "two", "three"] {
            let holders =
                seen.iter().filter(|(by, _)| *by == observer).filter_map(|(_, holder)| holder.clone());
            let mut holders: Vec<_> = holders.collect();
            holders.sort_unstable();
            assert_eq!(["one", "three", "two"], *holders, "{observer}");
        }
    });
}

#[test]
fn candidates_for_slots_have_no_single_leader() {
    with_watching(async |world| {
        let slots = world.redlock.slots("disks", 2).unwrap();
        let candidate = slots.acquire(TTL).lead();
        assert_eq!(ErrorKind::InvalidInput, kind(candidate.leadership().leader().changed().await));
    });
}

/// In any order of grants, losses and crashes, the observer ends with the present holder.
#[test]
fn an_observer_converges_to_the_present_holder() {
    for_each_seed(300, |seed| {
        with_watching(move |world| async move {
            let mut random = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = move |range: u64| {
                random = random.rotate_left(23).wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
                (random >> 33) % range
            };
            let reported = Arc::new(Mutex::new(None));
            let (mut observer, noted) = (world.redlock.observe("a"), Arc::clone(&reported));
            world.spawn(async move {
                loop {
                    let changed = observer.changed().await;
                    *noted.lock().unwrap() = Some(changed);
                }
            });
            let mut guard = None;
            for step in 0..40 {
                let node = &world.nodes[usize::try_from(random(5)).unwrap()];
                match random(7) {
                    0 => {
                        let request = world.redlock.lock("a", TTL).owner(step.to_string());
                        guard = request.try_now().await.unwrap_or(None);
                    }
                    1 => drop(guard.take()),
                    2 => node.crash(),
                    3 => node.restart(),
                    4 => node.inject(Fault::delay(Duration::from_millis(random(300))).once()),
                    5 => node.inject(Fault::lose_reply().once()),
                    _ => world.sleep(Duration::from_millis(random(3_000))).await,
                }
            }
            for node in &world.nodes {
                node.restart();
                node.clear_faults();
            }
            let holder = |inspection: &Inspection| inspection.holder().cloned();
            // The votes may stay split until the keys of a minority expire.
            world.sleep(2 * TTL).await;
            if let Some(guard) = &guard {
                let _ = guard.renew().await;
            }
            world.sleep(Duration::from_secs(2)).await;
            let present = world.redlock.inspect("a").await.unwrap();
            let reported = reported.lock().unwrap();
            let last = reported.as_ref().unwrap().as_ref().unwrap();
            assert_eq!((holder(&present), present.is_free()), (holder(last), last.is_free()));
        });
    });
}
