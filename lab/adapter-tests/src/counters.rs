//! Fencing counters on a real server: their keys, their expiry, and the effect of the server's state.

use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::node::{Claim, LockNode, NodeError, NodeErrorKind, Reply, Request};
use redlock_testkit::RedisServer;
use redlock_wire::Options;

use crate::Adapter;
use crate::node::{AnyVote, GRANTED, claim, denied_by, minute, node_of, nothing_there, of, pttl, ttl, user};

const A: &str = "redlock:fence:{a}";
const B: &str = "redlock:fence:{b}";

/// One day in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

async fn counted(node: &impl LockNode, claim: &Claim) -> u64 {
    match node.call(Request::AcquireFenced(claim.clone(), minute())).await {
        Ok(Reply::Counted(counter)) => counter.as_u64(),
        other => panic!("{other:?}"),
    }
}

fn rejected<T: std::fmt::Debug>(outcome: Result<T, NodeError>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(NodeErrorKind::Rejected, error.kind(), "{error}");
    error.to_string()
}

fn damaged<T: std::fmt::Debug>(outcome: Result<T, NodeError>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(NodeErrorKind::DamagedCounter, error.kind(), "{error}");
    error.to_string()
}

pub(crate) async fn a_counter_is_a_number_in_a_separate_key<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (mine, other) = (claim("a", "mine"), claim("a", "other"));
    assert!(node.profile().fencing);

    let first = counted(&node, &mine).await;
    assert_eq!(["a", A], server.keys()[..]);
    assert_eq!(("mine", first.to_string()), (&*server.command(&["GET", "a"]), server.command(&["GET", A])));
    let time = server.command(&["TIME"]);
    let micros: Vec<u64> = time.lines().map(|part| part.parse().unwrap()).collect();
    let now = micros[0] * 1_000_000 + micros[1];
    assert!(first % (1 << 22) == 0 && first <= now && now - first < 60_000_000, "{first} at {now}");
    assert!((DAY + 50_000..=DAY + 60_000).contains(&pttl(&server, A)), "the TTL and a day");

    assert_eq!(Ok(denied_by("mine")), of(node.call(Request::AcquireFenced(other.clone(), minute())).await));
    assert_eq!(first, counted(&node, &mine).await, "a repeated request");
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    assert_eq!([A], server.keys()[..], "the counter remains");
    let second = counted(&node, &other).await;
    assert!(second > first, "{second}");
    assert_eq!(second.to_string(), server.command(&["GET", A]));
}

pub(crate) async fn a_plain_lock_raises_no_counter<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (plain, fenced) = (claim("a", "plain"), claim("a", "fenced"));
    assert_eq!(GRANTED, of(node.call(Request::Acquire(plain.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Extend(plain.clone(), minute())).await));
    assert_eq!(["a"], server.keys()[..]);
    assert_eq!(Ok(denied_by("plain")), of(node.call(Request::AcquireFenced(fenced.clone(), minute())).await));
    assert_eq!(["a"], server.keys()[..]);
    assert_eq!(GRANTED, of(node.call(Request::Release(plain.clone())).await));
    counted(&node, &fenced).await;
    assert_eq!(Ok(denied_by("fenced")), of(node.call(Request::Acquire(plain.clone(), minute())).await));
}

pub(crate) async fn the_prefix_and_the_retention_can_be_chosen<A: Adapter>() {
    let server = RedisServer::start();
    let options = Options::tokio().key_prefix("lock:").fence_prefix("n:");
    let two_minutes =
        A::node(server.url(), &options.clone().fence_retention(Duration::from_secs(120))).unwrap();
    let least = A::node(server.url(), &options.fence_retention(Duration::ZERO)).unwrap();
    let both = claim(["a", "{b}c"], "mine");
    let first = counted(&two_minutes, &both).await;
    let counters = ["n::lock:{b}c", "n:{lock:a}"];
    assert_eq!(["lock:a", "lock:{b}c", counters[0], counters[1]], server.keys()[..]);
    for counter in counters {
        assert!((170_000..=180_000).contains(&pttl(&server, counter)), "{counter}");
    }
    assert_eq!(GRANTED, of(least.call(Request::Confirm(both.clone(), minute(), token(first))).await));
    for counter in counters {
        assert!((110_000..=120_000).contains(&pttl(&server, counter)), "the minimum is one minute");
    }
}

pub(crate) async fn a_confirmation_is_granted_unless_a_counter_is_greater<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let both = claim(["a", "b"], "mine");
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Confirm(both.clone(), minute(), token(7))).await));
    assert!(server.keys().is_empty());

    let refilled = node.call(Request::Refill(both.clone(), ttl(30_000), token(7))).await;
    assert_eq!(GRANTED, of(refilled));
    assert_eq!("7\n7", server.command(&["MGET", A, B]).trim());
    assert_eq!(GRANTED, of(node.call(Request::Confirm(both.clone(), minute(), token(8))).await));
    assert_eq!("8\n8", server.command(&["MGET", A, B]).trim());
    assert!(pttl(&server, "a") > 50_000 && pttl(&server, "b") > 50_000);

    server.command(&["SET", B, "9"]);
    let more = ttl(90_000);
    assert_eq!(
        Ok(AnyVote::Superseded(token(9))),
        of(node.call(Request::Confirm(both.clone(), more, token(8))).await)
    );
    assert_eq!(
        Ok(AnyVote::Superseded(token(9))),
        of(node.call(Request::Refill(both.clone(), more, token(8))).await)
    );
    assert_eq!("8\n9", server.command(&["MGET", A, B]).trim());
    assert!(pttl(&server, "a") <= 60_000, "no key is changed");
    assert_eq!(
        Ok(denied_by("mine")),
        of(node.call(Request::Confirm(claim("a", "other"), more, token(10))).await)
    );
    assert_eq!(
        Ok(denied_by("mine")),
        of(node.call(Request::Refill(claim("a", "other"), more, token(10))).await)
    );
    assert_eq!("8\n9", server.command(&["MGET", A, B]).trim());
}

pub(crate) async fn flushed_scripts_of_fenced_locks_cause_no_error<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (mine, forget) = (claim(["a", "b"], "mine"), || server.command(&["SCRIPT", "FLUSH"]));
    let first = counted(&node, &mine).await;
    forget();
    assert_eq!(first, counted(&node, &mine).await);
    forget();
    assert_eq!(GRANTED, of(node.call(Request::Confirm(mine.clone(), minute(), token(first))).await));
    forget();
    assert_eq!(GRANTED, of(node.call(Request::Refill(mine.clone(), minute(), token(first))).await));
    forget();
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
}

pub(crate) async fn an_invalid_counter_is_an_error_that_names_the_resource<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let both = claim(["a", "b"], "mine");
    let list = ["LPUSH", B, "1"];
    let texts = ["", "mine", "-1", "1e3", "1.5", " 1", "9007199254740992", "99999999999999999999999"];
    let sets = texts.iter().map(|text| ["SET", B, text]);
    for command in std::iter::once(list).chain(sets) {
        server.command(&["DEL", B]);
        server.command(&command);
        let error = damaged(node.call(Request::AcquireFenced(both.clone(), minute())).await);
        assert!(error.contains("the fencing counter of \"b\" is not a number"), "{error}");
        damaged(node.call(Request::Refill(both.clone(), minute(), token(7))).await);
        let error = damaged(node.call(Request::AcquireFenced(claim("b", "mine"), minute())).await);
        assert!(error.contains("the fencing counter of \"b\" is not a number"), "{error}");
        if let ["SET", _, text] = command[..] {
            assert_eq!(text, server.command(&["GET", B]), "the counter is not raised");
        }
        assert_eq!([B], server.keys()[..], "no key is set");
        for key in ["a", "b"] {
            server.command(&["SET", key, "mine", "PX", "30000"]);
        }
        damaged(node.call(Request::Confirm(both.clone(), minute(), token(7))).await);
        assert!(pttl(&server, "a") <= 30_000, "no key is extended");
        assert_eq!(GRANTED, of(node.call(Request::Release(both.clone())).await));
    }
    assert!(node.status().connection.is_some(), "an error reply does not end the connection");
}

/// Returns the time of the server in microseconds.
fn micros(server: &RedisServer) -> u64 {
    let time = server.command(&["TIME"]);
    let parts: Vec<u64> = time.lines().map(|part| part.parse().unwrap()).collect();
    parts[0] * 1_000_000 + parts[1]
}

pub(crate) async fn a_counter_far_ahead_of_the_clock_is_an_error<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (mine, both) = (claim("a", "mine"), claim(["a", "b"], "mine"));
    let soon = token(micros(&server) + 3_600_000_000);
    // The maximum counter, the maximum that can be raised, and one that is an hour too far ahead.
    let far =
        [FencingToken::MAX.as_u64(), FencingToken::MAX.as_u64() - 1, micros(&server) + 25 * 3_600_000_000];
    for far in far.map(|far| far.to_string()) {
        server.command(&["SET", A, &far]);
        for error in [
            damaged(node.call(Request::AcquireFenced(both.clone(), minute())).await),
            damaged(node.call(Request::Refill(both.clone(), minute(), soon)).await),
        ] {
            let text = format!("the fencing counter of \"a\", {far}, is ");
            assert!(error.starts_with(&text) && error.contains("s ahead of the server's clock"), "{error}");
        }
        let error = damaged(node.call(Request::AcquireFenced(mine.clone(), minute())).await);
        assert!(error.contains("s ahead of the server's clock"), "{error}");
        assert_eq!([A], server.keys()[..], "no key is set");
        assert_eq!(far, server.command(&["GET", A]), "the counter is not raised");
        server.command(&["SET", "a", "mine", "PX", "30000"]);
        damaged(node.call(Request::Confirm(mine.clone(), minute(), soon)).await);
        damaged(node.call(Request::Confirm(mine.clone(), minute(), FencingToken::MAX)).await);
        damaged(node.call(Request::AcquireFenced(mine.clone(), minute())).await);
        assert!(pttl(&server, "a") <= 30_000, "no key is extended");
        assert_eq!((&*far, -1), (&*server.command(&["GET", A]), pttl(&server, A)));
        assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    }
    assert!(node.status().connection.is_some(), "an error reply does not end the connection");
}

pub(crate) async fn a_token_far_ahead_of_the_clock_is_an_error<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let both = claim(["a", "b"], "mine");
    let first = counted(&node, &both).await.to_string();
    let far = token(micros(&server) + 25 * 3_600_000_000);
    for far in [far, FencingToken::MAX] {
        let error = rejected(node.call(Request::Confirm(both.clone(), ttl(90_000), far)).await);
        assert!(error.starts_with(&format!("the fencing token {far} is ")), "{error}");
        rejected(node.call(Request::Refill(claim(["a", "c"], "mine"), ttl(90_000), far)).await);
    }
    assert_eq!(["a", "b", A, B], server.keys()[..]);
    assert_eq!(format!("{first}\n{first}"), server.command(&["MGET", A, B]).trim());
    assert!(pttl(&server, "a") <= 60_000, "no key is changed");
    let near = token(micros(&server) + 23 * 3_600_000_000);
    assert_eq!(
        GRANTED,
        of(node.call(Request::Confirm(both.clone(), minute(), near)).await),
        "clocks may differ by less than a day"
    );
    assert_eq!(near.as_u64(), counted(&node, &both).await);
}

/// A counter expires only after the clock has passed it, so it may be ahead by the retention.
pub(crate) async fn the_retention_limits_how_far_a_counter_may_be_ahead<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio().fence_retention(Duration::from_secs(120))).unwrap();
    let mine = claim("a", "mine");
    counted(&node, &mine).await;
    let ahead = |seconds: u64| token(micros(&server) + seconds * 1_000_000);
    assert_eq!(GRANTED, of(node.call(Request::Confirm(mine.clone(), minute(), ahead(100))).await));
    rejected(node.call(Request::Confirm(mine.clone(), minute(), ahead(150))).await);
    assert_eq!(Duration::from_secs(120), node.profile().fence_retention);
}

pub(crate) async fn existing_keys_are_extended_even_without_free_memory<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim(["a", "b"], "mine");
    let first = counted(&node, &mine).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for claim in [claim("c", "mine"), claim(["c", "d"], "mine")] {
        let error = rejected(node.call(Request::AcquireFenced(claim.clone(), minute())).await);
        assert!(error.starts_with("OOM"), "{error}");
        rejected(node.call(Request::Refill(claim.clone(), minute(), token(first))).await);
    }
    assert_eq!(["a", "b", A, B], server.keys()[..]);
    for millis in [90_000, 10_000] {
        assert_eq!(
            GRANTED,
            of(node.call(Request::Confirm(mine.clone(), ttl(millis), token(first))).await),
            "for {millis} ms"
        );
    }
    assert!(pttl(&server, "a") > 80_000);
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await), "a release needs no memory");
}

pub(crate) async fn a_read_only_replica_raises_no_counter<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    let first = counted(&node, &mine).await;
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    for request in [
        Request::AcquireFenced(claim("b", "mine"), minute()),
        Request::Confirm(mine.clone(), ttl(90_000), token(first)),
        Request::Refill(claim("b", "mine"), minute(), token(first)),
    ] {
        let node = node_of::<A>(&server); // a node gives up its connection to a replica
        let error = rejected(node.call(request).await);
        assert!(error.starts_with("READONLY"), "{error}");
    }
    assert_eq!(["a", A], server.keys()[..]);
}

pub(crate) async fn a_user_with_few_rights_can_acquire_fenced_locks<A: Adapter>() {
    let server = RedisServer::start();
    let url = user(&server, "~a ~b ~redlock:fence:* -@all +set +get +del +pttl +pexpire +evalsha +eval");
    let node = A::node(url, &Options::tokio()).unwrap();
    let mine = claim(["a", "b"], "mine");

    let error = rejected(node.call(Request::AcquireFenced(mine.clone(), minute())).await);
    assert!(error.contains("the permission to run TIME"), "the error names the missing permission: {error}");
    assert!(server.keys().is_empty());
    assert_eq!(
        GRANTED,
        of(node.call(Request::Acquire(mine.clone(), minute())).await),
        "a plain lock does not read the clock of the server"
    );
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));

    server.command(&["ACL", "SETUSER", "few", "+time"]);
    let first = counted(&node, &mine).await;
    assert_eq!(GRANTED, of(node.call(Request::Confirm(mine.clone(), minute(), token(first))).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    assert_eq!(GRANTED, of(node.call(Request::Refill(mine.clone(), minute(), token(first))).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));

    server.command(&["ACL", "SETUSER", "few", "resetkeys", "~a", "~b"]);
    let error = rejected(node.call(Request::AcquireFenced(mine.clone(), minute())).await);
    assert!(error.starts_with("NOPERM"), "{error}");
    assert_eq!([A, B], server.keys()[..]);
}

pub(crate) async fn a_counter_without_write_permission_fails_the_request_before_any_write<A: Adapter>() {
    let server = RedisServer::start();
    let url = user(&server, "~a ~b %R~redlock:fence:* +@all");
    let node = A::node(url, &Options::tokio()).unwrap();
    let all = node_of::<A>(&server);
    for mine in [claim("a", "mine"), claim(["a", "b"], "mine")] {
        let denied = |error: String| assert!(error.starts_with("NOPERM"), "{error}");
        denied(rejected(node.call(Request::AcquireFenced(mine.clone(), minute())).await));
        denied(rejected(node.call(Request::Refill(mine.clone(), minute(), token(7))).await));
        assert!(server.keys().is_empty());
        assert_eq!(GRANTED, of(all.call(Request::Refill(mine.clone(), ttl(30_000), token(7))).await));
        for fence in [7, 8] {
            denied(rejected(node.call(Request::Confirm(mine.clone(), minute(), token(fence))).await));
        }
        assert_eq!("7", server.command(&["GET", A]));
        assert!(pttl(&server, "a") <= 30_000 && pttl(&server, A) <= DAY + 30_000);
        server.command(&["FLUSHALL"]);
    }
}
