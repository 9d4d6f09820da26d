//! Work under a lock that blocks its thread, fails, panics or is dropped: every loss is reported, and no key is left.

use std::future::pending;

use redlock_core::{Lease, Loss};

use super::*;
use crate::Adapter;

/// Blocks one worker. The others can renew the lock.
pub(crate) fn work_that_blocks_a_worker_for_several_ttls_keeps_the_lock<A: Adapter>() {
    for workers in [2, 8] {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers).enable_all().build().unwrap();
        let servers = five();
        runtime.block_on(async {
            let redlock = warm::<A>(&servers).await;
            let ttl = Duration::from_secs(3);
            let work = async move |lease: Lease| {
                let end = Instant::now() + 3 * ttl;
                while lease.is_held() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
                "charged"
            };
            let charged = tokio::spawn(redlock.lock("a", ttl).run(work)).await.unwrap();
            assert_eq!("charged", charged.unwrap(), "with {workers} workers");
            nothing_left(&redlock, &servers).await;
        });
    }
}

/// Blocks the only thread, so that nothing can renew the lock.
pub(crate) async fn work_that_blocks_the_only_thread_for_several_ttls_ends_with_an_error_and_its_output<
    A: Adapter,
>() {
    let servers = five();
    let client = warm::<A>(&servers).await;
    let ttl = Duration::from_millis(300);
    let warnings = Warnings::default();
    let work = async |lease: Lease| {
        while lease.is_held() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Another client acquires the lock meanwhile, on a separate thread with separate connections.
        let other = redlock::<A>(&servers);
        let acquired = async {
            let guard = other.lock("a", TTL).await.unwrap();
            guard.release().await.unwrap();
            other.close().await;
        };
        std::thread::scope(|scope| scope.spawn(|| one_thread().block_on(acquired)).join().unwrap());
        "charged"
    };
    let error = {
        let _subscribed = warnings.subscribe();
        client.lock("a", ttl).run(work).await.unwrap_err()
    };
    assert_eq!((ErrorKind::Lost, Some(&Loss::Expired)), (error.kind(), error.loss()));
    assert_eq!(Some("charged"), error.into_output());
    assert_eq!(1, warnings.about("lease lost"));
    nothing_left(&client, &servers).await;
}

pub(crate) async fn work_on_a_blocking_thread_keeps_the_lock<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let ttl = Duration::from_secs(3);
    let work = async |lease: Lease| {
        tokio::task::spawn_blocking(move || std::thread::sleep(3 * ttl)).await.unwrap();
        lease.is_held()
    };
    assert!(redlock.lock("a", ttl).run(work).await.unwrap());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn an_error_of_the_work_is_returned_even_if_the_release_fails<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let work = async |_| Err::<(), _>("disk full");
    assert_eq!(Err("disk full"), redlock.lock("a", TTL).run(work).await.unwrap());
    assert_eq!(Vec::<String>::new(), keys(&servers));

    let work = async |_| {
        servers[..3].iter().for_each(RedisServer::pause);
        Err::<(), _>("disk still full")
    };
    assert_eq!(Err("disk still full"), redlock.lock("a", TTL).run(work).await.unwrap());
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_panic_of_the_work_propagates_and_the_lock_is_released<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let handle = redlock.clone();
    let task = tokio::spawn(async move {
        let work = async |_| {
            tokio::task::yield_now().await;
            panic!("the original panic");
        };
        handle.lock("a", TTL).run(work).await
    });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(Some(&"the original panic"), panic.downcast_ref::<&str>());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn dropped_work_leaves_no_key<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let running = redlock.lock("a", TTL).run(async |_| pending::<()>().await);
    let locked =
        eventually("the resource is locked", Duration::from_secs(30), async || keys(&servers).len() == 5);
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        _ = locked => {}
    }
    let handle = redlock.clone();
    let task = tokio::spawn(async move { handle.lock("b", TTL).run(async |_| pending::<()>().await).await });
    let locked = async || keys(&servers).contains(&String::from("b"));
    eventually("the other resource is locked", Duration::from_secs(30), locked).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    nothing_left(&redlock, &servers).await;
}
