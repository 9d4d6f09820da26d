//! When a connection that does not answer is given up, and when not.

use super::*;

#[tokio::test(start_paused = true)]
async fn three_requests_in_a_row_without_an_answer_end_the_connection() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|mood| mood.answers = false);
    for _ in 0..3 {
        assert_eq!(Some(ConnectionId(1)), node.connection());
        give_up(&node).await;
    }
    assert_eq!(None, node.connection());
    let reason = unavailable(at_once(node.acquire(&claim("a"), ttl())).await.expect("it waits"));
    assert!(reason.contains("stopped answering"), "{reason}");

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
        tokio::time::advance(moment).await;
        drop(together);
    }
    // The first was given up 180 ms ago.
    assert_eq!(Some(ConnectionId(1)), node.connection());
    assert!(timeout(moment, lock(&node)).await.is_err());
    assert_eq!(None, node.connection());
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
