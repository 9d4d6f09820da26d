//! Futures dropped wherever they wait.

use super::*;

/// Drops an acquire after `replies` of five real servers have come back.
async fn dropped_after(replies: usize) {
    let servers = five();
    let (redlock, nodes) = faulty(&servers);
    all_up(&redlock).await;
    // The requests are carried out, and the replies of all but the first so many nodes are held back.
    nodes[replies..].iter().for_each(|node| node.inject(Fault::lose_reply()));
    let mut acquire = Box::pin(redlock.try_lock("a", TTL).into_future());
    let all_set = async || keys(&servers).len() == 5;
    tokio::select! {
        guard = &mut acquire => {
            assert!(replies >= 3, "decided with {replies} replies");
            drop(guard.unwrap().expect("nobody else has it"));
        }
        _ = eventually("all are set", Duration::from_secs(5), all_set), if replies < 3 => drop(acquire),
    }
    nodes.iter().for_each(Faulty::clear_faults);
    nothing_left(&redlock, &servers).await;
}

#[tokio::test]
async fn an_acquire_dropped_before_its_first_poll_sends_nothing() {
    let servers = five();
    let redlock = warm(&servers).await;
    let sent = || -> u64 { servers.iter().map(|server| server.commandstats("set")).sum() };
    let before = sent();
    drop(redlock.lock("a", TTL).into_future());
    redlock.close().await;
    assert_eq!(before, sent());
}

#[tokio::test]
async fn an_acquire_dropped_right_after_its_first_poll_is_undone() {
    for _ in 0..20 {
        let servers = five();
        let redlock = warm(&servers).await;
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

#[tokio::test]
async fn after_no_reply() {
    dropped_after(0).await;
}

#[tokio::test]
async fn after_one_reply() {
    dropped_after(1).await;
}

#[tokio::test]
async fn after_two_replies() {
    dropped_after(2).await;
}

#[tokio::test]
async fn after_three_replies() {
    dropped_after(3).await;
}

#[tokio::test]
async fn after_four_replies() {
    dropped_after(4).await;
}

#[tokio::test]
async fn after_all_replies() {
    dropped_after(5).await;
}

#[tokio::test]
async fn an_acquire_dropped_while_it_waits_to_retry_is_undone() {
    let servers = five();
    let redlock = warm(&servers).await;
    // A majority is held by someone else, so each attempt sets two keys and takes them back.
    for server in &servers[..3] {
        server.command(&["SET", "a", "someone else"]);
    }
    let waiting = redlock.lock("a", TTL).wait_unbounded().retry_delay(Duration::from_secs(5)).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(500), waiting).await.is_err());
    redlock.close().await;
    assert_eq!(3, keys(&servers).len());
    assert!(servers[3..].iter().all(|server| server.commandstats("set") >= 1), "it did try");
}

#[tokio::test]
async fn a_release_dropped_at_once_still_releases() {
    let servers = five();
    let redlock = warm(&servers).await;
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
