//! A server that sends replies without end. A client must give its connection up, within a bounded number of bytes.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::process::Command;
use std::time::Duration;

use redlock_wire::{Command as Request, Connection, Connector, Hub, Reply};

use crate::adapter::{self, IntoConnector};
use crate::scripted::{Answer, Floods, Scripted, greet};

/// Far above what anything here takes; what runs into it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Replies that never end: how they begin, and what follows again and again.
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

/// Replies that are nested without end.
const NESTED: &[(&str, &str)] =
    &[("", "*1\r\n"), ("", ">1\r\n"), ("", "~1\r\n"), ("%1\r\n+a\r\n", "*1\r\n"), ("", "|1\r\n+a\r\n+b\r\n")];

/// Endless replies in the place of the first one: before any login.
async fn before_login((first, rest): (&'static str, &'static str)) {
    let server = Scripted::start(move |_| Answer::Flood(first, rest)).await;
    let connector = format!("redis://127.0.0.1:{}", server.port()).into_connector().unwrap();
    assert!(soon(connector.connect(&Hub::default())).await.is_err(), "{first:?} {rest:?}");
    stopped(&server, first, rest).await;
}

/// Endless replies that nobody asked for, over a connection that is idle.
async fn while_idle((first, rest): (&'static str, &'static str)) {
    let echo: &'static str = format!("+a\r\n{first}").leak();
    let server = Scripted::start(move |command| match command {
        "ECHO a" => Answer::Flood(echo, rest),
        _ => greet(command).unwrap_or(Answer::Say("+OK\r\n")),
    })
    .await;
    let connection = connected(&server).await;
    // The reply may already be lost to what follows it.
    let _reply = soon(connection.call(echo_a())).await;
    soon(connection.lost()).await;
    assert!(soon(connection.call(echo_a())).await.is_err());
    stopped(&server, first, rest).await;
}

async fn connected(server: &Scripted) -> adapter::Connection {
    let connector = format!("redis://127.0.0.1:{}", server.port()).into_connector().unwrap();
    soon(connector.connect(&Hub::default())).await.unwrap()
}

fn echo_a() -> <adapter::Connection as Connection>::Packed {
    adapter::Connection::pack(Request::Other { name: "ECHO", args: &[b"a"] })
}

/// Waits until the server has noticed that the client is gone, which must be before all of the flood was read.
async fn stopped(server: &Scripted, first: &str, rest: &str) {
    soon(async {
        while server.floods() == Floods::default() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(Floods { stopped: 1, swallowed: 0 }, server.floods(), "{first:?} {rest:?}");
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

#[tokio::test]
async fn an_endless_reply_before_the_login_ends_the_connection() {
    for reply in ENDLESS {
        before_login(*reply).await;
    }
}

#[tokio::test]
async fn an_endless_reply_on_an_idle_connection_ends_it() {
    for reply in ENDLESS {
        while_idle(*reply).await;
    }
}

/// A stack that overflows aborts the process, so another one runs the next test.
#[test]
fn a_reply_that_is_nested_without_end_ends_the_connection() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "hostile::survives_replies_that_are_nested_without_end",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("1 passed"), "{}\n{said}\n{complained}", run.status);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test above, in a process of its own"]
async fn survives_replies_that_are_nested_without_end() {
    for reply in NESTED {
        before_login(*reply).await;
        while_idle(*reply).await;
    }
}

/// What is large, but bounded, is none of that.
#[tokio::test]
async fn large_replies_are_read() {
    let text = "x".repeat(1_000_000);
    let reply: &'static str = format!("${}\r\n{text}\r\n", text.len()).leak();
    let server = Scripted::start(move |command| match command {
        "ECHO a" => Answer::Say(reply),
        _ => greet(command).unwrap_or(Answer::Say("+OK\r\n")),
    })
    .await;
    let connection = connected(&server).await;
    for _ in 0..3 {
        assert_eq!(Reply::Bytes(text.clone().into_bytes()), soon(connection.call(echo_a())).await.unwrap());
    }
}
