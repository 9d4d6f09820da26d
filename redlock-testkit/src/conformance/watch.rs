//! Tests of `watch`.
//!
//! It starts to watch a resource and returns its availability from then on: any later change by any client completes
//! `changed`.
//!
//! `changed` may complete without a cause, so no case expects it to stay pending. An expiry may be reported late or
//! never, so no case waits for that either: the next watch shows it. For a backend without support, only the last case
//! applies.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use redlock_core::IntoResource;
use redlock_core::node::{Availability, NodeErrorKind, Request, Watch};

use super::stage::{BROKEN, Stage, claim, first, granted, holds_true, hour, join_all, millis, reply};
use crate::reply::watching;

const FREE: &str = "watch reports that a resource is free";
const TAKEN: &str = "watch reports that a resource is taken";
const COMPLETES: &str = "a change that frees a resource completes its watch";
const NOTHING: &str = "watch changes nothing";

/// The limit on the wait for a notification, far above its usual delay.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

async fn watch(stage: &Stage, resource: impl IntoResource) -> Watch {
    let resource = resource.into_resource().expect("cases use valid names");
    watching(stage.reply(Request::Watch(resource)).await)
}

async fn completes(stage: &Stage, watch: Watch, who: &str) {
    let notified = async {
        watch.changed.await;
        true
    };
    let silence = async {
        stage.runtime.sleep(WAIT_LIMIT).await;
        false
    };
    assert!(first(notified, silence).await, "{BROKEN}{COMPLETES}\n  not within {WAIT_LIMIT:?}: {who}");
}

pub(crate) async fn watch_reports_the_state_of_a_resource(stage: &Stage) {
    holds_true(watch(stage, "a").await.availability == Availability::Free, FREE);
    let (alice, sent) = (claim("a", "alice"), stage.runtime.now());
    stage.acquire(&alice, millis(60_000)).await;
    let Availability::Taken(remaining) = watch(stage, "a").await.availability else {
        panic!("{BROKEN}{TAKEN}")
    };
    if let Some(remaining) = remaining {
        let passed = stage.runtime.now().saturating_duration_since(sent);
        let (least, most) = (Duration::from_secs(59).saturating_sub(passed), Duration::from_secs(61));
        assert!(
            least <= remaining && remaining <= most,
            "{BROKEN}watch reports the remaining time\n  {remaining:?} of 60 s, {passed:?} later"
        );
    }
    holds_true(watch(stage, "b").await.availability == Availability::Free, FREE);
    stage.release(&alice).await;
    holds_true(watch(stage, "a").await.availability == Availability::Free, FREE);
}

pub(crate) async fn watch_of_an_expired_resource_reports_it_as_free(stage: &Stage) {
    let ((), armed) =
        stage.in_time(async |name, ttl| drop(stage.acquire(&claim(name, "alice"), ttl).await)).await;
    stage.expires(&armed, "a resource expires after its ttl").await;
    let watch = watch(stage, armed.resource.as_str()).await;
    holds_true(watch.availability == Availability::Free, FREE);
}

pub(crate) async fn watch_changes_nothing(stage: &Stage) {
    watch(stage, "a").await;
    granted(stage.acquire(&claim("a", "alice"), hour()).await, NOTHING);
    watch(stage, "a").await;
    holds_true(stage.holds("a", "alice").await, NOTHING);
    let ((), armed) = stage
        .in_time(async |name, ttl| {
            stage.acquire(&claim(name, "alice"), ttl).await;
            watch(stage, name).await;
        })
        .await;
    stage.expires(&armed, NOTHING).await;
}

pub(crate) async fn a_release_over_the_same_client_completes_a_watch(stage: &Stage) {
    for name in ["a".as_bytes(), b"\x00\xff\r\n*"] {
        let alice = claim(name, "alice");
        stage.acquire(&alice, hour()).await;
        let watch = watch(stage, name).await;
        stage.release(&alice).await;
        completes(stage, watch, "the client that watches has released it").await;
    }
}

pub(crate) async fn a_release_by_another_client_completes_a_watch(stage: &Stage) {
    let alice = claim("a", "alice");
    stage.acquire(&alice, hour()).await;
    let watch = watch(stage, "a").await;
    let released = reply(&*stage.other_node, Request::Release(alice)).await;
    granted(released, "clients of one server see the same locks");
    completes(stage, watch, "another client has released it").await;
}

/// Checks that either the watch finds the resource free, or it is notified.
pub(crate) async fn no_release_is_missed_while_a_watch_begins(stage: &Stage) {
    for round in 0..50 {
        let (name, mut watching) = (format!("round-{round}"), None);
        let alice = claim(name.as_str(), "alice");
        stage.acquire(&alice, hour()).await;
        let watches = async {
            watching = Some(watch(stage, name.as_str()).await);
        };
        let releases = async { drop(stage.other_node.call(Request::Release(alice)).await) };
        let (watches, releases) = (Box::pin(watches), Box::pin(releases));
        // The two calls are first by turns.
        let calls: [Pin<Box<dyn Future<Output = ()> + '_>>; 2] =
            if round % 2 == 0 { [watches, releases] } else { [releases, watches] };
        join_all(calls).await;
        let watch = watching.expect("the watch has begun");
        if watch.availability != Availability::Free {
            completes(stage, watch, "it was released while the watch began").await;
        }
    }
}

pub(crate) async fn a_change_completes_all_watches_of_a_resource(stage: &Stage) {
    let alice = claim("a", "alice");
    stage.acquire(&alice, hour()).await;
    let mut watches = join_all((0..10).map(|_| watch(stage, "a"))).await;
    // Dropping one watch does not affect the others.
    watches.truncate(9);
    drop(watches.remove(0));
    stage.release(&alice).await;
    for watch in watches {
        completes(stage, watch, "one of several watches of one resource").await;
    }
}

pub(crate) async fn the_profile_reports_support_for_watch(stage: &Stage) {
    for node in [&stage.node, &stage.other_node] {
        let resource = "a".into_resource().expect("cases use valid names");
        let unsupported = match node.call(Request::Watch(resource)).await {
            Ok(_) => false,
            Err(error) => error.kind() == NodeErrorKind::Unsupported,
        };
        holds_true(
            node.profile().watch != unsupported,
            "a backend that can watch says so in its profile, and one that cannot is of the kind Unsupported",
        );
    }
}
