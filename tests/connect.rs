//! An attempt to connect that is given up, wherever it has got to, leaves no connection and no task behind.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::adapter::{Connection, Connector, IntoConnector};
use crate::scripted::{Answer, Scripted};
use redlock_testkit::RedisServer;
use redlock_wire::{Connector as _, Failure, Hub};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Far above what anything here takes; what runs into it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many attempts in each way, dropped at one point after the other.
const ATTEMPTS: u32 = 50;

fn connector(port: u16) -> Connector {
    format!("redis://127.0.0.1:{port}").into_connector().unwrap()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Those of the server, but for the one that asks.
fn clients(server: &RedisServer) -> usize {
    server.command(&["CLIENT", "LIST"]).lines().count() - 1
}

/// Waits for what other tasks or the server have to do first.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("it does not come to that: {what}"));
}

/// Lets everything take a turn, and then the attempt. What has come of it.
async fn turn(
    attempt: Pin<&mut impl Future<Output = Result<Connection, Failure>>>,
) -> Option<Result<Connection, Failure>> {
    yield_now().await;
    let mut attempt = attempt;
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Goes on with an attempt for `turns` at most, and drops it with whatever it has come to. How many it took, if it has.
async fn attempt(connector: &Connector, turns: u32) -> Option<u32> {
    let hub = Hub::default();
    let mut attempt = pin!(connector.connect(&hub));
    for turns in 1..=turns {
        if let Some(outcome) = turn(attempt.as_mut()).await {
            assert!(outcome.is_ok(), "{outcome:?}");
            return Some(turns);
        }
    }
    None
}

/// Goes on with an attempt until the server has accepted it, and for some turns more, and drops it.
async fn accepted_attempt(connector: &Connector, server: &RedisServer, more: u32) {
    until("those before it are gone", || clients(server) == 0).await;
    let hub = Hub::default();
    let mut attempt = pin!(connector.connect(&hub));
    while clients(server) == 0 {
        let outcome = turn(attempt.as_mut()).await;
        assert!(outcome.is_none(), "{outcome:?} before there was a connection");
    }
    for _ in 0..more {
        if turn(attempt.as_mut()).await.is_some() {
            return;
        }
    }
}

/// On a runtime of one thread, whose turns are the same for the client's tasks as for the attempt.
async fn leaves_nothing_on(server: &RedisServer) {
    let (connector, before) = (connector(server.port()), tasks());
    let mut shortest = timeout(PATIENCE, attempt(&connector, u32::MAX)).await.expect("it hangs").unwrap();
    let mut dropped = 0;
    while dropped < ATTEMPTS {
        // Whoever is served sooner than ever before moves the points that are left.
        match attempt(&connector, shortest * dropped / ATTEMPTS).await {
            Some(turns) => shortest = turns,
            None => dropped += 1,
        }
    }
    for number in 0..ATTEMPTS {
        timeout(PATIENCE, accepted_attempt(&connector, server, number % 5)).await.expect("it hangs");
    }
    until("its tasks are gone", || tasks() == before).await;
    until("its connections are gone", || clients(server) == 0).await;
}

#[tokio::test]
async fn an_attempt_that_is_dropped_anywhere_leaves_nothing() {
    leaves_nothing_on(&RedisServer::start()).await;
}

#[tokio::test]
async fn nor_does_one_that_falls_back_to_resp2() {
    leaves_nothing_on(&RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start()).await;
}

#[tokio::test]
async fn an_attempt_at_a_server_that_never_answers_leaves_nothing() {
    let silent = Scripted::start(|_| Answer::Nothing).await;
    let (connector, before) = (connector(silent.port()), tasks());
    for number in 0..ATTEMPTS {
        let (hub, asked) = (Hub::default(), silent.seen(""));
        let mut attempt = pin!(connector.connect(&hub));
        // The first half in the first turns, the others when the server waits in vain for the next word.
        let mut turns = 0;
        while if number < ATTEMPTS / 2 { turns < number } else { silent.seen("") == asked } {
            let outcome = timeout(PATIENCE, turn(attempt.as_mut())).await.expect("it hangs");
            assert!(outcome.is_none(), "{outcome:?}");
            turns += 1;
        }
    }
    assert!(silent.seen("") >= (ATTEMPTS / 2) as usize);
    // One of them for each connection is the server's: it ends when the client has closed.
    until("its tasks are gone, and its connections", || tasks() == before).await;
}
