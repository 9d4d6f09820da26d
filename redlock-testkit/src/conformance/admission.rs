//! Tests of quarantines, for backends that take part in restart admission.
//!
//! A node reads its admission when a request begins and when its reply is read. A reply has a vote only if both are the
//! same admission.

use redlock_core::node::{LockNode, NodeError, Reply, Request};

use super::stage::{BROKEN, Stage, begin, claim, granted, holds_true, hour};

const LASTS: &str = "the votes of a node count while nothing is lost";
const LOST: &str = "a reply after a loss has no vote";
const CHANGED: &str =
    "a reply has no vote if locks were lost since the request began, even if the node counts again";
const SENT: &str = "a request is carried out during a quarantine";
const VOUCHED: &str = "vouch ends the quarantine";

/// Vouches for the server as an operator.
pub(super) async fn vouch(node: &dyn LockNode) {
    holds_true(node.call(Request::Vouch).await.is_ok(), VOUCHED);
    holds_true(node.status().quarantine.is_none(), VOUCHED);
}

/// Asserts that a reply has no vote. It may be an error: a loss may have ended the connection.
#[track_caller]
pub(super) fn uncounted(reply: &Result<Reply, NodeError>, sentence: &str) {
    let has_vote = !matches!(reply, Err(_) | Ok(Reply::Quarantined(..)));
    assert!(!has_vote, "{BROKEN}{sentence}\n  it was {reply:?}");
}

pub(super) fn bobs(name: &str) -> Request {
    Request::Acquire(claim(name, "bob"), hour())
}

pub(crate) async fn the_votes_of_a_node_count_while_nothing_is_lost(stage: &Stage) {
    vouch(&*stage.node).await;
    let alice = claim("a", "alice");
    granted(stage.acquire(&alice, hour()).await, LASTS);
    granted(stage.extend(&alice, hour()).await, LASTS);
    granted(stage.release(&alice).await, LASTS);
}

pub(crate) async fn a_reply_after_a_loss_has_no_vote(stage: &Stage) {
    let lose = stage.lose.as_ref().expect("the case needs it");
    vouch(&*stage.node).await;
    stage.acquire(&claim("a", "alice"), hour()).await;
    lose();
    uncounted(&stage.node.call(bobs("a")).await, LOST);
    holds_true(stage.node.status().quarantine.is_some(), "the status of a node in quarantine states it");
    match stage.reply(bobs("a")).await {
        Reply::Quarantined(reply, _) => granted(*reply, SENT),
        other => panic!("{BROKEN}{LOST}\n  it was {other:?}"),
    }
    granted(stage.release(&claim("a", "bob")).await, "releases always count");
    vouch(&*stage.node).await;
    granted(stage.reply(bobs("a")).await, VOUCHED);
}

pub(crate) async fn a_request_that_began_before_a_loss_has_no_vote(stage: &Stage) {
    let lose = stage.lose.as_ref().expect("the case needs it");
    vouch(&*stage.node).await;
    let exchange = begin(&*stage.node, &bobs("a")).await;
    lose();
    drop(stage.node.call(bobs("b")).await);
    vouch(&*stage.node).await;
    uncounted(&exchange.reply.await, CHANGED);
    granted(stage.reply(bobs("c")).await, VOUCHED);
}

pub(crate) async fn two_clients_learn_of_a_loss(stage: &Stage) {
    let lose = stage.lose.as_ref().expect("the case needs it");
    vouch(&*stage.node).await;
    drop(stage.other_node.call(bobs("a")).await);
    lose();
    for node in [&stage.node, &stage.other_node] {
        uncounted(&node.call(bobs("a")).await, LOST);
    }
}
