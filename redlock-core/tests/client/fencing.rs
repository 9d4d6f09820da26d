//! Fencing tokens on fake nodes.
//!
//! One round is enough if the counters are equal; otherwise a second round confirms the token. Other tests cover the
//! set of nodes that count.

use std::time::Duration;

use crate::common::{MS, NODE_TIMEOUT, Plain, TTL, World, kind, with_five, with_nodes};
use redlock_core::kind::Fenced;
use redlock_core::node::{LockNode, Reply, Request, Ttl};
use redlock_core::{
    DetachedLease, ErrorKind, FencingToken, Guard, LeaseState, Loss, Outcome, ReleaseOutcome,
};
use redlock_testkit::{Fault, Operation, block_on};

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn fence(guard: &Guard<Fenced>) -> u64 {
    guard.token().as_u64()
}

impl World {
    async fn fenced(&self) -> Guard<Fenced> {
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
fn tokens_increase_by_one_and_take_one_round_each() {
    with_five(|world| async move {
        let mut tokens = Vec::new();
        for _ in 0..10 {
            let guard = world.fenced().await;
            assert_eq!(5, guard.extendable_nodes());
            tokens.push(fence(&guard));
            guard.release().await.unwrap();
        }
        assert_eq!((1..=10).collect::<Vec<_>>(), tokens, "the clocks of the nodes start near zero");
        assert_eq!(vec![0; 5], world.request_counts(Operation::Confirm), "there was no second round");
        assert_eq!(vec![10; 5], world.request_counts(Operation::Acquire));
        world.nothing_left().await;
    });
}

#[test]
fn different_counters_take_a_second_round_once() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        let guard = world.fenced().await;
        assert_eq!(10, fence(&guard), "one above the greatest of the first three counters");
        assert_eq!(vec![1; 5], world.request_counts(Operation::Confirm));
        assert_eq!(vec![Some(10); 5], world.counters());
        guard.release().await.unwrap();

        let guard = world.fenced().await;
        assert_eq!(11, fence(&guard));
        assert_eq!(vec![1; 5], world.request_counts(Operation::Confirm), "the counters agree again");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_late_reply_is_followed_by_a_confirmation() {
    with_five(|world| async move {
        world.set_counters(&[7, 7, 7, 2, 20]);
        for late in [3, 4] {
            world.nodes[late].inject(Fault::delay(50 * MS).once());
        }
        let guard = world.fenced().await;
        assert_eq!((8, 5), (fence(&guard), guard.extendable_nodes()));
        world.sleep(51 * MS).await;
        assert_eq!(
            vec![0, 0, 0, 1, 0],
            world.request_counts(Operation::Confirm),
            "only the late node below the token is confirmed"
        );
        assert_eq!(vec![Some(8), Some(8), Some(8), Some(8), Some(21)], world.counters());
        assert_eq!(4, guard.extendable_nodes(), "the counter of one node is above the token");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The confirmation arrives before the acquire on this node and finds no claim.
#[test]
fn a_node_that_replies_during_the_confirmation_is_confirmed_too() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 20]);
        for late in [3, 4] {
            world.nodes[late].inject(Fault::delay(50 * MS).on(Operation::Acquire).once());
        }
        for node in &world.nodes[..3] {
            node.inject(Fault::delay(80 * MS).on(Operation::Confirm).once());
        }
        let guard = world.fenced().await;
        assert_eq!(
            (10, 4),
            (fence(&guard), guard.extendable_nodes()),
            "the counter of one node is above the token"
        );
        assert_eq!(vec![Some(10), Some(10), Some(10), Some(10), Some(21)], world.counters());
        assert_eq!(vec![1, 1, 1, 2, 1], world.request_counts(Operation::Confirm));
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
fn a_validity_used_up_by_the_confirmation_fails_as_too_slow() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::delay(24 * MS));
        }
        let error = world.redlock.lock("a", 50 * MS).fenced().try_now().await.unwrap_err();
        assert_eq!(ErrorKind::TooSlow, error.kind());
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_whose_token_is_not_confirmed_is_cleaned_up_and_retried() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::reject().on(Operation::Confirm).once());
        }
        let error = world.redlock.lock("a", TTL).fenced().try_now().await.unwrap_err();
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
fn an_attempt_dropped_during_its_confirmation_is_cleaned_up() {
    with_five(|world| async move {
        world.set_counters(&[3, 9, 5, 0, 0]);
        for node in &world.nodes {
            node.inject(Fault::hang().on(Operation::Confirm));
        }
        let request = Box::pin(world.redlock.lock("a", TTL).fenced().try_now());
        world.spawn(async move {
            let _ = futures_util::future::select(request, Box::pin(std::future::ready(()))).await;
        });
        world.settle().await;
        assert_eq!(0, world.keys(), "the keys are released without waiting for the confirmation");
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
        assert_eq!(vec![1; 5], world.request_counts(Operation::Confirm));
        assert_eq!(
            vec![0; 5],
            world.request_counts(Operation::Extend),
            "the plain extension ignores counters and is never sent"
        );
        assert!(guard.remaining() > TTL * 9 / 10);
        assert_eq!(vec![Some(1); 5], world.counters());
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_node_that_lost_the_key_is_refilled_and_counts_again() {
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

/// Other clients attempt to acquire the lock where its key is missing. They fail and leave higher counters.
#[test]
fn failed_attempts_of_others_on_a_free_minority_reduce_the_extendable_nodes() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        for node in &world.nodes[..2] {
            node.inner().clear();
            node.inner().set_counter("a", FencingToken::new(1));
        }
        let other = world.other_client();
        for _ in 0..3 {
            assert!(other.lock("a", TTL).fenced().try_now().await.unwrap().is_none());
            world.settle().await;
        }
        assert_eq!(vec![Some(4), Some(4), Some(1), Some(1), Some(1)], world.counters());

        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(3, guard.extendable_nodes(), "two nodes have higher counters, so they are not refilled");
        assert_eq!(3, world.keys());

        // One of the three remaining nodes loses the lock too.
        world.nodes[2].inner().clear();
        assert_eq!(ErrorKind::Lost, kind(guard.extend(TTL).await), "fewer than a quorum have the keys");
        drop(guard);
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_lease_is_superseded_if_the_counters_of_its_nodes_are_newer() {
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
        assert!(guard.is_held(), "other clients are still denied");
        assert_eq!(LeaseState::AtRisk, guard.state());

        assert_eq!(Loss::Superseded, guard.lost().await);
        assert!(guard.remaining() > Duration::ZERO, "the loss is reported before the deadline");
        assert_eq!(ErrorKind::TooSlow, kind(guard.extend(TTL).await), "a loss is final");
        assert_eq!(vec![Some(9), Some(9), Some(9), Some(1), Some(1)], world.counters());
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn fenced_and_plain_locks_exclude_each_other_and_only_fenced_ones_advance_counters() {
    with_five(|world| async move {
        let other = world.other_client();
        let plain = world.lock().await;
        assert_eq!(None, plain.fencing_token());
        assert_eq!(5, plain.extendable_nodes());
        assert!(other.lock("a", TTL).fenced().try_now().await.unwrap().is_none());
        plain.release().await.unwrap();

        let fenced = other.lock("a", TTL).fenced().await.unwrap();
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        let first = fence(&fenced);
        fenced.release().await.unwrap();
        world.lock().await.release().await.unwrap();
        let guard = world.fenced().await;
        assert_eq!(first + 1, fence(&guard), "a plain lock leaves the counters alone");
        guard.release().await.unwrap();
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn several_resources_share_a_token_above_all_their_counters() {
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

/// A bad restore or a manual `SET` can damage a counter like this.
#[test]
fn a_damaged_counter_invalidates_only_the_vote_of_its_node() {
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
fn damaged_counters_on_a_majority_are_an_error_and_the_attempt_is_cleaned_up() {
    with_five(|world| async move {
        world.set_counters(&[FencingToken::MAX.as_u64(); 3]);
        let error = world.redlock.lock("a", TTL).fenced().await.unwrap_err();
        assert_eq!((ErrorKind::DamagedCounter, false), (error.kind(), error.is_retryable()));
        let message = error.to_string();
        assert!(message.contains("the fencing counter is damaged on 3 of 5 nodes"), "{message}");
        assert!(message.contains("the fencing counter of \"a\", 9007199254740991, is"), "{message}");
        world.lock().await.release().await.unwrap();

        world.set_counters(&[1]);
        world.nodes[0].crash();
        let error = world.redlock.lock("a", TTL).fenced().try_now().await.unwrap_err();
        assert_eq!((ErrorKind::NoQuorum, true), (error.kind(), error.is_retryable()), "a node may come back");
        world.nothing_left().await;
    });
}

/// The clock of this node is wrong by years, and the node accepts its own numbers. It replies before the others.
#[test]
fn a_grant_with_a_counter_far_ahead_is_not_counted() {
    with_five(|world| async move {
        for wrong in [FencingToken::MAX, token(100_000_000_000)] {
            world.nodes[0].inject(Fault::miscount(wrong));
            let before = world.request_counts(Operation::Confirm);
            let guard = world.fenced().await;
            assert!(fence(&guard) < 10, "{guard:?}");
            assert_eq!(before, world.request_counts(Operation::Confirm), "three of the others agree");
            let report = guard.node_reports()[0].to_string();
            assert!(report.contains("s ahead of those of other nodes"), "{report}");
            guard.release().await.unwrap();
            world.settle().await;
            assert_eq!(0, world.keys(), "the key on the wrong node is released too");
            world.nodes[0].clear_faults();
        }
        assert!(world.counters().iter().all(|counter| counter.unwrap() < 10));
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_waits_for_more_replies_until_a_quorum_of_counters_is_close() {
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
fn an_attempt_names_the_outlier_when_no_quorum_of_counters_can_be_close() {
    with_nodes(3, |world| async move {
        world.nodes[0].inject(Fault::miscount(FencingToken::MAX));
        world.nodes[2].inject(Fault::unavailable());
        let error = world.redlock.lock("a", TTL).fenced().try_now().await.unwrap_err();
        assert_eq!((ErrorKind::NoQuorum, true), (error.kind(), error.is_retryable()));
        let message = error.to_string();
        assert!(
            message.contains("fake-0: grant not counted: the fencing counter is 9007199254s ahead of"),
            "{message}"
        );
        world.settle().await;
        assert_eq!(0, world.keys(), "the grants are released too");
        world.nothing_left().await;
    });
}

/// The clock of a node was set to 1970. This is as wrong as a clock that is years ahead.
#[test]
fn a_grant_with_a_counter_far_behind_is_not_counted() {
    with_nodes(3, |world| async move {
        world.sleep(Duration::from_secs(30 * 3_600)).await;
        world.nodes[0].inject(Fault::miscount(token(1)));
        let guard = world.fenced().await;
        let report = guard.node_reports()[0].to_string();
        assert!(report.contains("s behind those of other nodes"), "{report}");
        assert_eq!(vec![0; 3], world.request_counts(Operation::Confirm), "the two others agree");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The server evicts a counter while the lock is held. The holder keeps the lock and writes the counter back.
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

/// A server evicts the counter of a free lock.
///
/// The other nodes still have the counter, and this node gets it back.
#[test]
fn an_evicted_counter_on_a_minority_takes_a_second_round_and_preserves_the_order() {
    with_nodes(3, |world| async move {
        for round in 0..6 {
            let guard = world.fenced().await;
            assert_eq!(round + 1, fence(&guard));
            guard.release().await.unwrap();
            world.settle().await;
            let evicting = &world.nodes[usize::try_from(round % 3).unwrap()];
            evicting.inner().set_counter("a", None);
        }
        assert!(
            world.request_counts(Operation::Confirm).iter().all(|count| *count > 0),
            "the evicted node is confirmed too"
        );
        assert_eq!(vec![Some(6), Some(6), None], world.counters());
        world.nothing_left().await;
    });
}

/// The transport repeats a request whose reply was lost. The token is final by then.
#[test]
fn a_repeated_acquire_advances_the_counter_once() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        let claim = redlock_core::node::Claim::new(
            redlock_core::IntoResources::into_resources("a").unwrap(),
            world.nodes[0].inner().holder("a").unwrap(),
        );
        let again = world.nodes[0].call(Request::AcquireFenced(claim.clone(), Ttl::MIN)).await.unwrap();
        assert_eq!(Reply::Counted(token(1)), again);
        assert_eq!(vec![Some(1); 5], world.counters());
        guard.extend(TTL).await.unwrap();
        assert_eq!(5, guard.extendable_nodes());
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// A late acquire is carried out after the clock of the node has moved on by a granule.
///
/// Its counter is then greater than the token.
#[test]
fn a_late_reply_from_the_next_granule_never_counts() {
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
        assert_eq!(1 << 22, fence(&next), "the clock of the first two nodes to reply");
        next.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn a_detached_fenced_lease_keeps_its_token() {
    with_five(|world| async move {
        let guard = world.fenced().await;
        let detached = guard.detach().await;
        assert_eq!(Some(token(1)), detached.fencing_token());
        let other = world.other_client();
        let resumed = other.resume(&detached).await.unwrap();
        assert_eq!(Some(token(1)), resumed.fencing_token());
        world.settle().await;
        assert_eq!(vec![1; 5], world.request_counts(Operation::Confirm), "resuming confirms the token");

        world.set_counters(&[2; 5]);
        let error = other.resume(&detached).await.unwrap_err();
        assert_eq!(ErrorKind::Superseded, error.kind());
        resumed.release().await.unwrap();
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_lease_of_another_program_can_have_a_fencing_token() {
    let lease = DetachedLease::new("a", "t", TTL).unwrap();
    assert_eq!(None, lease.fencing_token());
    assert_eq!(Some(token(7)), lease.with_fencing_token(token(7)).fencing_token());
}

#[test]
fn a_backend_without_fencing_receives_no_request() {
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
    let error = block_on(redlock.lock("a", TTL).fenced().try_now()).unwrap_err();
    assert_eq!(ErrorKind::Unsupported, error.kind());
    let detached = DetachedLease::new("a", "t", TTL).unwrap().with_fencing_token(token(1));
    assert_eq!(ErrorKind::Unsupported, block_on(redlock.resume(&detached)).unwrap_err().kind());
    assert!(node.is_empty() && node.fencing_counter("a").is_none());
}
