//! Leases that are detached, resumed and released.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::time::Duration;

use crate::common::*;
use redlock_core::node::Ttl;
use redlock_core::runtime::Runtime;
use redlock_core::{DetachedLease, ErrorKind, KeepAlive, LeaseState, Loss, ReleaseOutcome};
use redlock_testkit::{Fault, Faulty, Operation};

#[test]
fn a_detached_lease_is_resumed_by_another_client() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.settle().await;
        let (view, fingerprint) = (guard.lease(), guard.fingerprint());
        let detached = guard.detach().await;
        assert_eq!(LeaseState::Lost(Loss::Detached), view.state());
        assert_eq!(ErrorKind::Lost, kind(view.extend(TTL).await));

        world.sleep(TTL / 2).await;
        assert_eq!((5, vec![0; 5]), (world.keys(), world.request_counts(Operation::Extend)));
        let elsewhere = world.other_client();
        let resumed = elsewhere.resume(&detached).await.unwrap();
        assert_eq!((fingerprint, TTL - 102 * MS), (resumed.fingerprint(), resumed.remaining()));
        assert_eq!(ReleaseOutcome::Released, resumed.release().await.unwrap());
        assert_eq!(0, world.keys());
        world.nothing_left().await;
        elsewhere.close().await;
    });
}

#[test]
fn a_stale_lease_can_neither_be_resumed_nor_released() {
    with_five(async |world| {
        let detached = world.lock().await.detach().await;
        world.sleep(TTL).await;
        let held = world.other_client().lock("a", 10 * TTL).try_now().await.unwrap().unwrap();
        let error = world.redlock.resume(&detached).await.unwrap_err();
        assert_eq!((ErrorKind::Lost, Some(held.fingerprint())), (error.kind(), error.holder()));
        assert_eq!(ReleaseOutcome::AlreadyLost, world.redlock.release(&detached).await.unwrap());
        world.sleep(TTL).await;
        assert_eq!((5, true), (world.keys(), held.is_held()));
    });
}

#[test]
fn a_lock_of_another_program_is_extended_and_released() {
    with_five(async |world| {
        let other = foreign_claim();
        world.nodes.iter().for_each(|node| {
            node.inner().set_holder("a", other.token().clone(), Ttl::new(TTL).unwrap());
        });
        let foreign = DetachedLease::new("a", "foreign-token", 3 * TTL).unwrap();
        drop(world.redlock.resume(&foreign).await.unwrap().forget());
        assert!(world.nodes.iter().all(|node| node.inner().remaining("a").unwrap() > 2 * TTL));
        assert_eq!(ReleaseOutcome::Released, world.redlock.release(&foreign).await.unwrap());
        assert_eq!(0, world.keys());
        assert_eq!(ReleaseOutcome::AlreadyLost, world.redlock.release(&foreign).await.unwrap(), "once");
    });
}

#[test]
fn a_lease_is_not_resumed_before_a_quorum_has_confirmed() {
    with_five(async |world| {
        let detached = world.lock().await.detach().await;
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::hang()));
        assert_eq!(ErrorKind::NoQuorum, kind(world.redlock.resume(&detached).await));
        for node in &world.nodes {
            node.clear_faults();
            node.resume().await;
        }
        world.sleep(MS).await;
        assert_eq!(5, world.keys(), "a failed resume releases nothing");
        let guard = world.redlock.resume(&detached).await.unwrap();
        assert!(guard.is_held());
        drop(guard);
        world.nothing_left().await;
        assert_eq!(ErrorKind::Closed, kind(world.redlock.resume(&detached).await));
    });
}

#[test]
fn a_validity_used_up_by_the_confirmation_is_too_slow() {
    with_five(async |world| {
        let ttl = 100 * MS;
        let detached = world.redlock.lock("a", ttl).await.unwrap().detach().await;
        // The replies arrive in time, but the program pauses before it reads them.
        let (process, outside) = (world.process.clone(), world.process.restart());
        world.nodes.iter().for_each(|node| node.inject(Fault::hold_reply().on(Operation::Extend)));
        let (nodes, outside_too) = (world.nodes.clone(), outside.clone());
        outside.spawn(Box::pin(async move {
            outside_too.sleep(5 * MS).await;
            process.pause();
            for node in &nodes {
                node.resume().await;
            }
            outside_too.sleep(ttl).await;
            process.resume();
        }));
        assert_eq!(ErrorKind::TooSlow, kind(world.redlock.resume(&detached).await));
    });
}

#[test]
fn detaching_waits_for_requests_in_flight() {
    with_five(async |world| {
        let slow = Fault::delay(NODE_TIMEOUT / 2).on(Operation::Acquire);
        world.nodes[..2].iter().for_each(|node| node.inject(slow.clone()));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let (detached, took) = world.time(guard.detach()).await;
        assert_eq!((NODE_TIMEOUT / 2, 5), (took, world.keys()));
        assert_eq!(ReleaseOutcome::Released, world.redlock.release(&detached).await.unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn detaching_does_not_wait_for_a_node_that_never_replies() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::hang());
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let (_, took) = world.time(guard.detach()).await;
        assert_eq!(NODE_TIMEOUT, took);
        assert_eq!(4, world.keys());
    });
}

#[test]
fn a_renewal_in_flight_ends_before_the_detachment() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let slow = Fault::delay(50 * MS).on(Operation::Extend);
        world.nodes.iter().for_each(|node| node.inject(slow.clone()));
        while world.request_counts(Operation::Extend)[0] == 0 {
            world.sleep(MS).await;
        }
        let before = world.nodes[0].inner().remaining("a").unwrap();
        drop(guard.detach().await);
        world.nodes.iter().for_each(Faulty::clear_faults);
        world.sleep(60 * MS).await;
        assert!(world.nodes[0].inner().remaining("a").unwrap() < before);
        assert_eq!(1, world.process.tasks(), "only the task of the test is left");
    });
}

#[test]
fn a_dropped_detachment_releases_the_lock() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::delay(Duration::from_millis(100)).on(Operation::Acquire));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        let (detaching, pause) = (Box::pin(guard.detach()), Box::pin(world.sleep(MS)));
        drop(futures_util::future::select(detaching, pause).await);
        world.nothing_left().await;
    });
}
