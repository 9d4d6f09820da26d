//! Tests of `renew`.
//!
//! It is `extend` for the TTL of all requests so far.

use super::stage::{Stage, claim, denied, granted, holds_true, hour, millis};

const LENGTHENS: &str = "renew makes the time to live of every resource at least ttl";
const CREATES: &str = "renew never creates a resource";
const EVERY: &str = "renew is denied unless every resource still holds the token";
const NOTHING: &str = "a renew that is denied changes nothing";

pub(crate) async fn renew_prolongs_the_time_to_live(stage: &Stage) {
    for alice in [claim("a", "alice"), claim(["b", "c"], "alice")] {
        let ttl = millis(500);
        let mut sent = stage.runtime.now();
        stage.acquire(&alice, ttl).await;
        // The second renewal succeeds only because of the first one.
        for _ in 0..2 {
            stage.pause(ttl.as_millis() * 2 / 3).await;
            let again = stage.runtime.now();
            let vote = stage.renew(&alice, ttl).await;
            // On a slow machine, the keys may have expired.
            if stage.runtime.now().saturating_duration_since(sent) >= ttl.as_duration() * 9 / 10 {
                break;
            }
            granted(vote, LENGTHENS);
            sent = again;
        }
    }
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
            stage.acquire(&claim("mine", "alice"), hour()).await;
            let theirs = stage.renew(&claim(resource, "alice"), hour()).await;
            let both = stage.renew(&claim(["mine", resource], "alice"), hour()).await;
            let absent = stage.renew(&claim(["mine", "absent"], "alice"), hour()).await;
            [theirs, both, absent]
        })
        .await;
    for vote in votes {
        denied(vote, EVERY);
    }
    holds_true(stage.is_free("absent").await, CREATES);
    stage.expires(&armed, NOTHING).await;
}
