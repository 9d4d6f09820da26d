//! Work under a lock that ends in other ways than it should: no key is left, and its end comes through as it was.

use std::future::pending;

use super::*;
use crate::adapter::{Lease, Loss};

#[tokio::test]
async fn work_that_never_yields_for_long_is_returned() {
    let servers = five();
    let redlock = warm(&servers).await;
    let ttl = Duration::from_millis(300);
    let work = async |lease: Lease| {
        std::thread::sleep(2 * ttl); // the renewals cannot run either
        (lease.is_held(), lease.lost().await)
    };
    // It asked, so it knows. And it has finished, so what it says is answered.
    assert_eq!((false, Loss::Expired), redlock.run("a", ttl, work).await.unwrap());

    let work = async |_| {
        std::thread::sleep(2 * ttl);
        tokio::task::yield_now().await;
        unreachable!("polled without the lock");
    };
    let lost: Result<(), _> = redlock.run("a", ttl, work).await;
    assert_eq!(ErrorKind::Lost, lost.unwrap_err().kind());
    nothing_left(&redlock, &servers).await;
}

#[tokio::test]
async fn work_that_blocks_elsewhere_keeps_the_lock() {
    let servers = five();
    let redlock = warm(&servers).await;
    let ttl = Duration::from_millis(500);
    let work = async |lease: Lease| {
        tokio::task::spawn_blocking(move || std::thread::sleep(3 * ttl)).await.unwrap();
        lease.is_held()
    };
    assert!(redlock.run("a", ttl, work).await.unwrap());
    nothing_left(&redlock, &servers).await;
}

#[tokio::test]
async fn an_error_of_the_work_comes_through_whatever_becomes_of_the_release() {
    let servers = five();
    let redlock = warm(&servers).await;
    let work = async |_| Err::<(), _>("disk full");
    assert_eq!(Err("disk full"), redlock.run("a", TTL, work).await.unwrap());
    assert_eq!(Vec::<String>::new(), keys(&servers));

    let work = async |_| {
        servers[..3].iter().for_each(RedisServer::pause);
        Err::<(), _>("disk still full")
    };
    assert_eq!(Err("disk still full"), redlock.run("a", TTL, work).await.unwrap());
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
}

#[tokio::test]
async fn a_panic_of_the_work_comes_through_and_the_lock_is_released() {
    let servers = five();
    let redlock = warm(&servers).await;
    let handle = redlock.clone();
    let task = tokio::spawn(async move {
        let work = async |_| {
            tokio::task::yield_now().await;
            panic!("the panic as it was");
        };
        handle.run("a", TTL, work).await
    });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(Some(&"the panic as it was"), panic.downcast_ref::<&str>());
    nothing_left(&redlock, &servers).await;
}

#[tokio::test]
async fn work_that_is_dropped_from_outside_leaves_no_key() {
    let servers = five();
    let redlock = warm(&servers).await;
    let running = redlock.run("a", TTL, async |_| pending::<()>().await);
    let locked = eventually("it is locked", Duration::from_secs(5), async || keys(&servers).len() == 5);
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        _ = locked => {}
    }
    let handle = redlock.clone();
    let task = tokio::spawn(async move { handle.run("b", TTL, async |_| pending::<()>().await).await });
    let locked = async || keys(&servers).contains(&String::from("b"));
    eventually("another is locked", Duration::from_secs(5), locked).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    nothing_left(&redlock, &servers).await;
}
