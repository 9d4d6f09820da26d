//! Several threads, several runtimes, and no runtime at all.
//!
//! Simulations in virtual time have a single thread and cannot cover this.
#![allow(clippy::unwrap_used)] // a panic fails the test
#![allow(clippy::disallowed_methods)] // these tests run in real time

#[path = "client/common/mod.rs"]
#[allow(dead_code)] // only a part is needed here
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use redlock_core::node::LockNode;
use redlock_core::runtime::{BoxFuture, Runtime as _};
use redlock_core::{ErrorKind, Redlock, TokioRuntime};
use redlock_testkit::{FakeNode, Fault, Faulty, MemoryNode, Operation, block_on, fake_nodes};
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

/// Returns nodes that keep the order of requests, as connections do.
fn ordered_nodes() -> Vec<FakeNode> {
    let runtime = Arc::new(TokioRuntime::new());
    memory_nodes(5).into_iter().map(|node| Faulty::wrap(node, runtime.clone()).ordered()).collect()
}

fn left(nodes: &[FakeNode]) -> usize {
    nodes.iter().map(|node| node.inner().len()).sum()
}

#[test]
fn an_attempt_that_fails_at_once_leaves_nothing_behind() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    // The failures come first, so the round fails before the last nodes have replied.
    nodes[..3].iter().for_each(Faulty::crash);
    several_threads().block_on(async {
        // This thread is outside of the pool, so a spawned task starts on another thread at once.
        for number in 0..5_000 {
            let lost = redlock.lock(format!("a{number}"), TTL).try_now().await;
            assert_eq!(ErrorKind::NoQuorum, lost.unwrap_err().kind());
        }
        nodes[..3].iter().for_each(Faulty::restart);
        redlock.close().await;
    });
    assert_eq!(0, left(&nodes));
}

/// The comparison of node lists begins with the first lock. Here it is under way on another thread at the close.
#[test]
fn a_client_that_is_closed_at_once_leaves_no_announcement_behind() {
    let runtime = several_threads();
    let nodes = ordered_nodes();
    for _ in 0..2_000 {
        let listed = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        let builder = Redlock::builder(TokioRuntime::new()).nodes(listed).compare_node_lists(true);
        let redlock = builder.build().unwrap();
        runtime.block_on(async {
            redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
            redlock.close().await;
        });
        assert_eq!(0, left(&nodes));
    }
}

#[test]
fn a_guard_dropped_outside_of_the_runtime_is_released_in_it() {
    let runtime = several_threads();
    let node = memory_nodes(1);
    let redlock = redlock(&node);
    let guard = runtime.block_on(async { redlock.lock("a", TTL).await }).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(redlock.close());
    assert!(node[0].is_empty());
}

#[test]
fn cleanup_left_by_one_runtime_is_finished_in_the_next() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    let first = one_thread();
    let guard = first.block_on(async { redlock.lock("held", TTL).await }).unwrap();
    first.block_on(async {
        for node in &nodes {
            node.inject(Fault::lose_reply());
        }
        let waiting = tokio::time::timeout(Duration::from_millis(5), redlock.lock("lost", TTL).try_now());
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
fn new_locks_do_not_wait_for_cleanup_of_a_dropped_runtime() {
    let nodes = memory_nodes(3);
    let redlock = redlock(&nodes);
    let first = one_thread();
    let guards = first.block_on(async {
        let mut guards = Vec::new();
        for number in 0..5000 {
            guards.push(redlock.lock(number.to_string(), TTL).await.unwrap());
        }
        guards
    });
    drop(first);
    drop(guards);
    assert_eq!(15_000, nodes.iter().map(MemoryNode::len).sum::<usize>());
    one_thread().block_on(async {
        redlock.lock("new", TTL).await.unwrap().release().await.unwrap();
        assert_eq!(0, redlock.close().await);
    });
    assert!(nodes.iter().all(MemoryNode::is_empty));
}

#[test]
fn close_returns_where_no_task_can_run() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    let guard = one_thread().block_on(async { redlock.lock("a", TTL).await }).unwrap();
    let start = Instant::now();
    drop(guard);
    assert_eq!(5, block_on(redlock.close()), "one claim on each node");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(5, left(&nodes), "the keys are left to expire");
}

#[test]
fn waiting_outside_any_runtime_does_not_panic() {
    let nodes = ordered_nodes();
    let redlock = redlock(&nodes);
    let guard = one_thread().block_on(async { redlock.lock("a", TTL).await }).unwrap();
    let request =
        redlock.lock("a", TTL).max_wait(Duration::from_millis(20)).retry_delay(Duration::from_millis(2));
    let result = block_on(request.into_future());
    assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    drop(guard);
}

/// Returns the number of threads of this process with this name.
#[cfg(target_os = "linux")]
fn threads_called(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}

#[test]
#[cfg(target_os = "linux")]
fn timers_outside_of_tokio_share_one_thread() {
    use redlock_core::runtime::Runtime as _;

    let runtime = TokioRuntime::new();
    let all_threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = all_threads();
    // A timer is registered when it is polled first. On a busy machine, some are due by then.
    let pending = |duration| {
        let mut timer = runtime.sleep(duration);
        timer.as_mut().now_or_never().is_none().then_some(timer)
    };
    let timers: Vec<_> = (0..500).filter_map(|number| pending(Duration::from_millis(number % 50))).collect();
    // A thread that has served a timer has set its name.
    block_on(runtime.sleep(Duration::ZERO));
    assert_eq!(1, threads_called("redlock-timers"));
    assert!(all_threads() < before + 100, "{} threads, {before} before", all_threads());
    let start = Instant::now();
    block_on(runtime.sleep(Duration::from_millis(60)));
    assert!(start.elapsed() >= Duration::from_millis(60), "early");
    // All these timers were due before the last one.
    for timer in timers {
        block_on(timer);
    }
    drop(pending(Duration::from_secs(1_000)).unwrap());
    drop(pending(Duration::MAX).unwrap());
    block_on(runtime.sleep(Duration::ZERO));
}

#[test]
fn a_panicking_waker_does_not_affect_other_timers() {
    use std::task::{Context, Wake, Waker};

    use redlock_core::runtime::Runtime as _;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("an executor with a bug");
        }
    }

    let runtime = TokioRuntime::new();
    let waker = Waker::from(Arc::new(Panics));
    // On a busy machine, a timer may be due before it is polled.
    let first = loop {
        let mut timer = runtime.sleep(Duration::from_millis(1));
        if timer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            break timer;
        }
    };
    block_on(runtime.sleep(Duration::from_millis(20)));
    block_on(runtime.sleep(Duration::from_millis(20)));
    // `event-listener` miscounts after a waker has panicked.
    std::mem::forget(first);
}

#[test]
fn in_a_tokio_runtime_without_timers_requests_name_the_missing_method() {
    let node = MemoryNode::new("memory");
    let redlock = Redlock::builder(TokioRuntime::new()).node(node.clone()).build().unwrap();
    let without = Builder::new_current_thread().build().unwrap();
    for _ in 0..2 {
        without.block_on(async {
            for error in [
                redlock.lock("a", TTL).await.unwrap_err(),
                redlock.lock("a", TTL).try_now().await.unwrap_err(),
                redlock.inspect("a").await.unwrap_err(),
            ] {
                assert_eq!(ErrorKind::InvalidInput, error.kind());
                assert!(error.to_string().contains("`enable_time`"), "{error}");
            }
        });
        assert!(node.is_empty(), "nothing was sent");
        let with = Builder::new_current_thread().enable_time().build().unwrap();
        with.block_on(async { redlock.lock("a", TTL).await.unwrap().release().await.unwrap() });
    }
}

#[test]
fn a_runtime_for_background_tasks_needs_timers_as_well() {
    let node = MemoryNode::new("memory");
    let without = Builder::new_current_thread().build().unwrap();
    let runtime = TokioRuntime::on(without.handle().clone());
    let redlock = Redlock::builder(runtime).node(node.clone()).build().unwrap();
    one_thread().block_on(async {
        let error = redlock.lock("a", TTL).await.unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        assert!(error.to_string().contains("`enable_time`"), "{error}");
    });
    assert!(node.is_empty(), "nothing was sent");
}

/// The runtime of the library continues even if no other runtime is driven.
#[test]
fn a_dedicated_runtime_renews_while_the_only_thread_blocks() {
    let node = memory_nodes(1).remove(0);
    let redlock = Redlock::builder(TokioRuntime::dedicated()).node(node).build().unwrap();
    one_thread().block_on(async {
        let ttl = Duration::from_secs(6);
        let work = async |lease: redlock_core::Lease| {
            let before = redlock.now() + lease.remaining();
            while lease.is_held() && redlock.now() + lease.remaining() < before + ttl / 10 {
                std::thread::sleep(Duration::from_millis(1));
            }
            lease.is_held()
        };
        assert!(redlock.lock("a", ttl).run(work).await.unwrap(), "renewed");
        redlock.close().await;
    });
}

/// Returns a timer that was polled in `runtime`. It is `None` if the timer was due by then.
fn timer_of(runtime: &Runtime, duration: Duration) -> Option<BoxFuture<()>> {
    let _inside = runtime.enter();
    let mut timer = TokioRuntime::new().sleep(duration);
    timer.as_mut().now_or_never().is_none().then_some(timer)
}

#[test]
fn a_timer_continues_in_the_runtime_that_polls_it() {
    let paused = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let first = paused();
    let timer = timer_of(&first, TTL).unwrap();
    drop(first);
    paused().block_on(timer);

    let not_driven = paused();
    let timer = timer_of(&not_driven, TTL).unwrap();
    paused().block_on(timer);

    let (duration, not_driven) = (Duration::from_millis(20), one_thread());
    // On a busy machine, a timer may be due before it is polled.
    let (start, timer) = loop {
        let start = Instant::now();
        if let Some(timer) = timer_of(&not_driven, duration) {
            break (start, timer);
        }
    };
    block_on(timer);
    assert!(start.elapsed() >= duration);
}

/// The rest of a request waits with a timer. The end of the caller's runtime must not end that wait.
#[test]
fn on_a_dedicated_runtime_work_continues_after_the_end_of_the_callers_runtime() {
    let nodes = fake_nodes(3, Arc::new(TokioRuntime::dedicated()));
    // Longer than the time limit of this test.
    let builder = Redlock::builder(TokioRuntime::dedicated()).node_timeout(TTL);
    let redlock = builder.nodes(nodes.iter().map(|node| Arc::new(node.clone()) as _)).build().unwrap();
    // The first two nodes reply to what they have received, so the caller does not wait for the third.
    let reply = async |operation| {
        for node in &nodes {
            node.wait_for_requests(operation, 1).await;
        }
        for node in &nodes[..2] {
            node.resume().await;
            node.inject(Fault::hang());
        }
    };
    for node in &nodes {
        node.inject(Fault::hang());
    }
    one_thread().block_on(async {
        let (guard, ()) = tokio::join!(redlock.lock("a", TTL), reply(Operation::Acquire));
        let (released, ()) = tokio::join!(guard.unwrap().release(), reply(Operation::Release));
        released.unwrap();
    });
    one_thread().block_on(async {
        for node in &nodes {
            node.resume().await;
        }
        tokio::time::timeout(Duration::from_secs(60), redlock.close()).await.expect("the work continues");
    });
    assert_eq!(0, left(&nodes));
}

/// Counts the events that are emitted on its thread.
#[derive(Clone, Default)]
struct Warnings(Arc<std::sync::atomic::AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_second_runtime_beside_the_first_logs_one_warning() {
    let warned = |make: fn() -> TokioRuntime, keep_first: bool| {
        let node = MemoryNode::new("memory");
        let redlock = Redlock::builder(make()).node(node).build().unwrap();
        let warnings = Warnings::default();
        let _subscribed = common::subscribe(warnings.clone());
        let mut kept = Vec::new();
        for _ in 0..3 {
            let runtime = one_thread();
            let cycle = async { redlock.lock("a", TTL).await.unwrap().release().await.unwrap() };
            runtime.block_on(cycle);
            if keep_first {
                kept.push(runtime);
            }
        }
        warnings.0.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(1, warned(TokioRuntime::new, true));
    assert_eq!(0, warned(TokioRuntime::new, false), "the runtimes exist one after the other");
    assert_eq!(0, warned(TokioRuntime::dedicated, true));
}

#[test]
fn a_guard_dropped_during_a_panic_survives_a_panicking_clock() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use redlock_core::runtime::{BoxFuture, Instant, Runtime, suspend_aware_now};

    #[derive(Clone, Debug, Default)]
    struct Broken(Arc<AtomicBool>);

    impl Runtime for Broken {
        fn now(&self) -> Instant {
            assert!(!self.0.load(Ordering::Relaxed), "a clock with a bug");
            suspend_aware_now()
        }
        fn sleep(&self, _: Duration) -> BoxFuture<()> {
            Box::pin(std::future::pending())
        }
        fn spawn(&self, _: BoxFuture<()>) {}
    }

    let clock = Broken::default();
    let node = MemoryNode::new("memory");
    let redlock = Redlock::builder(clock.clone()).node(node).build().unwrap();
    let guard = block_on(redlock.lock("a", TTL).into_future()).unwrap();
    let works = || {
        let _guard = guard;
        clock.0.store(true, Ordering::Relaxed);
        panic!("the first panic");
    };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(works)).unwrap_err();
    assert_eq!(Some(&"the first panic"), panic.downcast_ref::<&str>());
    clock.0.store(false, Ordering::Relaxed);
}
