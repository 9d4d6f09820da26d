//! Human-readable labels of lock holders.

use crate::common::{TTL, kind, with_five, with_nodes};
use redlock_core::{ErrorKind, Redlock};

#[test]
fn a_label_is_on_every_node_and_in_the_error_of_a_waiter() {
    with_five(async |world| {
        let redlock =
            crate::common::builder(&world.process, &world.nodes).owner("host-1:4242").build().unwrap();
        let guard = redlock.lock("a", TTL).await.unwrap();
        for node in &world.nodes {
            let token = node.inner().holder("a").unwrap();
            assert_eq!(Some("host-1:4242"), token.owner());
            assert_eq!(guard.fingerprint(), token.fingerprint());
        }
        let error = world.other_client().lock("a", TTL).max_attempts(1).await.unwrap_err();
        let holder = error.holder().unwrap();
        assert_eq!((Some("host-1:4242"), guard.fingerprint()), (holder.owner(), holder.clone()));
        let message = error.to_string();
        assert!(message.starts_with(&format!("\"a\" is locked by {holder} (")), "{message}");
        assert!(message.contains("host-1:4242#"), "{message}");
        // The texts together contain all details.
        let all = format!("{error:?} {guard:?}");
        let token = node_token(&world);
        assert!(all.contains("host-1:4242#") && !all.contains(&token[token.len() - 40..]), "{all}");
    });
}

fn node_token(world: &crate::common::World) -> String {
    let token = world.nodes[0].inner().holder("a").expect("the key has a holder");
    String::from_utf8_lossy(token.as_bytes()).into_owned()
}

#[test]
fn a_request_can_have_its_own_label() {
    with_nodes(1, async |world| {
        let redlock = crate::common::builder(&world.process, &world.nodes).owner("host-1").build().unwrap();
        let owner = |name| world.nodes[0].inner().holder(name).unwrap().owner().map(str::to_owned);
        let _guards = (
            redlock.lock("a", TTL).owner("request-7").await.unwrap(),
            redlock.lock("b", TTL).owner("request-8").try_now().await.unwrap().unwrap(),
            redlock.lock("c", TTL).await.unwrap(),
            world.redlock.lock("d", TTL).await.unwrap(),
        );
        let owners = ["a", "b", "c", "d"].map(owner);
        assert_eq!(
            [Some("request-7"), Some("request-8"), Some("host-1"), None],
            owners.each_ref().map(Option::as_deref)
        );
    });
}

#[test]
fn every_attempt_has_its_own_random_part() {
    with_nodes(1, async |world| {
        let redlock = crate::common::builder(&world.process, &world.nodes).owner("host-1").build().unwrap();
        let mut tokens = std::collections::HashSet::new();
        for _ in 0..5 {
            let guard = redlock.lock("a", TTL).await.unwrap();
            tokens.insert(node_token(&world));
            guard.release().await.unwrap();
        }
        assert_eq!(5, tokens.len());
        assert!(
            tokens.iter().all(|token| token.len() == "host-1#".len() + 40 && token.starts_with("host-1#"))
        );
    });
}

#[test]
fn an_invalid_label_is_rejected_before_a_request_is_sent() {
    with_nodes(1, async |world| {
        let build = |label: &str| crate::common::builder(&world.process, &world.nodes).owner(label).build();
        for wrong in ["", "a b", "a#b", &"x".repeat(65)] {
            assert_eq!(ErrorKind::InvalidInput, build(wrong).map(|_: Redlock| ()).unwrap_err().kind());
            assert_eq!(ErrorKind::InvalidInput, kind(world.redlock.lock("a", TTL).owner(wrong).await));
            assert_eq!(
                ErrorKind::InvalidInput,
                kind(world.redlock.lock("a", TTL).owner(wrong).try_now().await)
            );
        }
        assert!(world.nodes[0].inner().holder("a").is_none());
    });
}
