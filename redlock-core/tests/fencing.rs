//! Fencing tokens on fake nodes.
//!
//! If the counters are equal, one round is enough; otherwise there is a second one. Other tests check which nodes
//! count.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

mod common;

use std::time::Duration;

use common::{MS, NODE_TIMEOUT, TTL, World, kind, with_five, with_nodes};
use redlock_core::{
    DetachedLease, ErrorKind, FencingToken, Guard, LeaseState, LockNode, Loss, Outcome, ReleaseOutcome, Ttl,
    Vote,
};
use redlock_testkit::{Fault, Operation, block_on};

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn fence(guard: &Guard) -> u64 {
    guard.fencing_token().unwrap().as_u64()
}

impl World {
    async fn fenced(&self) -> Guard {
        let guard = self.redlock.lock("a", TTL).fenced().await.unwrap();
        self.settle().await;
        guard
    }

    fn counters(&self) -> Vec<Option<u64>> {
        let counter =
            |node: &redlock_testkit::FakeNode| node.inner().fencing_counter("a").map(FencingToken::as_u64);
        self.nodes.iter().map(counter).collect()
    }

    fn set_counters(&self, numbers: &[u64]) {
        for (node, number) in self.nodes.iter().zip(numbers) {
            node.inner().set_counter("a", FencingToken::new(*number));
        }
    }
}

#[test]
fn tokens_grow_by_one_in_one_round_each() {
    with_five(|world| async move {
        let mut tokens = Vec::new();
        for _ in 0..10 {
            let guard = world.fenced().await;
            assert_eq!(5, guard.extendable_nodes());
            tokens.push(fence(&guard));
            guard.release().await.unwrap();
        }
        assert_eq!((1..=10).collect::<Vec<_>>(), tokens, "the nodes' clocks stand near their origin");
        assert_eq!(vec![0; 5], world.seen(Operation::Confirm), "no second round");
        assert_eq!(vec![10; 5], world.seen(Operation::Acquire));
        world.nothing_left().await;
    });
}

#[test]
fn counters_that_differ_cost_a_second_round_once() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        let guard = world.fenced().await;
        assert_eq!(10, fence(&guard), "the greatest of the first three");
        assert_eq!(vec![1; 5], world.seen(Operation::Confirm));
        assert_eq!(vec![Some(10); 5], world.counters());
        guard.release().await.unwrap();

        let guard = world.fenced().await;
        assert_eq!(11, fence(&guard));
        assert_eq!(vec![1; 5], world.seen(Operation::Confirm), "they agree again");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_node_that_answers_late_is_told_the_token() {
    with_five(|world| async move {
        world.set_counters(&[7, 7, 7, 2, 20]);
        for late in [3, 4] {
            world.nodes[late].inject(Fault::delay(50 * MS).once());
        }
        let guard = world.fenced().await;
        assert_eq!((8, 5), (fence(&guard), guard.extendable_nodes()));
        world.sleep(51 * MS).await;
        assert_eq!(vec![0, 0, 0, 1, 0], world.seen(Operation::Confirm), "where it is of use");
        assert_eq!(vec![Some(8), Some(8), Some(8), Some(8), Some(21)], world.counters());
        assert_eq!(4, guard.extendable_nodes(), "one has counted beyond");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The confirmation precedes the acquire on this node, and finds no claim.
#[test]
fn a_node_that_answers_while_the_token_is_confirmed_is_told_it_too() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 20]);
        for late in [3, 4] {
            world.nodes[late].inject(Fault::delay(50 * MS).on(Operation::Acquire).once());
        }
        for node in &world.nodes[..3] {
            node.inject(Fault::delay(80 * MS).on(Operation::Confirm).once());
        }
        let guard = world.fenced().await;
        assert_eq!((10, 4), (fence(&guard), guard.extendable_nodes()), "one has counted beyond");
        assert_eq!(vec![Some(10), Some(10), Some(10), Some(10), Some(21)], world.counters());
        assert_eq!(vec![1, 1, 1, 2, 1], world.seen(Operation::Confirm));
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_confirmation_starts_no_new_validity() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::delay(80 * MS));
        }
        let (guard, took) = world.time(world.redlock.lock("a", TTL).fenced()).await;
        let guard = guard.unwrap();
        assert_eq!(160 * MS, took);
        assert_eq!(TTL, guard.remaining() + TTL / 100 + 2 * MS + took);
        for node in &world.nodes {
            node.clear_faults();
        }
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn validity_that_is_spent_by_the_confirmation_is_not_held() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::delay(24 * MS));
        }
        let error = world.redlock.try_lock("a", 50 * MS).fenced().await.unwrap_err();
        assert_eq!(ErrorKind::TooSlow, error.kind());
        world.nothing_left().await;
    });
}

#[test]
fn a_claim_whose_token_cannot_be_confirmed_is_undone_and_tried_again() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::reject().on(Operation::Confirm).once());
        }
        let error = world.redlock.try_lock("a", TTL).fenced().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        world.sleep(NODE_TIMEOUT).await;
        assert_eq!(0, world.keys());

        let guard = world.fenced().await;
        assert_eq!(11, fence(&guard));
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_that_is_dropped_while_it_confirms_leaves_nothing() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::hang().on(Operation::Confirm));
        }
        let request = world.redlock.try_lock("a", TTL).fenced().into_future();
        world.spawn(async move {
            let _ = futures_util::future::select(request, Box::pin(std::future::ready(()))).await;
        });
        world.settle().await;
        assert_eq!(0, world.keys(), "released without waiting for the confirmation");
        world.nothing_left().await;
    });
}

#[test]
fn an_extension_confirms_the_token() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        world.sleep(TTL / 2).await;
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(vec![1; 5], world.seen(Operation::Confirm));
        assert_eq!(vec![0; 5], world.seen(Operation::Extend), "never the one that does not look at counters");
        assert!(guard.remaining() > TTL * 9 / 10);
        assert_eq!(vec![Some(1); 5], world.counters());
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_node_that_lost_the_lock_is_refilled_and_counts_again() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        world.nodes[0].inner().clear();
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(vec![Some(1); 5], world.counters());
        assert_eq!(5, world.keys());
        assert_eq!(5, guard.extendable_nodes());
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// Attempts of other clients where the lock is free fail, and leave their counters.
#[test]
fn failed_attempts_by_others_on_a_free_minority_leave_the_lease_fewer_nodes() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        for node in &world.nodes[..2] {
            node.inner().clear();
            node.inner().set_counter("a", FencingToken::new(1));
        }
        let stranger = world.stranger();
        for _ in 0..3 {
            assert!(stranger.try_lock("a", TTL).fenced().await.unwrap().is_none());
            world.settle().await;
        }
        assert_eq!(vec![Some(4), Some(4), Some(1), Some(1), Some(1)], world.counters());

        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(3, guard.extendable_nodes(), "the two are not filled again, and never count");
        assert_eq!(3, world.keys());

        // One of the three remaining nodes loses the lock too.
        world.nodes[2].inner().clear();
        assert_eq!(ErrorKind::Lost, kind(guard.extend(TTL).await), "a quorum does not have it");
        drop(guard);
        stranger.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_lease_is_superseded_where_nodes_have_it_and_count_for_a_newer_one() {
    with_five(|world| async move {
        let guard = world.redlock.lock("a", TTL).fenced().await.unwrap();
        guard.keep_alive(redlock_core::KeepAlive::new());
        world.settle().await;
        world.set_counters(&[9, 9, 9, 1, 1]);
        let error = guard.extend(TTL).await.unwrap_err();
        assert_eq!(ErrorKind::Superseded, error.kind());
        assert!(!error.is_retryable());
        assert!(error.to_string().contains("newer"), "{error}");
        assert!(
            matches!(error.node_reports()[0].outcome(), Outcome::Superseded(counter) if *counter == token(9))
        );
        assert_eq!(2, guard.extendable_nodes());
        assert!(guard.is_held(), "others are still kept out");
        assert_eq!(LeaseState::AtRisk, guard.state());

        assert_eq!(Loss::Superseded, guard.lost().await);
        assert!(guard.remaining() > Duration::ZERO, "told before the deadline");
        assert_eq!(ErrorKind::TooSlow, kind(guard.extend(TTL).await), "a loss is final");
        assert_eq!(vec![Some(9), Some(9), Some(9), Some(1), Some(1)], world.counters());
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn fenced_and_plain_locks_exclude_each_other_and_only_fenced_ones_are_ordered() {
    with_five(|world| async move {
        let other = world.stranger();
        let plain = world.lock().await;
        assert_eq!(None, plain.fencing_token());
        assert_eq!(5, plain.extendable_nodes());
        assert!(other.try_lock("a", TTL).fenced().await.unwrap().is_none());
        plain.release().await.unwrap();

        let fenced = other.lock("a", TTL).fenced().await.unwrap();
        assert!(world.redlock.try_lock("a", TTL).await.unwrap().is_none());
        let first = fence(&fenced);
        fenced.release().await.unwrap();
        world.lock().await.release().await.unwrap();
        let guard = world.fenced().await;
        assert_eq!(first + 1, fence(&guard), "a plain lock counts nothing");
        guard.release().await.unwrap();
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn several_resources_have_one_token_that_is_greater_than_all_of_theirs() {
    with_five(|world| async move {
        for _ in 0..3 {
            world.redlock.lock("b", TTL).fenced().await.unwrap().release().await.unwrap();
        }
        let both = world.redlock.lock(["a", "b"], TTL).fenced().await.unwrap();
        assert_eq!(4, fence(&both));
        both.release().await.unwrap();
        let guard = world.fenced().await;
        assert_eq!(5, fence(&guard), "the counter of each was raised");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The cause may be a bad restore, or a manual `SET`.
#[test]
fn a_damaged_counter_costs_the_vote_of_its_node_and_nothing_else() {
    with_five(|world| async move {
        let damaged = FencingToken::MAX.as_u64() - 1;
        world.set_counters(&[damaged]);
        for round in 1..=3 {
            let guard = world.fenced().await;
            assert_eq!(round, fence(&guard));
            assert!(
                matches!(guard.node_reports()[0].outcome(), Outcome::Failed(_)),
                "{:?}",
                guard.node_reports()
            );
            guard.extend(TTL).await.unwrap();
            guard.release().await.unwrap();
            world.settle().await;
        }
        assert_eq!(Some(damaged), world.counters()[0]);
        assert_eq!([Some(3); 4], world.counters()[1..]);
        world.nothing_left().await;
    });
}

#[test]
fn damaged_counters_of_a_majority_are_an_error_and_leave_nothing() {
    with_five(|world| async move {
        world.set_counters(&[FencingToken::MAX.as_u64(); 3]);
        let error = world.redlock.try_lock("a", TTL).fenced().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        let said = format!("{}", std::error::Error::source(&error).unwrap());
        assert!(said.contains("the fencing counter of \"a\", 9007199254740991, is"), "{said}");
        world.lock().await.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// A node whose clock is wrong by years accepts its own numbers. It replies before the others.
#[test]
fn a_counter_far_from_the_others_is_no_vote() {
    with_five(|world| async move {
        for wrong in [FencingToken::MAX, token(100_000_000_000)] {
            world.nodes[0].inject(Fault::miscount(wrong));
            let before = world.seen(Operation::Confirm);
            let guard = world.fenced().await;
            assert!(fence(&guard) < 10, "{guard:?}");
            assert_eq!(before, world.seen(Operation::Confirm), "three of the others agree");
            let report = guard.node_reports()[0].to_string();
            assert!(report.contains("s ahead of those of other nodes"), "{report}");
            guard.release().await.unwrap();
            world.settle().await;
            assert_eq!(0, world.keys(), "what it wrote there is released too");
            world.nodes[0].clear_faults();
        }
        assert!(world.counters().iter().all(|counter| counter.unwrap() < 10));
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_waits_for_more_answers_where_too_few_are_together() {
    with_nodes(3, |world| async move {
        world.nodes[0].inject(Fault::miscount(FencingToken::MAX));
        world.nodes[2].inject(Fault::delay(50 * MS).on(Operation::Acquire));
        let (guard, took) = world.time(world.redlock.lock("a", TTL).fenced()).await;
        let guard = guard.unwrap();
        assert_eq!((50 * MS, 1), (took, fence(&guard)));
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_fails_once_no_quorum_can_be_together_and_names_the_node() {
    with_nodes(3, |world| async move {
        world.nodes[0].inject(Fault::miscount(FencingToken::MAX));
        world.nodes[2].inject(Fault::unavailable());
        let error = world.redlock.try_lock("a", TTL).fenced().await.unwrap_err();
        assert_eq!((ErrorKind::NoQuorum, true), (error.kind(), error.is_retryable()));
        let said = error.to_string();
        assert!(said.contains("the fencing counter of node 0 (fake-0) is 9007199254s ahead of"), "{said}");
        let said = std::error::Error::source(&error).unwrap().to_string();
        assert!(said.contains("node 0 (fake-0): grant not counted: the fencing counter is "), "{said}");
        world.settle().await;
        assert_eq!(0, world.keys(), "nothing is left, not even where it was granted");
        world.nothing_left().await;
    });
}

/// A node clock that was set to 1970 is as wrong as one that is years ahead.
#[test]
fn a_counter_far_behind_the_others_is_no_vote() {
    with_nodes(3, |world| async move {
        world.sleep(Duration::from_secs(30 * 3_600)).await;
        world.nodes[0].inject(Fault::miscount(token(1)));
        let guard = world.fenced().await;
        let report = guard.node_reports()[0].to_string();
        assert!(report.contains("s behind those of other nodes"), "{report}");
        assert_eq!(vec![0; 3], world.seen(Operation::Confirm), "the two others agree");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The server evicts a counter while the lock is held. The holder is not affected, and writes the counter back.
#[test]
fn an_evicted_counter_is_written_back_by_its_holder() {
    with_five(|world| async move {
        world.set_counters(&[6; 5]);
        let guard = world.fenced().await;
        for node in &world.nodes[..3] {
            node.inner().set_counter("a", None);
        }
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(vec![Some(7); 5], world.counters());
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// A server evicts a counter that is not in use at that moment.
///
/// The other nodes still have it, and this node gets it back.
#[test]
fn an_evicted_counter_of_a_minority_costs_a_second_round_and_no_order() {
    with_nodes(3, |world| async move {
        for round in 0..6 {
            let guard = world.fenced().await;
            assert_eq!(round + 1, fence(&guard));
            guard.release().await.unwrap();
            world.settle().await;
            let evicting = &world.nodes[usize::try_from(round % 3).unwrap()];
            evicting.inner().set_counter("a", None);
        }
        assert!(world.seen(Operation::Confirm).iter().all(|told| *told > 0), "who had lost it was told");
        assert_eq!(vec![Some(6), Some(6), None], world.counters());
        world.nothing_left().await;
    });
}

/// A reply is lost, and the transport repeats the request. The token is settled by then.
#[test]
fn a_replayed_acquire_counts_once() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        let claim = redlock_core::Claim::new(
            redlock_core::IntoResources::into_resources("a").unwrap(),
            world.nodes[0].inner().holder("a").unwrap(),
        );
        let again = world.nodes[0].acquire_fenced(&claim, Ttl::MIN).await.unwrap();
        assert_eq!(Vote::Counted(token(1)), again);
        assert_eq!(vec![Some(1); 5], world.counters());
        guard.extend(TTL).await.unwrap();
        assert_eq!(5, guard.extendable_nodes());
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// A late acquire is carried out when the time of the node is a granule ahead.
///
/// So its counter is greater than the token.
#[test]
fn a_straggler_across_a_granule_never_counts() {
    with_nodes(3, |world| async move {
        world.nodes[2].inject(Fault::apply_late(5_000 * MS).on(Operation::Acquire).once());
        let guard = world.fenced().await;
        assert_eq!((1, 3), (fence(&guard), guard.extendable_nodes()));
        world.sleep(5_000 * MS).await;
        assert_eq!(vec![Some(1), Some(1), Some(1 << 22)], world.counters());
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(2, guard.extendable_nodes());
        guard.release().await.unwrap();
        let next = world.fenced().await;
        assert_eq!(1 << 22, fence(&next), "the time of the two that answer first");
        next.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_fenced_lease_travels_with_its_token() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        let detached = guard.detach().await;
        assert_eq!(Some(token(1)), detached.fencing_token());
        let other = world.stranger();
        let resumed = other.resume(&detached).await.unwrap();
        assert_eq!(Some(token(1)), resumed.fencing_token());
        world.settle().await;
        assert_eq!(vec![1; 5], world.seen(Operation::Confirm), "resumed by a confirmation");

        world.set_counters(&[2; 5]);
        let error = other.resume(&detached).await.unwrap_err();
        assert_eq!(ErrorKind::Superseded, error.kind());
        resumed.release().await.unwrap();
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_lease_of_another_program_may_have_a_token() {
    let lease = DetachedLease::new("a", "t", TTL).unwrap();
    assert_eq!(None, lease.fencing_token());
    assert_eq!(Some(token(7)), lease.with_fencing_token(token(7)).fencing_token());
}

/// A backend without counters.
struct Plain(redlock_testkit::MemoryNode);

#[redlock_core::async_trait]
impl LockNode for Plain {
    fn label(&self) -> &'static str {
        "plain"
    }

    async fn acquire(&self, claim: &redlock_core::Claim, ttl: Ttl) -> Result<Vote, redlock_core::NodeError> {
        self.0.acquire(claim, ttl).await
    }

    async fn extend(&self, claim: &redlock_core::Claim, ttl: Ttl) -> Result<Vote, redlock_core::NodeError> {
        self.0.extend(claim, ttl).await
    }

    async fn release(&self, claim: &redlock_core::Claim) -> Result<Vote, redlock_core::NodeError> {
        self.0.release(claim).await
    }
}

#[test]
fn a_backend_that_cannot_fence_is_sent_nothing() {
    let node = redlock_testkit::MemoryNode::new("m");
    let nodes = [
        std::sync::Arc::new(node.clone()) as std::sync::Arc<dyn LockNode>,
        std::sync::Arc::new(Plain(node.clone())),
    ];
    let redlock =
        redlock_core::Redlock::builder(redlock_testkit::ThreadRuntime).nodes(nodes).build().unwrap();
    let error = block_on(redlock.lock("a", TTL).fenced()).unwrap_err();
    assert_eq!(ErrorKind::Unsupported, error.kind());
    assert_eq!("cannot issue fencing tokens: node 1 (plain) does not support them", error.to_string());
    let error = block_on(redlock.try_lock("a", TTL).fenced()).unwrap_err();
    assert_eq!(ErrorKind::Unsupported, error.kind());
    let detached = DetachedLease::new("a", "t", TTL).unwrap().with_fencing_token(token(1));
    assert_eq!(ErrorKind::Unsupported, block_on(redlock.resume(&detached)).unwrap_err().kind());
    assert!(node.is_empty() && node.fencing_counter("a").is_none());
}
