//! The explored node has the same replies, keys, expiries and counter as the [`MemoryNode`] of the testkit.
//!
//! The [conformance tests](redlock_testkit::conformance) check `MemoryNode` and real servers with the same cases. Not
//! compared: a node that denies a reader because of the gate, and false replies.
//!
//! The testkit is linked to another copy of this crate. The types of the two copies differ, so a request is built for
//! each copy, and replies are compared by their text.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use redlock_core::node::LockNode as _;
use redlock_testkit::{MemoryNode, block_on};

use crate as explored;
use crate::round::exploration::broken::Variant;
use crate::round::exploration::node::{Key, Node};
use crate::round::exploration::world::claim;

const HOUR: Duration = Duration::from_secs(3_600);

/// The lock of a client.
#[derive(Clone, Copy, Debug)]
enum Lock {
    Plain,
    Fenced,
    Shared,
}

/// An event on the node. The numbers are fencing tokens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Acquire,
    Extend(u64),
    /// An extension with the TTL of an attempt, which is shorter.
    ExtendForLess(u64),
    /// The claim is written again, as after a denied extension.
    Refill(u64),
    Release,
    /// The key of the attempt expires, if there is one. `MemoryNode` receives a release instead.
    Expire,
}

fn events() -> impl Strategy<Value = Vec<(u8, u8, Event)>> {
    let event = prop_oneof![
        4 => Just(Event::Acquire),
        3 => (1..6_u64).prop_map(Event::Extend),
        1 => (1..6_u64).prop_map(Event::ExtendForLess),
        2 => (1..6_u64).prop_map(Event::Refill),
        3 => Just(Event::Release),
        2 => Just(Event::Expire),
    ];
    vec((0..2_u8, 0..2_u8, event), 1..60)
}

/// The combinations of locks that are explored.
fn locks() -> impl Strategy<Value = [Lock; 2]> {
    prop::sample::select(vec![
        [Lock::Plain, Lock::Plain],
        [Lock::Fenced, Lock::Fenced],
        [Lock::Shared, Lock::Plain],
        [Lock::Shared, Lock::Shared],
    ])
}

/// The number of the round of an event, as in [`Key::round`].
fn round_of(event: Event) -> u8 {
    u8::from(matches!(event, Event::Extend(_) | Event::Refill(_)))
}

fn ttl_of(event: Event) -> Duration {
    (1 + u32::from(round_of(event))) * HOUR
}

/// The request of an event, with the types of one copy of the crate. `Extend` and `Refill` have a longer TTL than other events.
macro_rules! request {
    ($library:ident, $event:expr, $lock:expr, $token:expr) => {{
        use $library::node::{Claim, Request, Token, Ttl};
        use $library::{FencingToken, IntoResource, IntoResources};
        let ttl = Ttl::new(ttl_of($event)).unwrap();
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes($token));
        let gate = "gate".into_resource().unwrap();
        let counter = |number| FencingToken::new(number).unwrap();
        match ($event, $lock) {
            (Event::Acquire, Lock::Fenced) => Request::AcquireFenced(claim, ttl),
            (Event::Extend(number) | Event::ExtendForLess(number), Lock::Fenced) => {
                Request::Confirm(claim, ttl, counter(number))
            }
            (Event::Refill(number), Lock::Fenced) => Request::Refill(claim, ttl, counter(number)),
            (Event::Acquire | Event::Refill(_), Lock::Plain) => Request::Acquire(claim, ttl),
            (Event::Acquire | Event::Refill(_), Lock::Shared) => Request::AcquireShared(claim, gate, ttl),
            (Event::Extend(_) | Event::ExtendForLess(_), Lock::Plain | Lock::Shared) => {
                Request::Extend(claim, ttl)
            }
            (Event::Release | Event::Expire, _) => Request::Release(claim),
        }
    }};
}

/// The text of a reply of one copy of the crate. Of a denial, it has only the holder: `MemoryNode` also states the
/// remaining time.
macro_rules! text {
    ($library:ident, $reply:expr) => {
        match $reply.unwrap() {
            $library::node::Reply::Denied(denial) => format!("Denied because of {:?}", denial.holder),
            reply => format!("{reply:?}"),
        }
    };
}

/// Compares the replies, the keys with their expiries, and the counter after each event.
fn compare(variant: Variant, locks: [Lock; 2], events: Vec<(u8, u8, Event)>) -> Result<(), TestCaseError> {
    let (mut node, memory) = (Node::new(0), MemoryNode::new("a"));
    memory.count_from_one();
    for (client, attempt, event) in events {
        let lock = locks[usize::from(client)];
        let claim_of = |client, attempt| claim(client, usize::from(attempt));
        let claim = claim_of(client, attempt);
        let token = claim.token().as_bytes();
        let other = block_on(memory.call(request!(redlock_core, event, lock, token)));
        if matches!(event, Event::Expire) {
            let is_its = |key: &Key| (key.client, key.attempt) == (client, attempt);
            if let Some(key) = node.keys.iter().position(is_its) {
                node.expire(key, variant);
            }
        } else {
            let (round, reads) = (round_of(event), matches!(lock, Lock::Shared));
            let own = Key { client, attempt, round, by_copy: false, reads };
            let reply = node.apply(&request!(explored, event, lock, token), own, variant);
            prop_assert_eq!(text!(explored, reply), text!(redlock_core, other), "the reply to {:?}", event);
        }
        let sorted = |mut keys: Vec<String>| {
            keys.sort_unstable();
            keys
        };
        let keys = node.keys.iter().map(|key| {
            let claim = claim_of(key.client, key.attempt);
            format!("{:?}, prolonged: {}", claim.token(), key.round > 0)
        });
        let others = memory.locks().into_iter().map(|(_, lock)| {
            let is_prolonged = lock.remaining.is_some_and(|remaining| remaining > HOUR);
            format!("{:?}, prolonged: {is_prolonged}", lock.token)
        });
        prop_assert_eq!(sorted(keys.collect()), sorted(others.collect()), "the keys after {:?}", event);
        let counter = memory.fencing_counter("a").map_or(0, redlock_core::FencingToken::as_u64);
        prop_assert_eq!(node.counter, counter, "the counter after {:?}", event);
    }
    Ok(())
}

/// Searches for a difference in random runs, which are the same each time.
fn difference(variant: Variant) -> Option<String> {
    let config = ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let runs = (locks(), events());
    runner.run(&runs, |(locks, events)| compare(variant, locks, events)).err().map(|error| error.to_string())
}

#[test]
fn the_explored_node_is_a_memory_node() {
    assert_eq!(None, difference(Variant::Sound));
}

#[test]
fn each_broken_node_differs() {
    for variant in [
        Variant::ReaderJoinsAWriter,
        Variant::WriterReplacesReaders,
        Variant::ReleaseRemovesReaders,
        Variant::ReadersAreCounted,
        Variant::LastReaderSetsTheExpiry,
        Variant::AnyReaderIsExtended,
        Variant::ConfirmIgnoresOwner,
        Variant::ConfirmCreates,
        Variant::ConfirmIgnoresCounter,
        Variant::ConfirmLowersCounter,
        Variant::ConfirmRaisesNothing,
        Variant::ExtensionIgnoresCounter,
        Variant::ExtensionIgnoresEverything,
        Variant::RefillLowersCounter,
        Variant::RemovalDropsCounter,
        Variant::ExtensionShortens,
    ] {
        assert!(difference(variant).is_some(), "{variant:?}");
    }
}
