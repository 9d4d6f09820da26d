//! Held locks: extensions, refills and releases.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::time::Duration;

use crate::common::*;
use redlock_core::node::{NodeError, Ttl};
use redlock_core::{ErrorKind, LeaseState, Loss, ReleaseOutcome};
use redlock_testkit::{Fault, Faulty, Operation};

#[test]
fn the_validity_of_an_extension_counts_from_before_its_first_request() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.sleep(Duration::from_secs(5)).await;
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(50 * MS)));
        guard.extend(2 * TTL).await.unwrap();
        assert_eq!(2 * TTL - 50 * MS - 202 * MS, guard.remaining());
        assert!(
            world.nodes.iter().take(3).all(|node| node.inner().remaining("a").unwrap() > guard.remaining())
        );
    });
}

#[test]
fn a_shorter_extension_does_not_shorten_the_validity() {
    with_five(async |world| {
        let guard = world.lock().await;
        let before = guard.remaining();
        guard.extend(TTL / 10).await.unwrap();
        assert!(before - guard.remaining() < MS);
        assert!(world.nodes.iter().all(|node| node.inner().remaining("a").unwrap() > TTL - MS));
    });
}

#[test]
fn a_hung_minority_delays_neither_extension_nor_release() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(|node| node.inject(Fault::hang()));
        let (result, took) = world.time(guard.extend(TTL)).await;
        assert_eq!((true, Duration::ZERO), (result.is_ok(), took));
        let (released, took) = world.time(guard.release()).await;
        assert_eq!((ReleaseOutcome::Released, Duration::ZERO), (released.unwrap(), took));
    });
}

#[test]
fn a_failed_extension_leaves_the_lease_as_it_was() {
    with_five(async |world| {
        let guard = world.lock().await;
        let deadline = world.redlock.now() + guard.remaining();
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::lose_reply().on(Operation::Extend)));
        let (result, took) = world.time(guard.extend(3 * TTL)).await;
        let error = result.unwrap_err();
        assert_eq!((ErrorKind::NoQuorum, NODE_TIMEOUT), (error.kind(), took));
        assert_eq!(vec!["timed out", "timed out", "timed out", "granted", "granted"], outcomes(&error));
        assert_eq!(deadline, world.redlock.now() + guard.remaining());

        let other = world.other_client();
        while guard.is_held() {
            assert!(other.lock("a", TTL).try_now().await.unwrap().is_none(), "the old deadline is unchanged");
            world.sleep(100 * MS).await;
        }
        // The nodes carried out the extension, which excludes other clients for longer, never for a shorter time.
        assert!(other.lock("a", TTL).try_now().await.unwrap().is_none());
        drop(guard);
        world.nodes.iter().for_each(Faulty::clear_faults);
        world.redlock.close().await;
        assert!(other.lock("a", TTL).try_now().await.unwrap().is_some());
    });
}

#[test]
fn an_expired_lease_is_not_revived() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.sleep(TTL - 102 * MS).await;
        assert!(!guard.is_held());
        assert_eq!(5, world.keys(), "the keys outlive the validity");
        assert_eq!(ErrorKind::TooSlow, kind(guard.extend(TTL).await));
        assert_eq!(vec![0; 5], world.request_counts(Operation::Extend), "nothing was sent");
        assert_eq!(ReleaseOutcome::AlreadyExpired, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn a_lease_lost_during_an_extension_is_not_revived() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.sleep(guard.remaining() - 250 * MS).await;
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(100 * MS).on(Operation::Extend)));
        let (extended, end) = (guard.extend(TTL), guard.lost());
        // The reported loss stays correct.
        let (extended, loss) = both(extended, end).await;
        assert_eq!((ErrorKind::TooSlow, Loss::Expired), (kind(extended), loss));
        assert_eq!((LeaseState::Lost(Loss::Expired), true), (guard.state(), guard.is_held()));
        world.sleep(150 * MS).await;
        assert!(!guard.is_held());
    });
}

#[test]
fn an_extension_fails_as_lost_if_a_quorum_lost_the_keys() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[..3].iter().for_each(|node| node.inner().clear());
        let error = guard.extend(TTL).await.unwrap_err();
        assert_eq!(ErrorKind::Lost, error.kind());
        assert_eq!(
            "lost the lock on \"a\": its keys are gone or owned by another client on 3 of 5 nodes",
            error.to_string()
        );
        world.sleep(MS).await;
        assert_eq!(2, world.keys(), "no node is refilled");
        assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
    });
}

/// Two nodes never granted, and one of the three others fails. A quorum holds the lock all the time.
#[test]
fn a_lock_is_lost_only_if_denials_alone_exclude_a_quorum() {
    let held_by_three = async |world: &World| {
        world.nodes[..2].iter().for_each(Faulty::crash);
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(Faulty::restart);
        world.nodes[2].crash();
        guard
    };
    with_five(async move |world| {
        let guard = held_by_three(&world).await;
        assert_eq!(ErrorKind::NoQuorum, kind(guard.extend(TTL).await));
        world.nodes[2].restart();
        guard.extend(TTL).await.unwrap();
    });
    with_five(async move |world| {
        let released = held_by_three(&world).await.release().await;
        assert!(!matches!(released, Ok(ReleaseOutcome::AlreadyLost)), "the lock was never lost");
    });
}

#[test]
fn a_lock_of_another_client_is_neither_extended_nor_released() {
    with_five(async |world| {
        let guard = world.lock().await;
        let short = Ttl::new(Duration::from_secs(1)).unwrap();
        world
            .nodes
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), short));
        assert_eq!(ErrorKind::Lost, kind(guard.extend(TTL).await));
        assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
        for node in &world.nodes {
            assert_eq!(Some(foreign_claim().token().clone()), node.inner().holder("a"));
            assert!(node.inner().remaining("a").unwrap() <= short.as_duration());
        }
    });
}

#[test]
fn keys_lost_on_a_minority_are_refilled_and_count_from_the_next_round() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(5, world.keys());
        world.nodes[2..4].iter().for_each(|node| node.inner().clear());
        guard.extend(TTL).await.unwrap();
        drop(guard);
        world.nothing_left().await;
    });
}

#[test]
fn a_node_that_never_granted_counts_after_its_refill() {
    with_five(async |world| {
        world.nodes[..2].iter().for_each(Faulty::crash);
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(Faulty::restart);
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        world.nodes[2..4].iter().for_each(Faulty::crash);
        guard.extend(TTL).await.unwrap();
    });
}

#[test]
fn a_refill_never_overwrites_and_is_cleaned_up_like_an_acquire() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[0].inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
        world.nodes[1].inner().clear();
        world.nodes[1].inject(Fault::apply_late(150 * MS).on(Operation::Acquire).once());
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(Some(foreign_claim().token().clone()), world.nodes[0].inner().holder("a"));
        // The release is sent while the refill is in flight.
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        world.redlock.close().await;
        world.sleep(TTL / 2).await;
        assert!(world.nodes[1].inner().is_empty(), "the refill was carried out after the release");
    });
}

#[test]
fn a_released_lease_is_neither_held_nor_extended_nor_refilled() {
    with_five(async |world| {
        let guard = world.lock().await;
        let lease = guard.lease();
        assert!(lease.is_held());
        world.nodes[4].inner().clear();
        world.nodes[4].inject(Fault::delay(50 * MS).on(Operation::Extend));
        let extension = guard.extend(TTL).await;
        assert!(extension.is_ok());
        // The release is faster than the reply of the node that has lost the keys.
        guard.release().await.unwrap();
        assert!(!lease.is_held());
        assert_eq!(ErrorKind::Lost, kind(lease.extend(TTL).await));
        world.sleep(100 * MS).await;
        world.nothing_left().await;
        assert_eq!(1, world.request_counts(Operation::Acquire)[4], "a released lock is not refilled");
    });
}

#[test]
fn a_release_without_a_quorum_is_an_error_and_is_retried() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[..3].iter().for_each(Faulty::crash);
        let error = guard.release().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        assert_eq!(
            "cannot confirm the release of \"a\": 3 of 5 nodes failed, so no quorum of 3 \
             (fake-0: connection refused; fake-1: connection refused; fake-2: connection refused)",
            error.to_string()
        );
        world.sleep(Duration::from_secs(3)).await;
        world.nodes[..3].iter().for_each(Faulty::restart);
        world.nothing_left().await;
    });
}

#[test]
fn a_release_waits_for_a_quorum_of_replies_and_no_longer() {
    with_five(async |world| {
        // Three nodes hold the lock, and one of them hangs. The two others were down and restart without it.
        world.nodes[3..].iter().for_each(Faulty::crash);
        let guard = world.lock().await;
        world.nodes[3..].iter().for_each(Faulty::restart);
        world.nodes[2].inject(Fault::hang());
        let (released, took) = world.time(guard.release()).await;
        assert_eq!((ReleaseOutcome::Released, Duration::ZERO), (released.unwrap(), took));
        world.nodes[2].resume().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_lease_that_may_still_be_held_is_not_reported_as_lost() {
    with_five(async |world| {
        world.nodes[3..].iter().for_each(Faulty::crash);
        let guard = world.lock().await;
        world.nodes[3..].iter().for_each(Faulty::restart);
        world.nodes[2].inject(Fault::hang().on(Operation::Extend));
        let (result, took) = world.time(guard.extend(TTL)).await;
        let error = result.unwrap_err();
        assert_eq!(
            (ErrorKind::NoQuorum, NODE_TIMEOUT),
            (error.kind(), took),
            "three nodes may still hold the lock"
        );
        assert!(guard.is_held() && error.is_retryable());
        world.nodes[2].resume().await;
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(5, world.keys());
    });
}

#[test]
fn a_refilled_key_expires_with_the_others() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", 10 * TTL).await.unwrap();
        world.settle().await;
        world.nodes[0].inner().clear();
        guard.extend(TTL / 10).await.unwrap();
        world.settle().await;
        assert!(world.nodes[0].inner().remaining("a").unwrap() > guard.remaining());
    });
}

#[test]
fn several_resources_are_one_claim() {
    with_five(async |world| {
        let both = world.redlock.lock(["b", "a"], TTL).await.unwrap();
        assert_eq!(vec!["a", "b"], both.resources().iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(world.redlock.lock(["b", "c"], TTL).try_now().await.unwrap().is_none());
        assert!(world.redlock.lock("c", TTL).try_now().await.unwrap().is_some());
        both.extend(TTL).await.unwrap();
        drop(both);
        world.nothing_left().await;
    });
}

#[test]
fn health_reports_the_nodes_that_can_vote() {
    with_five(async |world| {
        world.nodes[1].crash();
        world.nodes[2].inject(Fault::hang());
        let (health, took) = world.time(world.redlock.health()).await;
        assert_eq!(
            (3, 3, true, 2 * NODE_TIMEOUT),
            (health.healthy_nodes(), health.quorum(), health.is_available(), took)
        );
        let up: Vec<_> = health.nodes().iter().map(redlock_core::NodeHealth::is_healthy).collect();
        assert_eq!(vec![true, false, false, true, true], up);
        assert!(health.nodes()[1].to_string().starts_with("node 1 (fake-1): "));
        let shown = health.to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(("available: 3 of 5 nodes healthy, 3 required", 6), (lines[0], lines.len()));
        for (line, node) in lines[1..].iter().zip(health.nodes()) {
            assert_eq!(format!("  {node}"), *line);
        }
        world.nodes[3].crash();
        let health = world.redlock.health().await;
        assert!(!health.is_available());
        let shown = health.to_string();
        assert!(shown.starts_with("unavailable: 2 of 5 nodes healthy, 3 required\n"), "{shown}");
    });
}

#[test]
fn a_node_that_cannot_release_is_unhealthy() {
    with_five(async |world| {
        let error = NodeError::rejected("NOPERM no permissions to run the 'evalsha' command");
        world.nodes[0].inject(Fault::fail(error).on(Operation::Release));
        world.nodes[1].inject(Fault::hang().on(Operation::Release));
        let health = world.redlock.health().await;
        let up: Vec<_> = health.nodes().iter().map(redlock_core::NodeHealth::is_healthy).collect();
        assert_eq!(
            (vec![false, false, true, true, true], 3, true),
            (up, health.healthy_nodes(), health.is_available())
        );
        let message = health.nodes()[0].to_string();
        assert!(
            message.starts_with("node 0 (fake-0): release failed: NOPERM no permissions to run"),
            "{message}"
        );
        assert!(health.nodes()[1].to_string().contains("timed out"));
        world.nodes[2].inject(Fault::reject().on(Operation::Release));
        assert!(!world.redlock.health().await.is_available());
    });
}
