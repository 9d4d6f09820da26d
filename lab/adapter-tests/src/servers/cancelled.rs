//! Futures that are dropped at every await point.

use super::*;

/// Drops an acquisition after `replies` of five servers have replied.
async fn dropped_after<A: Adapter>(replies: usize) {
    let servers = five();
    let (redlock, nodes) = faulty::<A>(&servers);
    all_up(&redlock).await;
    // All nodes carry out the request, but only the first `replies` nodes reply.
    nodes[replies..].iter().for_each(|node| node.inject(Fault::lose_reply()));
    let mut acquire = Box::pin(redlock.lock("a", TTL).try_now());
    let all_set = async || keys(&servers).len() == 5;
    tokio::select! {
        guard = &mut acquire => {
            assert!(replies >= 3, "decided with {replies} replies");
            drop(guard.unwrap().expect("no other client holds the lock"));
        }
        _ = eventually("all keys are set", Duration::from_secs(30), all_set), if replies < 3 => drop(acquire),
    }
    nodes.iter().for_each(Faulty::clear_faults);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn an_acquire_dropped_before_its_first_poll_sends_nothing<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let sent = || -> u64 { servers.iter().map(|server| server.commandstats("set")).sum() };
    let before = sent();
    drop(redlock.lock("a", TTL).into_future());
    redlock.close().await;
    assert_eq!(before, sent());
}

pub(crate) async fn an_acquire_dropped_right_after_its_first_poll_is_cleaned_up<A: Adapter>() {
    for _ in 0..20 {
        let (servers, redlock) = warm_five::<A>().await;
        let mut acquire = Box::pin(redlock.lock("a", TTL).into_future());
        std::future::poll_fn(|cx| {
            let _ = acquire.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
        drop(acquire);
        nothing_left(&redlock, &servers).await;
    }
}

pub(crate) async fn after_no_reply<A: Adapter>() {
    dropped_after::<A>(0).await;
}

pub(crate) async fn after_one_reply<A: Adapter>() {
    dropped_after::<A>(1).await;
}

pub(crate) async fn after_two_replies<A: Adapter>() {
    dropped_after::<A>(2).await;
}

pub(crate) async fn after_three_replies<A: Adapter>() {
    dropped_after::<A>(3).await;
}

pub(crate) async fn after_four_replies<A: Adapter>() {
    dropped_after::<A>(4).await;
}

pub(crate) async fn after_all_replies<A: Adapter>() {
    dropped_after::<A>(5).await;
}

pub(crate) async fn an_acquire_dropped_while_it_waits_to_retry_is_cleaned_up<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    // Another client holds a majority, so each attempt sets two keys and deletes them.
    for server in &servers[..3] {
        server.command(&["SET", "a", "someone else"]);
    }
    let waiting = redlock.lock("a", TTL).wait_unbounded().retry_delay(Duration::from_secs(5)).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(500), waiting).await.is_err());
    redlock.close().await;
    assert_eq!(3, keys(&servers).len());
    assert!(servers[3..].iter().all(|server| server.commandstats("set") >= 1), "the request made an attempt");
}

pub(crate) async fn a_release_dropped_at_once_still_releases<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    drop(guard.release());
    let guard = redlock.lock("a", TTL).await.unwrap();
    let mut release = Box::pin(guard.release());
    std::future::poll_fn(|cx| {
        let _ = release.as_mut().poll(cx);
        std::task::Poll::Ready(())
    })
    .await;
    drop(release);
    nothing_left(&redlock, &servers).await;
}
