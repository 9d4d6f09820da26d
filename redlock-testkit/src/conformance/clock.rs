//! Tests of the watch of a server's clock, for backends that take part in restart admission.
//!
//! A clock that jumps ahead lets keys expire early, so a jump is a loss of locks. The clock is read behind each vote, and
//! compared with all readings of the time in which a lost lock may still be held.

use std::time::Duration;

use redlock_core::node::{Quarantine, QuarantineReason};

use super::admission::{bobs, uncounted, vouch};
use super::stage::{Stage, begin, granted, holds_true};

const JUMPED: &str = "a reply after a jump of the clock has no vote";
const BEHIND: &str = "the clock is read behind each vote, not before it";
const PAUSED: &str = "a pause between the beginning of a request and its reply is no jump of the clock";
const ADD_UP: &str = "small steps of the clock add up";
const AGAIN: &str = "every jump of the clock is noticed";
const REASON: &str = "the status states the reason of the quarantine";

/// A step that no delay hides.
const JUMP: Duration = Duration::from_secs(10);

/// A step below the tolerance of [`ServerClock`](redlock_core::node::ServerClock).
const SMALL: Duration = Duration::from_millis(4);

/// The number of small steps. Together they are 160 ms, and the tolerance grows by 5 ms at most in their time.
const SMALL_STEPS: u32 = 40;

impl Stage {
    fn set_forward(&self, step: Duration) {
        self.forward.as_ref().expect("the case needs it")(step);
    }

    /// Vouches for the server, and reads its clock behind a vote.
    async fn watch_clock(&self) {
        vouch(&*self.node).await;
        granted(self.reply(bobs("watched")).await, "the votes of a node count while its clock is right");
    }
}

pub(crate) async fn a_pause_is_no_jump_of_the_clock(stage: &Stage) {
    stage.watch_clock().await;
    let exchange = begin(&*stage.node, &bobs("a")).await;
    stage.pause(100).await;
    match exchange.reply.await {
        Ok(reply) => granted(reply, PAUSED),
        Err(error) => panic!("the request failed on a healthy server: {error:?}"),
    }
    holds_true(stage.node.status().quarantine.is_none(), PAUSED);
}

pub(crate) async fn a_reply_after_a_jump_of_the_clock_has_no_vote(stage: &Stage) {
    stage.watch_clock().await;
    stage.set_forward(JUMP);
    uncounted(&stage.node.call(bobs("a")).await, JUMPED);
    let reason = stage.node.status().quarantine.map(|Quarantine { reason, .. }| reason);
    holds_true(reason == Some(QuarantineReason::ClockJumped), REASON);
    uncounted(&stage.node.call(bobs("a")).await, JUMPED);
}

pub(crate) async fn a_request_that_began_before_a_jump_of_the_clock_has_no_vote(stage: &Stage) {
    stage.watch_clock().await;
    let exchange = begin(&*stage.node, &bobs("a")).await;
    stage.set_forward(JUMP);
    uncounted(&exchange.reply.await, BEHIND);
}

pub(crate) async fn small_steps_of_the_clock_are_noticed(stage: &Stage) {
    stage.watch_clock().await;
    for _ in 0..SMALL_STEPS {
        stage.set_forward(SMALL);
        drop(stage.node.call(bobs("a")).await);
        if stage.node.status().quarantine.is_some() {
            break;
        }
        stage.pause(20).await;
    }
    uncounted(&stage.node.call(bobs("a")).await, ADD_UP);
}

pub(crate) async fn two_clients_notice_a_jump_of_the_clock(stage: &Stage) {
    stage.watch_clock().await;
    vouch(&*stage.other_node).await;
    drop(stage.other_node.call(bobs("a")).await);
    stage.set_forward(JUMP);
    for node in [&stage.node, &stage.other_node] {
        uncounted(&node.call(bobs("a")).await, JUMPED);
    }
}

pub(crate) async fn every_jump_of_the_clock_is_noticed(stage: &Stage) {
    for _ in 0..3 {
        stage.watch_clock().await;
        stage.set_forward(JUMP);
        uncounted(&stage.node.call(bobs("a")).await, AGAIN);
    }
}
