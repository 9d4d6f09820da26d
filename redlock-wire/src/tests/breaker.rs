//! Tests when an unresponsive connection is given up.

use std::task::{Context, Waker};

use super::*;
use crate::socket::SocketHandle;

#[tokio::test(start_paused = true)]
async fn three_requests_in_a_row_without_an_answer_end_the_connection() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    for _ in 0..3 {
        assert_eq!(Some(ConnectionId(1)), node.connection());
        give_up(&node).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(None, node.connection());
    let reason = unavailable(at_once(node.acquire(&claim("a"), ttl())).await.expect("it waits"));
    assert!(reason.contains("stopped responding"), "{reason}");

    fake.is(|mood| mood.answers = true);
    fake.until(|fake| fake.connects() == 2 && fake.open() == 1).await; // so the first one is closed
    assert_eq!(Vote::Granted, lock(&node).await.unwrap());
    assert_eq!(Some(ConnectionId(2)), node.connection());
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_between_clears_the_count() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    for _ in 0..5 {
        fake.is(|mood| mood.answers = false);
        give_up(&node).await;
        give_up(&node).await;
        fake.is(|mood| mood.answers = true);
        assert_eq!(Vote::Granted, lock(&node).await.unwrap());
    }
    assert_eq!(Some(ConnectionId(1)), node.connection());
}

#[tokio::test(start_paused = true)]
async fn requests_given_up_at_once_do_not_count() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    for _ in 0..100 {
        assert!(at_once(node.acquire(&claim("a"), ttl())).await.is_none());
    }
    assert_eq!(Some(ConnectionId(1)), node.connection());
}

#[tokio::test(start_paused = true)]
async fn requests_given_up_within_moments_say_nothing() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    let claims: Vec<_> = (0..10).map(|number| claim(number.to_string().as_str())).collect();
    let moment = Duration::from_millis(20);
    for wave in 0..10 {
        assert_eq!(Some(ConnectionId(1)), node.connection(), "after {wave}");
        let mut together: Vec<_> = claims.iter().map(|claim| node.acquire(claim, ttl())).collect();
        for request in &mut together {
            assert!(at_once(request).await.is_none());
        }
        tokio::time::sleep(moment).await;
        drop(together);
    }
    // The first request was given up 180 ms ago.
    assert_eq!(Some(ConnectionId(1)), node.connection());
    tokio::time::sleep(3 * moment).await;
    assert_ne!(Some(ConnectionId(1)), node.connection());
}

#[tokio::test(start_paused = true)]
async fn three_requests_given_up_in_a_short_time_are_no_silence() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(50), lock(&node)).await.is_err());
        assert_eq!(Some(ConnectionId(1)), node.connection());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_whose_server_answers_a_ping() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.calls();
    fake.is(|mood| mood.answers = false);
    // All are dropped at the same time, as by a late process.
    let claims = ["a", "b", "c"].map(claim);
    let mut requests: Vec<_> = claims.iter().map(|claim| node.acquire(claim, ttl())).collect();
    for request in &mut requests {
        assert!(at_once(request).await.is_none());
    }
    tokio::time::sleep(NODE_TIMEOUT).await;
    fake.is(|mood| mood.answers = true);
    drop(requests);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(Some(ConnectionId(1)), node.connection());
    assert_eq!(vec!["SET", "SET", "SET", "PING"], fake.calls());
}

#[tokio::test(start_paused = true)]
async fn a_single_request_without_an_answer_ends_the_connection_after_a_second() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    give_up(&node).await;
    tokio::time::sleep(Duration::from_millis(990)).await;
    assert_eq!(Some(ConnectionId(1)), node.connection());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_ne!(Some(ConnectionId(1)), node.connection());
}

/// Receives something every 100 ms.
async fn keep_receiving(socket: SocketHandle) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let _ = socket.read(&mut Context::from_waker(Waker::noop()), |_| Poll::Ready(Ok(())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_over_which_bytes_arrive_has_more_time_to_answer() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let receiving = tokio::spawn(keep_receiving(fake.socket()));
    fake.is(|mood| mood.answers = false);
    for _ in 0..4 {
        give_up(&node).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(Some(ConnectionId(1)), node.connection());
    receiving.abort();
    give_up(&node).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_ne!(Some(ConnectionId(1)), node.connection());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_look_for_replies_is_no_silence_of_the_server() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| (mood.answers, mood.looks) = (false, false));
    for _ in 0..4 {
        give_up(&node).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(Some(ConnectionId(1)), node.connection());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_ne!(Some(ConnectionId(1)), node.connection(), "but not forever");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_without_end_and_answers_nothing_is_given_up() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let receiving = tokio::spawn(keep_receiving(fake.socket()));
    fake.is(|mood| mood.answers = false);
    give_up(&node).await;
    tokio::time::sleep(Duration::from_millis(5500)).await;
    assert_ne!(Some(ConnectionId(1)), node.connection());
    receiving.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_over_a_connection_that_was_given_up() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let (first, written) = (fake.socket(), || Poll::Ready(Ok(())));
    assert!(matches!(first.write(written), Poll::Ready(Ok(()))));
    fake.is(|mood| mood.answers = false);
    // A pending request keeps the connection in memory.
    let claim = claim("a");
    let mut request = pin!(node.acquire(&claim, ttl()));
    assert!(at_once(request.as_mut()).await.is_none());
    for _ in 0..3 {
        give_up(&node).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(None, node.connection());
    assert!(matches!(first.write(written), Poll::Ready(Err(_))));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_connection_is_probed_and_given_up_when_the_server_is_gone() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.calls();
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!((Some(ConnectionId(1)), vec!["PING", "PING"]), (node.connection(), fake.calls()));
    fake.is(|mood| mood.answers = false);
    fake.until(|fake| fake.connects() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_in_doubt_is_sent_a_bounded_number_of_requests() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(20), lock(&node)).await.is_err());
    }
    let claim = claim("a");
    let mut requests: Vec<_> = (0..2000).map(|_| node.acquire(&claim, ttl())).collect();
    let mut denied = Vec::new();
    for request in &mut requests {
        denied.extend(at_once(request).await);
    }
    assert_eq!(2000 - 1024, denied.len());
    let reason = unavailable(denied.pop().unwrap());
    assert!(reason.contains("1024 requests without a reply"), "{reason}");
    drop(requests);

    fake.is(|mood| mood.answers = true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Vote::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_at_once_ends_the_connection_and_no_loop() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.fails = true);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_ne!(Some(ConnectionId(1)), node.connection());
    fake.is(|mood| mood.fails = false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Vote::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_may_be_silent_for_as_long_as_a_request_may_take() {
    let (fake, node) = node();
    node.set_node_timeout(Duration::from_secs(2));
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert_eq!(Some(ConnectionId(1)), node.connection(), "probed 9 s ago");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_ne!(Some(ConnectionId(1)), node.connection());
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_a_quiet_connection_bounds_no_requests() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    tokio::time::sleep(Duration::from_millis(5100)).await;
    let claim = claim("a");
    let mut requests: Vec<_> = (0..3000).map(|_| node.acquire(&claim, ttl())).collect();
    for request in &mut requests {
        assert!(at_once(request).await.is_none());
    }
}
