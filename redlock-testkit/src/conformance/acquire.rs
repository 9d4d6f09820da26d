//! Tests of `acquire`.
//!
//! It sets every resource of the claim to its token, expiring after `ttl`, if each is absent or holds this token.
//! Otherwise it changes nothing. A resource that holds the token already stays unchanged.

use std::time::Duration;

use redlock_core::node::{Reply, Token, Ttl};

use super::stage::{BROKEN, Stage, claim, denied, granted, holds_true, hour, millis};

const SETS: &str = "acquire sets every resource of the claim to its token, if each is absent";
const NOTHING: &str = "an acquire that is denied changes nothing";
const OWN: &str = "acquire is granted where a resource holds this very token already";
const LEFT: &str = "acquire leaves a resource that holds the token already as it is";

pub(crate) async fn acquire_grants_a_free_resource(stage: &Stage) {
    granted(stage.acquire(&claim("a", "alice"), hour()).await, SETS);
    holds_true(stage.holds("a", "alice").await, SETS);
    granted(stage.acquire(&claim(["b", "c", "d"], "alice"), hour()).await, SETS);
    for resource in ["b", "c", "d"] {
        holds_true(stage.holds(resource, "alice").await, SETS);
    }
}

pub(crate) async fn acquire_denies_a_resource_of_another_holder(stage: &Stage) {
    stage.acquire(&claim("a", "alice"), hour()).await;
    for _ in 0..3 {
        denied(
            stage.acquire(&claim("a", "bob"), hour()).await,
            "acquire is denied where a resource holds another token",
        );
    }
    holds_true(stage.holds("a", "alice").await, NOTHING);
    holds_true(!stage.holds("a", "bob").await, NOTHING);
}

pub(crate) async fn a_denied_acquire_does_not_change_the_holders_time(stage: &Stage) {
    let (vote, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            stage.acquire(&claim(resource, "bob"), hour()).await
        })
        .await;
    denied(vote, "acquire is denied where a resource holds another token");
    stage.expires(&armed, NOTHING).await;

    stage.acquire(&claim("long", "alice"), hour()).await;
    stage.acquire(&claim("long", "bob"), Ttl::MIN).await;
    stage.pause(30).await;
    holds_true(stage.holds("long", "alice").await, NOTHING);
}

pub(crate) async fn a_denial_reports_the_true_holder_and_remaining_time(stage: &Stage) {
    let sent = stage.runtime.now();
    stage.acquire(&claim("b", "alice"), millis(60_000)).await;
    for resources in [vec!["b"], vec!["a", "b", "c"]] {
        let Reply::Denied(denial) = stage.acquire(&claim(resources, "bob"), hour()).await else {
            panic!("{BROKEN}acquire is denied where a resource holds another token");
        };
        let alice = Token::from_bytes("alice");
        holds_true(
            denial.holder.is_none_or(|holder| holder == alice),
            "a denial names the holder's token, or no token",
        );
        let Some(remaining) = denial.remaining else { continue };
        let passed = stage.runtime.now().saturating_duration_since(sent);
        let (least, most) = (Duration::from_secs(59).saturating_sub(passed), Duration::from_secs(61));
        assert!(
            least <= remaining && remaining <= most,
            "{BROKEN}a denial reports the remaining time of the holder's key, or no time\n  {remaining:?} of 60 s, {passed:?} later"
        );
    }
}

pub(crate) async fn acquire_again_with_the_same_token_is_granted(stage: &Stage) {
    for resources in [vec!["a"], vec!["b", "c"]] {
        let alice = claim(resources, "alice");
        granted(stage.acquire(&alice, hour()).await, SETS);
        granted(stage.acquire(&alice, hour()).await, OWN);
        granted(stage.acquire(&alice, Ttl::MIN).await, OWN);
    }
}

pub(crate) async fn acquire_again_does_not_change_the_time(stage: &Stage) {
    let (again, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            stage.acquire(&claim(resource, "alice"), hour()).await
        })
        .await;
    granted(again, OWN);
    stage.expires(&armed, LEFT).await;

    stage.acquire(&claim("long", "alice"), hour()).await;
    stage.acquire(&claim("long", "alice"), Ttl::MIN).await;
    stage.pause(30).await;
    holds_true(stage.holds("long", "alice").await, LEFT);
}

pub(crate) async fn acquire_sets_all_resources_or_none(stage: &Stage) {
    for taken in ["a", "b", "c"] {
        stage.acquire(&claim(taken, "bob"), hour()).await;
        denied(
            stage.acquire(&claim(["a", "b", "c"], "alice"), hour()).await,
            "acquire is denied where one resource holds another token",
        );
        for resource in ["a", "b", "c"] {
            let as_before = if resource == taken {
                stage.holds(resource, "bob").await
            } else {
                stage.is_free(resource).await
            };
            holds_true(as_before, NOTHING);
        }
        stage.release(&claim(taken, "bob")).await;
    }
}

pub(crate) async fn acquire_sets_absent_resources(stage: &Stage) {
    let (all, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            stage.acquire(&claim([resource, "b", "c"], "alice"), hour()).await
        })
        .await;
    granted(all, "acquire is granted where each resource is absent or holds this very token");
    for resource in ["b", "c"] {
        holds_true(stage.holds(resource, "alice").await, SETS);
    }
    stage.expires(&armed, LEFT).await;
    for resource in ["b", "c"] {
        holds_true(stage.holds(resource, "alice").await, "a resource filled in expires after its own ttl");
    }
}

pub(crate) async fn acquire_of_own_and_foreign_resources_changes_nothing(stage: &Stage) {
    let (vote, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "alice"), ttl).await;
            stage.acquire(&claim("foreign", "bob"), hour()).await;
            stage.acquire(&claim([resource, "free", "foreign"], "alice"), hour()).await
        })
        .await;
    denied(vote, "acquire is denied where one resource holds another token");
    holds_true(stage.is_free("free").await, NOTHING);
    holds_true(stage.holds("foreign", "bob").await, NOTHING);
    stage.expires(&armed, NOTHING).await;
}
