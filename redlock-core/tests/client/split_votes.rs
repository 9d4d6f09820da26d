//! Attempts whose votes are split among several clients.

use std::time::Duration;

use crate::common::*;
use redlock_core::node::{Claim, LockNode, Request, Token, Ttl};
use redlock_core::{Error, ErrorKind, IntoResources, Redlock};
use redlock_testkit::{Fault, Operation};

/// The keys of two clients that have crashed during their attempts expire at this time.
const LIFE: Duration = Duration::from_millis(100);

/// Splits the votes on `name` between two other clients until the keys expire.
async fn split(world: &World, name: &str, ttl: Duration) {
    for (node, token) in [(0, "one"), (1, "one"), (2, "other"), (3, "other")] {
        let claim = Claim::new(name.into_resources().unwrap(), Token::from_bytes(token));
        world.nodes[node]
            .inner()
            .call(Request::Acquire(claim.clone(), Ttl::new(ttl).unwrap()))
            .await
            .unwrap();
    }
}

/// A request that does not wait. Returns `None` if the lock is reported as held.
#[derive(Clone, Copy, Debug)]
enum Way {
    TryLock,
    NoWait,
    TryWrite,
    Write,
    TryRead,
    TrySlot,
}

const WAYS: [Way; 6] = [Way::TryLock, Way::NoWait, Way::TryWrite, Way::Write, Way::TryRead, Way::TrySlot];

impl Way {
    fn name(self) -> &'static str {
        if matches!(self, Self::TrySlot) { "a:slot:0" } else { "a" }
    }

    /// Requests the lock, and releases it. Returns whether it was acquired.
    async fn request(self, redlock: &Redlock) -> Result<bool, Error> {
        fn none_if_contended<T>(result: Result<T, Error>) -> Result<bool, Error> {
            match result {
                Err(error) if error.kind() == ErrorKind::Contended => Ok(false),
                result => result.map(|_| true),
            }
        }
        match self {
            Self::TryLock => redlock.lock("a", TTL).try_now().await.map(|guard| guard.is_some()),
            Self::NoWait => none_if_contended(redlock.lock("a", TTL).max_wait(Duration::ZERO).await),
            Self::TryWrite => redlock.rw_lock("a")?.write(TTL).try_now().await.map(|guard| guard.is_some()),
            Self::Write => none_if_contended(redlock.rw_lock("a")?.write(TTL).max_wait(Duration::ZERO).await),
            Self::TryRead => Ok(redlock.rw_lock("a")?.read(TTL).try_now().await?.is_some()),
            Self::TrySlot => Ok(redlock.slots("a", 1)?.acquire(TTL).try_now().await?.is_some()),
        }
    }
}

#[test]
fn a_request_that_does_not_wait_repeats_its_attempt_until_the_votes_are_not_split() {
    for way in WAYS {
        with_five(async move |world| {
            split(&world, way.name(), LIFE).await;
            let (acquired, took) = world.time(way.request(&world.redlock)).await;
            assert!(acquired.unwrap(), "{way:?} reports a lock as held that no client holds");
            assert!((LIFE..3 * LIFE).contains(&took), "{way:?}: {took:?}");
        });
    }
}

#[test]
fn votes_that_stay_split_are_an_error_and_not_a_holder() {
    for way in WAYS {
        with_five(async move |world| {
            split(&world, way.name(), TTL).await;
            let (result, took) = world.time(way.request(&world.redlock)).await;
            let error = result.unwrap_err();
            assert_eq!(ErrorKind::Undecided, error.kind(), "{way:?}");
            let text = error.to_string();
            assert!(text.contains("the votes are split, and no client is known to hold it"), "{text}");
            assert!(text.contains("1 of 5 nodes granted, 3 required: 4 denied"), "{text}");
            assert!(error.is_retryable());
            assert!((750 * MS..1_550 * MS).contains(&took), "{way:?}: {took:?}");
            let attempts = world.nodes[4].request_count(Operation::Acquire);
            assert!(matches!(way, Way::TryRead) || attempts == 13, "{way:?}: {attempts}");
        });
    }
}

#[test]
fn a_held_lock_is_reported_after_one_attempt_even_if_votes_differ() {
    with_five(async |world| {
        let guard = world.other_client().lock("a", TTL).await.unwrap();
        // One node has the key of a client that has crashed, and replies first.
        world.nodes[4].inner().clear();
        world.nodes[4].inner().set_holder("a", Token::from_bytes("dead"), Ttl::MAX);
        world.nodes[..4].iter().for_each(|node| node.inject(Fault::delay(MS)));
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        assert_eq!(2, world.request_counts(Operation::Acquire)[0]);
        world.nodes[4].inner().clear();
        drop(guard);
        world.nothing_left().await;
    });
}

#[test]
fn a_holder_on_too_few_nodes_is_not_known_to_hold_the_lock() {
    with_five(async |world| {
        // Two nodes name a holder, one is down, and two are free.
        for node in [0, 1] {
            world.nodes[node].inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
        }
        world.nodes[2].crash();
        assert_eq!(ErrorKind::Undecided, kind(world.redlock.lock("a", TTL).try_now().await));
        assert_eq!(13, world.request_counts(Operation::Acquire)[0], "it may have been a failed attempt");
    });
}

#[test]
fn an_earlier_attempt_of_the_same_request_is_no_other_holder() {
    with_five(async |world| {
        // The first attempt gets the first two nodes, and its releases do not arrive there.
        for (node, token) in [(2, "one"), (3, "other")] {
            world.nodes[node].inner().set_holder("a", Token::from_bytes(token), Ttl::MAX);
        }
        world.nodes[4].crash();
        world.nodes[..2].iter().for_each(|node| node.inject(Fault::drop_request().on(Operation::Release)));
        let error = world.redlock.lock("a", TTL).try_now().await.unwrap_err();
        assert_eq!(ErrorKind::Undecided, error.kind(), "{error}");
    });
}

#[test]
fn a_request_with_a_number_of_attempts_makes_no_more() {
    with_five(async |world| {
        split(&world, "a", TTL).await;
        let result = world.redlock.lock("a", TTL).max_attempts(2).await;
        assert_eq!(ErrorKind::Undecided, kind(result));
        assert_eq!(2, world.request_counts(Operation::Acquire)[4]);
    });
}
