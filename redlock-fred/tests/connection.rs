//! One connection of fred: its requests, its replies, and its end.
#![allow(clippy::unwrap_used)] // a panic is a failed test

use fred::types::config::{Config, ServerConfig};
use futures_util::future::poll_immediate;
use redlock_adapter_tests::scripted::{Answer, Scripted, greet};
use redlock_adapter_tests::wait::{soon, until};
use redlock_fred::{Connection, Connector, IntoConnector};
use redlock_testkit::RedisServer;
use redlock_wire::{Command, Connection as _, Connector as _, Failure, Hub, Reply, Sent};
use tokio::runtime::Handle;

fn connector(port: u16) -> Connector {
    Config { server: ServerConfig::new_centralized("127.0.0.1", port), ..Config::default() }
        .into_connector()
        .unwrap()
}

async fn connect(port: u16) -> Connection {
    connector(port).connect(&Hub::default()).await.unwrap()
}

fn set<'a>(key: &'a [u8], value: &'a [u8], get: bool) -> Command<'a> {
    Command::SetIfAbsent { key, value, millis: 60_000, get }
}

fn other<'a>(name: &'static str, args: &'a [&'a [u8]]) -> Command<'a> {
    Command::Other { name, args }
}

async fn pipeline(connection: &Connection, commands: &[Command<'_>]) -> Result<Vec<Reply>, Failure> {
    connection.pipeline(commands.iter().map(|command| Connection::pack(*command)).collect()).await
}

fn call<'a>(
    connection: &'a Connection,
    command: Command<'_>,
) -> impl Future<Output = Result<Reply, Failure>> + use<'a> {
    connection.call(Connection::pack(command))
}

fn bytes(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bytes(text.as_ref().to_vec())
}

fn started_with(args: &[&str]) -> RedisServer {
    args.iter().fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start()
}

/// The server's clients, but for the one that asks. Those that asked before may still be about to go.
fn clients(server: &RedisServer) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]);
    list.lines().filter(|line| !line.contains("cmd=client|list")).map(str::to_owned).collect()
}

/// The server's only client.
async fn only_client(server: &RedisServer) -> String {
    until(async || clients(server).len() == 1).await;
    clients(server).remove(0)
}

#[tokio::test]
async fn set_if_absent_and_its_answers() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    let (key, token) = (b"\x00\xff\r\n key", b"\xfe\x00token");

    assert_eq!(bytes("OK"), call(&connection, set(key, token, false)).await.unwrap());
    assert_eq!(Reply::Nil, call(&connection, set(key, b"else", false)).await.unwrap());
    assert_eq!(bytes(token), call(&connection, set(key, b"else", true)).await.unwrap());
    assert_eq!(Reply::Nil, call(&connection, set(b"fresh", token, true)).await.unwrap());
    assert_eq!(bytes(token), call(&connection, other("GET", &[b"fresh"])).await.unwrap());
    let Reply::Int(left) = call(&connection, other("PTTL", &[key])).await.unwrap() else {
        panic!("no number")
    };
    assert!((50_000..=60_000).contains(&left), "{left} ms");
}

#[tokio::test]
async fn replies_of_every_shape() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    let eval =
        async |script: &str| call(&connection, other("EVAL", &[script.as_bytes(), b"0"])).await.unwrap();

    let nested =
        Reply::Array(vec![Reply::Int(-1), bytes("a"), Reply::Nil, Reply::Array(vec![bytes("QUEUED")])]);
    assert_eq!(nested, eval("return {-1, 'a', false, {redis.status_reply('QUEUED')}}").await);
    let map = Reply::Array(vec![bytes("k"), Reply::Int(1)]);
    assert_eq!(map, eval("redis.setresp(3) return {map = {k = true}}").await);
    assert_eq!(bytes("1.5"), eval("redis.setresp(3) return {double = 1.5}").await);
    assert_eq!(Reply::Error("MINE is wrong".into()), eval("return redis.error_reply('MINE is wrong')").await);
}

#[tokio::test]
async fn errors_of_the_server_keep_their_text() {
    for error in
        ["NOSCRIPT", "WRONGTYPE", "OOM", "NOPERM", "READONLY", "LOADING", "MISCONF", "MOVED", "NOAUTH", "ERR"]
    {
        let text = format!("{error} 1 not now: for a reason");
        let say: &'static str = format!("-{text}\r\n").leak();
        let server = Scripted::start(move |command| greet(command).unwrap_or(Answer::Say(say))).await;
        let connection = connect(server.port()).await;
        let expected = Reply::Error(text);

        assert_eq!(expected, call(&connection, set(b"k", b"v", true)).await.unwrap());
        assert_eq!(expected, call(&connection, other("EVALSHA", &[b"sha", b"0"])).await.unwrap());
        let several = [set(b"k", b"v", true), other("GET", &[b"k"])];
        assert_eq!(vec![expected.clone(), expected], pipeline(&connection, &several).await.unwrap());
    }
}

#[tokio::test]
async fn a_pipeline_tells_each_reply_also_when_one_is_an_error() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    let wrong = other("EVALSHA", &[b"ffffffffffffffffffffffffffffffffffffffff", b"0"]);
    let replies =
        pipeline(&connection, &[set(b"a", b"1", false), wrong, other("GET", &[b"a"])]).await.unwrap();

    let [done, Reply::Error(error), value] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((&bytes("OK"), &bytes("1")), (done, value));
    assert!(error.starts_with("NOSCRIPT "), "{error}");
    assert!(matches!(&pipeline(&connection, &[wrong]).await.unwrap()[..], [Reply::Error(_)]));
    assert!(pipeline(&connection, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_dropped_connection_leaves_neither_task_nor_socket() {
    let server = RedisServer::start();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..100 {
        let connection = connect(server.port()).await;
        call(&connection, set(b"k", b"v", false)).await.unwrap();
    }
    until(async || tasks() == before).await;
    until(async || clients(&server).is_empty()).await;
}

#[tokio::test]
async fn a_dropped_attempt_to_connect_leaves_no_task() {
    let silent = Scripted::start(|_| Answer::Nothing).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    {
        let (connector, hub) = (connector(silent.port()), Hub::default());
        let mut attempt = std::pin::pin!(connector.connect(&hub));
        soon(async {
            while silent.seen("PING") == 0 {
                assert!(poll_immediate(attempt.as_mut()).await.is_none());
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(tasks() > before, "fred has its task, and the server one for the connection");
    }
    until(async || tasks() == before).await;
}

#[tokio::test]
async fn a_lost_connection_fails_what_is_in_flight_and_is_over() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    server.pause();
    let in_flight = call(&connection, set(b"k", b"v", false));
    let (outcome, ()) = soon(async {
        tokio::join!(Box::pin(in_flight), async {
            tokio::task::yield_now().await; // after this it is in flight
            server.kill();
            connection.lost().await;
        })
    })
    .await;
    assert_eq!(Sent::Maybe, outcome.unwrap_err().sent);

    server.restart();
    for attempt in [set(b"k", b"v", false), other("GET", &[b"k"])] {
        assert_eq!(Sent::No, soon(call(&connection, attempt)).await.unwrap_err().sent);
        assert_eq!(Sent::No, soon(pipeline(&connection, &[attempt, attempt])).await.unwrap_err().sent);
    }
    until(async || clients(&server).is_empty()).await;
}

#[tokio::test]
async fn a_command_whose_reply_is_lost_is_never_sent_again() {
    let server = Scripted::start(|command| greet(command).unwrap_or(Answer::HangUp)).await;
    for commands in [vec![set(b"k", b"v", true)], vec![set(b"k", b"v", true), other("GET", &[b"k"])]] {
        let connection = connect(server.port()).await;
        let (sent, connected) = (server.seen("SET"), server.seen("HELLO"));
        let failure = soon(pipeline(&connection, &commands)).await.unwrap_err();
        assert_eq!(Sent::Maybe, failure.sent);
        soon(connection.lost()).await;
        assert_eq!((sent + 1, connected), (server.seen("SET"), server.seen("HELLO")));
    }
}

#[tokio::test]
async fn a_dropped_call_does_not_disturb_those_after_it() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    for round in 0..100 {
        let dropped = call(&connection, other("ECHO", &[b"dropped"]));
        assert!(poll_immediate(dropped).await.is_none());
        let text = format!("{round}");
        assert_eq!(bytes(&text), call(&connection, other("ECHO", &[text.as_bytes()])).await.unwrap());
    }
}

#[tokio::test]
async fn a_cluster_that_is_down_leaves_everything_in_flight_open() {
    let down = "-CLUSTERDOWN Hash slot not served\r\n";
    let server = Scripted::start(move |command| greet(command).unwrap_or(Answer::Say(down))).await;
    let connection = connect(server.port()).await;
    assert_eq!(Sent::Maybe, soon(call(&connection, set(b"k", b"v", false))).await.unwrap_err().sent);
    soon(connection.lost()).await;
}

#[tokio::test]
async fn speaks_resp3_and_falls_back_to_resp2_where_hello_is_denied() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    assert!(only_client(&server).await.contains(" resp=3"));
    drop(connection);

    let old = started_with(&["--rename-command", "HELLO", ""]);
    let connection = connect(old.port()).await;
    assert!(only_client(&old).await.contains(" resp=2"));
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
    assert_eq!(Reply::Nil, call(&connection, other("GET", &[b"none"])).await.unwrap());

    let denying = Scripted::start(|command| match command.split(' ').next() {
        Some("HELLO") => Answer::Say("-ERR unknown command 'HELLO'\r\n"),
        Some("SET") => Answer::Say("+OK\r\n"),
        _ => greet(command).unwrap_or(Answer::HangUp),
    })
    .await;
    let connection = connect(denying.port()).await;
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}

#[tokio::test]
async fn authenticates_and_selects_the_database() {
    let server = RedisServer::start();
    let password = "two words, a \" and a \r\n";
    server.command(&["ACL", "SETUSER", "ann", "on", &format!(">{password}"), "~*", "+@all"]);
    let config = Config {
        username: Some("ann".into()),
        password: Some(password.into()),
        database: Some(3),
        server: ServerConfig::new_centralized("127.0.0.1", server.port()),
        ..Config::default()
    };
    let connection = config.into_connector().unwrap().connect(&Hub::default()).await.unwrap();
    assert_eq!(bytes("ann"), call(&connection, other("ACL", &[b"WHOAMI"])).await.unwrap());
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
    assert!(only_client(&server).await.contains(" db=3 "));
    assert_eq!("0", server.command(&["EXISTS", "k"]), "that is database 0");
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_failed_connect_says_why_and_not_the_password() {
    use redlock_fred::node::{LockNode, NodeErrorKind};
    use redlock_fred::{Options, Resource, node};

    let rejected = async |server: RedisServer, password: &'static str| {
        let config = Config {
            password: Some(password.into()),
            server: ServerConfig::new_centralized("127.0.0.1", server.port()),
            ..Config::default()
        };
        let node = node(config, &Options::tokio()).unwrap();
        let error = node.inspect(&Resource::new("a").unwrap()).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unavailable, error.kind());
        assert!(!error.to_string().contains(password) && !error.to_string().contains('\n'), "{error}");
        error.to_string()
    };
    assert!(rejected(RedisServer::builder().password("right").start(), "wr0ng").await.contains("WRONGPASS"));
    let no_auth = started_with(&["--rename-command", "AUTH", ""]);
    assert!(rejected(no_auth, "hunter2").await.contains("unknown command"));

    let port = RedisServer::start().port(); // the server is gone after this
    let gone = connector(port).connect(&Hub::default()).await.err().unwrap();
    assert_eq!(Sent::No, gone.sent);
    assert!(gone.message.contains("Connection refused"), "{}", gone.message);
}

#[tokio::test]
async fn connects_over_ipv6() {
    let server = started_with(&["--bind", "127.0.0.1", "::1"]);
    let connector = format!("redis://[::1]:{}", server.port()).into_connector().unwrap();
    let connection = connector.connect(&Hub::default()).await.unwrap();
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}

#[cfg(unix)]
#[tokio::test]
async fn connects_over_a_unix_socket() {
    let server = RedisServer::builder().unix_socket().start();
    let path = server.socket().unwrap();
    let connector = format!("unix://{}", path.display()).into_connector().unwrap();
    let connection = connector.connect(&Hub::default()).await.unwrap();
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}

/// fred keeps the push to itself that tells of it. Should it pass it on one day, this fails, and `push` has less to say.
#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_flush_is_not_told_and_takes_nothing_from_later_watches() {
    use redlock_fred::node::LockNode;
    use redlock_fred::{Options, Resource, node};

    let server = RedisServer::start();
    let node = node(server.url(), &Options::tokio()).unwrap();
    let watch = async |name| node.watch(&Resource::new(name).unwrap()).await.unwrap().changed;
    server.command(&["SET", "a", "theirs"]);
    let flushed = watch("a").await;
    server.command(&["FLUSHALL"]);
    let later = watch("a").await;
    assert!(poll_immediate(flushed).await.is_none());
    server.command(&["SET", "a", "theirs"]);
    soon(later).await;
}
