//! One connection of fred: its requests, its replies, and its end.
#![allow(clippy::unwrap_used)] // a panic is a failed test

use fred::types::config::{Config, ServerConfig};
use futures_util::future::poll_immediate;
use redlock_adapter_tests::requests::{bytes, call, other, pipeline, set};
use redlock_adapter_tests::scripted::{Answer, Scripted, greet};
use redlock_adapter_tests::wait::{soon, until};
use redlock_fred::{Connection, Connector, IntoConnector, Options};
use redlock_testkit::{RedisServer, watching};
use redlock_wire::{Connection as _, Connector as _, Hub, Reply, Sent};
use tokio::runtime::Handle;

fn config(port: u16) -> Config {
    Config { server: ServerConfig::new_centralized("127.0.0.1", port), ..Config::default() }
}

fn connector(port: u16) -> Connector {
    config(port).into_connector(&Options::tokio()).unwrap()
}

/// Opens a connection in each way: without a relay, and over one.
async fn connect_each_way(config: Config) -> Vec<Connection> {
    let options = Options::tokio();
    let mut connectors = vec![config.clone().into_connector(&options).unwrap()];
    #[cfg(all(feature = "relay", any(target_os = "linux", target_os = "android")))]
    connectors.push(redlock_fred::relayed(config).into_connector(&options).unwrap());
    let mut connections = Vec::new();
    for connector in connectors {
        connections.push(connector.connect(None, &Hub::default()).await.unwrap());
    }
    connections
}

async fn connect(port: u16) -> Connection {
    connector(port).connect(None, &Hub::default()).await.unwrap()
}

fn started_with(args: &[&str]) -> RedisServer {
    args.iter().fold(RedisServer::builder(), |builder, arg| builder.arg(*arg)).start()
}

#[tokio::test]
async fn replies_of_every_shape() {
    let server = RedisServer::start();
    for connection in connect_each_way(config(server.port())).await {
        let eval =
            async |script: &str| call(&connection, other("EVAL", &[script.as_bytes(), b"0"])).await.unwrap();

        let nested =
            Reply::Array(vec![Reply::Int(-1), bytes("a"), Reply::Nil, Reply::Array(vec![bytes("QUEUED")])]);
        assert_eq!(nested, eval("return {-1, 'a', false, {redis.status_reply('QUEUED')}}").await);
        let map = Reply::Array(vec![bytes("k"), Reply::Int(1)]);
        assert_eq!(map, eval("redis.setresp(3) return {map = {k = true}}").await);
        assert_eq!(bytes("1.5"), eval("redis.setresp(3) return {double = 1.5}").await);
        assert_eq!(
            Reply::Error("CUSTOM is wrong".into()),
            eval("return redis.error_reply('CUSTOM is wrong')").await
        );
    }
}

#[tokio::test]
async fn the_first_poll_of_a_call_queues_its_command() {
    let server = RedisServer::start();
    for connection in connect_each_way(config(server.port())).await {
        assert!(connection.queues_at_first_poll());
        server.command(&["DEL", "k"]);
        assert!(poll_immediate(call(&connection, set(b"k", b"v", false))).await.is_none());
        assert_eq!(bytes("v"), call(&connection, other("GET", &[b"k"])).await.unwrap());
    }
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
async fn a_dropped_attempt_to_connect_leaves_no_task() {
    let silent = Scripted::start(|_| Answer::Nothing).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    {
        let (connector, hub) = (connector(silent.port()), Hub::default());
        let mut attempt = std::pin::pin!(connector.connect(None, &hub));
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
async fn after_clusterdown_the_outcome_of_requests_in_flight_is_unknown() {
    let down = "-CLUSTERDOWN Hash slot not served\r\n";
    let server = Scripted::start(move |command| greet(command).unwrap_or(Answer::Say(down))).await;
    for connection in connect_each_way(config(server.port())).await {
        assert_eq!(Sent::Maybe, soon(call(&connection, set(b"k", b"v", false))).await.unwrap_err().sent);
        soon(connection.lost()).await;
    }
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
        ..config(server.port())
    };
    for connection in connect_each_way(config).await {
        assert_eq!(bytes("ann"), call(&connection, other("ACL", &[b"WHOAMI"])).await.unwrap());
        assert_eq!(bytes("OK"), call(&connection, other("SET", &[b"k", b"v"])).await.unwrap());
    }
    assert!(server.command(&["INFO", "keyspace"]).contains("db3:keys=1"));
    assert_eq!("0", server.command(&["EXISTS", "k"]), "database 0 has no key");
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_failed_connect_states_the_reason_without_the_password() {
    use redlock_fred::node::{LockNode, NodeErrorKind, Request};
    use redlock_fred::{Resource, node};

    let rejected = async |server: RedisServer, password: &'static str| {
        let config = Config {
            password: Some(password.into()),
            server: ServerConfig::new_centralized("127.0.0.1", server.port()),
            ..Config::default()
        };
        let node = node(config, &Options::tokio()).unwrap();
        let error = node.call(Request::Inspect(Resource::new("a").unwrap())).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unavailable, error.kind());
        assert!(!error.to_string().contains(password) && !error.to_string().contains('\n'), "{error}");
        error.to_string()
    };
    assert!(rejected(RedisServer::builder().password("right").start(), "wr0ng").await.contains("WRONGPASS"));
    let no_auth = started_with(&["--rename-command", "AUTH", ""]);
    assert!(rejected(no_auth, "hunter2").await.contains("unknown command"));

    let port = RedisServer::start().port(); // the server is gone after this
    let gone = connector(port).connect(None, &Hub::default()).await.err().unwrap();
    assert_eq!(Sent::No, gone.sent);
    assert!(gone.message.contains("Connection refused"), "{}", gone.message);
}

#[cfg(unix)]
#[tokio::test]
async fn connects_over_a_unix_socket() {
    let server = RedisServer::builder().unix_socket().start();
    let path = server.socket().unwrap();
    let connector = format!("unix://{}", path.display()).into_connector(&Options::tokio()).unwrap();
    let connection = connector.connect(None, &Hub::default()).await.unwrap();
    assert_eq!(bytes("OK"), call(&connection, set(b"k", b"v", false)).await.unwrap());
}

/// fred does not report this push. If it does one day, this fails, and `push` can be simplified.
#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_flush_is_not_reported_and_does_not_affect_later_watches() {
    use redlock_fred::node::{LockNode, Request};
    use redlock_fred::{Resource, node};

    let server = RedisServer::start();
    let node = node(server.url(), &Options::tokio()).unwrap();
    let watch = async |name| watching(node.call(Request::Watch(Resource::new(name).unwrap())).await.unwrap());
    server.command(&["SET", "a", "other"]);
    let flushed = watch("a").await;
    server.command(&["FLUSHALL"]);
    let later = watch("a").await;
    assert!(poll_immediate(flushed.changed).await.is_none());
    server.command(&["SET", "a", "other"]);
    soon(later.changed).await;
}
