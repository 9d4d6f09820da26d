//! A connection attempt that is dropped at any point leaves no connection and no task behind.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use redlock_testkit::RedisServer;
use redlock_wire::{Connector, Failure, Hub};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::Adapter;
use crate::scripted::{Answer, Scripted};
use crate::wait::{PATIENCE, eventually};

/// The number of attempts of each kind, each dropped at a later point.
const ATTEMPTS: u32 = 50;

fn connector<A: Adapter>(port: u16) -> A::Connector {
    A::connector(format!("redis://127.0.0.1:{port}")).unwrap()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Returns the number of clients of the server, except the one that runs this query.
fn clients(server: &RedisServer) -> usize {
    server.command(&["CLIENT", "LIST"]).lines().count() - 1
}

/// Lets all other tasks run, then polls the attempt. Returns its output if it is ready.
async fn poll_in_turn<C>(
    attempt: Pin<&mut impl Future<Output = Result<C, Failure>>>,
) -> Option<Result<C, Failure>> {
    yield_now().await;
    let mut attempt = attempt;
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Polls an attempt at most `turns` times and drops it. Returns the number of polls if it was completed.
async fn attempt<A: Adapter>(connector: &A::Connector, turns: u32) -> Option<u32> {
    let hub = Hub::default();
    let mut attempt = pin!(connector.connect(None, &hub));
    for turns in 1..=turns {
        if let Some(outcome) = poll_in_turn(attempt.as_mut()).await {
            assert!(outcome.is_ok(), "{outcome:?}");
            return Some(turns);
        }
    }
    None
}

/// Polls an attempt until the server has accepted its connection, then `more` times, and drops it.
async fn accepted_attempt<A: Adapter>(connector: &A::Connector, server: &RedisServer, more: u32) {
    eventually("earlier connections are closed", PATIENCE, async || clients(server) == 0).await;
    let hub = Hub::default();
    let mut attempt = pin!(connector.connect(None, &hub));
    while clients(server) == 0 {
        let outcome = poll_in_turn(attempt.as_mut()).await;
        assert!(outcome.is_none(), "{outcome:?} before the server accepted a connection");
    }
    for _ in 0..more {
        if poll_in_turn(attempt.as_mut()).await.is_some() {
            return;
        }
    }
}

/// Drops attempts at all points. The runtime has one thread, which polls the attempt and the tasks of the client in turn.
async fn leaves_nothing_on<A: Adapter>(server: &RedisServer) {
    let (connector, before) = (connector::<A>(server.port()), tasks());
    let mut shortest =
        timeout(PATIENCE, attempt::<A>(&connector, u32::MAX)).await.expect("the future hangs").unwrap();
    let mut dropped = 0;
    while dropped < ATTEMPTS {
        // An attempt may complete faster than all earlier ones. The remaining points are then chosen again.
        match attempt::<A>(&connector, shortest * dropped / ATTEMPTS).await {
            Some(turns) => shortest = turns,
            None => dropped += 1,
        }
    }
    for number in 0..ATTEMPTS {
        timeout(PATIENCE, accepted_attempt::<A>(&connector, server, number % 5))
            .await
            .expect("the future hangs");
    }
    eventually("its tasks end", PATIENCE, async || tasks() == before).await;
    eventually("its connections are closed", PATIENCE, async || clients(server) == 0).await;
}

pub(crate) async fn an_attempt_that_is_dropped_anywhere_leaves_nothing<A: Adapter>() {
    leaves_nothing_on::<A>(&RedisServer::start()).await;
}

pub(crate) async fn a_dropped_attempt_that_falls_back_to_resp2_leaves_nothing<A: Adapter>() {
    leaves_nothing_on::<A>(&RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start())
        .await;
}

pub(crate) async fn an_attempt_at_a_server_that_never_replies_leaves_nothing<A: Adapter>() {
    let silent = Scripted::start(|_| Answer::Nothing).await;
    let (connector, before) = (connector::<A>(silent.port()), tasks());
    for number in 0..ATTEMPTS {
        let (hub, commands) = (Hub::default(), silent.seen(""));
        let mut attempt = pin!(connector.connect(None, &hub));
        // One half is dropped in the first turns, the other half while the client waits for a reply.
        let mut turns = 0;
        while if number < ATTEMPTS / 2 { turns < number } else { silent.seen("") == commands } {
            let outcome = timeout(PATIENCE, poll_in_turn(attempt.as_mut())).await.expect("the future hangs");
            assert!(outcome.is_none(), "{outcome:?}");
            turns += 1;
        }
    }
    assert!(silent.seen("") >= (ATTEMPTS / 2) as usize);
    // The scripted server has one task for each connection, which ends when the client has closed it.
    eventually("its tasks end and its connections are closed", PATIENCE, async || tasks() == before).await;
}
