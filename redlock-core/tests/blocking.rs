//! Work that blocks its worker thread.
//!
//! Renewals continue if another thread can run them, and a loss is always reported.
#![allow(clippy::unwrap_used)] // a panic fails the test
#![allow(clippy::disallowed_methods)] // these tests run in real time

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_core::{ErrorKind, KeepAlive, Lease, Loss, Redlock, RunError, TokioRuntime};
use redlock_testkit::{FakeNode, MemoryNode, Operation, block_on};
use tokio::runtime::Builder;

/// A TTL that is long enough for a renewal on a busy machine.
const TTL: Duration = Duration::from_secs(6);

/// A short TTL for tests in which the lock is lost.
const SHORT: Duration = Duration::from_secs(1);

fn workers(count: usize) -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(count).enable_all().build().unwrap()
}

fn one_thread() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn redlock() -> (Redlock, FakeNode) {
    let node = FakeNode::new("fake", Arc::new(TokioRuntime::new()));
    (Redlock::builder(TokioRuntime::new()).node(node.clone()).build().unwrap(), node)
}

/// Blocks its thread until the lock is renewed or lost. Returns true if it was renewed.
fn block_until_renewed(lease: &Lease, node: &FakeNode) -> bool {
    while lease.is_held() {
        if node.request_count(Operation::Extend) > 0 {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

fn block_until_lost(lease: &Lease) {
    while lease.is_held() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn run_renews_while_its_work_blocks_a_worker() {
    for count in [2, 8] {
        let (redlock, node) = redlock();
        workers(count).block_on(async {
            let work = async move |lease: Lease| block_until_renewed(&lease, &node);
            let renewed = tokio::spawn(redlock.lock("a", TTL).run(work)).await.unwrap();
            assert!(renewed.unwrap(), "with {count} workers");
        });
    }
}

#[test]
fn keep_alive_renews_while_the_holder_blocks_a_worker() {
    for waits in [true, false] {
        let (redlock, node) = redlock();
        let task = async move {
            let guard = if waits {
                redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap()
            } else {
                redlock.lock("a", TTL).keep_alive(KeepAlive::new()).try_now().await.unwrap().unwrap()
            };
            assert!(block_until_renewed(&guard, &node), "waits: {waits}");
        };
        workers(2).block_on(async { tokio::spawn(task).await.unwrap() });
    }
}

#[test]
fn run_returns_the_loss_and_the_output_if_no_thread_can_renew() {
    let (redlock, node) = redlock();
    one_thread().block_on(async {
        let work = async |lease: Lease| {
            block_until_lost(&lease);
            "charged"
        };
        let error = redlock.lock("a", SHORT).run(work).await.unwrap_err();
        assert_eq!((ErrorKind::Lost, Some(&Loss::Expired)), (error.kind(), error.loss()));
        assert!(error.to_string().ends_with("; the work finished without it"), "{error}");
        assert_eq!(Some(&"charged"), error.output());
        assert_eq!(Some("charged"), error.into_output());
        redlock.close().await;
        assert!(node.inner().is_empty());
    });
}

/// A clock that moves only when the work sets it.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

impl Runtime for Clock {
    fn now(&self) -> Instant {
        Instant::since_origin(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        Box::pin(pending())
    }

    fn spawn(&self, _: BoxFuture<()>) {}
}

/// With a TTL of 10 s, the validity ends after 9,898 ms. The loss is reported from 9,698 ms on.
#[test]
fn work_that_finishes_within_the_validity_succeeds() {
    for (finished, in_time) in [(9_697, true), (9_698, true), (9_897, true), (9_898, false), (20_000, false)]
    {
        let clock = Clock::default();
        let node = MemoryNode::new("memory");
        let redlock = Redlock::builder(clock.clone()).node(node).build().unwrap();
        let work = async |_| clock.set(finished);
        let outcome = block_on(redlock.lock("a", Duration::from_secs(10)).run(work));
        assert_eq!(in_time, outcome.is_ok(), "at {finished} ms");
        assert_eq!(in_time, outcome.err().and_then(RunError::into_output).is_none());
    }
}

#[test]
fn work_of_a_leader_that_completes_too_late_is_an_error_with_the_output() {
    let clock = Clock::default();
    let node = MemoryNode::new("memory");
    let redlock = Redlock::builder(clock.clone()).node(node).build().unwrap();
    let work = |_| {
        let clock = clock.clone();
        async move {
            clock.set(20_000);
            ControlFlow::Break("late")
        }
    };
    let error = block_on(redlock.lock("a", Duration::from_secs(10)).lead().run(work)).unwrap_err();
    assert_eq!((ErrorKind::Lost, Some("late")), (error.kind(), error.into_output()));
}
