//! One connection: its requests, its replies, and its end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::poll_immediate;
use redlock_testkit::RedisServer;
use redlock_wire::{Connection, Connector, Hub, Reply, Sent};
use tokio::runtime::Handle;

use crate::Adapter;
use crate::requests::{bytes, call, clients, only_client, other, pipeline, set};
use crate::scripted::{Answer, Scripted, greet};
use crate::servers::one_thread;
use crate::wait::{soon, until};

async fn connect<A: Adapter>(port: u16) -> <A::Connector as Connector>::Connection {
    let connector = A::connector(format!("redis://127.0.0.1:{port}")).unwrap();
    connector.connect(None, &Hub::default()).await.unwrap()
}

fn started_with(args: &[&str]) -> RedisServer {
    args.iter().fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start()
}

pub(crate) async fn set_if_absent_and_its_replies<A: Adapter>() {
    let server = RedisServer::start();
    let connection = connect::<A>(server.port()).await;
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

pub(crate) async fn a_pipeline_returns_every_reply_even_if_one_is_an_error<A: Adapter>() {
    let server = RedisServer::start();
    let connection = connect::<A>(server.port()).await;
    let wrong = other("EVALSHA", &[b"ffffffffffffffffffffffffffffffffffffffff", b"0"]);
    let replies =
        pipeline(&connection, &[set(b"a", b"1", false), wrong, other("GET", &[b"a"])]).await.unwrap();

    let [done, Reply::Error(error), value] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((&bytes("OK"), &bytes("1")), (done, value));
    assert!(error.starts_with("NOSCRIPT "), "{error}");
    assert!(matches!(&pipeline(&connection, &[wrong]).await.unwrap()[..], [Reply::Error(_)]));
    assert!(pipeline(&connection, &[]).await.unwrap().is_empty());
}

pub(crate) async fn a_dropped_connection_leaves_neither_task_nor_socket<A: Adapter>() {
    let server = RedisServer::start();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..100 {
        let connection = connect::<A>(server.port()).await;
        call(&connection, set(b"k", b"v", false)).await.unwrap();
        assert!(tasks() > before);
    }
    until(async || tasks() == before).await;
    until(async || clients(&server).is_empty()).await;
}

pub(crate) async fn a_lost_connection_fails_its_requests_in_flight_and_all_later_ones<A: Adapter>() {
    let server = RedisServer::start();
    let connection = connect::<A>(server.port()).await;
    server.pause();
    let in_flight = call(&connection, set(b"k", b"v", false));
    let (outcome, ()) = soon(async {
        tokio::join!(Box::pin(in_flight), async {
            tokio::task::yield_now().await; // sends the request
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

pub(crate) fn requests_fail_with_the_runtime_of_their_connection<A: Adapter>() {
    // The server has a runtime that needs no driving.
    let other_runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let script = |command: &str| greet(command).unwrap_or(Answer::Nothing);
    let server = other_runtime.block_on(Scripted::start(script));
    let runtime = one_thread();
    let connection = runtime.block_on(connect::<A>(server.port()));
    let command = set(b"k", b"v", true);
    let both = [command, command];
    let (mut sent, mut sent_together, mut queued) = (
        Box::pin(call(&connection, command)),
        Box::pin(pipeline(&connection, &both)),
        Box::pin(call(&connection, command)),
    );
    runtime.block_on(async {
        assert!(poll_immediate(&mut sent).await.is_none());
        assert!(poll_immediate(&mut sent_together).await.is_none());
        until(async || server.seen("SET") == 3).await;
        assert!(poll_immediate(&mut queued).await.is_none());
    });
    drop(runtime);
    other_runtime.block_on(async {
        let later = soon(call(&connection, command)).await.map(drop);
        let outcomes = [
            soon(sent).await.map(drop),
            soon(sent_together).await.map(drop),
            soon(queued).await.map(drop),
            later,
        ];
        let failures = outcomes.map(Result::unwrap_err);
        for failure in &failures {
            assert_eq!("the runtime that opened the connection has shut down", failure.message);
        }
        let [sent, sent_together, _queued, later] = failures.map(|failure| failure.sent);
        assert_eq!([Sent::Maybe, Sent::Maybe, Sent::No], [sent, sent_together, later]);
    });
}

pub(crate) async fn a_command_whose_reply_is_lost_is_never_sent_again<A: Adapter>() {
    let server = Scripted::start(|command| greet(command).unwrap_or(Answer::HangUp)).await;
    for commands in [vec![set(b"k", b"v", true)], vec![set(b"k", b"v", true), other("GET", &[b"k"])]] {
        let connection = connect::<A>(server.port()).await;
        let (sent, connected) = (server.seen("SET"), server.seen("HELLO"));
        let failure = soon(pipeline(&connection, &commands)).await.unwrap_err();
        assert_eq!(Sent::Maybe, failure.sent);
        soon(connection.lost()).await;
        assert_eq!((sent + 1, connected), (server.seen("SET"), server.seen("HELLO")));
    }
}

pub(crate) async fn a_dropped_call_does_not_disturb_those_after_it<A: Adapter>() {
    let server = RedisServer::start();
    let connection = connect::<A>(server.port()).await;
    for round in 0..100 {
        let dropped = call(&connection, other("ECHO", &[b"dropped"]));
        let mut dropped = pin!(dropped);
        assert!(poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx).is_pending())).await);
        let text = format!("{round}");
        assert_eq!(bytes(&text), call(&connection, other("ECHO", &[text.as_bytes()])).await.unwrap());
    }
}

pub(crate) async fn speaks_resp3_and_falls_back_to_resp2_if_hello_is_rejected<A: Adapter>() {
    let server = RedisServer::start();
    let connection = connect::<A>(server.port()).await;
    assert!(only_client(&server).await.contains(" resp=3"));
    drop(connection);

    let old = started_with(&["--rename-command", "HELLO", ""]);
    let connection = connect::<A>(old.port()).await;
    assert!(only_client(&old).await.contains(" resp=2"));
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
    assert_eq!(Reply::Nil, call(&connection, other("GET", &[b"none"])).await.unwrap());

    let denying = Scripted::start(|command| match command.split(' ').next() {
        Some("HELLO") => Answer::Say("-ERR unknown command 'HELLO'\r\n"),
        Some("SET") => Answer::Say("+OK\r\n"),
        _ => greet(command).unwrap_or(Answer::HangUp),
    })
    .await;
    let connection = connect::<A>(denying.port()).await;
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}

pub(crate) async fn connects_over_ipv6<A: Adapter>() {
    let server = started_with(&["--bind", "127.0.0.1", "::1"]);
    let connector = A::connector(format!("redis://[::1]:{}", server.port())).unwrap();
    let connection = connector.connect(None, &Hub::default()).await.unwrap();
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}
