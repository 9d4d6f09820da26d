//! The commands of other Redlock implementations, sent by hand.

use redlock_core::ReleaseOutcome;

use super::*;
use crate::Adapter;

/// The usual release script.
const RELEASE: &str =
    r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;

pub(crate) async fn a_key_set_by_hand_excludes_this_client<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    for server in &servers[1..4] {
        assert_eq!("OK", server.command(&["SET", "a", "foreign-token", "NX", "PX", "60000"]));
    }
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());
    for server in &servers[1..4] {
        assert_eq!("1", server.command(&["EVAL", RELEASE, "1", "a", "foreign-token"]));
    }
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_some());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_lock_excludes_other_clients_and_can_be_released_by_hand<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    for server in &servers {
        assert_eq!("", server.command(&["SET", "a", "foreign-token", "NX", "PX", "60000"]), "nil");
        assert_eq!("string", server.command(&["TYPE", "a"]));
        let expiry: i64 = server.command(&["PTTL", "a"]).parse().unwrap();
        assert!((9_000..=10_000).contains(&expiry), "{expiry}");
        let token = server.command(&["GET", "a"]);
        assert_eq!((40, true), (token.len(), token.bytes().all(|byte| byte.is_ascii_graphic())));
        assert_eq!("0", server.command(&["EVAL", RELEASE, "1", "a", "foreign-token"]));
        assert_eq!("1", server.command(&["EVAL", RELEASE, "1", "a", &token]));
    }
    assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
}

pub(crate) async fn the_owner_is_visible_in_the_key_and_in_the_inspection<A: Adapter>() {
    let servers = five();
    let redlock = builder::<A>(&servers).node_timeout(NODE_TIMEOUT).owner("host-1:4242").build().unwrap();
    all_up(&redlock).await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    let token = servers[0].command(&["GET", "a"]);
    assert!(token.starts_with("host-1:4242#") && token.len() == "host-1:4242#".len() + 40, "{token}");

    let other = warm::<A>(&servers).await;
    let inspection = other.inspect("a").await.unwrap();
    assert_eq!(Some("host-1:4242"), inspection.holder().unwrap().owner());
    assert!(inspection.is_held_by(&guard) && inspection.remaining() > Some(Duration::from_secs(8)));
    assert!(!format!("{inspection} {inspection:?}").contains(&token[token.len() - 40..]), "{inspection}");

    assert!(other.inspect("b").await.unwrap().is_free());
    for server in &servers {
        server.command(&["SET", "b", "foreign-token"]);
    }
    let inspection = other.inspect("b").await.unwrap();
    assert_eq!((None, None), (inspection.holder().unwrap().owner(), inspection.remaining()), "no expiry");
    drop(guard);
    redlock.close().await;
    assert!(other.inspect("a").await.unwrap().is_free());
}

pub(crate) async fn names_are_bytes<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let names: [&[u8]; 4] = [b"\x00", b"\xff\xfe\r\n", b"*[a-z]?{b}%s'\"\\", &[7; 1024]];
    for name in names {
        let guard = redlock.lock(name, TTL).await.unwrap();
        granted_by_all(&guard).await;
        assert!(redlock.lock(name, TTL).try_now().await.unwrap().is_none());
        guard.extend(TTL).await.unwrap();
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    }
    let guard = redlock.lock(["ab", "c"], TTL).await.unwrap();
    let other = redlock.lock(["a", "bc"], TTL).try_now().await.unwrap();
    assert!(other.is_some(), "the same bytes, split differently, are different resources");
    drop((guard, other));
    nothing_left(&redlock, &servers).await;
}
