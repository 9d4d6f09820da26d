//! One connection of the redis client: its requests, its replies, and its end.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is a failed test

use redlock_adapter_tests::requests::{bytes, call, other, set};
use redlock_adapter_tests::scripted::{Answer, Scripted, greet};
use redlock_adapter_tests::wait::soon;
use redlock_redis_rs::node::{LockNode, NodeErrorKind, Request};
use redlock_redis_rs::{Connection, Connector, IntoConnector, Options, Resource, node};
use redlock_testkit::{RedisServer, watching};
use redlock_wire::{Connection as _, Connector as _, Hub, Sent};

fn connector(port: u16) -> Connector {
    format!("redis://127.0.0.1:{port}").into_connector(&Options::tokio()).unwrap()
}

async fn connect(port: u16) -> Connection {
    connector(port).connect(None, &Hub::default()).await.unwrap()
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
async fn invalid_data_from_the_server_ends_the_connection() {
    let server = Scripted::start(|command| greet(command).unwrap_or(Answer::Say("?!\r\n"))).await;
    let connection = connect(server.port()).await;
    assert_eq!(Sent::Maybe, soon(call(&connection, set(b"k", b"v", true))).await.unwrap_err().sent);
    soon(connection.lost()).await;
}

#[tokio::test]
async fn a_loss_is_detected_without_a_command() {
    let servers = [
        RedisServer::start(),
        // RESP2 only.
        RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start(),
    ];
    for (server, pushes) in servers.into_iter().zip([true, false]) {
        let connection = connect(server.port()).await;
        assert_eq!(pushes, connection.pushes());
        server.kill();
        soon(connection.lost()).await;
        assert_eq!(Sent::No, call(&connection, other("GET", &[b"k"])).await.unwrap_err().sent);
    }
}

#[tokio::test]
async fn a_failed_connect_states_the_reason_without_the_password() {
    let rejected = |server: RedisServer, password: &'static str| async move {
        let node =
            node(format!("redis://:{password}@127.0.0.1:{}", server.port()), &Options::tokio()).unwrap();
        let error = node.call(Request::Inspect(Resource::new("a").unwrap())).await.unwrap_err();
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
    let gone = connector(server.port()).connect(None, &Hub::default()).await.expect_err("it connects");
    assert_eq!(Sent::No, gone.sent);
    assert!(gone.message.contains("refused"), "{}", gone.message);
}

#[tokio::test]
async fn logs_in_with_any_password() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "ann", "on", ">two words, a \" and a \r\n", "~*", "+@all"]);
    let url = format!("redis://ann:two%20words,%20a%20%22%20and%20a%20%0D%0A@127.0.0.1:{}/3", server.port());
    let connection =
        url.into_connector(&Options::tokio()).unwrap().connect(None, &Hub::default()).await.unwrap();
    assert_eq!(bytes("ann"), call(&connection, other("ACL", &[b"WHOAMI"])).await.unwrap());
}

#[tokio::test]
async fn a_flush_completes_all_watches() {
    let server = RedisServer::start();
    let node = node(server.url(), &Options::tokio()).unwrap();
    for flush in ["FLUSHALL", "FLUSHDB"] {
        server.command(&["SET", "a", "theirs"]);
        let watch =
            async |name| watching(node.call(Request::Watch(Resource::new(name).unwrap())).await.unwrap());
        let (taken, free) = (watch("a").await, watch("b").await);
        server.command(&[flush]);
        soon(taken.changed).await;
        soon(free.changed).await;
    }
}
