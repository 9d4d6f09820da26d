//! Three of five servers hung or killed: no quorum within the node timeout, and no keys remain after their recovery.

use super::*;

/// Longer than the node timeout, even on a busy machine. Two node timeouts in a row take longer.
const ONE_TIMEOUT: Duration = NODE_TIMEOUT.saturating_mul(2);

pub(crate) async fn three_hung_are_no_quorum<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    servers[..3].iter().for_each(RedisServer::pause);
    let start = Instant::now();
    let error = kind_and_outcomes(redlock.lock("a", TTL).try_now().await);
    assert!(start.elapsed() < ONE_TIMEOUT, "{:?}", start.elapsed());
    assert_eq!(
        (ErrorKind::NoQuorum, vec!["timed out", "timed out", "timed out", "granted", "granted"]),
        error
    );
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn three_killed_are_no_quorum<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    servers[2..].iter().for_each(RedisServer::kill);
    let result = within_node_timeout("no quorum", redlock.lock("a", TTL).try_now()).await;
    let (kind, outcomes) = kind_and_outcomes(result);
    assert_eq!((ErrorKind::NoQuorum, ["failed"; 3].as_slice()), (kind, &outcomes[2..]));
    // The outcome was certain before these servers replied.
    assert!(outcomes[..2].iter().all(|outcome| ["granted", "pending"].contains(outcome)), "{outcomes:?}");
    servers[2..].iter().for_each(RedisServer::restart);
    nothing_left(&redlock, &servers).await;
}

/// The round fails before the last two nodes have replied, and their cleanup runs on another thread.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn rounds_that_fail_at_once_leave_no_key<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    servers[..3].iter().for_each(RedisServer::kill);
    for number in 0..500 {
        let error = redlock.lock(format!("a{number}"), Duration::from_secs(1_000)).try_now().await;
        assert_eq!(ErrorKind::NoQuorum, error.unwrap_err().kind());
    }
    servers[..3].iter().for_each(RedisServer::restart);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn one_denial_and_three_hung_are_no_quorum<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    servers[0].command(&["SET", "a", "someone else"]);
    servers[1..4].iter().for_each(RedisServer::pause);
    let error = redlock.lock("a", TTL).try_now().await.map(|guard| guard.map(drop));
    assert_eq!(
        (ErrorKind::NoQuorum, vec!["denied", "timed out", "timed out", "timed out", "granted"]),
        kind_and_outcomes(error)
    );
    servers[1..4].iter().for_each(RedisServer::resume);
    servers[0].command(&["DEL", "a"]);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_request_gives_up_after_three_rounds_without_a_quorum<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    servers[2..].iter().for_each(RedisServer::kill);
    let start = Instant::now();
    let result = redlock.lock("a", TTL).wait_unbounded().retry_delay(Duration::from_millis(20)).await;
    assert_eq!(ErrorKind::NoQuorum, result.unwrap_err().kind());
    assert!(start.elapsed() < 3 * NODE_TIMEOUT, "{:?}", start.elapsed());
}

pub(crate) async fn writes_carried_out_after_the_ttl_are_cleaned_up<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let ttl = Duration::from_millis(500);
    for round in 0..3 {
        servers[..3].iter().for_each(RedisServer::pause);
        let error = redlock.lock(format!("a{round}"), ttl).try_now().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        // Longer than the TTL. The servers now carry out the received requests, with their full TTL.
        tokio::time::sleep(2 * ttl).await;
        servers[..3].iter().for_each(RedisServer::resume);
    }
    // A key with this TTL would outlast the test.
    let long = Duration::from_secs(3600);
    servers[..3].iter().for_each(RedisServer::pause);
    assert!(redlock.lock("long", long).try_now().await.is_err());
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
}
