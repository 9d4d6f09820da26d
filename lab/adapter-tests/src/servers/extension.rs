//! Extensions on real servers.

use redlock_core::ReleaseOutcome;

use super::*;
use crate::Adapter;

fn expiry(server: &RedisServer, key: &str) -> i64 {
    server.command(&["PTTL", key]).parse().unwrap()
}

pub(crate) async fn a_failed_extension_does_not_change_the_lease<A: Adapter>() {
    let servers = five();
    let (redlock, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let ttl = Duration::from_secs(10);
    let guard = redlock.lock("a", ttl).await.unwrap();
    granted_by_all(&guard).await;
    let before = guard.remaining();

    servers[..3].iter().for_each(RedisServer::pause);
    let error = kind_and_outcomes(guard.extend(ttl).await);
    assert_eq!(
        (ErrorKind::NoQuorum, vec!["timed out", "timed out", "timed out", "granted", "granted"]),
        error
    );
    servers[..3].iter().for_each(RedisServer::resume);

    assert!(guard.is_held() && guard.remaining() < before);
    while guard.is_held() {
        let intruder = other.lock("a", ttl).try_now().await;
        assert!(!matches!(intruder, Ok(Some(_))) || !guard.is_held());
    }
    assert_eq!(ErrorKind::TooSlow, guard.extend(ttl).await.unwrap_err().kind());
    assert_eq!(ReleaseOutcome::AlreadyExpired, guard.release().await.unwrap());
}

pub(crate) async fn no_extension_ever_shortens_a_key<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", Duration::from_secs(100)).await.unwrap();
    granted_by_all(&guard).await;
    guard.extend(Duration::from_secs(1)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(90));
    assert!(servers.iter().all(|server| expiry(server, "a") > 90_000));

    // The same if the extension fails.
    servers[..3].iter().for_each(RedisServer::pause);
    assert!(guard.extend(Duration::from_secs(1)).await.is_err());
    servers[..3].iter().for_each(RedisServer::resume);
    all_up(&redlock).await;
    assert!(servers.iter().all(|server| expiry(server, "a") > 90_000));
}

pub(crate) async fn an_extension_needs_a_quorum_of_all_nodes_and_writes_lost_keys_again<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    servers[..2].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    guard.extend(TTL).await.unwrap();
    eventually("both keys are written again", Duration::from_secs(30), async || keys(&servers).len() == 5)
        .await;

    // From now on, the nodes with a rewritten key count toward the quorum.
    servers[2..4].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    guard.extend(TTL).await.unwrap();
    eventually("both keys are written again", Duration::from_secs(30), async || keys(&servers).len() == 5)
        .await;

    servers[..3].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    assert_eq!(ErrorKind::Lost, guard.extend(TTL).await.unwrap_err().kind());
    assert_eq!(2, keys(&servers).len(), "without a quorum, no key is written again");
    servers[3..].iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_lock_of_another_client_is_neither_extended_nor_released<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    for server in &servers {
        server.command(&["SET", "a", "another", "PX", "5000"]);
    }
    assert_eq!(ErrorKind::Lost, guard.extend(Duration::from_secs(60)).await.unwrap_err().kind());
    assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
    redlock.close().await;
    for server in &servers {
        assert_eq!("another", server.command(&["GET", "a"]));
        assert!(expiry(server, "a") <= 5_000);
    }
}
