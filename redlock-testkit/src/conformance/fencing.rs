//! Tests of the operations of fenced locks, and of those that ignore counters.
//!
//! The contract has no operation that only reads a counter. An acquire with the token that a resource already holds
//! returns the counter and changes nothing. One case verifies this, and the others use it. A counter grows by one, or
//! goes to the node's time if that is greater. A case accepts both, since time may pass between its steps.
//!
//! For a backend without support, only the last case applies.

use redlock_core::node::{NodeErrorKind, Reply, Request, Ttl};
use redlock_core::{FencingToken, IntoResources};

use super::stage::{BROKEN, Stage, claim, denied, granted, holds_true, hour, join_all, reply};

const COUNTED: &str = "acquire_fenced that is granted returns Granted, with the counter";
const SETS: &str = "acquire_fenced sets every resource of the claim to its token, if each is absent";
const NEXT: &str = "acquire_fenced that sets anything makes the counters the next of the greatest of them";
const AGAIN: &str =
    "acquire_fenced with the token that all resources hold already changes no counter, and returns it";
const LEFT: &str = "acquire_fenced leaves a resource that holds the token already as it is";
const DENIED: &str = "acquire_fenced is denied where a resource holds another token";
const DENIED_COUNTS: &str = "a fenced operation that is denied changes nothing, no counter either";
const CONFIRM_GRANTED: &str =
    "confirm is granted where every resource holds the token and no counter is greater than fence";
const CONFIRM_COUNTS: &str = "confirm makes the counters of all resources fence";
const CONFIRM_LENGTHENS: &str =
    "confirm makes the time to live of every resource at least ttl, and never shortens it";
const CONFIRM_DENIES: &str = "confirm is denied where a resource does not hold the token";
const SUPERSEDED: &str = "where a counter is greater than fence the result is Superseded, with that counter";
const SUPERSEDED_CHANGES: &str = "an operation that is superseded changes nothing";
const REFILL_GRANTED: &str = "refill_fenced is granted where each resource is absent or holds the token and no counter is greater than fence";
const REFILL_SETS: &str = "refill_fenced sets what is absent to the token";
const REFILL_COUNTS: &str = "refill_fenced makes the counters of all resources fence";
const REFILL_DENIES: &str = "refill_fenced is denied where a resource holds another token";

const FAR: &str =
    "a token to be written that is too far ahead of the node's clock is an error of the kind Rejected";
const FAR_CHANGES: &str = "where a token is too far ahead of the node's clock, nothing is changed";

/// The granularity of the time that counters may go to.
const GRANULE: u64 = 1 << 22;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("cases use valid numbers")
}

async fn acquire(stage: &Stage, resources: impl IntoResources, owner: &str, ttl: Ttl) -> Reply {
    stage.reply(Request::AcquireFenced(claim(resources, owner), ttl)).await
}

async fn confirm(stage: &Stage, resources: impl IntoResources, owner: &str, ttl: Ttl, fence: u64) -> Reply {
    stage.reply(Request::Confirm(claim(resources, owner), ttl, token(fence))).await
}

async fn refill(stage: &Stage, resources: impl IntoResources, owner: &str, ttl: Ttl, fence: u64) -> Reply {
    stage.reply(Request::Refill(claim(resources, owner), ttl, token(fence))).await
}

/// Returns the counter of a fenced grant; otherwise 0, which no counter is.
fn counted(vote: &Reply) -> u64 {
    if let Reply::Counted(counter) = vote { counter.as_u64() } else { 0 }
}

/// Returns the counter after a fenced acquire that must be granted.
async fn take(stage: &Stage, resources: impl IntoResources, owner: &str) -> u64 {
    let counter = counted(&acquire(stage, resources, owner, hour()).await);
    holds_true(counter > 0, COUNTED);
    counter
}

async fn leave(stage: &Stage, resources: impl IntoResources, owner: &str) {
    granted(
        stage.release(&claim(resources, owner)).await,
        "release deletes each resource that still holds the token",
    );
}

/// Returns the counter of the next claim.
async fn take_and_leave(stage: &Stage, resource: &str) -> u64 {
    let counter = take(stage, resource, "another-client").await;
    leave(stage, resource, "another-client").await;
    counter
}

#[track_caller]
fn follows(counter: u64, before: u64, sentence: &str) {
    let time = counter > before && counter % GRANULE == 0;
    assert!(counter == before + 1 || time, "{BROKEN}{sentence}\n  {counter} came after {before}");
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)] // reads as a sentence at each call
fn superseded(vote: Reply, by: u64) {
    assert!(
        vote == Reply::Superseded(token(by)),
        "{BROKEN}{SUPERSEDED}\n  the counter is {by}, the result is {vote:?}"
    );
}

pub(crate) async fn a_fenced_acquire_grants_a_free_resource(stage: &Stage) {
    take(stage, "a", "alice").await;
    holds_true(stage.holds("a", "alice").await, SETS);
    take(stage, ["b", "c", "d"], "alice").await;
    for resource in ["b", "c", "d"] {
        holds_true(stage.holds(resource, "alice").await, SETS);
    }
    let (vote, armed) = stage.in_time(async |name, ttl| acquire(stage, name, "alice", ttl).await).await;
    holds_true(counted(&vote) > 0, COUNTED);
    stage.expires(&armed, "a resource of a fenced claim expires after its ttl").await;
}

pub(crate) async fn a_counter_grows_by_one_or_goes_to_the_time(stage: &Stage) {
    let mut latest = take_and_leave(stage, "a").await;
    holds_true(
        latest == 1 || latest % GRANULE == 0,
        "a counter begins with 1, or with the time in whole steps",
    );
    for _ in 0..5 {
        let counter = take_and_leave(stage, "a").await;
        follows(counter, latest, NEXT);
        latest = counter;
    }
}

pub(crate) async fn a_denied_fenced_acquire_changes_nothing(stage: &Stage) {
    let ((votes, before, after), armed) = stage
        .in_time(async |resource, ttl| {
            let before = counted(&acquire(stage, resource, "alice", ttl).await);
            let alone = acquire(stage, resource, "bob", hour()).await;
            let with_another = acquire(stage, ["free", resource], "bob", hour()).await;
            let after = counted(&acquire(stage, resource, "alice", ttl).await);
            ([alone, with_another], before, after)
        })
        .await;
    for vote in votes {
        denied(vote, DENIED);
    }
    holds_true(before == after, DENIED_COUNTS);
    holds_true(stage.is_free("free").await, DENIED_COUNTS);
    let first = take_and_leave(stage, "free").await;
    holds_true(first == 1 || first % GRANULE == 0, DENIED_COUNTS);
    stage.expires(&armed, DENIED_COUNTS).await;
}

pub(crate) async fn a_fenced_acquire_with_the_same_token_counts_once(stage: &Stage) {
    for resources in [vec!["a"], vec!["b", "c"]] {
        let counter = take(stage, resources.clone(), "alice").await;
        for _ in 0..3 {
            holds_true(take(stage, resources.clone(), "alice").await == counter, AGAIN);
        }
        granted(confirm(stage, resources.clone(), "alice", hour(), counter + 5).await, CONFIRM_GRANTED);
        holds_true(take(stage, resources.clone(), "alice").await == counter + 5, AGAIN);
        leave(stage, resources.clone(), "alice").await;
        follows(take(stage, resources, "bob").await, counter + 5, NEXT);
    }
}

pub(crate) async fn a_fenced_acquire_again_does_not_change_the_time(stage: &Stage) {
    let (_, armed) = stage
        .in_time(async |resource, ttl| {
            acquire(stage, resource, "alice", ttl).await;
            acquire(stage, resource, "alice", hour()).await
        })
        .await;
    stage.expires(&armed, LEFT).await;
}

pub(crate) async fn a_fenced_acquire_sets_absent_resources_and_counts(stage: &Stage) {
    let before = take(stage, "a", "alice").await;
    let counter = take(stage, ["a", "b"], "alice").await;
    follows(counter, before, NEXT);
    holds_true(stage.holds("b", "alice").await, SETS);
    holds_true(take(stage, "a", "alice").await == counter, NEXT);
}

pub(crate) async fn several_resources_count_above_the_greatest_counter(stage: &Stage) {
    let mut greatest = 0;
    for _ in 0..4 {
        greatest = take_and_leave(stage, "b").await;
    }
    let all = take(stage, ["a", "b", "c"], "alice").await;
    follows(all, greatest, NEXT);
    leave(stage, ["a", "b", "c"], "alice").await;
    for resource in ["a", "b", "c"] {
        follows(take_and_leave(stage, resource).await, all, NEXT);
    }
}

pub(crate) async fn every_resource_has_its_own_counter(stage: &Stage) {
    let names = ["a", "A", "b", "{a}", "a}", ":a", "a:", "*"];
    let mut latest = Vec::new();
    for name in names {
        latest.push(take_and_leave(stage, name).await);
    }
    for (name, before) in names.into_iter().zip(latest) {
        follows(take_and_leave(stage, name).await, before, "every resource has a separate counter");
    }
}

pub(crate) async fn a_counter_outlives_its_lock(stage: &Stage) {
    let mut latest = 0;
    for _ in 0..3 {
        latest = take_and_leave(stage, "a").await;
    }
    follows(take_and_leave(stage, "a").await, latest, "release leaves the counters alone");
    let (counter, armed) = stage
        .in_time(async |resource, ttl| {
            for _ in 0..3 {
                take_and_leave(stage, resource).await;
            }
            counted(&acquire(stage, resource, "alice", ttl).await)
        })
        .await;
    stage.expires(&armed, "a resource of a fenced claim expires after its ttl").await;
    let next = take_and_leave(stage, &armed.resource).await;
    follows(next, counter, "a counter is kept when its lock expires");
}

pub(crate) async fn plain_locks_do_not_change_counters(stage: &Stage) {
    let mut latest = 0;
    for _ in 0..3 {
        latest = take_and_leave(stage, "a").await;
    }
    let alice = claim("a", "alice");
    granted(stage.acquire(&alice, hour()).await, "acquire sets what is free");
    granted(stage.extend(&alice, hour()).await, "extend is granted where the resource holds the token");
    leave(stage, "a", "alice").await;
    follows(take_and_leave(stage, "a").await, latest, "acquire and extend leave the counters alone");
}

pub(crate) async fn plain_and_fenced_locks_exclude_each_other(stage: &Stage) {
    let sentence = "a plain lock and a fenced one exclude each other";
    stage.acquire(&claim("plain", "alice"), hour()).await;
    denied(acquire(stage, "plain", "bob", hour()).await, sentence);
    denied(refill(stage, "plain", "bob", hour(), 7).await, sentence);
    take(stage, "fenced", "alice").await;
    denied(stage.acquire(&claim("fenced", "bob"), hour()).await, sentence);
    granted(stage.extend(&claim("fenced", "alice"), hour()).await, sentence);
}

pub(crate) async fn confirm_raises_the_counters(stage: &Stage) {
    for resources in [vec!["a"], vec!["b", "c"]] {
        let counter = take(stage, resources.clone(), "alice").await;
        for fence in [counter, counter + 3, counter + 3] {
            granted(confirm(stage, resources.clone(), "alice", hour(), fence).await, CONFIRM_GRANTED);
            for resource in &resources {
                holds_true(take(stage, *resource, "alice").await == fence, CONFIRM_COUNTS);
            }
        }
    }
}

pub(crate) async fn confirm_prolongs_and_never_shortens(stage: &Stage) {
    // A separate name, because the first resource stays held if these steps are repeated.
    let lengthened = |resource: &str| format!("{resource}-lengthened");
    let ((vote, ttl), armed) = stage
        .in_time(async |resource, ttl| {
            let resource = lengthened(resource);
            let resource = resource.as_str();
            let counter = counted(&acquire(stage, resource, "alice", ttl).await);
            (confirm(stage, resource, "alice", hour(), counter).await, ttl)
        })
        .await;
    let lengthened = lengthened(&armed.resource);
    granted(vote, CONFIRM_GRANTED);
    let counter = take(stage, "long", "alice").await;
    granted(confirm(stage, "long", "alice", Ttl::MIN, counter).await, CONFIRM_GRANTED);
    stage.pause(ttl.as_millis() + 30).await;
    holds_true(stage.holds(lengthened.as_str(), "alice").await, CONFIRM_LENGTHENS);
    holds_true(stage.holds("long", "alice").await, CONFIRM_LENGTHENS);

    let (_, armed) = stage
        .in_time(async |resource, ttl| {
            let counter = counted(&acquire(stage, resource, "alice", ttl).await);
            confirm(stage, resource, "alice", ttl, counter).await
        })
        .await;
    stage.expires(&armed, "a resource that was confirmed expires after that ttl").await;
}

pub(crate) async fn confirm_denies_missing_and_foreign_resources(stage: &Stage) {
    let own = take(stage, "own", "alice").await;
    let foreign = take(stage, "foreign", "bob").await;
    let fence = own.max(foreign) + 9;
    for resources in [vec!["gone"], vec!["foreign"], vec!["own", "gone"], vec!["own", "foreign"]] {
        denied(confirm(stage, resources, "alice", hour(), fence).await, CONFIRM_DENIES);
    }
    holds_true(take(stage, "own", "alice").await == own, DENIED_COUNTS);
    holds_true(take(stage, "foreign", "bob").await == foreign, DENIED_COUNTS);
    holds_true(stage.is_free("gone").await, "confirm never creates a resource");
    let first = take_and_leave(stage, "gone").await;
    holds_true(first == 1 || first % GRANULE == 0, DENIED_COUNTS);
}

pub(crate) async fn a_superseded_confirm_changes_nothing(stage: &Stage) {
    let ((votes, counters), armed) = stage
        .in_time(async |resource, ttl| {
            take_and_leave(stage, resource).await;
            let before = counted(&acquire(stage, resource, "alice", ttl).await);
            let low = counted(&acquire(stage, "low", "alice", hour()).await);
            // One of two resources has a greater counter.
            let both = confirm(stage, [resource, "low"], "alice", hour(), before - 1).await;
            let alone = confirm(stage, resource, "alice", hour(), before - 1).await;
            let after = counted(&acquire(stage, resource, "alice", ttl).await);
            let low_after = counted(&acquire(stage, "low", "alice", ttl).await);
            ([both, alone], [before, after, low, low_after])
        })
        .await;
    let [before, after, low, low_after] = counters;
    let greatest = before.max(low);
    let [both, alone] = votes;
    superseded(both, greatest);
    superseded(alone, before);
    holds_true(before == after && low == low_after, SUPERSEDED_CHANGES);
    stage.expires(&armed, SUPERSEDED_CHANGES).await;
}

pub(crate) async fn refill_sets_absent_resources_and_raises_the_counters(stage: &Stage) {
    let greatest = take_and_leave(stage, "b").await.max(take(stage, "c", "alice").await);
    for fence in [greatest, greatest + 4] {
        granted(refill(stage, ["a", "b", "c"], "alice", hour(), fence).await, REFILL_GRANTED);
        for resource in ["a", "b", "c"] {
            holds_true(stage.holds(resource, "alice").await, REFILL_SETS);
            holds_true(take(stage, resource, "alice").await == fence, REFILL_COUNTS);
        }
        leave(stage, ["a", "b"], "alice").await;
    }
    let ((), armed) = stage
        .in_time(async |resource, ttl| {
            granted(refill(stage, resource, "alice", ttl, 1).await, REFILL_GRANTED);
            granted(refill(stage, resource, "alice", hour(), 1).await, REFILL_GRANTED);
        })
        .await;
    stage.expires(&armed, "refill_fenced leaves a resource that holds the token already as it is").await;
}

pub(crate) async fn refill_denies_a_resource_of_another_holder(stage: &Stage) {
    let foreign = take(stage, "foreign", "bob").await;
    for resources in [vec!["foreign"], vec!["free", "foreign"]] {
        denied(refill(stage, resources, "alice", hour(), foreign + 9).await, REFILL_DENIES);
    }
    holds_true(stage.holds("foreign", "bob").await, DENIED_COUNTS);
    holds_true(stage.is_free("free").await, DENIED_COUNTS);
    holds_true(take(stage, "foreign", "bob").await == foreign, DENIED_COUNTS);
}

pub(crate) async fn a_superseded_refill_changes_nothing(stage: &Stage) {
    take_and_leave(stage, "a").await;
    let greater = take_and_leave(stage, "a").await;
    superseded(refill(stage, "a", "alice", hour(), greater - 1).await, greater);
    let low = token(greater - 1);
    let both = Request::Refill(claim(["a", "never"], "alice"), hour(), low);
    superseded(stage.reply(both).await, greater);
    for resource in ["a", "never"] {
        holds_true(stage.is_free(resource).await, SUPERSEDED_CHANGES);
    }
    follows(take_and_leave(stage, "a").await, greater, SUPERSEDED_CHANGES);
    let own = take(stage, "a", "alice").await;
    superseded(refill(stage, "a", "alice", hour(), own - 1).await, own);
}

pub(crate) async fn a_token_far_ahead_of_the_clock_is_an_error(stage: &Stage) {
    let ((replies, before, after), armed) = stage
        .in_time(async |resource, ttl| {
            let (node, far) = (&stage.node, FencingToken::MAX);
            let before = counted(&acquire(stage, resource, "alice", ttl).await);
            let confirmed = node.call(Request::Confirm(claim(resource, "alice"), hour(), far)).await;
            let refilled = node.call(Request::Refill(claim([resource, "free"], "alice"), hour(), far)).await;
            let after = counted(&acquire(stage, resource, "alice", ttl).await);
            ([confirmed, refilled], before, after)
        })
        .await;
    for reply in replies {
        holds_true(reply.is_err_and(|error| error.kind() == NodeErrorKind::Rejected), FAR);
    }
    holds_true(before == after, FAR_CHANGES);
    holds_true(stage.is_free("free").await, FAR_CHANGES);
    let first = take_and_leave(stage, "free").await;
    holds_true(first == 1 || first % GRANULE == 0, FAR_CHANGES);
    stage.expires(&armed, FAR_CHANGES).await;
}

pub(crate) async fn one_of_many_fenced_claims_at_once_counts(stage: &Stage) {
    let mut latest = None;
    for _ in 0..10 {
        let contend = |contender: usize| async move {
            let node = if contender % 2 == 0 { &stage.node } else { &stage.other_node };
            let contending = claim(["a", "b"], format!("token-{contender}"));
            (contender, reply(&**node, Request::AcquireFenced(contending, hour())).await)
        };
        let votes = join_all((0..16).map(contend)).await;
        let winners: Vec<_> = votes.iter().filter(|(_, vote)| counted(vote) > 0).collect();
        let [(winner, vote)] = winners[..] else {
            panic!(
                "{BROKEN}acquire_fenced is atomic on its node\n  {} of 16 were granted at once",
                winners.len()
            );
        };
        if let Some(before) = latest.replace(counted(vote)) {
            follows(counted(vote), before, "acquire_fenced is atomic on its node");
        }
        leave(stage, ["a", "b"], &format!("token-{winner}")).await;
    }
}

pub(crate) async fn two_clients_count_on_one_server(stage: &Stage) {
    let mut latest = take_and_leave(stage, "a").await;
    let foreign = claim("a", "bob");
    for _ in 0..3 {
        let vote = reply(&*stage.other_node, Request::AcquireFenced(foreign.clone(), hour())).await;
        follows(counted(&vote), latest, "clients of one server count on the same counters");
        reply(&*stage.other_node, Request::Release(foreign.clone())).await;
        latest = counted(&vote);
        let counter = take_and_leave(stage, "a").await;
        follows(counter, latest, "clients of one server count on the same counters");
        latest = counter;
    }
}

pub(crate) async fn a_non_lock_value_is_an_error_for_fenced_operations(stage: &Stage) {
    let no_lock = stage.no_lock();
    let foreign = claim(no_lock, "alice");
    let (node, one) = (&stage.node, token(1));
    let errors = [
        node.call(Request::AcquireFenced(foreign.clone(), hour())).await.err(),
        node.call(Request::Refill(foreign.clone(), hour(), one)).await.err(),
    ];
    for error in errors {
        let wrong = error.is_some_and(|error| error.kind() == NodeErrorKind::WrongType);
        holds_true(wrong, "a key of another type is an error of the kind WrongType to fenced operations");
    }
    // A non-lock value belongs to no client.
    let confirmed = node.call(Request::Confirm(foreign.clone(), hour(), one)).await;
    holds_true(!matches!(confirmed, Ok(Reply::Granted)), CONFIRM_DENIES);
}

pub(crate) async fn the_profile_reports_support_for_fencing(stage: &Stage) {
    for node in [&stage.node, &stage.other_node] {
        let foreign = claim("a", "alice");
        let one = token(1);
        let errors = [
            node.call(Request::AcquireFenced(foreign.clone(), hour())).await.err(),
            node.call(Request::Confirm(foreign.clone(), hour(), one)).await.err(),
            node.call(Request::Refill(foreign.clone(), hour(), one)).await.err(),
        ];
        for error in errors {
            let unsupported = error.is_some_and(|error| error.kind() == NodeErrorKind::Unsupported);
            holds_true(
                node.profile().fencing != unsupported,
                "a backend that can fence says so in its profile, and one that cannot is of the kind Unsupported",
            );
        }
    }
}
