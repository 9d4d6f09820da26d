//! Tests of the circuit breaker, which ends unresponsive connections.

use std::task::{Context, Waker};

use super::*;
use crate::socket::SocketHandle;

#[tokio::test(start_paused = true)]
async fn three_requests_in_a_row_without_a_reply_end_the_connection() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    for _ in 0..3 {
        assert_eq!(Some(ConnectionId(1)), node.status().connection);
        drop_request(&node).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(None, node.status().connection);
    let reason =
        unavailable(at_once(node.call(Request::Acquire(claim("a"), ttl()))).await.expect("the call waits"));
    assert!(reason.contains("stopped responding"), "{reason}");

    fake.is(|behavior| behavior.replies = true);
    fake.until(|fake| fake.connects() == 2 && fake.open() == 1).await; // so the first one is closed
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    assert_eq!(Some(ConnectionId(2)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn a_reply_resets_the_count() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    for _ in 0..5 {
        fake.is(|behavior| behavior.replies = false);
        drop_request(&node).await;
        drop_request(&node).await;
        fake.is(|behavior| behavior.replies = true);
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    }
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn requests_dropped_at_once_do_not_count() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    for _ in 0..100 {
        assert!(at_once(node.call(Request::Acquire(claim("a"), ttl()))).await.is_none());
    }
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn requests_dropped_after_a_short_time_do_not_count() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    let claims: Vec<_> = (0..10).map(|number| claim(number.to_string().as_str())).collect();
    let moment = Duration::from_millis(20);
    for wave in 0..10 {
        assert_eq!(Some(ConnectionId(1)), node.status().connection, "after {wave}");
        let mut together: Vec<_> =
            claims.iter().map(|claim| node.call(Request::Acquire(claim.clone(), ttl()))).collect();
        for request in &mut together {
            assert!(at_once(request).await.is_none());
        }
        tokio::time::sleep(moment).await;
        drop(together);
    }
    // The first request was dropped 180 ms ago.
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
    tokio::time::sleep(3 * moment).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn three_requests_dropped_in_quick_succession_do_not_end_the_connection() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(50), lock(&node)).await.is_err());
        assert_eq!(Some(ConnectionId(1)), node.status().connection);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_if_the_server_replies_to_a_ping() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.calls();
    fake.is(|behavior| behavior.replies = false);
    // All are dropped at the same time, as in a process that resumes after a pause.
    let claims = ["a", "b", "c"].map(claim);
    let mut requests: Vec<_> =
        claims.iter().map(|claim| node.call(Request::Acquire(claim.clone(), ttl()))).collect();
    for request in &mut requests {
        assert!(at_once(request).await.is_none());
    }
    tokio::time::sleep(NODE_TIMEOUT).await;
    fake.is(|behavior| behavior.replies = true);
    drop(requests);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
    assert_eq!(vec!["SET", "SET", "SET", "TIME"], fake.calls());
}

#[tokio::test(start_paused = true)]
async fn a_single_request_without_a_reply_ends_the_connection_after_a_second() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    drop_request(&node).await;
    tokio::time::sleep(Duration::from_millis(990)).await;
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection);
}

/// Receives bytes every 100 ms.
async fn keep_receiving(socket: SocketHandle) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let _ = socket.read(&mut Context::from_waker(Waker::noop()), |_| Poll::Ready(Ok(())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_receives_bytes_has_more_time_to_reply() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let receiving = tokio::spawn(keep_receiving(fake.socket()));
    fake.is(|behavior| behavior.replies = false);
    for _ in 0..4 {
        drop_request(&node).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
    receiving.abort();
    drop_request(&node).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_a_silent_server() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| (behavior.replies, behavior.looks) = (false, false));
    for _ in 0..4 {
        drop_request(&node).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection, "the connection is not kept forever");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_forever_without_replies_is_disconnected() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let receiving = tokio::spawn(keep_receiving(fake.socket()));
    fake.is(|behavior| behavior.replies = false);
    drop_request(&node).await;
    tokio::time::sleep(Duration::from_millis(5500)).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection);
    receiving.abort();
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_over_an_ended_connection() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let (first, written) = (fake.socket(), || Poll::Ready(Ok(())));
    assert!(matches!(first.write(written), Poll::Ready(Ok(()))));
    fake.is(|behavior| behavior.replies = false);
    // A pending request keeps the connection in memory.
    let claim = claim("a");
    let mut request = pin!(node.call(Request::Acquire(claim.clone(), ttl())));
    assert!(at_once(request.as_mut()).await.is_none());
    for _ in 0..3 {
        drop_request(&node).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(None, node.status().connection);
    assert!(matches!(first.write(written), Poll::Ready(Err(_))));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_probed_and_ends_if_the_server_is_gone() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.calls();
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!((Some(ConnectionId(1)), vec!["TIME", "TIME"]), (node.status().connection, fake.calls()));
    fake.is(|behavior| behavior.replies = false);
    fake.until(|fake| fake.connects() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_is_sent_a_bounded_number_of_requests() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(20), lock(&node)).await.is_err());
    }
    let claim = claim("a");
    let mut requests: Vec<_> = (0..2000).map(|_| node.call(Request::Acquire(claim.clone(), ttl()))).collect();
    let mut denied = Vec::new();
    for request in &mut requests {
        denied.extend(at_once(request).await);
    }
    assert_eq!(2000 - 1024, denied.len());
    let reason = unavailable(denied.pop().unwrap());
    assert!(reason.contains("1024 requests without a reply"), "{reason}");
    drop(requests);

    fake.is(|behavior| behavior.replies = true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_at_once_ends_the_connection_without_a_loop() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.fails = true);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection);
    fake.is(|behavior| behavior.fails = false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_can_be_silent_for_the_node_timeout() {
    let (fake, node) = node();
    node.set_node_timeout(Duration::from_secs(2));
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert_eq!(Some(ConnectionId(1)), node.status().connection, "the last probe was 9 s ago");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_ne!(Some(ConnectionId(1)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_an_idle_connection_does_not_bound_requests() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    tokio::time::sleep(Duration::from_millis(5100)).await;
    let claim = claim("a");
    let mut requests: Vec<_> = (0..3000).map(|_| node.call(Request::Acquire(claim.clone(), ttl()))).collect();
    for request in &mut requests {
        assert!(at_once(request).await.is_none());
    }
}
