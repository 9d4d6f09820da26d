//! Where a `Redlock` and its guards may be used: inside a runtime, outside, across several, after the end of one.

use std::sync::OnceLock;

use redlock_testkit::fake_nodes;

use super::*;
use crate::adapter::ReleaseOutcome;

#[test]
fn build_needs_no_runtime_and_one_redlock_works_across_two() {
    static REDLOCK: OnceLock<Redlock> = OnceLock::new();
    let servers = five();
    let redlock = REDLOCK.get_or_init(|| redlock(&servers));
    for round in 0..3 {
        one_thread().block_on(async {
            let guard = redlock.try_lock("a", TTL).await.unwrap().expect("nobody else has it");
            guard.extend(TTL).await.unwrap();
            assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap(), "round {round}");
            all_up(redlock).await;
        });
    }
}

#[test]
fn one_redlock_works_in_two_runtimes_at_once() {
    let servers = five();
    let redlock = redlock(&servers);
    let work = |redlock: Redlock| {
        move || {
            one_thread().block_on(async {
                for cycle in 0..50 {
                    let guard = redlock.lock("a", TTL).retry_delay(Duration::from_millis(2)).await.unwrap();
                    // The connections live in one of the two. When it ends, what the other has under way fails, is said
                    // to have failed, and is repeated in the background.
                    match guard.release().await {
                        Ok(released) => assert_eq!(ReleaseOutcome::Released, released, "cycle {cycle}"),
                        Err(error) => assert_eq!(ErrorKind::NoQuorum, error.kind(), "cycle {cycle}"),
                    }
                }
            });
        }
    };
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(work(redlock.clone()))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    one_thread().block_on(nothing_left(&redlock, &servers));
}

/// Locks and releases in threads that build a runtime each, one after the other. Returns the errors.
fn in_parallel_runtimes(redlock: &Redlock) -> Vec<String> {
    let thread = |number: usize| {
        let redlock = redlock.clone();
        std::thread::spawn(move || {
            let mut errors = Vec::new();
            for _ in 0..10 {
                one_thread().block_on(async {
                    for _ in 0..20 {
                        match redlock.lock(format!("a{number}"), TTL).await {
                            Ok(guard) => errors.extend(guard.release().await.err()),
                            Err(error) => errors.push(error),
                        }
                    }
                });
            }
            errors
        })
    };
    let threads: Vec<_> = (0..2).map(thread).collect();
    let errors = threads.into_iter().flat_map(|thread| thread.join().unwrap());
    errors
        .map(|error| format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string)))
        .collect()
}

fn dedicated(servers: &[RedisServer]) -> Redlock {
    let options = Options::new(Arc::new(TokioRuntime::dedicated()));
    let urls = servers.iter().map(RedisServer::url);
    crate::adapter::builder_with(urls, &options).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap()
}

#[test]
fn over_a_dedicated_runtime_parallel_runtimes_never_fail() {
    let servers = five();
    let redlock = dedicated(&servers);
    assert_eq!(Vec::<String>::new(), in_parallel_runtimes(&redlock));
    one_thread().block_on(nothing_left(&redlock, &servers));
}

#[test]
fn the_end_of_the_runtime_that_opened_the_connections_is_named_and_was_warned_of() {
    let servers = five();
    // Far above what the test takes: no request times out.
    let redlock = builder(&servers).node_timeout(Duration::from_secs(60)).build().unwrap();
    let first = one_thread();
    first.block_on(all_up(&redlock));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // Driven until it is stopped, and dropped then.
    let first = std::thread::spawn(move || first.block_on(async { stopped.await.unwrap() }));
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    one_thread().block_on(async {
        let guard = redlock.lock("a", TTL * 100).await.unwrap();
        granted_by_all(&guard).await;
        assert_eq!(1, warnings.about("one Redlock used in several tokio runtimes"));
        servers.iter().for_each(RedisServer::pause);
        let release = tokio::spawn(guard.release());
        tokio::task::yield_now().await;
        stop.send(()).unwrap();
        let error = release.await.unwrap().unwrap_err();
        let reasons = std::error::Error::source(&error).unwrap().to_string();
        assert!(reasons.contains("the runtime that opened the connection has shut down"), "{reasons}");
        servers.iter().for_each(RedisServer::resume);
        nothing_left(&redlock, &servers).await;
    });
    first.join().unwrap();
}

#[test]
fn a_runtime_that_is_not_driven_any_more_is_left_behind() {
    let servers = five();
    let redlock = builder(&servers).node_timeout(Duration::from_millis(200)).build().unwrap();
    let idle = one_thread();
    drop(idle.block_on(async { redlock.lock("a", TTL).await }).unwrap());
    // The connections belong to a runtime that exists and does nothing.
    one_thread().block_on(async {
        let back = async || redlock.try_lock("b", TTL).await.is_ok();
        eventually("another runtime takes over", Duration::from_secs(10), back).await;
    });
    drop(idle);
}

#[test]
fn a_guard_dropped_outside_a_runtime_is_released() {
    let servers = five();
    let redlock = redlock(&servers);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.block_on(async { redlock.lock("a", TTL).await }).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(nothing_left(&redlock, &servers));
}

#[test]
fn a_guard_dropped_after_its_runtime_is_left_to_its_ttl() {
    let servers = five();
    let redlock = redlock(&servers);
    let ttl = Duration::from_millis(1_500);
    let runtime = one_thread();
    let guard = runtime.block_on(async {
        let guard = redlock.lock("a", ttl).await.unwrap();
        granted_by_all(&guard).await;
        guard
    });
    drop(runtime);
    let start = Instant::now();
    drop(guard);
    assert!(start.elapsed() < Duration::from_millis(500), "drop blocked");
    let start = Instant::now();
    while !keys(&servers).is_empty() {
        assert!(start.elapsed() < 4 * ttl, "the keys outlive their TTL");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(start_paused = true)]
async fn paused_time_makes_no_hot_loop() {
    let servers = five();
    let redlock = redlock(&servers);
    // Under paused time every wait for a reply ends at once, with the next timer: mostly that of the node timeout.
    let sent = || -> u64 { servers.iter().map(|server| server.commandstats("set")).sum() };
    for _ in 0..3 {
        match redlock.lock("a", TTL).max_wait(Duration::from_secs(60)).await {
            Ok(guard) => drop(guard),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::Contended), "{error}");
            }
        }
    }
    // Three unusable rounds each, or one that happened to be answered; waiting out 60 s would be 300 rounds and more.
    assert!(sent() <= 3 * 3 * 5, "{} attempts at a node", sent());
}

#[tokio::test(start_paused = true)]
async fn waiting_in_paused_time_makes_no_hot_loop() {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    let nodes: Vec<_> = fake_nodes(5, runtime.clone());
    let redlock = || {
        let clones = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        Builder::new(runtime.clone()).nodes(clones).build().unwrap()
    };
    let (redlock, other) = (redlock(), redlock());
    let guard = other.lock("a", TTL * 100).await.unwrap();
    let before = nodes[0].request_count(Operation::Acquire);
    let waited = redlock.lock("a", TTL).max_wait(Duration::from_secs(60)).await;
    assert_eq!(ErrorKind::Contended, waited.unwrap_err().kind());
    let attempts = nodes[0].request_count(Operation::Acquire) - before;
    assert!((300..=601).contains(&attempts), "{attempts} in 60 s with delays of 100 to 200 ms");
    assert!(guard.is_held());
}
