//! Tests of `extend`.
//!
//! If every resource still holds the token, it raises their time to live to at least `ttl`; otherwise it changes
//! nothing. It never shortens a time to live and never creates a resource.

use redlock_core::node::Ttl;

use super::stage::{Stage, claim, denied, granted, holds_true, hour};

const LENGTHENS: &str = "extend makes the time to live of every resource at least ttl";
const SHORTENS: &str = "extend never shortens a time to live";
const CREATES: &str = "extend never creates a resource";
const EVERY: &str = "extend is denied unless every resource still holds the token";
const NOTHING: &str = "an extend that is denied changes nothing";

pub(crate) async fn extend_prolongs_the_time_to_live(stage: &Stage) {
    let ((vote, ttl), armed) = stage
        .in_time(async |resource, ttl| {
            let alice = claim(resource, "alice");
            stage.acquire(&alice, ttl).await;
            (stage.extend(&alice, hour()).await, ttl)
        })
        .await;
    granted(vote, "extend is granted where every resource still holds the token");
    stage.pause(ttl.as_millis() + 30).await;
    holds_true(!stage.is_free(armed.resource.as_str()).await, LENGTHENS);
    holds_true(stage.holds(armed.resource.as_str(), "alice").await, LENGTHENS);
}

pub(crate) async fn an_extended_resource_expires(stage: &Stage) {
    let (vote, armed) = stage
        .in_time(async |resource, ttl| {
            let alice = claim(resource, "alice");
            stage.acquire(&alice, ttl).await;
            stage.extend(&alice, ttl).await
        })
        .await;
    granted(vote, "extend is granted where every resource still holds the token");
    stage.expires(&armed, LENGTHENS).await;
}

pub(crate) async fn extend_never_shortens_the_time_to_live(stage: &Stage) {
    let alice = claim("a", "alice");
    stage.acquire(&alice, hour()).await;
    granted(
        stage.extend(&alice, Ttl::MIN).await,
        "extend is granted where the time to live is longer already",
    );
    stage.pause(30).await;
    holds_true(!stage.is_free("a").await, SHORTENS);
}

pub(crate) async fn extend_handles_each_resource_separately(stage: &Stage) {
    stage.acquire(&claim("long", "alice"), hour()).await;
    let (vote, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            stage.extend(&claim([resource, "long"], "alice"), Ttl::MIN).await
        })
        .await;
    granted(vote, "extend is granted where every resource still holds the token");
    stage.expires(&armed, "extend leaves a time to live alone that is ttl at least").await;
    holds_true(stage.holds("long", "alice").await, SHORTENS);

    let ((vote, ttl), armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            (stage.extend(&claim([resource, "long"], "alice"), hour()).await, ttl)
        })
        .await;
    granted(vote, "extend is granted where every resource still holds the token");
    stage.pause(ttl.as_millis() + 30).await;
    holds_true(stage.holds(armed.resource.as_str(), "alice").await, LENGTHENS);
}

pub(crate) async fn extend_creates_nothing(stage: &Stage) {
    for resources in [vec!["a"], vec!["a", "b"]] {
        denied(stage.extend(&claim(resources, "alice"), hour()).await, EVERY);
    }
    for resource in ["a", "b"] {
        holds_true(stage.is_free(resource).await, CREATES);
    }
}

pub(crate) async fn extend_revives_no_resource(stage: &Stage) {
    let alice = claim("released", "alice");
    stage.acquire(&alice, hour()).await;
    stage.release(&alice).await;
    denied(stage.extend(&alice, hour()).await, EVERY);
    holds_true(stage.is_free("released").await, CREATES);

    let ((), armed) =
        stage.in_time(async |name, ttl| drop(stage.acquire(&claim(name, "alice"), ttl).await)).await;
    stage.expires(&armed, "a resource expires after its ttl").await;
    let expired = armed.resource.as_str();
    denied(stage.extend(&claim(expired, "alice"), hour()).await, EVERY);
    holds_true(stage.is_free(expired).await, CREATES);
}

pub(crate) async fn extend_denies_a_resource_of_another_holder(stage: &Stage) {
    let (vote, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "bob"), ttl).await;
            stage.extend(&claim(resource, "alice"), hour()).await
        })
        .await;
    denied(vote, EVERY);
    stage.expires(&armed, NOTHING).await;
}

pub(crate) async fn extend_requires_every_resource(stage: &Stage) {
    let (votes, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            stage.acquire(&claim("foreign", "bob"), hour()).await;
            let absent = stage.extend(&claim([resource, "absent"], "alice"), hour()).await;
            let before = stage.extend(&claim([resource, "A"], "alice"), hour()).await;
            let foreign = stage.extend(&claim([resource, "foreign"], "alice"), hour()).await;
            [absent, before, foreign]
        })
        .await;
    for vote in votes {
        denied(vote, EVERY);
    }
    for resource in ["absent", "A"] {
        holds_true(stage.is_free(resource).await, CREATES);
    }
    holds_true(stage.holds("foreign", "bob").await, NOTHING);
    stage.expires(&armed, NOTHING).await;
}
