//! A server that sends endless replies. A client must close its connection after a bounded number of bytes.

use std::process::Command;
use std::time::Duration;

use redlock_wire::{Command as Request, Connection, Connector, Hub, Reply};

use crate::Adapter;
use crate::scripted::{Answer, Floods, Scripted, greet};

/// The time after which a test counts as hung. A flood takes longer than other replies.
const PATIENCE: Duration = Duration::from_secs(60);

/// Endless replies: the first bytes, and the bytes that are repeated.
const ENDLESS: &[(&str, &str)] = &[
    ("*1000000000\r\n", ":1\r\n"),
    ("*1000000000\r\n", "_\r\n"),
    ("*1000000000\r\n", "$-1\r\n"),
    (">1000000000\r\n", ":1\r\n"),
    ("%1000000000\r\n", "+a\r\n:1\r\n"),
    ("*300000\r\n", "$20\r\n01234567890123456789\r\n"),
    ("$100000000000\r\n", "x"),
    ("+", "x"),
    (":", "1"),
];

/// Replies with endless nesting.
const NESTED: &[(&str, &str)] =
    &[("", "*1\r\n"), ("", ">1\r\n"), ("", "~1\r\n"), ("%1\r\n+a\r\n", "*1\r\n"), ("", "|1\r\n+a\r\n+b\r\n")];

/// Sends an endless reply in place of the first one, before any login.
async fn before_login<A: Adapter>((first, rest): (&'static str, &'static str)) {
    let server = Scripted::start(move |_| Answer::Flood(first, rest)).await;
    let connector = connector::<A>(&server);
    assert!(soon(connector.connect(None, &Hub::default())).await.is_err(), "{first:?} {rest:?}");
    stopped(&server, first, rest).await;
}

/// Sends an endless reply on an idle connection.
async fn while_idle<A: Adapter>((first, rest): (&'static str, &'static str)) {
    let echo: &'static str = format!("+a\r\n{first}").leak();
    let server = Scripted::start(move |command| match command {
        "ECHO a" => Answer::Flood(echo, rest),
        _ => greet(command).unwrap_or(Answer::Say("+OK\r\n")),
    })
    .await;
    let connection = connected::<A>(&server).await;
    // The flood may already have ended the connection.
    let _reply = soon(connection.call(echo_a::<A>())).await;
    soon(connection.lost()).await;
    assert!(soon(connection.call(echo_a::<A>())).await.is_err());
    stopped(&server, first, rest).await;
}

fn connector<A: Adapter>(server: &Scripted) -> A::Connector {
    A::connector(format!("redis://127.0.0.1:{}", server.port())).unwrap()
}

type ConnectionOf<A> = <<A as Adapter>::Connector as Connector>::Connection;

async fn connected<A: Adapter>(server: &Scripted) -> ConnectionOf<A> {
    soon(connector::<A>(server).connect(None, &Hub::default())).await.unwrap()
}

fn echo_a<A: Adapter>() -> <ConnectionOf<A> as Connection>::Packed {
    ConnectionOf::<A>::pack(Request::Other { name: "ECHO", args: &[b"a"] })
}

/// Waits until the server has noticed the end of the connection. The client must not have read the whole flood.
async fn stopped(server: &Scripted, first: &str, rest: &str) {
    soon(async {
        while server.floods() == Floods::default() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(Floods { stopped: 1, read_completely: 0 }, server.floods(), "{first:?} {rest:?}");
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the future hangs")
}

pub(crate) async fn an_endless_reply_before_the_login_ends_the_connection<A: Adapter>() {
    for reply in ENDLESS {
        before_login::<A>(*reply).await;
    }
}

pub(crate) async fn an_endless_reply_on_an_idle_connection_ends_it<A: Adapter>() {
    for reply in ENDLESS {
        while_idle::<A>(*reply).await;
    }
}

/// A stack overflow aborts the process, so the next test runs in another one.
pub(crate) fn an_endlessly_nested_reply_ends_the_connection<A: Adapter>() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["hostile::survives_endlessly_nested_replies", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && output.contains("1 passed"), "{}\n{output}\n{errors}", run.status);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn survives_endlessly_nested_replies<A: Adapter>() {
    for reply in NESTED {
        before_login::<A>(*reply).await;
        while_idle::<A>(*reply).await;
    }
}

/// Large replies within the limits are valid.
pub(crate) async fn large_replies_are_read<A: Adapter>() {
    let text = "x".repeat(1_000_000);
    let reply: &'static str = format!("${}\r\n{text}\r\n", text.len()).leak();
    let server = Scripted::start(move |command| match command {
        "ECHO a" => Answer::Say(reply),
        _ => greet(command).unwrap_or(Answer::Say("+OK\r\n")),
    })
    .await;
    let connection = connected::<A>(&server).await;
    for _ in 0..3 {
        assert_eq!(
            Reply::Bytes(text.clone().into_bytes()),
            soon(connection.call(echo_a::<A>())).await.unwrap()
        );
    }
}
