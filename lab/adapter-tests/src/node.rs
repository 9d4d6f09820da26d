//! A node over a real server: its replies, and its recovery from faults of the server.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use redlock_core::FencingToken;
use redlock_core::node::{
    Begun, Claim, LockEntry, LockNode, NodeError, NodeErrorKind, Reply, Request, ServerId, Token, Ttl,
};
use redlock_core::{IntoResources, Resource};
use redlock_testkit::{RedisServer, holder};
use redlock_wire::{Credentials, Node, Options};
use tokio::time::{sleep, timeout};

use crate::Adapter;
use crate::native::delete_of;
use crate::scripted::{Answer, Scripted, greet};
use crate::wait::{soon, until};

/// The maximum time until a recovered server votes again, on a busy machine.
///
/// On an idle machine, it takes 200 ms. The tests of `redlock-wire` in virtual time check that.
const HEALED: Duration = Duration::from_secs(10);

pub(crate) fn claim(resources: impl IntoResources, token: &str) -> Claim {
    Claim::new(resources.into_resources().unwrap(), Token::from_bytes(token))
}

pub(crate) fn ttl(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

pub(crate) fn minute() -> Ttl {
    ttl(60_000)
}

pub(crate) fn node_of<A: Adapter>(server: &RedisServer) -> Node<A::Connector> {
    A::node(server.url(), &Options::tokio()).unwrap()
}

/// The reply of a node to a request about a claim, for any operation, without remaining times.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnyVote {
    Granted,
    Counted(FencingToken),
    DeniedBy(Option<Token>),
    Superseded(FencingToken),
}

impl From<Reply> for AnyVote {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Granted | Reply::Deleted(true) => Self::Granted,
            Reply::Deleted(false) => Self::DeniedBy(None),
            Reply::Counted(counter) => Self::Counted(counter),
            Reply::Denied(denial) => Self::DeniedBy(denial.holder),
            Reply::Superseded(counter) => Self::Superseded(counter),
            other => panic!("no reply to a request about a claim: {other:?}"),
        }
    }
}

pub(crate) const GRANTED: Result<AnyVote, NodeErrorKind> = Ok(AnyVote::Granted);

pub(crate) fn denied_by(token: &str) -> AnyVote {
    AnyVote::DeniedBy(Some(Token::from_bytes(token)))
}

pub(crate) fn nothing_there() -> AnyVote {
    AnyVote::DeniedBy(None)
}

/// Returns the reply, or the kind of the error.
pub(crate) fn of(outcome: Result<Reply, NodeError>) -> Result<AnyVote, NodeErrorKind> {
    outcome.map(Into::into).map_err(|error| error.kind())
}

/// Inspects a resource, and returns its holder.
pub(crate) async fn inspected(node: &impl LockNode, resource: Resource) -> Option<LockEntry> {
    holder(node.call(Request::Inspect(resource)).await.unwrap())
}

/// Returns the server of a request that begins now.
fn server_of(node: &impl LockNode) -> Option<ServerId> {
    match node.begin(&Request::Release(claim("a", "nobody"))) {
        Begun::Sent(exchange) => exchange.server,
        Begun::Connecting(_) => panic!("the node is connecting"),
    }
}

/// Sends requests until the node votes. Returns the time that it took.
pub(crate) async fn until_it_votes(node: &impl LockNode) -> Duration {
    let start = Instant::now();
    let probe = claim("probe", "probe");
    until(async || {
        matches!(
            timeout(Duration::from_millis(100), node.call(Request::Release(probe.clone()))).await,
            Ok(Ok(_))
        )
    })
    .await;
    start.elapsed()
}

/// Creates a user with these rights. Returns its URL.
pub(crate) fn user(server: &RedisServer, rights: &str) -> String {
    let words = ["ACL", "SETUSER", "few", "on", ">pw"].into_iter().chain(rights.split(' '));
    assert_eq!("OK", server.command(&words.collect::<Vec<_>>()));
    format!("redis://few:pw@127.0.0.1:{}", server.port())
}

pub(crate) fn pttl(server: &RedisServer, key: &str) -> i64 {
    server.command(&["PTTL", key]).parse().unwrap()
}

pub(crate) async fn one_resource_is_locked_extended_and_released<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (mine, other) = (claim("a", "mine"), claim("a", "other"));

    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(mine.clone())).await));
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Extend(mine.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), ttl(30_000))).await));
    assert_eq!("mine", server.command(&["GET", "a"]));
    assert!((20_000..=30_000).contains(&pttl(&server, "a")));

    assert_eq!(Ok(denied_by("mine")), of(node.call(Request::Acquire(other.clone(), minute())).await));
    assert_eq!(Ok(denied_by("mine")), of(node.call(Request::Extend(other.clone(), minute())).await));
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(other.clone())).await));

    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await), "a repeated request");
    assert!(pttl(&server, "a") <= 30_000, "a repeated request writes nothing");
    assert_eq!(GRANTED, of(node.call(Request::Extend(mine.clone(), minute())).await));
    assert!(pttl(&server, "a") > 50_000);
    assert_eq!(GRANTED, of(node.call(Request::Extend(mine.clone(), ttl(1000))).await));
    assert!(pttl(&server, "a") > 50_000, "no TTL is shortened");

    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    assert!(server.keys().is_empty());
}

pub(crate) async fn several_resources_are_locked_all_or_none<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (all, part, rest) =
        (claim(["a", "b", "c"], "mine"), claim(["b"], "other"), claim(["a", "b"], "mine"));

    assert_eq!(GRANTED, of(node.call(Request::Acquire(part.clone(), ttl(30_000))).await));
    let Ok(Reply::Denied(denial)) = node.call(Request::Acquire(all.clone(), minute())).await else {
        panic!("not denied")
    };
    assert_eq!(Some(Token::from_bytes("other")), denial.holder);
    assert!(denial.remaining.is_some_and(|left| left <= Duration::from_secs(30)), "{denial:?}");
    assert_eq!(["b"], server.keys()[..], "no key is set");

    server.command(&["DEL", "b"]);
    assert_eq!(GRANTED, of(node.call(Request::Acquire(rest.clone(), ttl(30_000))).await));
    assert_eq!(
        GRANTED,
        of(node.call(Request::Acquire(all.clone(), minute())).await),
        "the absent key is written"
    );
    assert!(pttl(&server, "a") <= 30_000 && pttl(&server, "c") > 50_000, "and no other key");

    assert_eq!(GRANTED, of(node.call(Request::Extend(all.clone(), ttl(40_000))).await));
    assert!(pttl(&server, "a") > 35_000 && pttl(&server, "c") > 50_000);
    server.command(&["SET", "b", "other"]);
    assert_eq!(Ok(denied_by("other")), of(node.call(Request::Extend(all.clone(), ttl(90_000))).await));
    assert!(pttl(&server, "a") <= 40_000, "no key is extended");

    assert_eq!(
        GRANTED,
        of(node.call(Request::Release(all.clone())).await),
        "the remaining keys of the claim"
    );
    assert_eq!(["b"], server.keys()[..]);
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(all.clone())).await));
}

pub(crate) async fn names_and_tokens_are_bytes<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let token = Token::from_bytes(b"\x00\r\n\xff'\"");
    let names = [b"\x00\xff\r\n".to_vec(), b"{a} *\x80".to_vec()];
    for resources in [names[..1].into_resources().unwrap(), names[..].into_resources().unwrap()] {
        let mine = Claim::new(resources.clone(), token.clone());
        let other = Claim::new(resources, Token::from_bytes("other"));
        assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
        let Ok(Reply::Denied(denial)) = node.call(Request::Acquire(other.clone(), minute())).await else {
            panic!("not denied")
        };
        assert_eq!(Some(token.clone()), denial.holder);
        assert_eq!(GRANTED, of(node.call(Request::Extend(mine.clone(), minute())).await));
        assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
        assert!(server.keys().is_empty());
    }
}

pub(crate) async fn a_key_without_expiry_gets_none<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    server.command(&["SET", "a", "mine"]);
    assert_eq!(GRANTED, of(node.call(Request::Extend(claim("a", "mine"), minute())).await));
    assert_eq!(-1, pttl(&server, "a"));
    let Ok(Reply::Denied(denial)) = node.call(Request::Extend(claim("a", "other"), minute())).await else {
        panic!("not denied")
    };
    assert_eq!(None, denial.remaining);
}

pub(crate) async fn a_key_of_another_type_is_an_error_that_names_it<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    server.command(&["LPUSH", "list", "x"]);
    for claim in [claim("list", "mine"), claim(["a", "list", "z"], "mine")] {
        let names_it = |outcome: Result<Reply, NodeError>| {
            let error = outcome.unwrap_err();
            assert_eq!(NodeErrorKind::WrongType, error.kind());
            assert!(error.to_string().contains("\"list\""), "{error}");
        };
        names_it(node.call(Request::Acquire(claim.clone(), minute())).await);
        assert_eq!(["list"], server.keys()[..], "no key is set");
        for resource in claim.resources().iter().map(ToString::to_string) {
            server.command(&["SET", &resource, "mine", "NX"]);
        }
        names_it(node.call(Request::Extend(claim.clone(), minute())).await);
        server.command(&["DEL", "a", "z"]);
        assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(claim.clone())).await));
    }
    assert!(node.status().connection.is_some(), "an error reply does not end the connection");
    server.command(&["SET", "a", "mine"]);
    assert_eq!(
        GRANTED,
        of(node.call(Request::Release(claim(["a", "list"], "mine"))).await),
        "the keys of the claim are deleted"
    );
}

pub(crate) async fn an_inspection_only_reads<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio().key_prefix("lock:")).unwrap();
    let name = |name: &str| Resource::new(name).unwrap();
    assert!(node.profile().inspect);
    assert_eq!(None, inspected(&node, name("a")).await);
    assert!(server.keys().is_empty());

    node.call(Request::Acquire(claim("a", "mine"), ttl(30_000))).await.unwrap();
    let found = inspected(&node, name("a")).await.unwrap();
    assert_eq!(Token::from_bytes("mine"), found.token);
    let left = found.remaining.unwrap();
    assert!((Duration::from_secs(20)..=Duration::from_secs(30)).contains(&left), "{left:?}");
    assert!((20_000..=30_000).contains(&pttl(&server, "lock:a")));

    server.command(&["SET", "lock:b", "for ever"]);
    let found = inspected(&node, name("b")).await.unwrap();
    assert_eq!((Token::from_bytes("for ever"), None), (found.token, found.remaining));

    server.command(&["RPUSH", "lock:c", "x"]);
    let error = node.call(Request::Inspect(name("c"))).await.unwrap_err();
    assert_eq!(NodeErrorKind::WrongType, error.kind());

    // The server has lost its scripts, or has no memory left.
    server.command(&["SCRIPT", "FLUSH"]);
    assert!(inspected(&node, name("a")).await.is_some());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(inspected(&node, name("a")).await.is_some());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(3, server.keys().len());
}

pub(crate) async fn the_key_starts_with_the_prefix<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio().key_prefix("lock:")).unwrap();
    let (one, two) = (claim("a", "mine"), claim(["a", "b"], "mine"));
    assert_eq!(GRANTED, of(node.call(Request::Acquire(one.clone(), minute())).await));
    assert_eq!(["lock:a"], server.keys()[..]);
    assert_eq!(GRANTED, of(node.call(Request::Acquire(two.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Extend(two.clone(), minute())).await));
    assert_eq!("mine", server.command(&["GET", "lock:b"]));
    assert_eq!(GRANTED, of(node.call(Request::Release(two.clone())).await));
    assert!(server.keys().is_empty());
}

pub(crate) async fn flushed_scripts_cause_no_error<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let two = claim(["a", "b"], "mine");
    assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(two.clone())).await));
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(GRANTED, of(node.call(Request::Acquire(two.clone(), minute())).await));
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(GRANTED, of(node.call(Request::Extend(two.clone(), minute())).await));
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(GRANTED, of(node.call(Request::Release(two.clone())).await));
}

pub(crate) async fn a_killed_server_is_down_at_once_and_votes_again_without_traffic<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    let (before, was) = (node.status().connection, server_of(&node));
    assert!(before.is_some() && was.is_some());

    server.kill();
    until(async || node.status().connection.is_none()).await;
    let outcome = node
        .call(Request::Acquire(mine.clone(), minute()))
        .now_or_never()
        .expect("the request fails without waiting");
    assert_eq!(Err(NodeErrorKind::Unavailable), of(outcome));
    assert_eq!(was, server_of(&node), "the last known server");

    server.restart();
    let start = Instant::now();
    until(async || node.status().connection.is_some()).await;
    assert!(start.elapsed() < HEALED, "{:?}", start.elapsed());
    assert_ne!(before, node.status().connection);
    assert_ne!(was, server_of(&node), "a restarted server has another identity");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
}

pub(crate) async fn a_server_that_starts_later_is_used<A: Adapter>() {
    let server = RedisServer::start();
    server.kill();
    let node = node_of::<A>(&server);
    let error = node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
    assert!(error.to_string().contains("refused"), "{error}");
    server.restart();
    let took = until_it_votes(&node).await;
    assert!(took < HEALED, "{took:?}");
}

pub(crate) async fn a_hung_server_is_disconnected_after_some_requests_and_recovers<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    let before = node.status().connection;

    server.pause();
    let mut requests = 0;
    while node.status().connection == before {
        // The last request fails at once, together with its connection.
        let outcome =
            timeout(Duration::from_millis(110), node.call(Request::Extend(mine.clone(), minute()))).await;
        assert!(!matches!(outcome, Ok(Ok(_))), "{outcome:?}");
        requests += 1;
    }
    assert!(requests >= 3, "{requests}");
    assert_eq!(None, node.status().connection);
    let outcome = node
        .call(Request::Extend(mine.clone(), minute()))
        .now_or_never()
        .expect("the request fails without waiting");
    assert_eq!(Err(NodeErrorKind::Unavailable), of(outcome));

    server.resume();
    let took = until_it_votes(&node).await;
    assert!(took < HEALED, "{took:?}");
    assert_ne!(before, node.status().connection);
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
}

pub(crate) async fn requests_in_flight_when_the_server_dies_have_an_unknown_outcome<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    server.pause();
    let (outcome, ()) = tokio::join!(soon(node.call(Request::Extend(mine.clone(), minute()))), async {
        tokio::task::yield_now().await; // sends the request
        server.kill();
    });
    assert_eq!(Err(NodeErrorKind::Unknown), of(outcome));
}

pub(crate) async fn requests_dropped_at_once_do_not_end_the_connection<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    let before = node.status().connection;
    // One more timed-out request than a connection tolerates. Dropped requests are not counted.
    for _ in 0..4 {
        let mut request = node.call(Request::Extend(mine.clone(), minute()));
        let polled = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
    }
    assert_eq!(GRANTED, of(node.call(Request::Extend(mine.clone(), minute())).await));
    assert_eq!(before, node.status().connection);
}

pub(crate) async fn a_node_recovers_when_its_password_is_corrected<A: Adapter>() {
    let server = RedisServer::builder().password("another").start();
    let url = format!("redis://:hunter2@127.0.0.1:{}", server.port());
    let node = A::node(url, &Options::tokio()).unwrap();
    let error = node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    server.command(&["CONFIG", "SET", "requirepass", "hunter2"]);
    until_it_votes(&node).await; // the reconnect delay is longer than after other failures
}

pub(crate) async fn a_password_that_is_set_later_is_the_reason_of_the_failure<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    until_it_votes(&node).await;
    server.command(&["CONFIG", "SET", "requirepass", "hunter2"]);
    // Open connections stay logged in.
    assert_eq!(GRANTED, of(node.call(Request::Acquire(claim("b", "mine"), minute())).await));
    server.authenticated("hunter2").command(&["CLIENT", "KILL", "TYPE", "normal"]);
    let is_named = async || {
        let outcome = node.call(Request::Acquire(claim("c", "mine"), minute())).await;
        outcome.is_err_and(|error| error.to_string().starts_with("NOAUTH"))
    };
    until(is_named).await;
}

pub(crate) async fn a_rotated_password_is_used_by_the_next_connection<A: Adapter>() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "locks", "on", ">first", "~*", "+@all"]);
    let password = Arc::new(Mutex::new("first"));
    let current = Arc::clone(&password);
    let options = Options::tokio().credentials(move || {
        let password = *current.lock().unwrap();
        async move { Ok(Credentials::new("locks", password)) }
    });
    // The callback replaces the login of the address.
    let url = format!("redis://nobody:hunter2@127.0.0.1:{}", server.port());
    let node = A::node(url, &options).unwrap();
    until_it_votes(&node).await;

    server.command(&["ACL", "SETUSER", "locks", "<first", ">second"]);
    *password.lock().unwrap() = "second";
    let before = node.status().connection;
    assert_eq!(
        GRANTED,
        of(node.call(Request::Acquire(claim("b", "mine"), minute())).await),
        "the connection stays logged in"
    );
    server.command(&["CLIENT", "KILL", "USER", "locks"]);
    until(async || node.status().connection != before).await;
    until_it_votes(&node).await;
}

pub(crate) async fn a_server_without_resp3_works_and_recovers<A: Adapter>() {
    let server = RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    assert_eq!(Ok(denied_by("mine")), of(node.call(Request::Acquire(claim("a", "other"), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await));
    server.kill();
    assert!(
        of(node.call(Request::Release(mine.clone())).await).is_err(),
        "the loss is detected by a request only"
    );
    assert_eq!(None, node.status().connection);
    server.restart();
    let took = until_it_votes(&node).await;
    assert!(took < HEALED, "{took:?}");
}

pub(crate) async fn a_user_with_few_rights_can_lock<A: Adapter>() {
    let server = RedisServer::start();
    let url = user(&server, "~* -@all +set +get +del +pttl +pexpire +evalsha +eval +select");
    let node = A::node(url + "/3", &Options::tokio()).unwrap();
    let (mine, other, two) = (claim("a", "mine"), claim("a", "other"), claim(["a", "b"], "mine"));

    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    assert!(server.command(&["INFO", "keyspace"]).contains("db3:keys=1"), "in its database");
    assert_eq!(None, server_of(&node), "the user may not run INFO");
    assert_eq!(Ok(denied_by("mine")), of(node.call(Request::Acquire(other.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await), "a repeated request");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(two.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Extend(two.clone(), minute())).await));
    assert_eq!(GRANTED, of(node.call(Request::Release(two.clone())).await));

    server.command(&["ACL", "SETUSER", "few", "-del"]);
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    assert_eq!(Err(NodeErrorKind::Rejected), of(node.call(Request::Release(mine.clone())).await));
    server.command(&["ACL", "SETUSER", "few", "+del", "-get"]);
    assert_eq!(
        Err(NodeErrorKind::Rejected),
        of(node.call(Request::Release(mine.clone())).await),
        "the user may not read absent keys"
    );
}

pub(crate) async fn out_of_memory_is_a_rejection<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mine = claim("a", "mine");
    assert_eq!(GRANTED, of(node.call(Request::Acquire(mine.clone(), minute())).await));
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for claim in [claim("b", "mine"), claim(["b", "c"], "mine")] {
        let error = node.call(Request::Acquire(claim.clone(), minute())).await.unwrap_err();
        assert_eq!(NodeErrorKind::Rejected, error.kind());
        assert!(error.to_string().starts_with("OOM"), "{error}");
    }
    assert_eq!(["a"], server.keys()[..]);
    assert_eq!(GRANTED, of(node.call(Request::Release(mine.clone())).await), "a release needs no memory");
}

#[cfg(unix)]
pub(crate) async fn a_unix_socket_works<A: Adapter>() {
    let server = RedisServer::builder().unix_socket().start();
    let path = server.socket().unwrap();
    let node = A::node(format!("unix://{}?db=2", path.display()), &Options::tokio()).unwrap();
    assert_eq!(GRANTED, of(node.call(Request::Acquire(claim("a", "mine"), minute())).await));
    assert!(server.command(&["INFO", "keyspace"]).contains("db2:keys=1"));
    assert_eq!(format!("unix:{}", path.display()), node.label());
}

pub(crate) async fn identity_is_the_servers_run_id_and_shared_by_its_databases<A: Adapter>() {
    let server = RedisServer::start();
    let (one, two) =
        (node_of::<A>(&server), A::node(format!("{}/1", server.url()), &Options::tokio()).unwrap());
    assert_eq!(None, one.status().connection, "a node does nothing before its first request");
    for node in [&one, &two] {
        assert_eq!(GRANTED, of(node.call(Request::Acquire(claim("a", "mine"), minute())).await));
    }
    let info = server.command(&["INFO", "server"]);
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim().to_owned();
    assert_eq!(Some(ServerId::new(run_id)), server_of(&one));
    assert_eq!(server_of(&one), server_of(&two));
}

pub(crate) async fn a_dropped_node_leaves_neither_task_nor_connection<A: Adapter>() {
    let server = RedisServer::start();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        let node = node_of::<A>(&server);
        assert_eq!(Ok(nothing_there()), of(node.call(Request::Release(claim("a", "mine"))).await));
        assert!(tasks() > before);
    }
    until(async || tasks() == before).await;
    until(async || server.command(&["CLIENT", "LIST"]).lines().count() == 1).await;
}

pub(crate) fn a_node_outlives_its_runtime<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let mut generations = Vec::new();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert_eq!(Ok(nothing_there()), of(soon(node.call(Request::Release(claim("a", "mine")))).await));
            generations.push(node.status().connection.unwrap().0);
        });
    }
    assert_eq!([1, 2, 3], generations[..]);
}

pub(crate) fn a_node_leaves_a_runtime_that_is_no_longer_driven<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let mine = claim("a", "mine");
    first.block_on(async {
        assert_eq!(GRANTED, of(soon(node.call(Request::Acquire(mine.clone(), minute()))).await));
    });
    second.block_on(async {
        for _ in 0..3 {
            assert!(
                timeout(Duration::from_millis(20), node.call(Request::Extend(mine.clone(), minute())))
                    .await
                    .is_err()
            );
        }
        until_it_votes(&node).await;
        assert_eq!(GRANTED, of(node.call(Request::Extend(mine.clone(), minute())).await));
    });
    let current = node.status().connection;
    first.block_on(async { sleep(Duration::from_millis(50)).await });
    assert_eq!(current, node.status().connection, "the replaced supervisor changes nothing");
    second.block_on(async { assert_eq!(GRANTED, of(soon(node.call(Request::Release(mine.clone()))).await)) });
}

pub(crate) async fn no_secret_is_printed<A: Adapter>() {
    let server = RedisServer::builder().password("another").start();
    let node = A::node(format!("redis://me:hunter2@127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
    let error = node.call(Request::Acquire(claim("a", "hunter2-token"), minute())).await.unwrap_err();
    let shown = format!("{error} {error:?} {node:?} {}", node.label());
    assert!(!shown.contains("hunter2"), "{shown}");

    let renamed = ["EVALSHA"].into_iter().chain(delete_of(&server));
    let renamed = renamed
        .fold(RedisServer::builder(), |builder, name| builder.arg("--rename-command").arg(name).arg(""));
    let renamed = renamed.start();
    let node = node_of::<A>(&renamed);
    let error = node.call(Request::Release(claim("a", "hunter2-token"))).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
    assert!(error.to_string().starts_with("locks cannot be released: ERR unknown command"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

pub(crate) async fn a_server_that_echoes_its_input_reveals_neither_password_nor_token<A: Adapter>() {
    let echo =
        Scripted::start(|command| Answer::Say(format!("-ERR bad command: {command}\r\n").leak())).await;
    let url = format!("redis://ann:h%40nter2%20x@127.0.0.1:{}", echo.port());
    let error = A::node(url, &Options::tokio())
        .unwrap()
        .call(Request::Release(claim("a", "mine")))
        .await
        .unwrap_err();
    assert!(echo.seen("HELLO 3 AUTH ann h@nter2 x") + echo.seen("AUTH ann h@nter2 x") > 0);
    assert!(error.to_string().contains("bad command") && error.to_string().contains("..."), "{error}");
    assert!(!format!("{error} {error:?}").contains("nter2"), "{error}");

    let echo = Scripted::start(|command| match command.split(' ').next() {
        Some("SET") => Answer::Say(format!("-ERR bad command: {command}\r\n").leak()),
        Some("SCRIPT" | "EVALSHA") => Answer::Say("+sha\r\n"),
        _ => greet(command).unwrap_or(Answer::HangUp),
    })
    .await;
    let node = A::node(format!("redis://127.0.0.1:{}", echo.port()), &Options::tokio()).unwrap();
    let error = node.call(Request::Acquire(claim("a", "hunter2-token"), minute())).await.unwrap_err();
    assert!(error.to_string().starts_with("ERR bad command: SET a ... "), "{error}");
}

pub(crate) async fn a_user_without_the_right_to_release_cannot_lock<A: Adapter>() {
    let server = RedisServer::start();
    let url = user(&server, "~* -@all +hello +info +set +get +del +pttl +pexpire +eval +select +script|load");
    let few = A::node(url, &Options::tokio()).unwrap();
    let error = few.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind());
    let message = error.to_string();
    assert!(
        message.starts_with("locks cannot be released: NOPERM") && message.contains("evalsha"),
        "{message}"
    );
    assert!(server.keys().is_empty());
}

pub(crate) async fn a_read_only_replica_is_a_rejection<A: Adapter>() {
    let server = RedisServer::start();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    for claim in [claim("a", "mine"), claim(["a", "b"], "mine")] {
        let node = node_of::<A>(&server); // the first node has given up its connection
        let error = node.call(Request::Acquire(claim.clone(), minute())).await.unwrap_err();
        assert_eq!(NodeErrorKind::Rejected, error.kind());
        assert!(error.to_string().starts_with("READONLY"), "{error}");
    }
}

pub(crate) async fn a_request_whose_reply_is_lost_is_not_repeated<A: Adapter>() {
    let server = Scripted::start(|command| match command.split(' ').next() {
        Some("SET") => Answer::HangUp,
        Some("SCRIPT") => Answer::Say("+sha\r\n"),
        Some("EVALSHA") => Answer::Say(":0\r\n"),
        _ => greet(command).unwrap_or(Answer::HangUp),
    })
    .await;
    let node = A::node(format!("redis://127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
    let mine = claim("a", "mine");
    assert_eq!(
        Err(NodeErrorKind::Unknown),
        of(soon(node.call(Request::Acquire(mine.clone(), minute()))).await)
    );
    // A client that repeats requests would repeat this one first on the next connection.
    until(async || of(node.call(Request::Release(mine.clone())).await) == Ok(nothing_there())).await;
    assert_eq!(2, server.seen("HELLO"));
    assert_eq!(1, server.seen("SET "));
}

pub(crate) async fn the_first_command_of_a_connection_is_not_tracked<A: Adapter>() {
    let server = RedisServer::start();
    let names: Vec<_> = (0..1000).map(|number| format!("name-{number}")).collect();
    let all = claim(names, "mine");
    let tracked = || {
        let stats = server.command(&["INFO", "stats"]);
        let keys = stats.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
        keys.unwrap().parse::<u64>().unwrap()
    };
    let holder = node_of::<A>(&server);
    assert_eq!(GRANTED, of(holder.call(Request::Acquire(all.clone(), minute())).await));
    // These requests only read, because the server stops tracking keys that are written.
    assert_eq!(
        GRANTED,
        of(node_of::<A>(&server).call(Request::Acquire(all.clone(), minute())).await),
        "a replay"
    );
    assert_eq!(0, tracked(), "after an acquire");
    assert_eq!(GRANTED, of(node_of::<A>(&server).call(Request::Extend(all.clone(), ttl(1000))).await));
    assert_eq!(0, tracked(), "after an extension");
    let watcher = node_of::<A>(&server);
    let _watch = watcher.call(Request::Watch(all.resources()[0].clone())).await.unwrap();
    assert_eq!(1, tracked(), "a watch is tracked");
}
