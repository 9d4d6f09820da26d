//! The grace period: work is told to stop before its lock is lost.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use redlock_core::runtime::Runtime;
use redlock_core::{ErrorKind, FencingToken, KeepAlive, Lease, LeaseState, Loss};
use redlock_testkit::{FakeNode, Fault, Operation};

const GRACE: Duration = Duration::from_secs(3);

/// The time between the report of a loss and the deadline, with a TTL of 10 s.
const MARGIN: Duration = Duration::from_millis(200);

/// The validity of a lock that was just acquired.
const VALIDITY: Duration = Duration::from_millis(9_898);

#[test]
fn the_signal_comes_a_grace_period_before_the_loss() {
    with_five(async |world| {
        let start = world.redlock.now();
        let guard = world.redlock.lock("a", TTL).grace(GRACE).await.unwrap();
        assert!(!guard.is_ending());
        guard.ending().await;
        assert_eq!(start + VALIDITY - MARGIN - GRACE, world.redlock.now());
        assert!(guard.is_ending());
        assert_eq!(LeaseState::Held, guard.state());
        assert_eq!(Loss::Expired, guard.lost().await);
        assert_eq!(start + VALIDITY - MARGIN, world.redlock.now());
    });
}

#[test]
fn without_a_grace_period_the_signal_is_the_loss() {
    with_five(async |world| {
        let start = world.redlock.now();
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        guard.ending().await;
        assert_eq!(start + VALIDITY - MARGIN, world.redlock.now());
    });
}

#[test]
fn a_release_and_lost_keys_are_signals() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).grace(GRACE).await.unwrap();
        let lease = guard.lease();
        guard.release().await.unwrap();
        lease.ending().await;
        assert!(lease.is_ending());

        let keep_alive = KeepAlive::new();
        let guard = world.redlock.lock("a", TTL).keep_alive(keep_alive).grace(GRACE).await.unwrap();
        world.nodes.iter().for_each(|node| node.inner().clear());
        guard.ending().await;
        assert!(matches!(guard.state(), LeaseState::Lost(Loss::Revoked { .. })), "{:?}", guard.state());
    });
}

#[test]
fn a_lock_is_renewed_until_the_signal_and_not_after_it() {
    with_five(async |world| {
        let request = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).grace(GRACE);
        let guard = request.await.unwrap();
        world.sleep(10 * TTL).await;
        assert!(!guard.is_ending(), "the lock is renewed");
        world.nodes.iter().for_each(|node| node.inject(Fault::reject().on(Operation::Extend)));
        guard.ending().await;
        world.nodes.iter().for_each(FakeNode::clear_faults);
        let (told, sent) = (world.redlock.now(), world.request_counts(Operation::Extend));
        assert_eq!(Loss::Unreachable, guard.lost().await);
        assert_eq!(GRACE, world.redlock.now().saturating_duration_since(told));
        assert_eq!(sent, world.request_counts(Operation::Extend));
    });
}

#[test]
fn an_extension_by_the_program_takes_the_signal_back() {
    with_five(async |world| {
        let guard = world.redlock.lock("a", TTL).grace(GRACE).await.unwrap();
        guard.ending().await;
        guard.renew().await.unwrap();
        assert!(!guard.is_ending());
    });
}

#[test]
fn a_grace_period_that_the_ttl_cannot_give_is_an_error_and_nothing_is_sent() {
    with_five(async |world| {
        let error = world.redlock.lock("a", TTL).grace(Duration::from_secs(4)).await.unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        let text = "a grace period of 4s is too long for a TTL of 10s; it needs a TTL of 12.766s";
        assert_eq!(text, error.to_string());
        assert_eq!(vec![0; 5], world.request_counts(Operation::Acquire));
    });
}

#[test]
fn an_attempt_that_leaves_less_than_the_grace_period_fails() {
    with_five(async |world| {
        let (ttl, grace) = (Duration::from_millis(300), Duration::from_millis(90));
        // Each of the two round trips of a fenced lock takes up to half of the TTL.
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(Duration::from_millis(120))));
        // All counters differ, and are ahead of the clocks, so the token is confirmed.
        let differ = || {
            for (number, node) in (20_000_000..).zip(&world.nodes) {
                node.inner().set_counter("a", FencingToken::new(number));
            }
        };
        let request = world.redlock.lock("a", ttl).fenced().max_wait(Duration::ZERO);
        differ();
        assert!(request.clone().await.is_ok(), "without a grace period");
        world.sleep(TTL).await;
        differ();
        assert_eq!(ErrorKind::TooSlow, request.grace(grace).await.unwrap_err().kind());
    });
}

/// The validity that was left at some moments of one run.
#[derive(Clone, Copy, Default)]
struct Seen {
    at_the_signal: Option<Duration>,
    at_the_last_poll: Option<Duration>,
}

#[test]
fn whenever_the_nodes_stop_the_work_has_its_grace_period_and_ends_before_the_lock() {
    let mut signals = 0;
    for seed in 0..1_000_u64 {
        let random = |range: u64, salt: u64| {
            (seed * 5 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) % range
        };
        let ttl = Duration::from_millis(500 + random(10_000, 1));
        let longest = ttl / 3 - ttl / 50 - MS;
        let grace = longest * u32::try_from(random(1_001, 2)).unwrap() / 1_000;
        let stop = Duration::from_millis(random(60_000, 3));
        let restart = Duration::from_millis(random(20_000, 4));
        let seen = with_five(move |world| async move {
            let (seen, process) = (Arc::new(Mutex::new(Seen::default())), world.process.clone());
            let (noted, nodes) = (Arc::clone(&seen), world.nodes.clone());
            world.spawn(async move {
                process.sleep(stop).await;
                nodes.iter().for_each(FakeNode::crash);
                process.sleep(restart).await;
                nodes.iter().for_each(FakeNode::restart);
            });
            let process = world.process.clone();
            let work = |lease: Lease| async move {
                let signal = async {
                    lease.ending().await;
                    noted.lock().unwrap().at_the_signal = Some(lease.remaining());
                };
                let steps = async {
                    for _ in 0..7_000 {
                        process.sleep(10 * MS).await;
                        noted.lock().unwrap().at_the_last_poll = Some(lease.remaining());
                    }
                };
                futures_util::future::select(pin!(steps), pin!(both(signal, pending::<()>()))).await;
            };
            let result = world.redlock.lock("a", ttl).grace(grace).run(work).await;
            let seen = *seen.lock().unwrap();
            // Without a grace period, the work is dropped at the signal.
            assert!(
                grace.is_zero() || result.is_err() == seen.at_the_signal.is_some(),
                "seed {seed}: {result:?}"
            );
            seen
        });
        let Some(left) = seen.at_the_signal else { continue };
        signals += 1;
        assert_eq!(grace + (ttl / 50).min(Duration::from_millis(500)), left, "seed {seed}: a TTL of {ttl:?}");
        assert!(seen.at_the_last_poll.unwrap() > Duration::ZERO, "seed {seed}: work after the end");
    }
    assert!(signals > 500, "{signals} of the runs lost their lock");
}
