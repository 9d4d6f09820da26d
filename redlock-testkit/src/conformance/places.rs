//! Tests of the order of waiters.

use std::time::Duration;

use redlock_core::node::{Claim, Place, Reply, Request, Token};
use redlock_core::{IntoResource, IntoResources, Position, Resource};

use super::stage::{BROKEN, Stage, claim, denied, granted, holds_true, hour};

const RESERVED: &str = "a release reserves the resource for the place that has waited longest";
const OWN: &str = "a resource that is reserved for a place counts as absent for its request";
const OTHERS: &str = "a resource that is reserved for a place is held for every other claim";
const PRECEDED: &str =
    "a request is denied if another place has waited longer, and the resource is reserved for that one";
const LEFT: &str = "a place that no longer waits is left, and its reservation ends";
const ONCE: &str = "a place for which a resource is reserved does not wait for it again";
const OPEN: &str = "a release of a token whose last byte is a multiple of 16 reserves nothing";
const RANK: &str = "the position of a place that waits is its rank among the places, the longest wait first, and their number";
const COUNT: &str = "an inspection counts the places that wait";
const FOR_READERS: &str =
    "a resource or a gate that is reserved for a reader counts as absent for every reader";
const GATE_PASSED_ON: &str = "the gate is reserved for the next place when a reader has had its turn";
const PASSED_ON: &str = "a request that cannot use its turn passes it on, and goes to the end";

/// Returns a claim of a request with this place, which has waited for some seconds.
fn waiting(resource: impl IntoResources, token: &str, place: &str, seconds: u64) -> Claim {
    claim(resource, token).with_place(self::place(place, seconds))
}

/// Returns a place. The name is a hexadecimal digit, so that the identity has the format of this crate.
fn place(name: &str, seconds: u64) -> Place {
    place_of(format!("next#{name:0>40}"), seconds)
}

fn place_of(id: String, seconds: u64) -> Place {
    Place::new(Token::from_bytes(id), Duration::from_secs(seconds), Duration::from_secs(600))
}

/// Returns the claim that gives a place up.
fn given_up(resource: &str, name: &str) -> Claim {
    let place = place(name, 0).given_up();
    claim(resource, place.id.as_bytes()).with_place(place)
}

pub(crate) async fn a_release_reserves_for_the_longest_wait(stage: &Stage) {
    stage.acquire(&claim("job", "alice"), hour()).await;
    denied(stage.acquire(&waiting("job", "bob", "b", 10), hour()).await, OTHERS);
    denied(stage.acquire(&waiting("job", "carol", "c", 20), hour()).await, OTHERS);
    denied(stage.acquire(&waiting("job", "dave", "d", 5), hour()).await, OTHERS);
    granted(stage.release(&claim("job", "alice")).await, "release deletes the resource");
    denied(stage.acquire(&claim("job", "eve"), hour()).await, RESERVED);
    denied(stage.acquire(&waiting("job", "bob2", "b", 10), hour()).await, RESERVED);
    granted(stage.acquire(&waiting("job", "carol2", "c", 20), hour()).await, OWN);
    holds_true(stage.holds("job", "carol2").await, OWN);
    granted(stage.release(&claim("job", "carol2")).await, "release deletes the resource");
    granted(stage.acquire(&waiting("job", "bob3", "b", 10), hour()).await, RESERVED);
}

pub(crate) async fn a_failed_attempt_can_keep_its_place(stage: &Stage) {
    stage.acquire(&claim("job", "alice"), hour()).await;
    stage.release(&waiting("job", "bob", "b", 1)).await;
    stage.release(&claim("job", "alice")).await;
    denied(stage.acquire(&claim("job", "eve"), hour()).await, RESERVED);
    granted(stage.acquire(&waiting("job", "bob2", "b", 1), hour()).await, OWN);
    // The release of a failed attempt may follow the reservation. The release of the place alone stands for the expiry.
    denied(stage.acquire(&waiting("job", "carol", "c", 1), hour()).await, OTHERS);
    stage.release(&claim("job", "bob2")).await;
    stage.release(&waiting("job", "carol", "c", 1)).await;
    stage.release(&claim("job", place("c", 0).id.as_bytes())).await;
    granted(stage.acquire(&claim("job", "eve"), hour()).await, ONCE);
}

pub(crate) async fn a_request_is_preceded_by_a_longer_wait(stage: &Stage) {
    stage.acquire(&claim("job", "alice"), hour()).await;
    stage.acquire(&waiting("job", "bob", "b", 10), hour()).await;
    // The resource is free afterwards, and not reserved.
    stage.acquire(&claim("free", "alice0"), hour()).await;
    denied(stage.acquire(&waiting("free", "bob", "b", 10), hour()).await, OTHERS);
    granted(stage.release(&claim("free", "alice0")).await, OPEN);
    denied(stage.acquire(&waiting("free", "carol", "c", 5), hour()).await, PRECEDED);
    denied(stage.acquire(&claim("free", "eve"), hour()).await, PRECEDED);
    granted(stage.acquire(&waiting("free", "bob2", "b", 10), hour()).await, PRECEDED);
}

pub(crate) async fn a_place_can_be_left(stage: &Stage) {
    stage.acquire(&claim("job", "alice"), hour()).await;
    stage.acquire(&waiting("job", "bob", "b", 10), hour()).await;
    stage.acquire(&waiting("job", "carol", "c", 5), hour()).await;
    stage.release(&given_up("job", "c")).await;
    stage.release(&claim("job", "alice")).await;
    stage.release(&given_up("job", "b")).await;
    granted(stage.acquire(&claim("job", "eve"), hour()).await, LEFT);
}

pub(crate) async fn some_releases_reserve_nothing(stage: &Stage) {
    // The last byte of the token is 48.
    stage.acquire(&claim("job", "alice0"), hour()).await;
    stage.acquire(&waiting("job", "bob", "b", 10), hour()).await;
    stage.release(&claim("job", "alice0")).await;
    granted(stage.acquire(&claim("job", "eve"), hour()).await, OPEN);
}

pub(crate) async fn a_fenced_request_has_a_place(stage: &Stage) {
    stage.acquire(&claim("job", "alice"), hour()).await;
    let bob = waiting("job", "bob", "b", 10);
    let reply = stage.reply(Request::AcquireFenced(bob.clone(), hour())).await;
    denied(reply, OTHERS);
    stage.release(&claim("job", "alice")).await;
    denied(stage.acquire(&claim("job", "eve"), hour()).await, RESERVED);
    let reply = stage.reply(Request::AcquireFenced(bob, hour())).await;
    holds_true(reply.is_grant(), OWN);
}

pub(crate) async fn a_request_for_two_resources_has_its_turn_on_each(stage: &Stage) {
    let both = |token, seconds| waiting(["job", "tool"], token, "a", seconds);
    stage.acquire(&claim("tool", "alice"), hour()).await;
    stage.acquire(&claim("job", "bob"), hour()).await;
    denied(stage.acquire(&both("carol", 20), hour()).await, OTHERS);
    denied(stage.acquire(&waiting("job", "dave", "d", 5), hour()).await, OTHERS);
    stage.release(&claim("job", "bob")).await;
    denied(stage.acquire(&waiting("job", "dave", "d", 5), hour()).await, RESERVED);
    denied(stage.acquire(&both("carol2", 20), hour()).await, OTHERS);
    denied(stage.acquire(&claim("job", "eve"), hour()).await, PASSED_ON);
    granted(stage.acquire(&waiting("job", "dave2", "d", 5), hour()).await, PASSED_ON);
    denied(stage.acquire(&waiting("job", "frank", "f", 1), hour()).await, OTHERS);
    stage.release(&claim("job", "dave2")).await;
    granted(stage.acquire(&waiting("job", "frank2", "f", 1), hour()).await, PASSED_ON);
    stage.release(&claim("job", "frank2")).await;
    stage.release(&claim("tool", "alice")).await;
    granted(stage.acquire(&both("carol3", 20), hour()).await, OWN);
    holds_true(stage.holds("job", "carol3").await && stage.holds("tool", "carol3").await, OWN);
}

/// A backend may leave both out.
pub(crate) async fn the_number_of_waiters_and_the_position_are_correct(stage: &Stage) {
    let is_at = async |claim: &Claim, rank, waiters| {
        let Reply::Denied(denial) = stage.acquire(claim, hour()).await else { panic!("{BROKEN}{OTHERS}") };
        holds_true(denial.position.is_none_or(|position| position == Position::new(rank, waiters)), RANK);
    };
    let waits = async |waiters: u32| {
        let resource = "job".into_resource().expect("cases use valid names");
        let stated = match stage.reply(Request::Inspect(resource)).await {
            Reply::Free { waiters } => waiters,
            Reply::Held(entry) => entry.waiters,
            other => panic!("{BROKEN}the reply to an inspection is {other:?}"),
        };
        holds_true(stated.is_none_or(|stated| stated == waiters), COUNT);
    };
    waits(0).await;
    stage.acquire(&claim("job", "alice"), hour()).await;
    waits(0).await;
    is_at(&waiting("job", "bob", "b", 10), 1, 1).await;
    is_at(&waiting("job", "carol", "c", 1_000), 1, 2).await;
    is_at(&waiting("job", "dave", "d", 5), 3, 3).await;
    is_at(&waiting("job", "bob2", "b", 10), 2, 3).await;
    waits(3).await;
    stage.release(&given_up("job", "d")).await;
    waits(2).await;
    // The resource is reserved for the longest wait, which is not among the places any more.
    stage.release(&claim("job", "alice")).await;
    waits(1).await;
    is_at(&waiting("job", "bob3", "b", 10), 1, 1).await;
    granted(stage.acquire(&waiting("job", "carol2", "c", 1_000), hour()).await, OWN);
    waits(1).await;
    stage.release(&given_up("job", "b")).await;
    stage.release(&claim("job", "carol2")).await;
    waits(0).await;
}

/// Returns the claim of a reader with this place, which has waited for some seconds.
fn reading(resource: impl IntoResources, token: &str, name: &str, seconds: u64) -> Claim {
    claim(resource, token).with_place(place_of(format!("read##{name:0>40}"), seconds))
}

async fn share(stage: &Stage, claim: Claim) -> Reply {
    let gate = Resource::new("job:gate").expect("cases use valid names");
    stage.reply(Request::AcquireShared(claim, gate, hour())).await
}

pub(crate) async fn a_reader_has_its_turn_on_the_resource_or_the_gate(stage: &Stage) {
    stage.acquire(&claim("job", "alice"), hour()).await;
    stage.acquire(&claim("job:gate", "alice"), hour()).await;
    denied(share(stage, reading("job", "bob", "b", 20)).await, OTHERS);
    denied(stage.acquire(&waiting("job", "carol", "c", 10), hour()).await, OTHERS);
    denied(stage.acquire(&waiting("job:gate", "dave", "d", 10), hour()).await, OTHERS);
    stage.release(&claim("job", "alice")).await;
    denied(stage.acquire(&claim("job", "eve"), hour()).await, RESERVED);
    granted(share(stage, reading("job", "bob2", "b", 20)).await, OWN);
    holds_true(stage.holds("job", "bob2").await, OWN);
    stage.release(&claim("job:gate", "alice")).await;
    granted(stage.acquire(&waiting("job:gate", "dave2", "d", 10), hour()).await, RESERVED);
    denied(share(stage, reading("job", "frank", "f", 5)).await, "a reader waits for the gate");
    denied(stage.acquire(&waiting("job:gate", "dave3", "d", 1), hour()).await, OTHERS);
    stage.release(&claim("job:gate", "dave2")).await;
    denied(stage.acquire(&claim("job:gate", "eve"), hour()).await, RESERVED);
    granted(share(stage, reading("job", "frank2", "f", 5)).await, OWN);
    denied(stage.acquire(&claim("job:gate", "eve"), hour()).await, GATE_PASSED_ON);
    granted(stage.acquire(&waiting("job:gate", "dave4", "d", 1), hour()).await, GATE_PASSED_ON);
    // A failed attempt keeps both places.
    stage.release(&reading(["job", "job:gate"], "grace", "e", 5)).await;
    stage.release(&claim("job:gate", "dave4")).await;
    denied(stage.acquire(&claim("job:gate", "eve"), hour()).await, RESERVED);
    stage.release(&claim("job", "bob2")).await;
    granted(stage.release(&claim("job", "frank2")).await, "release removes the last reader");
    granted(stage.acquire(&waiting("job", "carol2", "c", 10), hour()).await, RESERVED);
    stage.release(&claim("job", "carol2")).await;
    granted(share(stage, reading("job", "grace2", "e", 5)).await, OWN);
}

pub(crate) async fn readers_use_the_reservation_of_a_reader(stage: &Stage) {
    let both = ["job", "job:gate"];
    stage.acquire(&claim(both, "alice"), hour()).await;
    denied(share(stage, reading("job", "bob", "b", 20)).await, OTHERS);
    stage.release(&claim(both, "alice")).await;
    for resource in both {
        denied(stage.acquire(&claim(resource, "eve"), hour()).await, RESERVED);
    }
    granted(share(stage, claim("job", "carol")).await, FOR_READERS);
    granted(share(stage, reading("job", "dave", "d", 5)).await, FOR_READERS);
    granted(share(stage, reading("job", "bob2", "b", 20)).await, FOR_READERS);
    for reader in ["carol", "dave", "bob2"] {
        holds_true(stage.holds("job", reader).await, FOR_READERS);
    }
    granted(stage.acquire(&claim("job:gate", "eve"), hour()).await, "no place is left");
}
