//! Tests of `admission`, `connected` and `vouch`, for backends that take part in restart admission.
//!
//! The identifier of an admission belongs to one connection, and to one uninterrupted admission. It changes when the
//! server has lost locks, before a reply to a later request is returned.

use redlock_core::node::{Admission, LockNode, Request};

use super::stage::{Stage, claim, holds_true, hour};

const LASTS: &str = "an admission lasts while nothing is lost";
const BOUND: &str = "a node that takes part states its longest TTL";
const CHANGES: &str =
    "the admission has changed when the reply to a request that followed a loss is returned";
const NEVER_AGAIN: &str = "the identifier of an admission is never reused";
const VOUCHED: &str = "vouch ends the quarantine";

/// Returns the admission of a connected node.
async fn admission(node: &dyn LockNode) -> Admission {
    node.connected().await;
    node.admission()
}

/// Vouches for the server as an operator.
async fn vouch(stage: &Stage) {
    stage.node.connected().await;
    holds_true(stage.node.longest_ttl().is_some(), BOUND);
    holds_true(stage.node.call(Request::Vouch).await.is_ok(), VOUCHED);
    holds_true(matches!(stage.node.admission(), Admission::Admitted(_)), VOUCHED);
}

pub(crate) async fn an_admission_lasts_while_nothing_is_lost(stage: &Stage) {
    vouch(stage).await;
    let (before, alice) = (stage.node.admission(), claim("a", "alice"));
    stage.acquire(&alice, hour()).await;
    stage.extend(&alice, hour()).await;
    stage.release(&alice).await;
    holds_true(stage.node.admission() == before, LASTS);
}

pub(crate) async fn a_loss_ends_the_admission_before_the_next_reply(stage: &Stage) {
    let lose = stage.lose.as_ref().expect("the case needs it");
    vouch(stage).await;
    let (before, alice) = (stage.node.admission(), claim("a", "alice"));
    stage.acquire(&alice, hour()).await;
    lose();
    // The reply may be an error: the loss may have ended the connection.
    drop(stage.node.call(Request::Acquire(claim("a", "bob"), hour())).await);
    holds_true(stage.node.admission() != before, CHANGES);
    holds_true(stage.node.call(Request::Vouch).await.is_ok(), VOUCHED);
    let after = stage.node.admission();
    holds_true(matches!(after, Admission::Admitted(_)), VOUCHED);
    holds_true(after != before, NEVER_AGAIN);
}

pub(crate) async fn two_clients_learn_of_a_loss(stage: &Stage) {
    let lose = stage.lose.as_ref().expect("the case needs it");
    vouch(stage).await;
    let before = [admission(&*stage.node).await, admission(&*stage.other_node).await];
    lose();
    for (node, before) in [&stage.node, &stage.other_node].into_iter().zip(before) {
        drop(node.call(Request::Acquire(claim("a", "bob"), hour())).await);
        holds_true(node.admission() != before || matches!(before, Admission::Quarantined(_)), CHANGES);
    }
}
