//! Tests of `renew`.
//!
//! It is `extend` for the TTL of all requests so far.

use super::stage::{Stage, TIMES, TOO_SLOW, claim, denied, granted, holds_true, hour, millis};

const LENGTHENS: &str = "renew makes the time to live of every resource at least ttl";
const CREATES: &str = "renew never creates a resource";
const EVERY: &str = "renew is denied unless every resource still holds the token";
const NOTHING: &str = "a renew that is denied changes nothing";

pub(crate) async fn renew_prolongs_the_time_to_live(stage: &Stage) {
    for resources in [vec!["one"], vec!["two", "three"]] {
        let mut times = TIMES.into_iter();
        while !is_renewed_twice(stage, &resources, times.next().expect(TOO_SLOW)).await {}
    }
}

/// Renews resources twice within a TTL each, more than a TTL in all. Returns false if that took too long.
async fn is_renewed_twice(stage: &Stage, resources: &[&str], ttl: u64) -> bool {
    let names: Vec<_> = resources.iter().map(|name| format!("{name}-{ttl}")).collect();
    let (alice, ttl) = (claim(names, "alice"), millis(ttl));
    let mut sent = stage.runtime.now();
    stage.acquire(&alice, ttl).await;
    for _ in 0..2 {
        stage.pause(ttl.as_millis() * 2 / 3).await;
        let again = stage.runtime.now();
        let vote = stage.renew(&alice, ttl).await;
        if stage.runtime.now().saturating_duration_since(sent) >= ttl.as_duration() * 9 / 10 {
            return false;
        }
        granted(vote, LENGTHENS);
        sent = again;
    }
    true
}

pub(crate) async fn renew_creates_and_revives_nothing(stage: &Stage) {
    let alice = claim("released", "alice");
    stage.acquire(&alice, hour()).await;
    stage.release(&alice).await;
    for resource in ["released", "new"] {
        denied(stage.renew(&claim(resource, "alice"), hour()).await, EVERY);
        holds_true(stage.is_free(resource).await, CREATES);
    }
}

pub(crate) async fn renew_requires_every_resource(stage: &Stage) {
    let (votes, armed) = stage
        .in_time(async |resource, ttl| {
            stage.acquire(&claim(resource, "bob"), ttl).await;
            stage.acquire(&claim("own", "alice"), hour()).await;
            let foreign = stage.renew(&claim(resource, "alice"), hour()).await;
            let both = stage.renew(&claim(["own", resource], "alice"), hour()).await;
            let absent = stage.renew(&claim(["own", "absent"], "alice"), hour()).await;
            [foreign, both, absent]
        })
        .await;
    for vote in votes {
        denied(vote, EVERY);
    }
    holds_true(stage.is_free("absent").await, CREATES);
    stage.expires(&armed, NOTHING).await;
}
