//! Tests of `inspect`.
//!
//! It returns the holder of a resource and changes nothing. The holder is the token and its remaining time at the same
//! moment, or `None` if the resource is free. A key of another type is an error. A backend reports its support in its
//! profile.
//!
//! For a backend without support, only the last case applies.

use std::time::Duration;

use redlock_core::IntoResource;
use redlock_core::node::{LockEntry, NodeErrorKind, Request, Token};

use super::stage::{BROKEN, Stage, claim, granted, holds_true, hour, millis};
use crate::reply::holder;

const HOLDER: &str = "inspect returns the token under the resource";
const FREE: &str = "inspect returns None where the resource is free";
const NOTHING: &str = "inspect changes nothing";

async fn inspect(stage: &Stage, resource: impl IntoResource) -> Option<LockEntry> {
    let resource = resource.into_resource().expect("cases use valid names");
    holder(stage.reply(Request::Inspect(resource)).await)
}

pub(crate) async fn inspect_returns_the_holder_and_the_remaining_time(stage: &Stage) {
    let sent = stage.runtime.now();
    stage.acquire(&claim("a", "alice"), millis(60_000)).await;
    stage.acquire(&claim("b", b"\x00\xff#bob\r\n"), hour()).await;
    let found = inspect(stage, "a").await.unwrap_or_else(|| panic!("{BROKEN}{HOLDER}"));
    holds_true(found.token == Token::from_bytes("alice"), HOLDER);
    let remaining = found.remaining.unwrap_or(Duration::MAX);
    let passed = stage.runtime.now().saturating_duration_since(sent);
    let (least, most) = (Duration::from_secs(59).saturating_sub(passed), Duration::from_secs(61));
    assert!(
        least <= remaining && remaining <= most,
        "{BROKEN}inspect returns the remaining time\n  {remaining:?} of 60 s, {passed:?} later"
    );
    let bob = inspect(stage, "b").await.map(|found| found.token);
    holds_true(bob == Some(Token::from_bytes(b"\x00\xff#bob\r\n")), HOLDER);
}

pub(crate) async fn inspect_of_a_free_resource_returns_nothing(stage: &Stage) {
    holds_true(inspect(stage, "a").await.is_none(), FREE);
    let alice = claim("a", "alice");
    stage.acquire(&alice, hour()).await;
    holds_true(inspect(stage, "a").await.is_some(), HOLDER);
    stage.release(&alice).await;
    holds_true(inspect(stage, "a").await.is_none(), FREE);
    let ((), armed) =
        stage.in_time(async |name, ttl| drop(stage.acquire(&claim(name, "alice"), ttl).await)).await;
    stage.expires(&armed, "a resource expires after its ttl").await;
    holds_true(inspect(stage, armed.resource.as_str()).await.is_none(), FREE);
}

pub(crate) async fn inspect_changes_nothing(stage: &Stage) {
    inspect(stage, "a").await;
    granted(stage.acquire(&claim("a", "alice"), hour()).await, NOTHING);
    inspect(stage, "a").await;
    holds_true(stage.holds("a", "alice").await, NOTHING);
    let ((), armed) = stage
        .in_time(async |name, ttl| {
            stage.acquire(&claim(name, "alice"), ttl).await;
            inspect(stage, name).await;
        })
        .await;
    stage.expires(&armed, NOTHING).await;
}

pub(crate) async fn inspect_of_a_non_lock_value_is_an_error(stage: &Stage) {
    let no_lock = stage.no_lock();
    let reply = stage.node.call(Request::Inspect(no_lock.clone())).await;
    let error = reply.expect_err("contract broken: inspect of a key of another type is an error");
    holds_true(error.kind() == NodeErrorKind::WrongType, "a key of another type is of the kind WrongType");
    assert!(
        error.to_string().contains(&no_lock.to_string()),
        "{BROKEN}the error names the key\n  it says: {error}"
    );
}

pub(crate) async fn the_profile_reports_support_for_inspect(stage: &Stage) {
    for node in [&stage.node, &stage.other_node] {
        let resource = "a".into_resource().expect("cases use valid names");
        let unsupported = match node.call(Request::Inspect(resource)).await {
            Ok(_) => false,
            Err(error) => error.kind() == NodeErrorKind::Unsupported,
        };
        holds_true(
            node.profile().inspect != unsupported,
            "a backend that can inspect says so in its profile, and one that cannot is of the kind Unsupported",
        );
    }
}
