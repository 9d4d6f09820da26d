//! Several threads, several runtimes, and none: what virtual time on one thread cannot show.
#![allow(clippy::unwrap_used)] // a panic is how a test reports
#![allow(clippy::disallowed_methods)] // these tests run in real time

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use redlock_core::{ErrorKind, LockNode, Redlock, TokioRuntime};
use redlock_testkit::{FakeNode, Fault, Faulty, MemoryNode, block_on};
use tokio::runtime::{Builder, Runtime};

const TTL: Duration = Duration::from_secs(1_000);

fn several_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn redlock<N: LockNode + Clone>(nodes: &[N]) -> Redlock {
    let nodes = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    Redlock::builder(TokioRuntime::new()).nodes(nodes).build().unwrap()
}

fn memory_nodes(count: usize) -> Vec<MemoryNode> {
    (0..count).map(|number| MemoryNode::new(format!("memory-{number}"))).collect()
}

/// Nodes that keep the order of requests, as connections do.
fn ordered_nodes() -> Vec<FakeNode> {
    let runtime = Arc::new(TokioRuntime::new());
    memory_nodes(5).into_iter().map(|node| Faulty::wrap(node, runtime.clone()).ordered()).collect()
}

fn left(nodes: &[FakeNode]) -> usize {
    nodes.iter().map(|node| node.inner().len()).sum()
}

#[test]
fn an_attempt_that_is_lost_at_once_leaves_nothing_behind() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    // The failures come first, so the round is lost before the last nodes have answered.
    nodes[..3].iter().for_each(Faulty::crash);
    several_threads().block_on(async {
        // From outside of the pool, so that what is spawned begins on another thread at once.
        for number in 0..5_000 {
            let lost = redlock.try_lock(format!("a{number}"), TTL).await;
            assert_eq!(ErrorKind::NoQuorum, lost.unwrap_err().kind());
        }
        nodes[..3].iter().for_each(Faulty::restart);
        redlock.close().await;
    });
    assert_eq!(0, left(&nodes));
}

#[test]
fn nothing_is_granted_after_close_has_returned() {
    for round in 0..5_000 {
        let node = memory_nodes(1);
        let redlock = redlock(&node);
        let start = Barrier::new(2);
        let held = std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                // Never released: what is granted can be counted.
                std::mem::forget(block_on(redlock.try_lock("a", TTL).into_future()));
            });
            start.wait();
            block_on(redlock.close());
            node[0].len()
        });
        assert_eq!(held, node[0].len(), "granted after close had returned, in round {round}");
    }
}

#[test]
fn a_guard_dropped_outside_is_released_in_the_runtime_it_was_taken_in() {
    let runtime = several_threads();
    let node = memory_nodes(1);
    let redlock = redlock(&node);
    let guard = runtime.block_on(async { redlock.lock("a", TTL).await }).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(redlock.close());
    assert!(node[0].is_empty());
}

#[test]
fn what_a_runtime_leaves_undone_the_next_one_does() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    let first = one_thread();
    let guard = first.block_on(async { redlock.lock("held", TTL).await }).unwrap();
    first.block_on(async {
        for node in &nodes {
            node.inject(Fault::lose_reply());
        }
        let waiting =
            tokio::time::timeout(Duration::from_millis(5), redlock.try_lock("lost", TTL).into_future());
        assert!(waiting.await.is_err());
    });
    drop(guard);
    drop(first);
    nodes.iter().for_each(Faulty::clear_faults);
    assert_eq!(10, left(&nodes));
    one_thread().block_on(redlock.close());
    assert_eq!(0, left(&nodes));
}

#[test]
fn close_where_nothing_can_run_returns() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    let guard = one_thread().block_on(async { redlock.lock("a", TTL).await }).unwrap();
    let start = Instant::now();
    drop(guard);
    block_on(redlock.close());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(5, left(&nodes), "left to their TTL");
}

#[test]
fn waiting_outside_any_runtime_does_not_panic() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    let guard = one_thread().block_on(async { redlock.lock("a", TTL).await }).unwrap();
    let request =
        redlock.lock("a", TTL).wait(Duration::from_millis(20)).retry_delay(Duration::from_millis(2));
    let result = block_on(request.into_future());
    assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    drop(guard);
}
