//! Tests of readers: `acquire_shared` and `watch_shared`.
//!
//! Many readers share a resource, each with a separate expiry. They exclude every lock, and a lock on the gate keeps
//! new ones out. For a backend without support, only the last case applies.

use std::time::Duration;

use redlock_core::node::{Availability, NodeErrorKind, Reply, Request, Token, Ttl, Watch};
use redlock_core::{IntoResource, IntoResources, Resource};

use super::stage::{BROKEN, Stage, claim, denied, first, granted, holds_true, hour};
use crate::reply::{holder, watching};

const SHARES: &str = "acquire_shared is granted if each resource is absent or has readers";
const EXCLUDES: &str = "readers and locks exclude each other";
const GATE: &str = "acquire_shared is denied if the gate is locked";
const OWN_TIME: &str = "each reader has a separate expiry";
const REMOVES: &str = "release removes this reader; the last one removes the resource";
const NOTHING: &str = "a denied acquire_shared changes nothing";
const FREE: &str = "watch_shared reports readers as free";

fn gate() -> Resource {
    Resource::new("gate").expect("cases use valid names")
}

async fn share(stage: &Stage, resources: impl IntoResources, token: &str, ttl: Ttl) -> Reply {
    stage.reply(Request::AcquireShared(claim(resources, token), gate(), ttl)).await
}

/// Returns true if a lock on the resource is denied.
async fn excludes(stage: &Stage, resource: &str) -> bool {
    !stage.is_free(resource).await
}

pub(crate) async fn many_readers_share_a_resource(stage: &Stage) {
    for reader in ["alice", "bob", "carol"] {
        granted(share(stage, "a", reader, hour()).await, SHARES);
    }
    let again = "acquire_shared of a token that reads already is granted";
    granted(share(stage, "a", "alice", hour()).await, again);
    for reader in ["alice", "bob", "carol"] {
        holds_true(stage.holds("a", reader).await, SHARES);
    }
}

pub(crate) async fn readers_and_locks_exclude_each_other(stage: &Stage) {
    share(stage, "read", "alice", hour()).await;
    denied(stage.acquire(&claim("read", "bob"), hour()).await, EXCLUDES);
    denied(stage.acquire(&claim(["free", "read"], "bob"), hour()).await, EXCLUDES);
    denied(stage.extend(&claim("read", "bob"), hour()).await, EXCLUDES);
    denied(stage.release(&claim("read", "bob")).await, EXCLUDES);
    if stage.node.profile().fencing {
        denied(stage.reply(Request::AcquireFenced(claim("read", "bob"), hour())).await, EXCLUDES);
    }
    holds_true(stage.holds("read", "alice").await && stage.is_free("free").await, EXCLUDES);
    stage.acquire(&claim("locked", "alice"), hour()).await;
    denied(share(stage, "locked", "bob", hour()).await, EXCLUDES);
    denied(share(stage, "locked", "alice", hour()).await, "the token of a lock is not a reader");
    holds_true(stage.holds("locked", "alice").await, NOTHING);
}

pub(crate) async fn a_reader_is_denied_while_the_gate_is_locked(stage: &Stage) {
    share(stage, "a", "alice", hour()).await;
    let writer = claim("gate", "a writer");
    stage.acquire(&writer, hour()).await;
    denied(share(stage, "a", "bob", hour()).await, GATE);
    denied(share(stage, "free", "bob", hour()).await, GATE);
    holds_true(!stage.holds("a", "bob").await && stage.is_free("free").await, NOTHING);
    granted(
        share(stage, "a", "alice", hour()).await,
        "the gate does not matter to a token that reads already",
    );
    granted(stage.extend(&claim("a", "alice"), hour()).await, "the gate does not matter to an extension");
    stage.release(&writer).await;
    granted(share(stage, "a", "bob", hour()).await, SHARES);
}

pub(crate) async fn a_shared_acquire_adds_the_reader_to_all_resources_or_none(stage: &Stage) {
    stage.acquire(&claim("locked", "alice"), hour()).await;
    denied(share(stage, ["free", "locked"], "bob", hour()).await, EXCLUDES);
    holds_true(stage.is_free("free").await, NOTHING);
    granted(share(stage, ["free", "other"], "bob", hour()).await, SHARES);
    holds_true(stage.holds(["free", "other"], "bob").await, SHARES);
}

pub(crate) async fn a_reader_expires_beside_another(stage: &Stage) {
    let ((is_early, ttl), armed) = stage
        .in_time(async |resource, ttl| {
            share(stage, resource, "alice", hour()).await;
            share(stage, resource, "bob", ttl).await;
            (!stage.holds(resource, "bob").await, ttl)
        })
        .await;
    let resource = armed.resource.as_str();
    stage.pause(ttl.as_millis() + 30).await;
    holds_true(!is_early && !stage.holds(resource, "bob").await, OWN_TIME);
    holds_true(stage.holds(resource, "alice").await && excludes(stage, resource).await, OWN_TIME);
}

pub(crate) async fn a_reader_with_a_short_time_shortens_no_other(stage: &Stage) {
    share(stage, "a", "alice", hour()).await;
    share(stage, "a", "bob", Ttl::MIN).await;
    stage.pause(50).await;
    holds_true(stage.holds("a", "alice").await && excludes(stage, "a").await, OWN_TIME);
    share(stage, "a", "bob", hour()).await;
    stage.release(&claim("a", "bob")).await;
    holds_true(stage.holds("a", "alice").await && excludes(stage, "a").await, OWN_TIME);
}

pub(crate) async fn extend_prolongs_one_reader(stage: &Stage) {
    let ((vote, ttl), armed) = stage
        .in_time(async |resource, ttl| {
            share(stage, resource, "alice", ttl).await;
            (stage.extend(&claim(resource, "alice"), hour()).await, ttl)
        })
        .await;
    let sentence = "extend makes the time of this reader at least ttl";
    granted(vote, sentence);
    stage.pause(ttl.as_millis() + 30).await;
    holds_true(stage.holds(armed.resource.as_str(), "alice").await, sentence);
}

pub(crate) async fn extend_of_an_expired_reader_is_denied(stage: &Stage) {
    let ((), armed) =
        stage.in_time(async |resource, ttl| drop(share(stage, resource, "alice", ttl).await)).await;
    stage.expires(&armed, "a resource has no readers if the time of the last one is over").await;
    let revived = stage.extend(&claim(armed.resource.as_str(), "alice"), hour()).await;
    denied(revived, "extend is denied if the token does not read any more");
}

pub(crate) async fn release_removes_one_reader_and_the_last_one_frees(stage: &Stage) {
    share(stage, "a", "alice", hour()).await;
    share(stage, "a", "bob", hour()).await;
    granted(stage.release(&claim("a", "alice")).await, REMOVES);
    denied(stage.release(&claim("a", "alice")).await, REMOVES);
    holds_true(!stage.holds("a", "alice").await && stage.holds("a", "bob").await, REMOVES);
    holds_true(excludes(stage, "a").await, REMOVES);
    granted(stage.release(&claim("a", "bob")).await, REMOVES);
    holds_true(stage.is_free("a").await, REMOVES);
}

pub(crate) async fn the_token_of_a_reader_is_no_lock(stage: &Stage) {
    share(stage, "a", "alice", hour()).await;
    denied(stage.acquire(&claim("a", "alice"), hour()).await, EXCLUDES);
    let readers = claim("a", Token::of_readers().as_bytes());
    denied(stage.extend(&readers, hour()).await, "no claim has the token of all readers");
    denied(stage.release(&readers).await, "no claim has the token of all readers");
    holds_true(stage.holds("a", "alice").await, EXCLUDES);
}

pub(crate) async fn inspect_returns_the_readers(stage: &Stage) {
    share(stage, "a", "alice", hour()).await;
    let resource = "a".into_resource().expect("cases use valid names");
    let entry = holder(stage.reply(Request::Inspect(resource)).await);
    let entry = entry.expect("contract broken: readers are another holder");
    let sentence = "an inspection names Token::of_readers, and the time of the last reader";
    holds_true(entry.token == Token::of_readers() && entry.remaining.is_some(), sentence);
}

async fn watch(stage: &Stage, resource: &str) -> Watch {
    let resource = resource.into_resource().expect("cases use valid names");
    watching(stage.reply(Request::WatchShared(resource)).await)
}

pub(crate) async fn a_shared_watch_reports_readers_as_free(stage: &Stage) {
    holds_true(watch(stage, "a").await.availability == Availability::Free, FREE);
    share(stage, "a", "alice", hour()).await;
    holds_true(watch(stage, "a").await.availability == Availability::Free, FREE);
    stage.acquire(&claim("b", "alice"), hour()).await;
    let taken = matches!(watch(stage, "b").await.availability, Availability::Taken(_));
    holds_true(taken, "watch_shared reports that a resource is taken");
}

pub(crate) async fn a_release_of_a_lock_completes_a_shared_watch(stage: &Stage) {
    let alice = claim("a", "alice");
    stage.acquire(&alice, hour()).await;
    let watch = watch(stage, "a").await;
    stage.release(&alice).await;
    let notified = async {
        watch.changed.await;
        true
    };
    let silence = async {
        stage.runtime.sleep(Duration::from_secs(5)).await;
        false
    };
    assert!(first(notified, silence).await, "{BROKEN}a change completes the watch of a reader");
}

pub(crate) async fn a_non_lock_value_is_an_error_for_readers(stage: &Stage) {
    let no_lock = stage.no_lock();
    let reply = stage.node.call(Request::AcquireShared(claim(no_lock, "alice"), gate(), hour())).await;
    let error = reply.expect_err("contract broken: a key of another type is an error");
    holds_true(error.kind() == NodeErrorKind::WrongType, "a key of another type is of the kind WrongType");
    denied(stage.release(&claim(no_lock, "alice")).await, "release leaves a key of another type as it is");
}

pub(crate) async fn the_profile_reports_support_for_readers(stage: &Stage) {
    for node in [&stage.node, &stage.other_node] {
        let reply = node.call(Request::AcquireShared(claim("a", "alice"), gate(), hour())).await;
        let unsupported = reply.is_err_and(|error| error.kind() == NodeErrorKind::Unsupported);
        holds_true(
            node.profile().shared != unsupported,
            "a backend that supports readers says so in its profile, and one that does not is of the kind \
             Unsupported",
        );
    }
}
