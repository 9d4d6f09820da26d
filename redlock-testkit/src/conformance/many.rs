//! Tests of atomicity per claim: many requests at once, from one client and from two.

use std::future::Future;
use std::sync::Arc;

use futures_channel::oneshot;
use redlock_core::node::Request;

use super::stage::{BROKEN, Stage, begin, claim, denied, granted, holds_true, hour, join_all, reply};

pub(crate) async fn one_of_many_at_once_is_granted(stage: &Stage) {
    for round in 0..10 {
        let contenders = (0..16).map(|contender| {
            let node = if contender % 2 == 0 { &stage.node } else { &stage.other_node };
            let resources = [format!("{round}-a"), format!("{round}-b")];
            let (node, claim) = (Arc::clone(node), claim(resources, format!("token-{contender}")));
            async move { reply(&*node, Request::Acquire(claim, hour())).await.is_grant() }
        });
        // The calls run in one task, which interleaves them at every await, and in separate tasks, which may run in
        // parallel.
        let granted = match round % 2 {
            0 => join_all(contenders).await,
            _ => join_all(contenders.map(|contender| in_background(stage, contender))).await,
        };
        let winners = granted.into_iter().filter(|granted| *granted).count();
        assert!(
            winners == 1,
            "{BROKEN}acquire is atomic on its node\n  {winners} of 16 were granted at once"
        );
    }
}

/// Starts a call at once, in a task.
fn in_background<T: Send + 'static>(
    stage: &Stage,
    call: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> {
    let (reply, replied) = oneshot::channel();
    // Sending fails only if the test has failed.
    stage.runtime.spawn(Box::pin(async move { drop(reply.send(call.await)) }));
    async { replied.await.expect("a spawned call ends; is Backend::runtime that of Backend::block_on?") }
}

pub(crate) async fn many_claims_at_once_get_replies(stage: &Stage) {
    let claims: Vec<_> = (0..1_000).map(|number| claim(format!("r{number}"), format!("t{number}"))).collect();
    let all = "a node replies to many requests at once, to each separately";
    for vote in join_all(claims.iter().map(|claim| stage.acquire(claim, hour()))).await {
        granted(vote, all);
    }
    for vote in join_all(claims.iter().map(|claim| stage.extend(claim, hour()))).await {
        granted(vote, all);
    }
    for vote in join_all(claims.iter().map(|claim| stage.release(claim))).await {
        granted(vote, all);
    }
}

pub(crate) async fn two_clients_exclude_each_other(stage: &Stage) {
    let same = "clients of one server see the same locks";
    let (alice, bob) = (claim(["a", "b"], "alice"), claim("b", "bob"));
    granted(stage.acquire(&alice, hour()).await, same);
    let acquire = || reply(&*stage.other_node, Request::Acquire(bob.clone(), hour()));
    denied(acquire().await, same);
    granted(reply(&*stage.other_node, Request::Extend(alice.clone(), hour())).await, same);
    granted(reply(&*stage.other_node, Request::Release(alice.clone())).await, same);
    granted(acquire().await, same);
    denied(stage.acquire(&alice, hour()).await, same);
}

pub(crate) async fn two_clients_know_one_server(stage: &Stage) {
    // A backend learns the identity from its communication with the server.
    let request = Request::Acquire(claim("a", "alice"), hour());
    let mut servers = [None; 2];
    for (node, server) in [&stage.node, &stage.other_node].into_iter().zip(&mut servers) {
        reply(&**node, request.clone()).await;
        *server = begin(&**node, &request).await.server;
    }
    if let [Some(one), Some(other)] = servers {
        holds_true(one == other, "clients of one server state the same identity");
    }
}
