//! One connection of the redis client: its requests, its replies, and its end.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is a failed test

use futures_util::future::poll_immediate;
use redlock_adapter_tests::scripted::{Answer, Scripted, greet};
use redlock_adapter_tests::wait::{soon, until};
use redlock_redis_rs::{
    Connection, Connector, IntoConnector, LockNode, NodeErrorKind, Options, Resource, node,
};
use redlock_testkit::RedisServer;
use redlock_wire::{Command, Connection as _, Connector as _, Failure, Hub, Reply, Sent};
use tokio::runtime::Handle;

fn connector(port: u16) -> Connector {
    format!("redis://127.0.0.1:{port}").into_connector().unwrap()
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

fn clients(server: &RedisServer) -> usize {
    server.command(&["CLIENT", "LIST"]).lines().count() - 1 // but for the one that asks
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
        assert!(tasks() > before);
    }
    until(async || tasks() == before).await;
    until(async || clients(&server) == 0).await;
}

#[tokio::test]
async fn a_lost_connection_fails_what_is_in_flight_and_is_over() {
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    server.pause();
    let (outcome, ()) = soon(async {
        tokio::join!(call(&connection, set(b"k", b"v", false)), async {
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
    // It never connects again; the last look from outside may take a moment to be gone.
    until(async || clients(&server) == 0).await;
}

#[test]
fn a_connection_is_lost_with_its_runtime() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection = runtime().block_on(connect(server.port()));
    runtime().block_on(async {
        soon(connection.lost()).await;
        assert_eq!(Sent::No, call(&connection, set(b"k", b"v", false)).await.unwrap_err().sent);
    });
}

#[tokio::test]
async fn a_command_whose_reply_is_lost_is_never_sent_again() {
    let server = Scripted::start(|command| greet(command).unwrap_or(Answer::HangUp)).await;
    for commands in [vec![set(b"k", b"v", true)], vec![set(b"k", b"v", true), other("GET", &[b"k"])]] {
        let connection = connect(server.port()).await;
        let (sent, connected) = (server.seen("SET "), server.seen("HELLO"));
        let failure = soon(pipeline(&connection, &commands)).await.unwrap_err();
        assert_eq!(Sent::Maybe, failure.sent);
        soon(connection.lost()).await;
        assert_eq!((sent + 1, connected), (server.seen("SET "), server.seen("HELLO")));
    }
}

#[tokio::test]
async fn nonsense_from_the_server_is_the_end_of_the_connection() {
    let server = Scripted::start(|command| greet(command).unwrap_or(Answer::Say("?!\r\n"))).await;
    let connection = connect(server.port()).await;
    assert_eq!(Sent::Maybe, soon(call(&connection, set(b"k", b"v", true))).await.unwrap_err().sent);
    soon(connection.lost()).await;
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
async fn speaks_resp3_and_falls_back_to_resp2_where_hello_is_denied() {
    let proto = |server: &RedisServer| {
        let clients = server.command(&["CLIENT", "LIST"]);
        let line = clients.lines().find(|line| !line.contains("cmd=client|list")).unwrap().to_owned();
        line.split(' ').find_map(|field| field.strip_prefix("resp=")).unwrap().to_owned()
    };
    let server = RedisServer::start();
    let connection = connect(server.port()).await;
    assert_eq!("3", proto(&server));
    drop(connection);

    let old = RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start();
    let connection = connect(old.port()).await;
    assert_eq!("2", proto(&old));
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
    assert_eq!(Reply::Nil, call(&connection, other("GET", &[b"none"])).await.unwrap());
    old.kill();
    assert_eq!(Sent::Maybe, soon(call(&connection, other("GET", &[b"k"]))).await.unwrap_err().sent);
    soon(connection.lost()).await;
}

#[tokio::test]
async fn a_failed_connect_says_why_and_not_the_password() {
    let rejected = |server: RedisServer, password: &'static str| async move {
        let node =
            node(format!("redis://:{password}@127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
        let error = node.inspect(&Resource::new("a").unwrap()).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unavailable, error.kind());
        assert!(!error.to_string().contains(password) && !error.to_string().contains('\n'), "{error}");
        error.to_string()
    };
    assert!(rejected(RedisServer::builder().password("right").start(), "wr0ng").await.contains("WRONGPASS"));
    let lacking = ["--rename-command", "HELLO", "", "--rename-command", "AUTH", ""];
    let lacking = lacking.iter().fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start();
    assert!(rejected(lacking, "hunter2").await.to_lowercase().contains("authentication failed"));

    let server = RedisServer::start();
    server.kill();
    let gone = connector(server.port()).connect(&Hub::default()).await.expect_err("it connects");
    assert_eq!(Sent::No, gone.sent);
    assert!(gone.message.contains("refused"), "{}", gone.message);
}

#[tokio::test]
async fn logs_in_with_any_password() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "ann", "on", ">two words, a \" and a \r\n", "~*", "+@all"]);
    let url = format!("redis://ann:two%20words,%20a%20%22%20and%20a%20%0D%0A@127.0.0.1:{}/3", server.port());
    let connection = url.into_connector().unwrap().connect(&Hub::default()).await.unwrap();
    assert_eq!(bytes("ann"), call(&connection, other("ACL", &[b"WHOAMI"])).await.unwrap());
}

#[tokio::test]
async fn connects_over_ipv6() {
    let server = RedisServer::builder().arg("--bind").arg("127.0.0.1").arg("::1").start();
    let connector = format!("redis://[::1]:{}", server.port()).into_connector().unwrap();
    let connection = connector.connect(&Hub::default()).await.unwrap();
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}

#[tokio::test]
async fn a_flush_completes_all_watches() {
    let server = RedisServer::start();
    let node = node(server.url(), &Options::tokio()).unwrap();
    for flush in ["FLUSHALL", "FLUSHDB"] {
        server.command(&["SET", "a", "theirs"]);
        let watch = async |name| node.watch(&Resource::new(name).unwrap()).await.unwrap().changed;
        let (taken, free) = (watch("a").await, watch("b").await);
        server.command(&[flush]);
        soon(taken).await;
        soon(free).await;
    }
}
