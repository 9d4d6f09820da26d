//! Waiting for a lock: time limits, attempt limits, and the end of waiting.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use redlock_core::node::{LockNode, Ttl};
use redlock_core::runtime::Runtime;
use redlock_core::{Builder, ErrorKind, TokioRuntime};
use redlock_testkit::{Fault, Operation, fake_nodes};

#[test]
fn waiting_is_bounded_by_time() {
    with_five(async |world| {
        let _guard = world.other_client().lock("a", 100 * TTL).await.unwrap();
        let (result, took) = world.time(world.redlock.lock("a", TTL)).await;
        assert_eq!(ErrorKind::Contended, kind(result));
        assert_eq!(Duration::from_secs(10), took, "the default");
        let (result, took) =
            world.time(world.redlock.lock("a", TTL).max_wait(Duration::from_millis(1_234))).await;
        assert_eq!((ErrorKind::Contended, Duration::from_millis(1_234)), (kind(result), took));
        let deadline = world.redlock.now() + Duration::from_secs(3);
        let (result, took) = world.time(world.redlock.lock("a", TTL).wait_until(deadline)).await;
        assert_eq!((ErrorKind::Contended, Duration::from_secs(3)), (kind(result), took));
        let (result, took) = world.time(world.redlock.lock("a", TTL).max_wait(Duration::ZERO)).await;
        assert_eq!((ErrorKind::Contended, Duration::ZERO), (kind(result), took), "one attempt");
    });
}

#[test]
fn a_waiter_acquires_the_lock_when_the_holder_releases_it() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", 100 * TTL).await.unwrap();
        let (there, waiter) = (world.clone(), world.redlock.lock("a", TTL).wait_unbounded());
        world.spawn(async move {
            there.sleep(Duration::from_secs(60)).await;
            drop(guard);
        });
        let (result, took) = world.time(waiter).await;
        assert!(result.is_ok());
        assert!(took >= Duration::from_secs(60) && took <= Duration::from_millis(60_200), "{took:?}");
    });
}

#[test]
fn max_attempts_bounds_the_attempts() {
    with_five(async |world| {
        let _guard = world.other_client().lock("a", 100 * TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire)[0];
        let result = world.redlock.lock("a", TTL).wait_unbounded().max_attempts(4).await;
        assert_eq!(ErrorKind::Contended, kind(result));
        assert_eq!(4, world.request_counts(Operation::Acquire)[0] - before);
    });
}

#[test]
fn a_request_fails_after_three_rounds_without_a_quorum() {
    with_five(async |world| {
        world.nodes[..3].iter().for_each(redlock_testkit::Faulty::crash);
        let (result, took) = world.time(world.redlock.lock("a", TTL).wait_unbounded()).await;
        assert_eq!(ErrorKind::NoQuorum, kind(result));
        assert!(took >= 200 * MS && took <= 400 * MS, "two delays: {took:?}");
        assert_eq!(3, world.request_counts(Operation::Acquire)[4]);
    });
}

#[test]
fn a_retry_delay_of_zero_is_no_hot_loop() {
    with_five(async |world| {
        let _guard = world.other_client().lock("a", 100 * TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire)[0];
        let request =
            world.redlock.lock("a", TTL).retry_delay(Duration::ZERO).max_wait(Duration::from_secs(1));
        assert_eq!(ErrorKind::Contended, kind(request.await));
        let attempts = world.request_counts(Operation::Acquire)[0] - before;
        assert!((990..=1_001).contains(&attempts), "{attempts} attempts in a second");
    });
}

#[test]
fn delays_are_random_between_half_and_whole() {
    with_five(async |world| {
        let _guard = world.other_client().lock("a", 1_000 * TTL).await.unwrap();
        let before = world.request_counts(Operation::Acquire)[0];
        let _ = world.redlock.lock("a", TTL).max_wait(Duration::from_secs(150)).await;
        let attempts = world.request_counts(Operation::Acquire)[0] - before;
        assert!((950..1_050).contains(&attempts), "{attempts} attempts at 150 ms on average");
    });
}

#[test]
fn close_ends_waiting_and_rejects_later_requests() {
    with_five(async |world| {
        let guard = world.other_client().lock("a", 100 * TTL).await.unwrap();
        let there = world.clone();
        world.spawn(async move {
            there.sleep(Duration::from_secs(1)).await;
            there.redlock.close().await;
        });
        // One request waits for its turn, the other for its next attempt.
        let request = || world.redlock.lock("a", TTL).retry_delay(Duration::from_secs(50)).wait_unbounded();
        let ((first, second), took) = world.time(both(request(), request())).await;
        assert_eq!((ErrorKind::Closed, Duration::from_secs(1)), (kind(first), took));
        assert_eq!(ErrorKind::Closed, kind(second));
        assert_eq!(ErrorKind::Closed, kind(world.redlock.lock("b", TTL).try_now().await));
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_waiter_acquires_an_expired_lock_without_a_release() {
    with_five(async |world| {
        for node in &world.nodes {
            node.inner().set_holder(
                "a",
                foreign_claim().token().clone(),
                Ttl::new(Duration::from_secs(5)).unwrap(),
            );
        }
        let (result, took) = world.time(world.redlock.lock("a", TTL)).await;
        assert!(result.is_ok());
        assert!(took >= Duration::from_secs(5) && took < Duration::from_millis(5_201), "{took:?}");
    });
}

#[test]
fn attempts_after_errors_back_off_too() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::reject()));
        let request = world.redlock.lock("a", TTL).retry_delay(Duration::ZERO);
        let (result, took) = world.time(request).await;
        assert_eq!((ErrorKind::NoQuorum, 2 * MS), (kind(result), took));
    });
}

#[tokio::test(start_paused = true)]
async fn polling_in_paused_time_is_no_busy_loop() {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    let nodes = fake_nodes(5, Arc::clone(&runtime));
    let client = || {
        let clones = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        Builder::new(Arc::clone(&runtime)).nodes(clones).build().unwrap()
    };
    let (redlock, other) = (client(), client());
    let guard = other.lock("a", TTL * 100).await.unwrap();
    let before = nodes[0].request_count(Operation::Acquire);
    let waited = redlock.lock("a", TTL).max_wait(Duration::from_secs(60)).await;
    assert_eq!(ErrorKind::Contended, waited.unwrap_err().kind());
    let attempts = nodes[0].request_count(Operation::Acquire) - before;
    assert!((300..=601).contains(&attempts), "{attempts} in 60 s with delays of 100 to 200 ms");
    assert!(guard.is_held());
}
