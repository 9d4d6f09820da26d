//! Cleanup of failed and dropped attempts, unknown outcomes, and nodes that resume.

use std::future::{IntoFuture, poll_fn};
use std::task::Poll;
use std::time::Duration;

use crate::common::*;
use redlock_core::ErrorKind;
use redlock_core::node::Ttl;
use redlock_testkit::sim::{Simulation, for_each_seed};
use redlock_testkit::{FakeNode, Fault, Operation};

/// Polls a future once, and drops it.
async fn poll_once<T>(future: impl IntoFuture<Output = T>) {
    let mut future = Box::pin(future.into_future());
    poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_failed_attempt_is_released_on_all_nodes() {
    with_five(async |world| {
        world.nodes[..3]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        world.nodes[3].crash();
        assert!(world.redlock.lock("a", TTL).try_now().await.is_ok_and(|guard| guard.is_none()));
        world.settle().await;
        assert_eq!(
            vec![1; 5],
            world.request_counts(Operation::Release),
            "even on nodes that denied or failed"
        );
        assert_eq!(3, world.keys());
    });
}

#[test]
fn cleanup_starts_when_the_round_fails_not_when_its_cause_is_known() {
    with_five(async |world| {
        world.nodes[..2]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        world.nodes[2].crash();
        // One more denial or three failures decide the cause. It is unknown until the last two reply or time out.
        world.nodes[3..].iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        world.nodes[1].inner().clear();
        world.nodes[1].crash();
        let there = world.clone();
        world.spawn(async move {
            there.sleep(100 * MS).await;
            assert!(
                there.request_counts(Operation::Release)[0] >= 1,
                "cleanup starts long before the node timeout"
            );
        });
        let (result, took) = world.time(world.redlock.lock("a", TTL).try_now()).await;
        assert_eq!((ErrorKind::NoQuorum, NODE_TIMEOUT), (kind(result), took));
    });
}

#[test]
fn an_attempt_dropped_at_its_first_await_is_cleaned_up() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::lose_reply().on(Operation::Acquire)));
        poll_once(world.redlock.lock("a", TTL)).await;
        assert_eq!(5, world.keys());
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_dropped_after_any_number_of_replies_is_cleaned_up() {
    for replies in 0..=5 {
        with_five(async move |world| {
            for node in &world.nodes[replies..] {
                node.inject(Fault::lose_reply().on(Operation::Acquire));
            }
            poll_once(world.redlock.lock("a", TTL)).await;
            assert_eq!(5, world.keys(), "all writes are carried out");
            world.nothing_left().await;
        });
    }
}

#[test]
fn an_attempt_that_was_never_polled_sends_nothing() {
    with_five(async |world| {
        drop(world.redlock.lock("a", TTL).into_future());
        drop(world.redlock.lock("a", TTL));
        world.redlock.close().await;
        assert_eq!(vec![0; 5], world.request_counts(Operation::Acquire));
    });
}

#[test]
fn a_late_write_carried_out_after_the_release_is_cleaned_up() {
    with_five(async |world| {
        world.nodes[4].inject(Fault::apply_late(150 * MS).on(Operation::Acquire).once());
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(0, world.keys());
        world.sleep(160 * MS).await;
        assert_eq!(1, world.keys(), "the write was carried out after the release");
        world.nothing_left().await;
    });
}

#[test]
fn a_write_carried_out_after_its_ttl_is_cleaned_up() {
    with_five(async |world| {
        let ttl = 50 * MS;
        for node in &world.nodes[..3] {
            node.inject(Fault::hang());
        }
        assert_eq!(ErrorKind::NoQuorum, kind(world.redlock.lock("a", ttl).try_now().await));
        world.sleep(Duration::from_secs(3_600)).await;
        for node in &world.nodes[..3] {
            node.resume().await;
        }
        world.nothing_left().await;
    });
}

#[test]
fn a_release_without_a_reply_is_retried_until_it_is_acknowledged() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::drop_request().on(Operation::Release).times(5));
        drop(world.redlock.lock("a", TTL).await.unwrap());
        world.redlock.close().await;
        assert_eq!((0, 6), (world.keys(), world.request_counts(Operation::Release)[0]));
    });
}

#[test]
fn cleanup_retries_do_not_flood_a_node_that_is_down() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[0].crash();
        drop(guard);
        world.sleep(Duration::from_secs(60)).await;
        let releases = world.request_counts(Operation::Release)[0];
        assert!((60..200).contains(&releases), "{releases} releases in a minute");
        world.nodes[0].restart();
        let (abandoned, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, abandoned);
        assert!(took <= Duration::from_secs(1), "{took:?}");
        assert_eq!(0, world.keys());
    });
}

#[test]
fn a_thousand_pending_releases_are_sent_in_batches_once_the_node_is_back() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::hang());
        for number in 0..1_000 {
            drop(world.redlock.lock(format!("a{number}"), TTL).await.unwrap());
        }
        world.sleep(TTL).await;
        let before = world.request_counts(Operation::Release)[0];
        world.nodes[0].resume().await;
        let (abandoned, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, abandoned);
        assert!(took <= Duration::from_secs(2), "{took:?}");
        let sent = world.request_counts(Operation::Release)[0] - before;
        assert!(sent <= 2_100, "{sent} releases for 1,000 pending releases");
        assert_eq!(0, world.keys());
    });
}

#[test]
fn without_order_cleanup_takes_two_replies_a_node_timeout_apart() {
    with_five(async |world| {
        // The node has received this request and carries it out after the first release. The call has already ended.
        world.nodes[4].inject(Fault::apply_late(NODE_TIMEOUT + 50 * MS).on(Operation::Acquire).once());
        world.nodes[..3]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        world.redlock.close().await;
        world.sleep(NODE_TIMEOUT).await;
        assert_eq!(3, world.keys());
        assert_eq!(2, world.request_counts(Operation::Release)[4]);
    });
}

#[test]
fn a_refill_is_cleaned_up_even_if_the_release_deleted_an_earlier_write() {
    with_five(async |world| {
        world.nodes[4].inject(Fault::apply_late(150 * MS).on(Operation::Acquire).times(2));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.sleep(50 * MS).await;
        guard.extend(TTL).await.unwrap();
        world.sleep(110 * MS).await;
        assert_eq!(
            (5, 2),
            (world.keys(), world.request_counts(Operation::Acquire)[4]),
            "the node was refilled"
        );
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The program pauses for longer than the node timeout before a request is sent.
#[test]
fn a_request_sent_after_its_own_cleanup_is_cleaned_up() {
    for_each_seed(10, |seed| {
        let simulation = Simulation::new(seed);
        let (process, outside) = (simulation.process("client"), simulation.process("outside"));
        let node = |number| FakeNode::new(format!("fake-{number}"), outside.runtime());
        let nodes: Vec<_> = (0..3).map(node).collect();
        nodes[..2]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        nodes[2].inject(Fault::delay(NODE_TIMEOUT / 2).on(Operation::Acquire));
        let redlock = builder(&process, &nodes).build().unwrap();
        let request = redlock.lock("a", TTL).try_now();
        simulation.block_on(&process, async { assert!(request.await.unwrap().is_none()) });
        simulation.run_for(MS);
        process.pause();
        simulation.run_for(Duration::from_secs(1));
        process.resume();
        assert_eq!(0, simulation.block_on(&process, async move { redlock.close().await }));
        assert_eq!(0, nodes[2].inner().len());
    });
}

/// Same as the test above, for a lock that is held and released before the request is sent.
#[test]
fn a_late_request_is_never_sent_after_the_releases_that_clean_it_up() {
    for_each_seed(20, |seed| {
        let simulation = Simulation::new(seed);
        let (process, outside) = (simulation.process("client"), simulation.process("outside"));
        let node = |number| FakeNode::new(format!("fake-{number}"), outside.runtime());
        let nodes: Vec<_> = (0..3).map(node).collect();
        nodes[2].inject(Fault::delay(NODE_TIMEOUT / 2).on(Operation::Acquire));
        let redlock = builder(&process, &nodes).build().unwrap();
        let cycle = redlock.lock("a", TTL).into_future();
        simulation.block_on(&process, async { cycle.await.unwrap().release().await.unwrap() });
        simulation.run_for(MS);
        process.pause();
        simulation.run_for(Duration::from_secs(1));
        process.resume();
        assert_eq!(0, simulation.block_on(&process, async move { redlock.close().await }));
        assert_eq!(0, nodes[2].inner().len());
    });
}

#[cfg(feature = "tokio")]
#[test]
fn close_finishes_the_cleanup_of_a_dropped_runtime() {
    use redlock_core::{Redlock, TokioRuntime};

    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let nodes = redlock_testkit::fake_nodes(3, std::sync::Arc::new(TokioRuntime::new()));
    let builder = Redlock::builder(TokioRuntime::new()).nodes(nodes.iter().cloned().map(Into::into));
    let redlock = builder.build().unwrap();
    runtime().block_on(async {
        let guard = redlock.lock("a", TTL).await.unwrap();
        nodes[0].crash();
        guard.release().await.unwrap();
    });
    assert_eq!(1, nodes[0].inner().len());
    nodes[0].restart();
    let closed = async { tokio::time::timeout(TTL / 2, redlock.close()).await };
    assert!(runtime().block_on(closed).is_ok(), "the cleanup was not finished");
    assert!(nodes[0].inner().is_empty());
}

#[test]
fn all_tasks_end_after_the_last_handle_is_dropped() {
    let simulation = Simulation::new(3);
    let process = simulation.process("client");
    let nodes: Vec<_> =
        (0..5).map(|number| FakeNode::new(format!("fake-{number}"), process.runtime())).collect();
    let redlock = builder(&process, &nodes).build().unwrap();
    nodes[0].inject(Fault::hang());
    let node = nodes[0].clone();
    simulation.block_on(&process, async move {
        let guard = redlock.lock("a", TTL).await.unwrap();
        let lease = guard.lease();
        drop((guard, redlock));
        assert!(!lease.is_held());
    });
    simulation.run_for(Duration::from_secs(50));
    assert_eq!(1, process.tasks(), "the cleanup of the hung node");
    simulation.run_for(Duration::from_secs(15));
    assert_eq!(0, process.tasks(), "cleanup ends a minute after the last handle was dropped");
    drop(node);
}
