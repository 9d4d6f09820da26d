//! Tests of `keep_for`.
//!
//! If every resource still holds the token, it sets their time to live to `ttl`, even if that is shorter; otherwise it
//! changes nothing.

use redlock_core::node::Ttl;

use super::stage::{Stage, claim, denied, granted, holds_true, hour};

const SETS: &str = "keep_for sets the time to live of every resource to ttl";
const EVERY: &str = "keep_for is denied unless every resource still holds the token";
const NOTHING: &str = "a keep_for that is denied changes nothing";

pub(crate) async fn keep_for_shortens(stage: &Stage) {
    let (vote, armed) = stage
        .in_time(async |resource, ttl| {
            let alice = claim([resource, "other"], "alice");
            stage.acquire(&alice, hour()).await;
            stage.keep_for(&alice, ttl).await
        })
        .await;
    granted(vote, "keep_for is granted where every resource still holds the token");
    stage.expires(&armed, SETS).await;
}

pub(crate) async fn keep_for_lengthens(stage: &Stage) {
    let ((vote, ttl), armed) = stage
        .in_time(async |resource, ttl| {
            let alice = claim(resource, "alice");
            stage.acquire(&alice, ttl).await;
            (stage.keep_for(&alice, hour()).await, ttl)
        })
        .await;
    granted(vote, "keep_for is granted where every resource still holds the token");
    stage.pause(ttl.as_millis() + 30).await;
    holds_true(stage.holds(armed.resource.as_str(), "alice").await, SETS);
}

pub(crate) async fn keep_for_requires_every_resource(stage: &Stage) {
    stage.acquire(&claim("own", "alice"), hour()).await;
    stage.acquire(&claim("foreign", "bob"), hour()).await;
    denied(stage.keep_for(&claim(["own", "foreign"], "alice"), Ttl::MIN).await, EVERY);
    denied(stage.keep_for(&claim(["own", "free"], "alice"), Ttl::MIN).await, EVERY);
    stage.pause(30).await;
    holds_true(stage.holds("own", "alice").await && stage.holds("foreign", "bob").await, NOTHING);
    holds_true(stage.is_free("free").await, NOTHING);
}
