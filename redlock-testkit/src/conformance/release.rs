//! Tests of `release`.
//!
//! It deletes each resource that still holds the token. It returns `true` if at least one was deleted. It returns `false`
//! if there was none, even if there is a non-lock value.

use redlock_core::node::{NodeErrorKind, Request, Ttl};

use super::stage::{BROKEN, Stage, claim, denied, granted, holds_true, hour};

const DELETES: &str = "release deletes each resource that still holds the token";
const GRANTED: &str = "release returns true when at least one resource was deleted";
const DENIED: &str = "release returns false when no resource held the token";
const ONLY: &str = "release deletes only what still holds the token";

pub(crate) async fn release_frees_resources(stage: &Stage) {
    for resources in [vec!["a"], vec!["a", "b", "c"]] {
        let alice = claim(resources.clone(), "alice");
        stage.acquire(&alice, hour()).await;
        granted(stage.release(&alice).await, GRANTED);
        for resource in &resources {
            holds_true(!stage.holds(*resource, "alice").await, DELETES);
        }
        let bob = claim(resources, "bob");
        granted(stage.acquire(&bob, hour()).await, "what was released is free for others");
        stage.release(&bob).await;
    }
}

pub(crate) async fn release_does_not_delete_a_resource_of_another_holder(stage: &Stage) {
    stage.acquire(&claim("a", "bob"), hour()).await;
    denied(stage.release(&claim("a", "alice")).await, DENIED);
    holds_true(stage.holds("a", "bob").await, ONLY);
}

pub(crate) async fn release_of_a_free_resource_returns_false(stage: &Stage) {
    let alice = claim(["a", "b"], "alice");
    denied(stage.release(&alice).await, DENIED);
    stage.acquire(&alice, hour()).await;
    granted(stage.release(&alice).await, GRANTED);
    denied(stage.release(&alice).await, DENIED);
}

pub(crate) async fn release_deletes_the_remaining_ones_of_several_resources(stage: &Stage) {
    for own in ["a", "b", "c"] {
        stage.acquire(&claim(own, "alice"), hour()).await;
        let foreign = if own == "b" { "c" } else { "b" };
        stage.acquire(&claim(foreign, "bob"), hour()).await;
        granted(stage.release(&claim(["a", "b", "c"], "alice")).await, GRANTED);
        holds_true(stage.is_free(own).await, DELETES);
        holds_true(stage.holds(foreign, "bob").await, ONLY);
        stage.release(&claim(foreign, "bob")).await;
    }
}

pub(crate) async fn release_leaves_other_resources_of_the_token(stage: &Stage) {
    stage.acquire(&claim(["a", "b"], "alice"), hour()).await;
    granted(stage.release(&claim("a", "alice")).await, GRANTED);
    holds_true(stage.holds("b", "alice").await, "release deletes no resource that the claim does not name");
}

pub(crate) async fn release_after_expiry_returns_false(stage: &Stage) {
    let ((), armed) =
        stage.in_time(async |name, ttl| drop(stage.acquire(&claim(name, "alice"), ttl).await)).await;
    stage.expires(&armed, "a resource expires after its ttl").await;
    let alice = claim(armed.resource.as_str(), "alice");
    denied(stage.release(&alice).await, DENIED);
    stage.acquire(&claim(armed.resource.as_str(), "bob"), hour()).await;
    denied(stage.release(&alice).await, DENIED);
    holds_true(stage.holds(armed.resource.as_str(), "bob").await, ONLY);
}

pub(crate) async fn a_non_lock_value_is_an_error_for_acquire_and_kept_by_release(stage: &Stage) {
    let no_lock = stage.no_lock();
    let name = no_lock.to_string();
    for resources in [vec![no_lock], vec![&claim("zz-free", "alice").resources()[0], no_lock]] {
        let resources: Vec<_> = resources.into_iter().cloned().collect();
        let alice = claim(resources.clone(), "alice");
        for ttl in [hour(), Ttl::MIN] {
            let error = stage.node.call(Request::Acquire(alice.clone(), ttl)).await;
            let error = error.expect_err("contract broken: a key of another type is an error, not a reply");
            holds_true(
                error.kind() == NodeErrorKind::WrongType,
                "a key of another type is of the kind WrongType",
            );
            assert!(error.to_string().contains(&name), "{BROKEN}the error names the key\n  it says: {error}");
        }
        denied(stage.release(&alice).await, "release returns false for a key of another type");
    }
    holds_true(
        stage.is_free("zz-free").await,
        "an acquire that fails on a key of another type changes nothing",
    );
}
