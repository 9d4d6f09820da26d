//! Tests of `renew`.
//!
//! It is `extend` for a TTL that no key exceeds.

use super::stage::{Stage, claim, denied, granted, holds_true, hour};

const LENGTHENS: &str = "renew makes the time to live of every resource at least ttl";
const CREATES: &str = "renew never creates a resource";
const EVERY: &str = "renew is denied unless every resource still holds the token";
const NOTHING: &str = "a renew that is denied changes nothing";

pub(crate) async fn renew_prolongs_the_time_to_live(stage: &Stage) {
    for more in [vec![], vec!["other"]] {
        let ((votes, ttl), armed) = stage
            .in_time(async |resource, ttl| {
                let resource = format!("{resource}-{}", more.len());
                let all: Vec<&str> = more.iter().copied().chain([&*resource]).collect();
                let alice = claim(all, "alice");
                stage.acquire(&alice, ttl).await;
                // Twice: the second one sets the same time.
                ([stage.renew(&alice, hour()).await, stage.renew(&alice, hour()).await], ttl)
            })
            .await;
        for vote in votes {
            granted(vote, "renew is granted where every resource still holds the token");
        }
        stage.pause(ttl.as_millis() + 30).await;
        let resource = format!("{}-{}", armed.resource, more.len());
        holds_true(!stage.is_free(resource.as_str()).await, LENGTHENS);
        holds_true(stage.holds(resource.as_str(), "alice").await, LENGTHENS);
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
