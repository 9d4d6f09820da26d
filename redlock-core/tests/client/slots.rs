//! Slots: a lock on one of K names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::common::*;
use redlock_core::{ErrorKind, Guard, LeaseState, Loss, ReleaseOutcome};
use redlock_testkit::{Fault, Operation};

#[test]
fn all_slots_have_different_holders_and_further_requests_are_denied() {
    with_five(async |world| {
        let (first, second) =
            (world.redlock.slots("s", 4).unwrap(), world.other_client().slots("s", 4).unwrap());
        let mut guards = Vec::new();
        for turn in 0..4 {
            let slots = if turn % 2 == 0 { &first } else { &second };
            guards.push(slots.acquire(TTL).await.unwrap());
        }
        let indices: BTreeSet<_> = guards.iter().map(Guard::index).collect();
        assert_eq!((0..4).collect::<BTreeSet<_>>(), indices);
        for slots in [&first, &second] {
            assert!(slots.acquire(TTL).try_now().await.unwrap().is_none());
            assert_eq!(ErrorKind::Contended, kind(slots.acquire(TTL).max_wait(500 * MS).await));
        }
        let freed = guards.pop().unwrap();
        let index = freed.index();
        assert_eq!(ReleaseOutcome::Released, freed.release().await.unwrap());
        assert_eq!(index, second.acquire(TTL).await.unwrap().index());
        drop(guards);
        // The other client releases in the background, too.
        world.settle().await;
        world.nothing_left().await;
    });
}

#[test]
fn any_client_can_lock_a_slot_by_its_published_name() {
    with_five(async |world| {
        let slots = world.redlock.slots("s", 2).unwrap();
        let plain = world.other_client();
        let one = plain.lock("s:slot:0", TTL).await.unwrap();
        let other = slots.acquire(TTL).await.unwrap();
        assert_eq!((1, "s:slot:1"), (other.index(), &*other.resources()[0].to_string()));
        assert!(slots.acquire(TTL).try_now().await.unwrap().is_none());
        assert!(plain.lock("s:slot:1", TTL).try_now().await.unwrap().is_none());
        let inspections = slots.inspect().await.unwrap();
        assert!(inspections[0].is_held_by(&one) && !inspections[1].is_free());
        drop(one);
        assert_eq!(0, slots.acquire(TTL).await.unwrap().index());
        drop(other);
        world.nothing_left().await;
    });
}

/// The waiting task is notified, so it does not poll.
#[test]
fn a_waiter_is_notified_when_any_slot_becomes_free() {
    for freed in 0..3 {
        with_watching(async move |world| {
            let slots = world.other_client().slots("s", 3).unwrap();
            let mut guards = Vec::new();
            for _ in 0..3 {
                guards.push(slots.acquire(6 * TTL).await.unwrap());
            }
            guards.sort_by_key(Guard::index);
            let (there, log) = (world.clone(), Arc::new(Mutex::new(None)));
            let found = Arc::clone(&log);
            world.spawn(async move {
                let guard = there.redlock.slots("s", 3).unwrap().acquire(TTL).await.unwrap();
                *found.lock().unwrap() = Some(guard.index());
                there.sleep(TTL).await;
            });
            world.sleep(3000 * MS).await;
            let before = world.request_counts(Operation::Acquire);
            guards.remove(freed).release().await.unwrap();
            world.sleep(5 * MS).await;
            assert_eq!(Some(freed), *log.lock().unwrap());
            let after = world.request_counts(Operation::Acquire);
            assert!(after.iter().zip(before).all(|(after, before)| after - before == 1), "a single attempt");
        });
    }
}

/// A task that is alone attempts slots until one is held. The next task assumes that all are.
#[test]
fn waiting_tasks_attempt_a_slot_only_when_it_is_free() {
    with_watching(async |world| {
        let foreign = world.other_client().slots("s", 8).unwrap();
        let mut guards = Vec::new();
        for _ in 0..8 {
            guards.push(foreign.acquire(60 * TTL).await.unwrap());
        }
        let before = world.request_counts(Operation::Acquire);
        let attempts = || {
            let counts = world.request_counts(Operation::Acquire).into_iter().zip(&before);
            counts.map(|(after, before)| after - before).collect::<Vec<_>>()
        };
        for _ in 0..2 {
            let there = world.clone();
            world.spawn(async move {
                let slots = there.redlock.slots("s", 8).unwrap();
                let _guard = slots.acquire(60 * TTL).wait_unbounded().await.unwrap();
                there.sleep(50 * TTL).await;
            });
        }
        world.sleep(100 * MS).await;
        assert_eq!([1; 5], *attempts());
        guards.remove(3).release().await.unwrap();
        world.sleep(100 * MS).await;
        assert_eq!([2; 5], *attempts());
    });
}

/// Both are notified at the same moment. The first one attempts the slot, and the other one sees that it is taken.
#[test]
fn one_of_the_waiters_in_two_processes_attempts_a_free_slot() {
    with_watching(async |world| {
        let guard = world.other_client().slots("s", 1).unwrap().acquire(60 * TTL).await.unwrap();
        for redlock in [world.redlock.clone(), world.other_client()] {
            let there = world.clone();
            world.spawn(async move {
                let slots = redlock.slots("s", 1).unwrap();
                let _guard = slots.acquire(60 * TTL).wait_unbounded().await.unwrap();
                there.sleep(50 * TTL).await;
            });
        }
        world.sleep(1000 * MS).await;
        let before = world.request_counts(Operation::Acquire);
        guard.release().await.unwrap();
        world.sleep(100 * MS).await;
        let after = world.request_counts(Operation::Acquire);
        assert!(after.iter().zip(before).all(|(after, before)| after - before == 1), "{after:?}");
    });
}

/// One query on each node finds the free slot, and one watches it again. The watches of the others are continued.
#[test]
fn the_next_task_continues_the_watches_of_the_one_before() {
    with_watching(async |world| {
        let foreign = world.other_client().slots("s", 8).unwrap();
        let mut guards = Vec::new();
        for _ in 0..8 {
            guards.push(foreign.acquire(60 * TTL).await.unwrap());
        }
        let slots = world.redlock.slots("s", 8).unwrap();
        for _ in 0..9 {
            let (there, slots) = (world.clone(), slots.clone());
            world.spawn(async move {
                let _guard = slots.acquire(60 * TTL).wait_unbounded().await.unwrap();
                there.sleep(50 * TTL).await;
            });
        }
        world.sleep(100 * MS).await;
        for guard in guards {
            let before = world.request_counts(Operation::Watch);
            guard.release().await.unwrap();
            world.sleep(100 * MS).await;
            let after = world.request_counts(Operation::Watch);
            let queries: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
            assert_eq!([2; 5], *queries);
        }
    });
}

#[test]
fn tasks_of_a_process_are_served_in_order_and_one_of_them_searches() {
    with_five(async |world| {
        let holders = world.other_client().slots("s", 2).unwrap();
        let held = (holders.acquire(50 * TTL).await.unwrap(), holders.acquire(50 * TTL).await.unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        for name in 0..200 {
            let (there, log) = (world.clone(), Arc::clone(&log));
            world.spawn(async move {
                let slots = there.redlock.slots("s", 2).unwrap();
                let guard = slots.acquire(TTL).wait_unbounded().await.unwrap();
                log.lock().unwrap().push(name);
                there.sleep(10 * MS).await;
                drop(guard);
            });
            world.settle().await;
        }
        let before = world.request_counts(Operation::Acquire)[0];
        world.sleep(TTL).await;
        let attempts = world.request_counts(Operation::Acquire)[0] - before;
        assert!(attempts <= 202, "both slots every 100 to 200 ms: {attempts} attempts");
        drop(held);
        world.sleep(100 * TTL).await;
        assert_eq!((0..200).collect::<Vec<_>>(), *log.lock().unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn a_dropped_search_lets_the_next_task_search_and_leaves_nothing() {
    with_five(async |world| {
        let slots = world.redlock.slots("s", 1).unwrap();
        let guard = slots.acquire(TTL).await.unwrap();
        let (mut first, mut second) = (slots.acquire(TTL).into_future(), slots.acquire(TTL).into_future());
        assert!(is_pending(&mut first).await);
        assert!(is_pending(&mut second).await);
        world.settle().await;
        drop(first);
        guard.release().await.unwrap();
        assert!(second.await.is_ok());
        world.nothing_left().await;
    });
}

#[test]
fn too_few_nodes_end_the_search_as_they_end_a_lock_request() {
    with_five(async |world| {
        let slots = world.redlock.slots("s", 8).unwrap();
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::unavailable()));
        assert_eq!(ErrorKind::NoQuorum, kind(slots.acquire(TTL).await));
        assert_eq!(ErrorKind::NoQuorum, kind(slots.acquire(TTL).try_now().await.map(|_| ())));
        world.nothing_left().await;
    });
}

#[test]
fn tokens_are_ordered_within_a_slot_only() {
    with_five(async |world| {
        let slots = world.redlock.slots("s", 2).unwrap();
        let (one, other) =
            (slots.acquire(TTL).fenced().await.unwrap(), slots.acquire(TTL).fenced().await.unwrap());
        let before = one.token();
        assert_eq!(
            (&one.resources()[0], &other.resources()[0]),
            (before.resource(), other.token().resource())
        );
        assert_eq!(None, before.partial_cmp(&other.token()));
        one.release().await.unwrap();
        let again = slots.acquire(TTL).fenced().await.unwrap();
        let after = again.token();
        assert!(after > before && after.number() > before.number());
        assert_eq!(None, slots.acquire(TTL).try_now().await.unwrap().map(|guard| guard.index()));
        drop((again, other));
        let plain = slots.acquire(TTL).await.unwrap();
        assert_eq!(None, plain.fencing_token());
    });
}

#[test]
fn work_in_a_slot_is_kept_alive_and_ends_with_the_slot() {
    with_five(async |world| {
        let slots = world.redlock.slots("s", 2).unwrap();
        let there = world.clone();
        let work = async move |slot: redlock_core::Lease| {
            there.sleep(5 * TTL).await;
            (slot.is_held(), slot.state())
        };
        assert_eq!((true, LeaseState::Held), slots.acquire(TTL).run(work).await.unwrap());
        let there = world.clone();
        let work = async move |_| {
            there.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
            std::future::pending::<()>().await;
        };
        let error = slots.acquire(TTL).run(work).await.unwrap_err();
        assert_eq!(Some(&Loss::Unreachable), error.loss());
        world.nothing_left().await;
    });
}

#[test]
fn counts_and_names_are_checked() {
    with_five(async |world| {
        for (name, count) in [("s", 0), ("s", 257), ("", 1), (&*"x".repeat(1020), 1)] {
            assert_eq!(ErrorKind::InvalidInput, kind(world.redlock.slots(name, count)));
        }
        assert_eq!(256, world.redlock.slots("s", 256).unwrap().count());
        let slots = world.redlock.slots("s", 1).unwrap();
        assert_eq!(ErrorKind::InvalidInput, kind(slots.acquire(MS).await));
        world.redlock.close().await;
        assert_eq!(ErrorKind::Closed, kind(slots.acquire(TTL).await));
    });
}
