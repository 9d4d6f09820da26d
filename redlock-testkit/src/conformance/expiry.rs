//! Tests of expiry, from the shortest TTL to the longest.
//!
//! A resource expires after its TTL, not before it, and not much later.

use redlock_core::node::Ttl;

use super::stage::{Stage, TIMES, TOO_SLOW, claim, granted, holds_true, hour};

const EXPIRES: &str = "a resource expires after its ttl, not sooner and not much later";

pub(crate) async fn a_resource_expires_after_its_ttl(stage: &Stage) {
    let longest = TIMES[TIMES.len() - 1];
    for millis in TIMES {
        let arm = async |name: &str, ttl| drop(stage.acquire(&claim(name, "alice"), ttl).await);
        let ((), armed) = stage.in_time_of(&[millis, longest], arm).await;
        if stage.expires(&armed, EXPIRES).await {
            return;
        }
    }
    panic!("the case did not run in the last 0.6 s of the key: {TOO_SLOW}");
}

pub(crate) async fn every_resource_of_a_claim_expires(stage: &Stage) {
    let (vote, armed) =
        stage.in_time(async |name, ttl| stage.acquire(&claim([name, "a", "zzz"], "alice"), ttl).await).await;
    granted(vote, "acquire sets every resource of the claim to its token, if each is absent");
    stage.expires(&armed, EXPIRES).await;
    stage.pause(20).await;
    for resource in ["a", "zzz"] {
        holds_true(stage.is_free(resource).await, EXPIRES);
    }
}

pub(crate) async fn an_expired_resource_is_free_for_others(stage: &Stage) {
    granted(stage.acquire(&claim("a", "alice"), Ttl::MIN).await, "the shortest TTL is valid");
    stage.pause(50).await;
    granted(stage.acquire(&claim("a", "bob"), hour()).await, EXPIRES);
    holds_true(!stage.holds("a", "alice").await, "an expired resource no longer belongs to its holder");
    stage.pause(30).await;
    holds_true(stage.holds("a", "bob").await, "a new holder has its full ttl");
}

pub(crate) async fn the_longest_ttl_is_not_truncated(stage: &Stage) {
    let alice = claim(["a", "b"], "alice");
    granted(stage.acquire(&alice, Ttl::MAX).await, "the longest TTL is valid");
    granted(stage.extend(&alice, Ttl::MAX).await, "the longest TTL is valid");
    stage.pause(100).await;
    for resource in ["a", "b"] {
        holds_true(!stage.is_free(resource).await, EXPIRES);
    }
}
