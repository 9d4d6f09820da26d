//! Input that is rejected before anything is sent, and requests that fail because of the state of a server.

use redlock_core::node::{LockNode, NodeErrorKind};
use redlock_core::{Redlock, Resource, TokioRuntime};
use redlock_testkit::MemoryNode;

use super::*;
use crate::Adapter;

fn rejected<T: std::fmt::Debug>(result: Result<T, redlock_core::Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(ErrorKind::InvalidInput, error.kind(), "{error}");
    assert!(error.node_reports().is_empty(), "something was sent");
    error.to_string()
}

pub(crate) async fn bad_input_names_the_value_and_the_limit_and_sends_nothing<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let sent = || -> u64 {
        let commands = ["set", "get", "eval", "evalsha"].iter();
        commands.flat_map(|command| servers.iter().map(|server| server.commandstats(command))).sum()
    };
    let before = sent();
    let ttl = async |ttl| rejected(redlock.lock("a", ttl).await);
    assert!(ttl(Duration::ZERO).await.contains("0ns is too short; the minimum is 10 ms"));
    assert!(ttl(Duration::from_millis(9)).await.contains("9ms is too short"));
    assert!(ttl(Duration::from_secs(30 * 86_400)).await.contains("the maximum is 24 days"));
    assert!(rejected(redlock.lock("", TTL).await).contains("1 to 1024 bytes"));
    assert!(rejected(redlock.lock(vec![b'x'; 1025], TTL).try_now().await).contains("1025 bytes"));
    assert!(rejected(redlock.lock(["a", "b", "a"], TTL).await).contains("\"a\" is named twice"));
    let nothing: [&str; 0] = [];
    assert!(rejected(redlock.lock(nothing, TTL).await).contains("no resource"));
    redlock.close().await;
    assert_eq!(before, sent(), "something was sent");
}

pub(crate) async fn a_bad_ttl_of_an_extension_sends_nothing<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    let before = servers[0].commandstats("evalsha");
    assert!(rejected(guard.extend(Duration::from_millis(1)).await).contains("minimum is 10 ms"));
    assert_eq!(before, servers[0].commandstats("evalsha"));
    assert!(guard.is_held());
}

pub(crate) async fn certificates_without_tls_name_the_scheme_of_the_same_kind<A: Adapter>() {
    let options = Options::tokio().root_certificates("x");
    for (url, reason) in [
        ("redis://a", "a:6379: certificates require rediss://"),
        ("redis+cluster://b,a", "cluster@a:6379,b:6379: certificates require rediss+cluster://"),
        ("redis+sentinel://s/m", "m@s:26379: certificates require rediss+sentinel://"),
    ] {
        let message = rejected(A::node(url.to_owned(), &options));
        assert!(message.ends_with(&format!("invalid address {reason}")), "{message}");
    }
}

/// The rule of the fakes is a copy, because they do not depend on the code for servers.
pub(crate) async fn fakes_reject_the_names_that_servers_reserve<A: Adapter>() {
    let (server, fake) =
        (A::node("redis://10.0.0.1".to_owned(), &Options::tokio()).unwrap(), MemoryNode::new("a"));
    let mut rejections = 0;
    for name in [
        "redlock:admission",
        "redlock:admission:{7}",
        "redlock:admissions",
        "redlock:fence:{a}",
        "redlock:fence::{a}b",
        "redlock:fence:{a}b",
        "redlock:fence:{",
        "redlock:fence:a",
        "redlock:nodes",
        "jobs#waiting",
        "#waiting",
        "waiting",
        "a",
    ] {
        let name = Resource::new(name).unwrap();
        let message = |node: &dyn LockNode| node.check(&name).err().map(|error| error.to_string());
        assert_eq!(message(&server), message(&fake));
        rejections += u32::from(message(&fake).is_some());
    }
    assert_eq!(6, rejections);
}

pub(crate) async fn bad_nodes_are_rejected_at_build<A: Adapter>() {
    let build = |urls: &[&str]| A::builder(urls.iter().map(ToString::to_string)).and_then(Builder::build);
    assert!(rejected(build(&[])).contains("no nodes"));
    let twice = rejected(build(&["redis://10.0.0.1", "redis://10.0.0.2", "redis://user:pw@10.0.0.1:6379/3"]));
    assert!(twice.contains("nodes 0 and 2 are the same server: 10.0.0.1:6379"), "{twice}");
    for url in [
        "",
        "10.0.0.1",
        "http://10.0.0.1",
        "redis://",
        "redis://host:port",
        "redis://host/x",
        "redis://u:secret@",
    ] {
        let message = rejected(build(&[url]));
        assert!(!message.contains("secret"), "{message}");
    }
    let urls = ["redis://10.0.0.1", "redis://:secret@10.0.0.2/x", "redis://10.0.0.3"];
    let message = rejected(build(&urls));
    assert!(message.starts_with("server 2 of 3: invalid address redis://10.0.0.2: "), "{message}");
    assert!(rejected(Redlock::builder(TokioRuntime::new()).build()).contains("no nodes"));
}

pub(crate) async fn two_addresses_of_one_server_are_one_node<A: Adapter>() {
    let servers = RedisServer::start_many(2);
    let addresses = [servers[0].url(), servers[0].url().replace("127.0.0.1", "localhost"), servers[1].url()];
    // Three addresses of two servers. A quorum of three is two, and both servers grant.
    let redlock = A::builder(addresses).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    let health = eventually_up(&redlock, 2).await;
    assert_eq!(Some(0), health.nodes()[1].same_server_as().map(|(index, _)| index));
    drop(redlock.lock("a", TTL).await.unwrap());

    // Without the other server, two addresses grant, but they count as one node.
    servers[1].kill();
    let error = redlock.lock("b", TTL).try_now().await.unwrap_err();
    assert_eq!(ErrorKind::NoQuorum, error.kind());
    let (port, report) = (servers[0].port(), error.node_reports()[1].to_string());
    assert!(report.contains(&format!("node 1 (localhost:{port}): granted")), "{report}");
    let cause = format!("localhost:{port}: the same server as 127.0.0.1:{port}");
    assert!(error.to_string().contains(&cause), "{error}");
}

async fn eventually_up(redlock: &Redlock, up: usize) -> redlock_core::Health {
    eventually("enough nodes are up", Duration::from_secs(30), async || {
        redlock.health().await.healthy_nodes() == up
    })
    .await;
    redlock.health().await
}

pub(crate) async fn a_key_of_another_type_is_an_error_that_names_the_key<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    for server in &servers[..3] {
        server.command(&["RPUSH", "jobs", "one"]);
    }
    let error = redlock.lock("jobs", TTL).await.unwrap_err();
    assert_eq!((ErrorKind::WrongType, false), (error.kind(), error.is_retryable()));
    assert!(error.to_string().contains("\"jobs\""), "{error}");
    for node in &error.node_reports()[..3] {
        let Outcome::Failed(error) = node.outcome() else { panic!("{node}") };
        assert_eq!(NodeErrorKind::WrongType, error.kind());
        assert!(error.to_string().contains("\"jobs\""), "{error}");
    }
    assert!(redlock.lock(["free", "jobs"], TTL).try_now().await.is_err());
    redlock.close().await;
    for server in &servers[..3] {
        assert_eq!(vec!["jobs"], server.keys());
    }
    assert_eq!(Vec::<String>::new(), keys(&servers[3..]));
}

pub(crate) async fn no_secret_is_shown<A: Adapter>() {
    let servers = five();
    let (redlock, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let guard = other.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    let token = servers[0].command(&["GET", "a"]);
    let error = redlock.lock("a", TTL).max_wait(Duration::ZERO).await.unwrap_err();
    let shown = [
        format!("{guard:?} {guard:#?} {:?} {:?}", guard.lease(), guard.node_reports()),
        format!("{error:?} {error:#?} {error} {:?}", error.node_reports()),
        format!("{redlock:?} {:?}", redlock.health().await),
    ];
    for shown in shown {
        assert!(!shown.contains(&token), "{shown}");
    }
}
