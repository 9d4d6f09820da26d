//! Cleanup of failed and dropped attempts, unknown outcomes, and nodes that resume.

mod common;

use std::future::{IntoFuture, poll_fn};
use std::task::Poll;
use std::time::Duration;

use common::*;
use redlock_core::{ErrorKind, Ttl};
use redlock_testkit::{Fault, Operation};

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
fn a_lost_attempt_is_released_on_all_nodes() {
    with_five(async |world| {
        world.nodes[..2]
            .iter()
            .for_each(|node| node.inner().set_holder("a", stranger().token().clone(), Ttl::MAX));
        world.nodes[2].crash();
        assert!(world.redlock.try_lock("a", TTL).await.is_ok_and(|guard| guard.is_none()));
        world.settle().await;
        assert_eq!(vec![1; 5], world.seen(Operation::Release), "also those that refused or failed");
        assert_eq!(2, world.keys());
    });
}

#[test]
fn undoing_begins_when_the_round_is_lost_not_when_its_cause_is_known() {
    with_five(async |world| {
        world.nodes[..2]
            .iter()
            .for_each(|node| node.inner().set_holder("a", stranger().token().clone(), Ttl::MAX));
        world.nodes[2].crash();
        // One more denial or three failures: the cause is open until the last two reply or time out.
        world.nodes[3..].iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        world.nodes[1].inner().clear();
        world.nodes[1].crash();
        let there = world.clone();
        world.spawn(async move {
            there.sleep(100 * MS).await;
            assert!(there.seen(Operation::Release)[0] >= 1, "long before the node timeout");
        });
        let (result, took) = world.time(world.redlock.try_lock("a", TTL)).await;
        assert_eq!((ErrorKind::NoQuorum, NODE_TIMEOUT), (kind(result), took));
    });
}

#[test]
fn an_attempt_dropped_at_its_first_await_is_undone() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::lose_reply().on(Operation::Acquire)));
        poll_once(world.redlock.lock("a", TTL)).await;
        assert_eq!(5, world.keys());
        world.nothing_left().await;
    });
}

#[test]
fn an_attempt_dropped_after_any_number_of_replies_is_undone() {
    for replies in 0..=5 {
        with_five(async move |world| {
            for node in &world.nodes[replies..] {
                node.inject(Fault::lose_reply().on(Operation::Acquire));
            }
            poll_once(world.redlock.lock("a", TTL)).await;
            assert_eq!(5, world.keys(), "they are all carried out");
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
        assert_eq!(vec![0; 5], world.seen(Operation::Acquire));
    });
}

#[test]
fn a_straggler_that_lands_after_the_release_is_undone() {
    with_five(async |world| {
        world.nodes[4].inject(Fault::apply_late(150 * MS).on(Operation::Acquire).once());
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(0, world.keys());
        world.sleep(160 * MS).await;
        assert_eq!(1, world.keys(), "it has landed behind the release");
        world.nothing_left().await;
    });
}

#[test]
fn a_write_that_lands_after_its_ttl_is_undone() {
    with_five(async |world| {
        let ttl = 50 * MS;
        for node in &world.nodes[..3] {
            node.inject(Fault::hang());
        }
        assert_eq!(ErrorKind::NoQuorum, kind(world.redlock.try_lock("a", ttl).await));
        world.sleep(Duration::from_secs(3_600)).await;
        for node in &world.nodes[..3] {
            node.resume().await;
        }
        world.nothing_left().await;
    });
}

#[test]
fn a_lost_reply_of_a_release_is_repeated_until_it_is_answered() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::drop_request().on(Operation::Release).times(5));
        drop(world.redlock.lock("a", TTL).await.unwrap());
        world.redlock.close().await;
        assert_eq!((0, 6), (world.keys(), world.seen(Operation::Release)[0]));
    });
}

#[test]
fn a_chase_waits_for_a_node_that_is_down_and_does_not_flood_it() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[0].crash();
        drop(guard);
        world.sleep(Duration::from_secs(60)).await;
        let asked = world.seen(Operation::Release)[0];
        assert!((60..200).contains(&asked), "{asked} times in a minute");
        world.nodes[0].restart();
        let (abandoned, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, abandoned);
        assert!(took <= Duration::from_secs(1), "{took:?}");
        assert_eq!(0, world.keys());
    });
}

#[test]
fn a_thousand_chases_go_out_in_batches_once_the_node_is_back() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::hang());
        for number in 0..1_000 {
            drop(world.redlock.lock(format!("a{number}"), TTL).await.unwrap());
        }
        world.sleep(TTL).await;
        let before = world.seen(Operation::Release)[0];
        world.nodes[0].resume().await;
        let (abandoned, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, abandoned);
        assert!(took <= Duration::from_secs(2), "{took:?}");
        let sent = world.seen(Operation::Release)[0] - before;
        assert!(sent <= 2_100, "{sent} releases for 1,000 chases");
        assert_eq!(0, world.keys());
    });
}

#[test]
fn without_order_it_takes_two_answers_a_node_timeout_apart() {
    with_five(async |world| {
        // A request that the node has received, whose call has ended, and that is carried out after the first release.
        world.nodes[4].inject(Fault::apply_late(NODE_TIMEOUT + 50 * MS).on(Operation::Acquire).once());
        world.nodes[..3]
            .iter()
            .for_each(|node| node.inner().set_holder("a", stranger().token().clone(), Ttl::MAX));
        assert!(world.redlock.try_lock("a", TTL).await.unwrap().is_none());
        world.redlock.close().await;
        world.sleep(NODE_TIMEOUT).await;
        assert_eq!(3, world.keys());
        assert_eq!(2, world.seen(Operation::Release)[4]);
    });
}

#[test]
fn a_refill_is_undone_also_where_the_release_has_deleted_an_earlier_write() {
    with_five(async |world| {
        world.nodes[4].inject(Fault::apply_late(150 * MS).on(Operation::Acquire).times(2));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.sleep(50 * MS).await;
        guard.extend(TTL).await.unwrap();
        world.sleep(110 * MS).await;
        assert_eq!((5, 2), (world.keys(), world.seen(Operation::Acquire)[4]), "refilled meanwhile");
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The program pauses for longer than the node timeout, before a request is sent.
#[test]
fn a_request_that_is_sent_behind_its_own_undoing_is_undone() {
    use redlock_testkit::FakeNode;
    use redlock_testkit::sim::Simulation;

    for seed in 0..10 {
        let simulation = Simulation::new(seed);
        let (process, outside) = (simulation.process("client"), simulation.process("outside"));
        let node = |number| FakeNode::new(format!("fake-{number}"), outside.runtime());
        let nodes: Vec<_> = (0..3).map(node).collect();
        nodes[..2].iter().for_each(|node| node.inner().set_holder("a", stranger().token().clone(), Ttl::MAX));
        nodes[2].inject(Fault::delay(NODE_TIMEOUT / 2).on(Operation::Acquire));
        let redlock = builder(&process, &nodes).build().unwrap();
        let request = redlock.try_lock("a", TTL);
        simulation.block_on(&process, async { assert!(request.await.unwrap().is_none()) });
        simulation.run_for(MS);
        process.pause();
        simulation.run_for(Duration::from_secs(1));
        process.resume();
        assert_eq!(0, simulation.block_on(&process, async move { redlock.close().await }));
        assert_eq!(0, nodes[2].inner().len(), "seed {seed}");
    }
}

/// The same for a lock that is held, and released before the request is sent.
#[test]
fn a_straggler_is_never_sent_behind_the_releases_that_undo_it() {
    use redlock_testkit::FakeNode;
    use redlock_testkit::sim::Simulation;

    for seed in 0..20 {
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
        assert_eq!(0, nodes[2].inner().len(), "seed {seed}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn close_finishes_what_an_ended_runtime_has_left() {
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
    assert!(runtime().block_on(closed).is_ok(), "it was forgotten");
    assert!(nodes[0].inner().is_empty());
}

#[test]
fn all_tasks_end_when_the_last_handle_is_gone() {
    use redlock_testkit::sim::Simulation;

    let simulation = Simulation::new(3);
    let process = simulation.process("client");
    let nodes: Vec<_> = (0..5)
        .map(|number| redlock_testkit::FakeNode::new(format!("fake-{number}"), process.runtime()))
        .collect();
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
    assert_eq!(1, process.tasks(), "the chase of the node that hangs");
    simulation.run_for(Duration::from_secs(15));
    assert_eq!(0, process.tasks(), "given up a minute after the last handle");
    drop(node);
}
