//! The use of a `Redlock` and its guards inside a runtime, outside, in several runtimes, and after the end of one.

use std::sync::OnceLock;

use redlock_core::ReleaseOutcome;

use super::*;
use crate::Adapter;

pub(crate) fn build_needs_no_runtime_and_one_redlock_works_across_two<A: Adapter>() {
    static REDLOCK: OnceLock<Redlock> = OnceLock::new();
    let servers = five();
    let redlock = REDLOCK.get_or_init(|| redlock::<A>(&servers));
    for round in 0..3 {
        one_thread().block_on(async {
            let guard =
                redlock.lock("a", TTL).try_now().await.unwrap().expect("no other client holds the lock");
            guard.extend(TTL).await.unwrap();
            assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap(), "round {round}");
            all_up(redlock).await;
        });
    }
}

pub(crate) fn one_redlock_works_in_two_runtimes_at_once<A: Adapter>() {
    let servers = five();
    let redlock = redlock::<A>(&servers);
    let work = |redlock: Redlock| {
        move || {
            one_thread().block_on(async {
                for cycle in 0..50 {
                    let guard = redlock.lock("a", TTL).retry_delay(Duration::from_millis(2)).await.unwrap();
                    // The connections belong to one of the two runtimes. When it ends, the requests of the other one
                    // fail, and the releases are retried in the background.
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

/// Locks and releases in two threads, each of which builds one runtime after the other. Returns the errors.
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
    errors.map(|error| error.to_string()).collect()
}

fn dedicated<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    let options = Options::new(Arc::new(TokioRuntime::dedicated()));
    let urls = servers.iter().map(RedisServer::url);
    // No request takes that long, but `close()` may: a release may overtake its acquire while the node is not connected
    // yet. It is repeated after a node timeout.
    A::builder_with(urls, &options).unwrap().node_timeout(Duration::from_secs(10)).build().unwrap()
}

pub(crate) fn over_a_dedicated_runtime_parallel_runtimes_never_fail<A: Adapter>() {
    let servers = five();
    let redlock = dedicated::<A>(&servers);
    assert_eq!(Vec::<String>::new(), in_parallel_runtimes(&redlock));
    one_thread().block_on(nothing_left(&redlock, &servers));
}

pub(crate) fn the_shutdown_of_the_connecting_runtime_is_reported_after_a_warning<A: Adapter>() {
    let servers = five();
    // Far longer than the test takes, so that no request times out.
    let redlock = builder::<A>(&servers).node_timeout(Duration::from_secs(60)).build().unwrap();
    let first = one_thread();
    first.block_on(all_up(&redlock));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // This runtime is driven until `stop`, then dropped.
    let first = std::thread::spawn(move || first.block_on(async { stopped.await.unwrap() }));
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    one_thread().block_on(async {
        let guard = redlock.lock("a", TTL * 100).await.unwrap();
        granted_by_all(&guard).await;
        assert_eq!(1, warnings.about("one Redlock used in several tokio runtimes"));
        servers.iter().for_each(RedisServer::pause);
        let release = tokio::spawn(guard.release());
        tokio::task::yield_now().await;
        stop.send(()).unwrap();
        let error = release.await.unwrap().unwrap_err();
        let reasons = error.to_string();
        assert!(reasons.contains("the runtime that opened the connection has shut down"), "{reasons}");
        servers.iter().for_each(RedisServer::resume);
        nothing_left(&redlock, &servers).await;
    });
    first.join().unwrap();
}

pub(crate) fn a_redlock_leaves_a_runtime_that_is_no_longer_driven<A: Adapter>() {
    let servers = five();
    let redlock = builder::<A>(&servers).node_timeout(Duration::from_millis(200)).build().unwrap();
    let idle = one_thread();
    drop(idle.block_on(async { redlock.lock("a", TTL).await }).unwrap());
    // The connections belong to a runtime that exists but is not driven.
    one_thread().block_on(async {
        let back = async || redlock.lock("b", TTL).try_now().await.is_ok();
        eventually("another runtime takes over", Duration::from_secs(60), back).await;
    });
    drop(idle);
}

pub(crate) fn a_guard_dropped_outside_a_runtime_is_released<A: Adapter>() {
    let servers = five();
    let redlock = redlock::<A>(&servers);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.block_on(async { redlock.lock("a", TTL).await }).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(nothing_left(&redlock, &servers));
}

pub(crate) fn the_keys_of_a_guard_dropped_after_its_runtime_expire<A: Adapter>() {
    let servers = five();
    let redlock = redlock::<A>(&servers);
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
    assert!(start.elapsed() < NODE_TIMEOUT, "drop blocked");
    let start = Instant::now();
    while !keys(&servers).is_empty() {
        assert!(start.elapsed() < 20 * ttl, "the keys remain after their TTL");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn paused_time_causes_no_hot_loop<A: Adapter>() {
    let servers = five();
    let redlock = redlock::<A>(&servers);
    // In paused time every wait for a reply ends at once with the next timer, mostly the node timeout.
    let sent = || -> u64 { servers.iter().map(|server| server.commandstats("set")).sum() };
    for _ in 0..3 {
        match redlock.lock("a", TTL).max_wait(Duration::from_secs(60)).await {
            Ok(guard) => drop(guard),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::Contended), "{error}");
            }
        }
    }
    // Three rounds without a quorum each, or one with replies. Polling for 60 s would be more than 300 rounds.
    assert!(sent() <= 3 * 3 * 5, "{} attempts at a node", sent());
}
