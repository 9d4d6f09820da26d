//! A node on a real server: what it votes, and how it comes back.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

mod scripted;

use std::time::{Duration, Instant};

use redlock_fred::{
    Claim, IntoResources, LockNode, Node, NodeError, NodeErrorKind, Options, Refusal, Token, Ttl, Vote,
};
use redlock_testkit::RedisServer;
use scripted::{Answer, Scripted, greet};

/// A node that comes back votes again within this.
const BACK: Duration = Duration::from_secs(1);

/// What core gives a node to answer.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// Far above what anything here takes; what runs into it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

fn node(server: &RedisServer) -> Node {
    redlock_fred::node(server.url(), &Options::tokio()).unwrap()
}

fn claim(resources: impl IntoResources, token: &str) -> Claim {
    Claim::new(resources.into_resources().unwrap(), Token::from_bytes(token))
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(60)).unwrap()
}

/// The TTL of a key, in milliseconds.
fn left(server: &RedisServer, key: &str) -> i64 {
    server.command(&["PTTL", key]).parse().unwrap()
}

/// Acquires within the node timeout, as core asks; `None` when that has passed.
async fn attempt(node: &Node, claim: &Claim) -> Option<Result<Vote, NodeError>> {
    tokio::time::timeout(NODE_TIMEOUT, node.acquire(claim, ttl())).await.ok()
}

/// Asks until the node votes, and answers how long that took.
async fn voting_again(node: &Node) -> Duration {
    let start = Instant::now();
    let claim = claim("again", "me");
    while !matches!(attempt(node, &claim).await, Some(Ok(_))) {
        assert!(start.elapsed() < PATIENCE, "it never comes back");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

#[tokio::test]
async fn acquires_refuses_extends_and_releases() {
    let server = RedisServer::start();
    let node = node(&server);
    let (ours, theirs) = (claim("r", "ours"), claim("r", "theirs"));

    assert_eq!(Vote::Granted, node.acquire(&ours, ttl()).await.unwrap());
    assert!((50_000..=60_000).contains(&left(&server, "r")));
    assert_eq!(Vote::Granted, node.acquire(&ours, ttl()).await.unwrap(), "it is this very token's");
    let by_us = Refusal::by(Token::from_bytes("ours"));
    assert_eq!(Vote::Refused(by_us), node.acquire(&theirs, ttl()).await.unwrap());
    assert!(matches!(node.extend(&theirs, ttl()).await.unwrap(), Vote::Refused(_)));
    assert!(matches!(node.release(&theirs).await.unwrap(), Vote::Refused(_)));

    let longer = Ttl::new(Duration::from_secs(600)).unwrap();
    assert_eq!(Vote::Granted, node.extend(&ours, longer).await.unwrap());
    assert_eq!(Vote::Granted, node.extend(&ours, ttl()).await.unwrap());
    assert!(left(&server, "r") > 500_000, "an extension never shortens");

    assert_eq!(Vote::Granted, node.release(&ours).await.unwrap());
    assert!(server.keys().is_empty());
    assert!(matches!(node.release(&ours).await.unwrap(), Vote::Refused(_)));
    assert!(matches!(node.extend(&ours, ttl()).await.unwrap(), Vote::Refused(_)));
}

#[tokio::test]
async fn several_resources_are_all_or_none_and_names_are_bytes() {
    let server = RedisServer::start();
    let node = node(&server);
    let names = [b"\x00\r\n".to_vec(), b"\xff\xfe {x}".to_vec(), b"c".to_vec()];
    let (all, one) = (claim(names.to_vec(), "\u{0}all\r\n"), claim("c", "one"));

    assert_eq!(Vote::Granted, node.acquire(&one, ttl()).await.unwrap());
    let Vote::Refused(refusal) = node.acquire(&all, ttl()).await.unwrap() else { panic!("granted") };
    assert_eq!(Some(&Token::from_bytes("one")), refusal.holder.as_ref());
    assert!(refusal.remaining.unwrap() > Duration::from_secs(50));
    assert_eq!(["c"], server.keys()[..]);

    assert_eq!(Vote::Granted, node.release(&one).await.unwrap());
    assert_eq!(Vote::Granted, node.acquire(&all, ttl()).await.unwrap());
    assert_eq!(3, server.keys().len());
    assert!(matches!(node.acquire(&one, ttl()).await.unwrap(), Vote::Refused(_)));
    assert_eq!(Vote::Granted, node.extend(&all, ttl()).await.unwrap());
    assert_eq!(Vote::Granted, node.release(&all).await.unwrap());
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_that_names_it() {
    let server = RedisServer::start();
    let node = node(&server);
    server.command(&["LPUSH", "list", "x"]);
    for resources in [vec!["list"], vec!["a", "list"]] {
        let claim = claim(resources, "t");
        let error = node.acquire(&claim, ttl()).await.unwrap_err();
        assert_eq!(NodeErrorKind::WrongType, error.kind());
        assert!(error.to_string().contains("\"list\""), "{error}");
        assert!(matches!(node.release(&claim).await.unwrap(), Vote::Refused(_)), "nothing of ours is there");
    }
    assert_eq!(["list"], server.keys()[..]);
}

#[tokio::test]
async fn a_flush_of_the_scripts_costs_no_error() {
    let server = RedisServer::start();
    let (node, claim) = (node(&server), claim(["a", "b"], "t"));
    for _ in 0..2 {
        server.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(Vote::Granted, node.acquire(&claim, ttl()).await.unwrap());
        server.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(Vote::Granted, node.extend(&claim, ttl()).await.unwrap());
        server.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(Vote::Granted, node.release(&claim).await.unwrap());
    }
}

#[tokio::test]
async fn what_the_server_rejects_is_rejected() {
    let server = RedisServer::builder().arg("--maxmemory").arg("1").start();
    let node = node(&server);
    for resources in [vec!["a"], vec!["a", "b"]] {
        let error = node.acquire(&claim(resources, "t"), ttl()).await.unwrap_err();
        assert_eq!(NodeErrorKind::Rejected, error.kind());
        assert!(error.to_string().contains("OOM"), "{error}");
    }
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = node.acquire(&claim("a", "t"), ttl()).await.unwrap_err();
    assert_eq!(NodeErrorKind::Rejected, error.kind());
    assert!(error.to_string().contains("READONLY"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_down_costs_nothing_and_votes_when_it_is_back() {
    let server = RedisServer::start();
    let node = node(&server);
    let (claim, connection) = (claim("r", "t"), node.connection());
    assert_eq!(None, connection, "it connects when it is first used");
    assert_eq!(Vote::Granted, node.acquire(&claim, ttl()).await.unwrap());
    let before = node.connection().unwrap();

    server.kill();
    // The loss may be noticed by this call or before it; the ones after it know.
    node.acquire(&claim, ttl()).await.unwrap_err();
    let start = Instant::now();
    for _ in 0..100 {
        let error = node.acquire(&claim, ttl()).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unavailable, error.kind(), "{error}");
    }
    assert!(start.elapsed() < NODE_TIMEOUT, "a node known to be down answers at once");

    server.restart();
    let took = voting_again(&node).await;
    assert!(took < BACK, "{took:?}");
    assert_ne!(before, node.connection().unwrap());
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_and_votes_when_it_wakes() {
    let server = RedisServer::start();
    let (node, claim) = (node(&server), claim("r", "t"));
    assert_eq!(Vote::Granted, node.acquire(&claim, ttl()).await.unwrap());
    server.pause();
    for unanswered in 1..=3 {
        assert!(attempt(&node, &claim).await.is_none(), "request {unanswered} was answered");
    }
    let start = Instant::now();
    let error = node.acquire(&claim, ttl()).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
    assert!(start.elapsed() < NODE_TIMEOUT, "it is down at once");

    server.resume();
    let took = voting_again(&node).await;
    assert!(took < BACK, "{took:?}");
}

#[tokio::test]
async fn a_wrong_password_that_is_corrected_heals() {
    let server = RedisServer::start();
    server.command(&["CONFIG", "SET", "requirepass", "other"]);
    let url = server.url().replace("redis://", "redis://:hunter%202@");
    let node = redlock_fred::node(url, &Options::tokio()).unwrap();
    let error = node.acquire(&claim("r", "t"), ttl()).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    for shown in [format!("{error:?}"), error.to_string(), format!("{node:?}")] {
        assert!(!shown.contains("hunter"), "{shown}");
    }

    server.authenticated("other").command(&["CONFIG", "SET", "requirepass", "hunter 2"]);
    let took = voting_again(&node).await;
    assert!(took < BACK, "{took:?}");
}

#[tokio::test]
async fn a_command_that_the_server_lacks_shows_no_token() {
    let server = RedisServer::builder();
    let lacking =
        server.arg("--rename-command").arg("EVALSHA").arg("").arg("--rename-command").arg("SET").arg("");
    let server = lacking.start();
    let (node, claim) = (node(&server), claim("r", "hunter2"));
    let outcomes =
        [node.acquire(&claim, ttl()).await, node.extend(&claim, ttl()).await, node.release(&claim).await];
    for error in outcomes.map(Result::unwrap_err) {
        assert_eq!(NodeErrorKind::Rejected, error.kind());
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn logs_in_and_uses_the_database() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "ann", "on", ">p@55", "~*", "+@all"]);
    let url = server.url().replace("redis://", "redis://ann:p%4055@") + "/3";
    let node = redlock_fred::node(url, &Options::tokio()).unwrap();
    assert_eq!(Vote::Granted, node.acquire(&claim("r", "t"), ttl()).await.unwrap());
    assert!(server.command(&["INFO", "keyspace"]).contains("db3:keys=1,expires=1"));
    assert!(server.command(&["CLIENT", "LIST"]).contains("user=ann"));
}

#[tokio::test]
async fn votes_over_a_unix_socket() {
    let server = RedisServer::builder().unix_socket().start();
    let url = format!("unix://{}", server.socket().unwrap().display());
    let node = redlock_fred::node(url, &Options::tokio()).unwrap();
    assert!(node.label().starts_with("unix:/"));
    assert_eq!(Vote::Granted, node.acquire(&claim("r", "t"), ttl()).await.unwrap());
}

#[tokio::test]
async fn votes_over_resp2_where_resp3_is_refused() {
    let server = RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start();
    let (node, claim) = (node(&server), claim(["a", "b"], "t"));
    assert_eq!(Vote::Granted, node.acquire(&claim, ttl()).await.unwrap());
    assert_eq!(Vote::Granted, node.extend(&claim, ttl()).await.unwrap());
    assert_eq!(Vote::Granted, node.release(&claim).await.unwrap());
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_the_request_is_not_repeated() {
    let server = Scripted::start(|command| match command.split(' ').next() {
        Some("SET") => Answer::HangUp,
        Some("SCRIPT") => Answer::Say("+sha\r\n"),
        _ => greet(command).unwrap_or(Answer::Say("-ERR unknown\r\n")),
    })
    .await;
    let node = redlock_fred::node(format!("redis://127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
    let error = node.acquire(&claim("r", "t"), ttl()).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unknown, error.kind());
    // It connects anew, which is when a client that replays would.
    let reconnected = async {
        while node.connection().is_none_or(|connection| connection.0 < 2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reconnected).await.expect("it connects again");
    let ping = node.release(&claim("r", "t")).await;
    assert!(ping.is_err(), "the script says so");
    assert_eq!(1, server.seen("SET "));
}

#[tokio::test]
async fn a_dropped_node_closes_its_connection() {
    let server = RedisServer::start();
    let clients = || server.command(&["CLIENT", "LIST"]).lines().count() - 1; // but for the one that asks
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let node = node(&server);
    node.acquire(&claim("r", "t"), ttl()).await.unwrap();
    assert_eq!(1, clients());
    drop(node);
    let gone = async {
        while tasks() > before || clients() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it leaves nothing behind");
}
