//! Five servers without faults.

use redlock_core::ReleaseOutcome;

use super::*;
use crate::Adapter;
use crate::native::delete_of;

pub(crate) async fn a_lock_is_granted_denied_extended_and_released<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let other = warm::<A>(&servers).await;

    let guard = redlock.lock("invoice:42", TTL).await.unwrap();
    granted_by_all(&guard).await;
    assert_eq!(5, keys(&servers).len());
    assert!(guard.remaining() > TTL / 2 && guard.remaining() < Duration::from_millis(9_898));

    let denied = other.lock("invoice:42", TTL).max_wait(Duration::from_millis(300)).await;
    let error = denied.unwrap_err();
    assert_eq!(ErrorKind::Contended, error.kind(), "{error}");
    assert_eq!(Some(guard.fingerprint()), error.holder());
    assert!(other.lock("invoice:42", TTL).try_now().await.unwrap().is_none());

    guard.extend(2 * TTL).await.unwrap();
    assert!(guard.remaining() > TTL);
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    // A server may carry the attempt of the other client out late.
    nothing_left_of(&[redlock, other], &servers).await;
    let third = warm::<A>(&servers).await;
    assert!(third.lock("invoice:42", TTL).try_now().await.unwrap().is_some());
}

pub(crate) async fn several_resources_are_locked_all_or_none_on_five_servers<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let both = redlock.lock(["b", "a"], TTL).await.unwrap();
    granted_by_all(&both).await;
    assert_eq!(10, keys(&servers).len());

    assert!(redlock.lock(["b", "c"], TTL).try_now().await.unwrap().is_none());
    assert!(
        redlock.lock("c", TTL).try_now().await.unwrap().is_some(),
        "a denied attempt on b and c does not lock c"
    );
    assert_eq!(ReleaseOutcome::Released, both.release().await.unwrap());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn dropping_a_guard_releases_it<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    drop(redlock.lock("a", TTL).await.unwrap());
    nothing_left(&redlock, &servers).await;
    let error = redlock.lock("a", TTL).await.unwrap_err();
    assert_eq!(ErrorKind::Closed, error.kind());
}

pub(crate) async fn close_right_after_a_release_leaves_no_key_and_no_task<A: Adapter>() {
    let servers = five();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        let redlock = warm::<A>(&servers).await;
        let released = redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
        assert_eq!(ReleaseOutcome::Released, released);
        redlock.close().await;
        assert_eq!(Vec::<String>::new(), keys(&servers));
    }
    // The tasks of the connections end some time after the nodes are dropped.
    eventually("all tasks end", Duration::from_secs(30), async || tasks() <= before).await;
}

pub(crate) async fn nodes_that_cannot_release_locks_are_not_healthy<A: Adapter>() {
    let servers = five();
    for (missing, message) in [("-evalsha", "locks cannot be released: NOPERM"), ("-get", "release failed: ")]
    {
        // A native command would replace the script.
        let delete = delete_of(&servers[0]).map_or_else(String::new, |name| format!(" -{name}"));
        let rights = format!("on >pw ~* +@all {missing}{delete}");
        for server in &servers[..3] {
            server.command(&["ACL", "DELUSER", "few"]);
            let words: Vec<_> = ["ACL", "SETUSER", "few"].into_iter().chain(rights.split(' ')).collect();
            server.command(&words);
        }
        let urls = servers.iter().enumerate().map(|(index, server)| {
            if index < 3 { server.url().replace("//", "//few:pw@") } else { server.url() }
        });
        let redlock = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
        let health = redlock.health().await;
        assert_eq!((false, 2), (health.is_available(), health.healthy_nodes()), "{missing}");
        for node in &health.nodes()[..3] {
            assert!(!node.is_healthy() && node.to_string().contains(message), "{node}");
        }
    }
}
