//! Tests of dropped calls, of the order of a connection, and of the label.
//!
//! Each call may be dropped at any await.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use redlock_core::node::{NodeErrorKind, Reply, Request};
use redlock_core::{FencingToken, IntoResource};

use super::stage::{BROKEN, Stage, begin, claim, granted, holds_true, hour, join_all, millis, poll_once};

const WHOLE: &str = "a call that is dropped is carried out as a whole or not at all";
const USABLE: &str = "a call that is dropped leaves the node usable";
const ORDER: &str = "the requests of one connection are carried out in the order of their first polls";

/// The numbers of polls before a call is dropped: none, one, and more with some time in between.
const POLLS: Range<usize> = 0..8;

/// Many times the duration of a connection attempt.
const RECOVERY: Duration = Duration::from_secs(3);

/// Polls a call `polls` times with a little time in between, and drops it.
async fn call_and_drop(stage: &Stage, polls: usize, call: impl Future) {
    let mut call = Box::pin(call);
    for _ in 0..polls {
        if poll_once(&mut call).await.is_some() {
            return;
        }
        stage.runtime.sleep(Duration::from_micros(50)).await;
    }
}

pub(crate) async fn a_dropped_acquire_is_atomic(stage: &Stage) {
    for polls in POLLS {
        let names = ["a", "b", "c"].map(|name| format!("{polls}-{name}"));
        let alice = claim(names.clone(), "alice");
        call_and_drop(stage, polls, stage.node.call(Request::Acquire(alice.clone(), hour()))).await;
        // Each free resource is acquired at once, so a late request finds all of them free or is denied.
        let mut free = Vec::new();
        for name in &names {
            free.push(stage.acquire(&claim(name, "bob"), hour()).await == Reply::Granted);
        }
        assert!(free.iter().all(|one| *one == free[0]), "{BROKEN}{WHOLE}\n  free are {free:?}");
    }
}

pub(crate) async fn a_dropped_release_is_atomic(stage: &Stage) {
    for polls in POLLS {
        let names = ["a", "b", "c"].map(|name| format!("{polls}-{name}"));
        let alice = claim(names.clone(), "alice");
        granted(stage.acquire(&alice, hour()).await, USABLE);
        call_and_drop(stage, polls, stage.node.call(Request::Release(alice.clone()))).await;
        // A denial means that the release was carried out on all resources.
        if stage.extend(&alice, hour()).await != Reply::Granted {
            for name in &names {
                holds_true(stage.is_free(name).await, WHOLE);
            }
        }
    }
}

pub(crate) async fn a_dropped_extend_is_atomic(stage: &Stage) {
    let mut pairs = Vec::new();
    for polls in POLLS {
        let names = [format!("{polls}-a"), format!("{polls}-b")];
        let alice = claim(names.clone(), "alice");
        stage.acquire(&alice, millis(300)).await;
        call_and_drop(stage, polls, stage.node.call(Request::Extend(alice.clone(), hour()))).await;
        pairs.push(names);
    }
    // Resources that were not extended have expired by now, and late requests are denied.
    stage.pause(400).await;
    for [first, second] in pairs {
        let free = [stage.is_free(&first).await, stage.is_free(&second).await];
        assert!(free[0] == free[1], "{BROKEN}{WHOLE}\n  one resource was extended and the other was not");
    }
}

pub(crate) async fn dropped_calls_leave_the_node_usable(stage: &Stage) {
    for round in 0..100 {
        let alice = claim(format!("{round}"), "alice");
        call_and_drop(stage, round % 3, stage.node.call(Request::Acquire(alice.clone(), hour()))).await;
        call_and_drop(stage, round % 2, stage.node.call(Request::Extend(alice.clone(), hour()))).await;
        call_and_drop(stage, round % 3, stage.node.call(Request::Release(alice.clone()))).await;
    }
    // A node may take a series of dropped calls for a hung server, and reconnect.
    let (bob, dropped) = (claim("bob's", "bob"), stage.runtime.now());
    while let Err(error) = stage.node.call(Request::Acquire(bob.clone(), hour())).await {
        let passed = stage.runtime.now().saturating_duration_since(dropped);
        assert!(passed < RECOVERY, "{BROKEN}{USABLE}\n  the node still fails {passed:?} later: {error:?}");
        stage.pause(10).await;
    }
    let claims: Vec<_> = (0..100).map(|number| claim(format!("after-{number}"), "bob")).collect();
    for vote in join_all(claims.iter().map(|claim| stage.acquire(claim, hour()))).await {
        granted(vote, USABLE);
    }
}

pub(crate) async fn a_request_dropped_before_its_first_poll_is_not_sent(stage: &Stage) {
    let names = ["a", "b", "c"];
    for name in names {
        drop(begin(&*stage.node, &Request::Acquire(claim(name, "alice"), hour())).await);
    }
    stage.pause(100).await;
    for name in names {
        holds_true(stage.is_free(name).await, "nothing is sent before the first poll of a reply");
    }
}

pub(crate) async fn a_connection_keeps_its_identity(stage: &Stage) {
    let (alice, mut connections) = (claim("a", "alice"), Vec::new());
    for _ in 0..10 {
        let exchange = begin(&*stage.node, &Request::Acquire(alice.clone(), hour())).await;
        connections.push(exchange.connection);
        granted(exchange.reply.await.expect("a healthy server replies"), ORDER);
    }
    let unchanged = connections.iter().all(|one| *one == connections[0]);
    holds_true(unchanged, "the requests of one connection state the same identifier");
}

pub(crate) async fn the_status_states_the_connection_of_requests(stage: &Stage) {
    stage.acquire(&claim("a", "alice"), hour()).await;
    let request = Request::Release(claim("a", "alice"));
    let (stated, used) = (stage.node.status().connection, begin(&*stage.node, &request).await.connection);
    assert!(
        stated.is_none() || stated == used,
        "{BROKEN}the status states the connection over which the next request is sent\n  {stated:?}, not {used:?}"
    );
}

pub(crate) async fn a_connection_keeps_the_order(stage: &Stage) {
    for round in 0..50 {
        let alice = match round % 2 {
            0 => claim(format!("{round}"), "alice"),
            _ => claim([format!("{round}-a"), format!("{round}-b")], "alice"),
        };
        let mut acquire = begin(&*stage.node, &Request::Acquire(alice.clone(), hour())).await;
        let mut release = begin(&*stage.node, &Request::Release(alice)).await;
        let (first, second) = (poll_once(&mut acquire.reply).await, poll_once(&mut release.reply).await);
        let acquired = match first {
            Some(reply) => reply,
            None => acquire.reply.await,
        };
        let released = match second {
            Some(reply) => reply,
            None => release.reply.await,
        };
        granted(acquired.expect("a healthy server replies"), ORDER);
        let released = released.expect("a healthy server replies");
        if acquire.connection.is_some() && acquire.connection == release.connection {
            granted(released, ORDER);
        }
    }
}

pub(crate) async fn the_label_is_readable_and_stable(stage: &Stage) {
    for node in [&stage.node, &stage.other_node] {
        let before = node.label().to_owned();
        holds_true(!before.trim().is_empty(), "a node has a human-readable label");
        holds_true(!before.contains(char::is_control), "a label fits into a line of a log");
        // The label must stay the same after the node has communicated with its server.
        node.call(Request::Release(claim("a", "alice"))).await.expect("a healthy server replies");
        holds_true(before == node.label(), "a label stays the same");
    }
}

pub(crate) async fn an_unsupported_request_is_an_error(stage: &Stage) {
    let (alice, one) = (claim("a", "alice"), FencingToken::new(1).expect("a valid number"));
    let [a, gate] = ["a", "gate"].map(|name| name.into_resource().expect("cases use valid names"));
    let requests = [
        Request::AcquireFenced(alice.clone(), hour()),
        Request::Confirm(alice.clone(), hour(), one),
        Request::Refill(alice.clone(), hour(), one),
        Request::AcquireShared(alice.clone(), gate, hour()),
        Request::Keep(alice, hour()),
        Request::Inspect(a.clone()),
        Request::Watch(a.clone()),
        Request::WatchShared(a),
        Request::Vouch,
    ];
    for request in requests {
        let reply = stage.node.call(request.clone()).await;
        let can = stage.node.profile();
        let is_supported = match request {
            Request::AcquireFenced(..) | Request::Confirm(..) | Request::Refill(..) => can.fencing,
            Request::AcquireShared(..) => can.shared,
            Request::Keep(..) => can.keep,
            Request::Inspect(_) => can.inspect,
            Request::Watch(_) => can.watch,
            Request::WatchShared(_) => can.watch && can.shared,
            _ => can.longest_ttl.is_some(),
        };
        let is_error = matches!(&reply, Err(error) if error.kind() == NodeErrorKind::Unsupported);
        assert!(
            is_supported || is_error,
            "{BROKEN}a request that a node does not support is an error of the kind Unsupported\n  {request:?}: \
             {reply:?}"
        );
    }
}
