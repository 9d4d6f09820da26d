//! The order of the requests of different clients.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use redlock_core::node::{Begun, Claim, LockNode, Place, Profile, Reply, Request, Status, Token, Ttl, Watch};
use redlock_core::{
    Builder, ErrorKind, Guard, IntoResource as _, IntoResources as _, JobOutcome, Position, Redlock,
};
use redlock_testkit::{FakeNode, Fault, Faulty, Operation};

type Log = Arc<Mutex<Vec<u32>>>;

/// Starts a request of a client, which holds the lock for a millisecond.
fn contend(world: &World, redlock: &Redlock, name: u32, log: &Log) {
    let (redlock, there, log) = (redlock.clone(), world.clone(), Arc::clone(log));
    world.spawn(async move {
        let guard = redlock.lock("a", TTL).wait_unbounded().await.unwrap();
        log.lock().unwrap().push(name);
        there.sleep(MS).await;
        guard.release().await.unwrap();
    });
}

/// Acquires the lock with a token whose release reserves the lock for a waiter: 15 of 16 tokens.
async fn reserving(world: &World) -> Guard {
    reserving_on(world, 0).await
}

/// Same as [`reserving`], with the number of a node that replies.
async fn reserving_on(world: &World, node: usize) -> Guard {
    loop {
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.settle().await;
        if is_reserving(world, node) {
            return guard;
        }
        guard.release().await.unwrap();
    }
}

/// Returns whether the release of the lock on a node reserves it for a waiter.
fn is_reserving(world: &World, node: usize) -> bool {
    let token = world.nodes[node].inner().holder("a").unwrap();
    token.as_bytes().last().unwrap() % 16 != 0
}

/// Enters a place on every node, as a client that dies afterwards.
async fn enter_dead(world: &World, waited: Duration) {
    enter_dead_on(&world.nodes, waited).await;
}

async fn enter_dead_on(nodes: &[FakeNode], waited: Duration) {
    let id = Token::from_bytes(format!("next#{}", "d".repeat(40)));
    enter(nodes, Place::new(id, waited, NODE_TIMEOUT)).await;
}

async fn enter(nodes: &[FakeNode], place: Place) {
    let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes("dead")).with_place(place);
    for node in nodes {
        node.inner().call(Request::Release(claim.clone())).await.unwrap();
    }
}

#[test]
fn clients_acquire_in_the_order_of_their_requests() {
    with_watching(async |world| {
        let log = Log::default();
        let clients: Vec<_> = (0..6).map(|_| world.other_client()).collect();
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        for (name, client) in (0..).zip(&clients) {
            contend(&world, client, name, &log);
            world.sleep(MS).await;
        }
        guard.release().await.unwrap();
        world.sleep(TTL).await;
        assert_eq!(vec![0, 1, 2, 3, 4, 5], *log.lock().unwrap());
        world.nothing_left().await;
    });
}

/// A loop of each of `tasks` tasks, until `log` has this many turns.
fn keep_contending(world: &World, redlock: &Redlock, tasks: u32, name: u32, turns: usize, log: &Log) {
    for _ in 0..tasks {
        let (there, redlock, log) = (world.clone(), redlock.clone(), Arc::clone(log));
        world.spawn(async move {
            while log.lock().unwrap().len() < turns {
                let guard = redlock.lock("a", TTL).wait_unbounded().await.unwrap();
                log.lock().unwrap().push(name);
                there.sleep(MS).await;
                guard.release().await.unwrap();
            }
        });
    }
}

/// Open turns are the only exception to the order.
#[test]
fn each_process_has_its_part_of_the_turns() {
    with_watching(async |world| {
        let (log, turns) = (Log::default(), 2_000);
        keep_contending(&world, &world.redlock, 16, 0, turns, &log);
        keep_contending(&world, &world.other_client(), 1, 1, turns, &log);
        while log.lock().unwrap().len() < turns {
            world.sleep(MS).await;
        }
        let of_one = log.lock().unwrap().iter().filter(|name| **name == 1).count();
        let equal = turns / 17;
        assert!(
            (equal * 8 / 10..=equal * 12 / 10).contains(&of_one),
            "{of_one} turns of one task beside 16, instead of {equal}"
        );
    });
}

/// The release of each task carries the place of the next one.
#[test]
fn a_process_with_many_tasks_and_one_with_a_single_task_are_in_one_order() {
    with_watching(async |world| {
        let (log, other) = (Log::default(), world.other_client());
        let guard = world.other_client().lock("a", TTL).await.unwrap();
        for name in 0..12 {
            // Of these, the other process has only the fourth.
            contend(&world, if name == 3 { &other } else { &world.redlock }, name, &log);
            world.sleep(MS).await;
        }
        guard.release().await.unwrap();
        world.sleep(TTL).await;
        let log = log.lock().unwrap();
        let position = log.iter().position(|name| *name == 3).unwrap();
        // The first task of a process that finds out about the other one may be overtaken once.
        assert!((2..=4).contains(&position), "{log:?}");
        assert_eq!(12, log.len());
    });
}

/// Without a place, it would only have the chance of every sixteenth turn.
#[test]
fn a_request_for_two_resources_is_in_the_order_of_each() {
    with_watching(async |world| {
        let log = Log::default();
        for _ in 0..4 {
            let (there, redlock, log) = (world.clone(), world.redlock.clone(), Arc::clone(&log));
            world.spawn(async move {
                while log.lock().unwrap().len() < 1_000 {
                    let guard = redlock.lock("a", TTL).wait_unbounded().await.unwrap();
                    log.lock().unwrap().push(0);
                    there.sleep(MS).await;
                    guard.release().await.unwrap();
                }
            });
        }
        let other = world.other_client();
        for _ in 0..20 {
            let guard = other.lock(["a", "b"], TTL).wait_unbounded().await.unwrap();
            world.sleep(MS).await;
            guard.release().await.unwrap();
        }
        let turns = log.lock().unwrap().len();
        assert!(turns < 160, "{turns} turns of 4 tasks beside 20 of the request for two resources");
        world.sleep(TTL).await;
        world.nothing_left().await;
    });
}

/// Without a place, a reader would hardly ever find the gate free, or have a chance beside plain locks.
#[test]
fn a_reader_is_in_the_order_beside_writers_and_plain_locks() {
    for writes in [true, false] {
        with_watching(async move |world| {
            let log = Log::default();
            for _ in 0..4 {
                let (there, redlock, log) = (world.clone(), world.redlock.clone(), Arc::clone(&log));
                world.spawn(async move {
                    while log.lock().unwrap().len() < 1_000 {
                        let guard = if writes {
                            let lock = redlock.rw_lock("a").unwrap();
                            lock.write(TTL).wait_unbounded().await.unwrap().into_any()
                        } else {
                            redlock.lock("a", TTL).wait_unbounded().await.unwrap()
                        };
                        log.lock().unwrap().push(0);
                        there.sleep(MS).await;
                        guard.release().await.unwrap();
                    }
                });
            }
            let lock = world.other_client().rw_lock("a").unwrap();
            for _ in 0..20 {
                let guard = lock.read(TTL).wait_unbounded().await.unwrap();
                world.sleep(MS).await;
                guard.release().await.unwrap();
            }
            let turns = log.lock().unwrap().len();
            assert!(turns < 160, "{turns} turns of 4 tasks beside 20 of a reader; they write: {writes}");
            world.sleep(TTL).await;
            world.nothing_left().await;
        });
    }
}

/// The gate expires while the lock is held, and the reader has its turn on the gate at that time.
#[test]
fn a_reader_is_in_the_order_beside_writers_that_hold_the_lock_for_long() {
    with_watching(async |world| {
        let (log, ttl) = (Log::default(), 10_000 * MS);
        for name in 0..3 {
            let (there, lock, log) =
                (world.clone(), world.other_client().rw_lock("a").unwrap(), Arc::clone(&log));
            world.spawn(async move {
                while log.lock().unwrap().len() < 100 {
                    let guard = lock.write(ttl).wait_unbounded().await.unwrap();
                    log.lock().unwrap().push(name);
                    there.sleep(3_000 * MS).await;
                    guard.release().await.unwrap();
                }
            });
        }
        let lock = world.redlock.rw_lock("a").unwrap();
        for _ in 0..10 {
            let guard = lock.read(ttl).wait_unbounded().await.unwrap();
            world.sleep(MS).await;
            guard.release().await.unwrap();
        }
        let turns = log.lock().unwrap().len();
        assert!(turns < 60, "{turns} turns of 3 writers beside 10 of a reader");
    });
}

/// No reservation is left to expire.
#[test]
fn many_readers_and_writers_take_turns_without_delay() {
    with_watching(async |world| {
        let (clients, log) = ([world.other_client(), world.other_client()], Log::default());
        for number in 0..16 {
            let lock = clients[number % 2].rw_lock("a").unwrap();
            let (there, log) = (world.clone(), Arc::clone(&log));
            world.spawn(async move {
                for round in 0..20 {
                    if (number + round) % 4 == 0 {
                        let guard = lock.write(TTL).wait_unbounded().await.unwrap();
                        there.sleep(MS).await;
                        guard.release().await.unwrap();
                    } else {
                        let guard = lock.read(TTL).wait_unbounded().await.unwrap();
                        there.sleep(MS).await;
                        guard.release().await.unwrap();
                    }
                    log.lock().unwrap().push(0);
                }
            });
        }
        let all = async {
            while log.lock().unwrap().len() < 320 {
                world.sleep(MS).await;
            }
        };
        let ((), took) = world.time(all).await;
        assert!(took < 2_000 * MS, "320 turns took {took:?}");
    });
}

/// The turn of one reader is that of all readers that wait, unless another request has waited longer.
#[test]
fn waiting_readers_share_a_turn() {
    with_watching(async |world| {
        let (log, last) = (Log::default(), world.other_client());
        let guard = world.redlock.rw_lock("a").unwrap().write(TTL).await.unwrap();
        for name in 0..6 {
            let lock = world.other_client().rw_lock("a").unwrap();
            let (there, log) = (world.clone(), Arc::clone(&log));
            world.spawn(async move {
                let guard = lock.read(TTL).wait_unbounded().await.unwrap();
                log.lock().unwrap().push(name);
                there.sleep(50 * MS).await;
                guard.release().await.unwrap();
            });
            world.sleep(MS).await;
        }
        contend(&world, &last, 9, &log);
        world.sleep(MS).await;
        guard.release().await.unwrap();
        world.sleep(40 * MS).await;
        let mut together = log.lock().unwrap().clone();
        together.sort_unstable();
        assert_eq!(vec![0, 1, 2, 3, 4, 5], together);
        world.sleep(TTL).await;
        assert_eq!(Some(&9), log.lock().unwrap().last());
        world.nothing_left().await;
    });
}

#[test]
fn a_reader_that_gives_up_leaves_its_place_and_that_on_the_gate() {
    with_watching(async |world| {
        let (hasty, last) = (world.other_client().rw_lock("a").unwrap(), world.other_client());
        let (guard, gate) =
            (reserving(&world).await, world.other_client().lock("a:writer", TTL).await.unwrap());
        assert!(hasty.read(TTL).max_wait(10 * MS).await.is_err());
        world.settle().await;
        guard.release().await.unwrap();
        gate.release().await.unwrap();
        for name in ["a", "a:writer"] {
            let holders: Vec<_> = world.nodes.iter().filter_map(|node| node.inner().holder(name)).collect();
            assert!(holders.is_empty(), "{name:?} is reserved for a request that has ended");
            drop(last.lock(name, TTL).try_now().await.unwrap().unwrap());
        }
    });
}

/// The other resource is held for long: the request takes no turn away from the others, and has the lock once it is free.
#[test]
fn a_request_for_two_resources_passes_a_turn_on_that_it_cannot_use() {
    with_watching(async |world| {
        let (other, log) = (world.other_client(), Log::default());
        let tool = world.other_client().lock("b", TTL).await.unwrap();
        let first = world.redlock.lock("a", TTL).await.unwrap();
        let waiting = other.lock(["a", "b"], TTL).wait_unbounded();
        let turns = async {
            world.sleep(MS).await;
            let third = world.other_client();
            for name in 0..10 {
                contend(&world, if name % 2 == 0 { &world.redlock } else { &third }, name, &log);
                world.sleep(MS).await;
            }
            first.release().await.unwrap();
            world.sleep(NODE_TIMEOUT / 2).await;
            let turns = log.lock().unwrap().len();
            tool.release().await.unwrap();
            turns
        };
        let (two, turns) = both(waiting.into_future(), turns).await;
        two.unwrap().release().await.unwrap();
        assert_eq!(10, turns, "the others do not wait for the reservation to expire");
        world.nothing_left().await;
    });
}

#[test]
fn a_request_that_gives_up_leaves_its_place() {
    with_watching(async |world| {
        let (hasty, last) = (world.other_client(), world.other_client());
        let guard = reserving(&world).await;
        assert!(hasty.lock("a", TTL).max_wait(10 * MS).await.is_err());
        let waiting = world.time(last.lock("a", TTL).wait_unbounded());
        let ((next, took), ()) = both(waiting, async {
            world.sleep(MS).await;
            guard.release().await.unwrap();
        })
        .await;
        next.unwrap().release().await.unwrap();
        assert!(took < 10 * MS, "the lock was reserved for a request that has ended: {took:?}");
        world.nothing_left().await;
    });
}

/// The release of a task that has waited enters the next one on the nodes.
#[test]
fn a_task_that_gives_up_during_the_release_before_it_leaves_its_place() {
    with_watching(async |world| {
        let other = world.other_client();
        let guard = loop {
            let before = other.lock("a", TTL).await.unwrap();
            let (guard, ()) = both(world.redlock.lock("a", TTL), async {
                world.sleep(MS).await;
                before.release().await.unwrap();
            })
            .await;
            let guard = guard.unwrap();
            world.settle().await;
            if is_reserving(&world, 0) {
                break guard;
            }
            guard.release().await.unwrap();
        };
        let next = world.redlock.lock("a", TTL).max_wait(10 * MS);
        let (next, ()) = both(next, async {
            world.sleep(5 * MS).await;
            world.nodes.iter().for_each(|node| node.inject(Fault::delay(20 * MS).on(Operation::Release)));
            guard.release().await.unwrap();
        })
        .await;
        assert_eq!(ErrorKind::Contended, next.unwrap_err().kind());
        world.sleep(50 * MS).await;
        assert!(other.lock("a", TTL).try_now().await.unwrap().is_some(), "the lock is reserved");
    });
}

#[test]
fn a_waiter_that_died_delays_the_others_by_one_reservation() {
    with_watching(async |world| {
        let waiter = world.other_client();
        let guard = reserving(&world).await;
        enter_dead(&world, TTL).await;
        let waiting = world.time(waiter.lock("a", TTL).wait_unbounded());
        let ((next, took), ()) = both(waiting, async {
            world.sleep(MS).await;
            guard.release().await.unwrap();
        })
        .await;
        next.unwrap().release().await.unwrap();
        assert!(took > NODE_TIMEOUT && took < NODE_TIMEOUT + 20 * MS, "{took:?}");
        world.nothing_left().await;
    });
}

#[test]
fn a_reservation_is_no_holder() {
    with_watching(async |world| {
        let reserve = |ttl| {
            for node in &world.nodes {
                node.inner().set_holder("a", Token::from_bytes(format!("next#{}", "d".repeat(40))), ttl);
            }
        };
        reserve(Ttl::new(NODE_TIMEOUT).unwrap());
        assert!(world.redlock.inspect("a").await.unwrap().is_free());
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        let error = world.redlock.lock("a", TTL).max_wait(MS).await.unwrap_err();
        assert_eq!((ErrorKind::Contended, None), (error.kind(), error.holder()));
        assert!(error.to_string().contains("reserved for a client that has waited longer"), "{error}");
    });
}

/// The client that waits may have died, and no other machine would run the job in this period.
#[test]
fn a_job_is_not_skipped_because_of_a_reservation() {
    with_watching(async |world| {
        for node in &world.nodes {
            let place = Token::from_bytes(format!("next#{}", "d".repeat(40)));
            node.inner().set_holder("a", place, Ttl::new(NODE_TIMEOUT).unwrap());
        }
        let job = world.redlock.lock("a", TTL).once_per(3_600_000 * MS, async |_| Ok::<_, ()>(()));
        assert!(matches!(job.await.unwrap(), JobOutcome::Ran(Ok(()))));
    });
}

/// Its reservation would last until its next attempt.
#[test]
fn a_request_that_polls_rarely_has_no_place() {
    for (delay, has_place) in [(200 * MS, true), (1_000 * MS, false)] {
        with_five(async move |world| {
            let waiter = world.other_client();
            let guard = reserving(&world).await;
            let waiting = waiter.lock("a", TTL).retry_delay(delay);
            world.spawn(async move { drop(waiting.await) });
            world.sleep(MS).await;
            guard.release().await.unwrap();
            let is_reserved = world.redlock.lock("a", TTL).try_now().await.unwrap().is_none();
            assert_eq!(has_place, is_reserved, "{delay:?}");
        });
    }
}

/// A node that can be limited: without notifications, without places, or without both.
struct Limited {
    node: FakeNode,
    notifies: bool,
    keeps_places: bool,
}

impl LockNode for Limited {
    fn label(&self) -> &str {
        self.node.label()
    }

    fn profile(&self) -> Profile {
        let mut profile = self.node.profile();
        profile.places = self.keeps_places;
        profile
    }

    fn status(&self) -> Status {
        self.node.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        let notifies = self.notifies;
        self.node.begin(request).map(move |reply| match reply? {
            Reply::Watching(Watch { availability, holder, .. }) if !notifies => {
                Ok(Reply::Watching(Watch::new(availability, pending()).held_by(holder)))
            }
            other => Ok(other),
        })
    }
}

/// Returns a client of the same nodes. It receives the notifications of the first ones only.
fn partly_notified(world: &World, notifying: usize) -> Redlock {
    let nodes = world.nodes.iter().enumerate().map(|(number, node)| {
        let (node, notifies) = (node.clone(), number < notifying);
        Arc::new(Limited { node, notifies, keeps_places: true }) as Arc<dyn LockNode>
    });
    client_of(world, nodes)
}

fn client_of(world: &World, nodes: impl Iterator<Item = Arc<dyn LockNode>>) -> Redlock {
    Builder::new(world.process.runtime()).nodes(nodes).node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// Returns the time from the release of a lock until this client has it.
async fn handed_over_to(world: &World, waiter: &Redlock, guard: Guard) -> Duration {
    let waiting = world.time(waiter.lock("a", TTL).wait_unbounded());
    let ((next, took), ()) = both(waiting, async {
        world.sleep(MS).await;
        guard.release().await.unwrap();
    })
    .await;
    next.unwrap().release().await.unwrap();
    world.nothing_left().await;
    took
}

/// The reservation on one node shows that the lock was released.
#[test]
fn nodes_that_do_not_notify_of_a_release_are_queried() {
    with_watching(async |world| {
        let waiter = partly_notified(&world, 1);
        let guard = reserving(&world).await;
        let took = handed_over_to(&world, &waiter, guard).await;
        assert!(took < NODE_TIMEOUT, "the reservation has expired: {took:?}");
    });
}

/// A request without notifications polls every 5 s. It then sees how long the lock is reserved for another request.
#[test]
fn a_request_that_polls_follows_the_reservation_that_it_finds() {
    with_watching(async |world| {
        let waiter = partly_notified(&world, 0);
        let guard = reserving(&world).await;
        for digit in ["d", "e"] {
            let id = Token::from_bytes(format!("next#{}", digit.repeat(40)));
            enter(&world.nodes, Place::new(id, TTL, NODE_TIMEOUT)).await;
        }
        let took = handed_over_to(&world, &waiter, guard).await;
        // Both others have died. The first reservation expires unseen, and the attempt at 5 s makes the second one.
        assert!(took > 5_200 * MS && took < 5_300 * MS, "{took:?}");
    });
}

/// A client that dies holds the lock on each of these nodes, for this time.
fn hold(nodes: &[FakeNode], owner: &str, time: Duration) {
    for node in nodes {
        node.inner().set_holder("a", Token::from_bytes(owner), Ttl::new(time).unwrap());
    }
}

/// The report names the attempt as the holder, and its release is not notified.
#[test]
fn a_query_that_overtakes_the_release_of_the_attempt_is_repeated() {
    with_changed(3, FakeNode::watching, async |world| {
        hold(&world.nodes[1..2], "dead", 300 * MS);
        hold(&world.nodes[2..], "dead", TTL);
        world.nodes[0].inject(Fault::delay(10 * MS).on(Operation::Release));
        let waiter = partly_notified(&world, 0);
        let (guard, took) = world.time(waiter.lock("a", TTL).wait_unbounded()).await;
        drop(guard.unwrap());
        assert!(took > 300 * MS && took < 310 * MS, "it is free on two nodes after 300 ms: {took:?}");
    });
}

/// Returns a client of the nodes, which keep no places. Two other clients split the votes.
fn client_without_an_order(world: &World, notifies: bool) -> Redlock {
    hold(&world.nodes[1..2], "one", 6 * TTL);
    hold(&world.nodes[2..], "other", 6 * TTL);
    let limited = |node: &FakeNode| Limited { node: node.clone(), notifies, keeps_places: false };
    client_of(world, world.nodes.iter().map(|node| Arc::new(limited(node)) as Arc<dyn LockNode>))
}

/// Waits until a request has made this many attempts.
async fn until_attempts(world: &World, attempts: u64) {
    while world.nodes[0].request_count(Operation::Acquire) < attempts {
        world.sleep(MS).await;
    }
}

/// The other clients release their claims after the first attempt of the request, or after its third one.
#[test]
fn a_request_without_an_order_soon_repeats_an_attempt_with_split_votes() {
    for (attempts, shortest, longest) in [(1, 100 * MS, 200 * MS), (3, 5_200 * MS, 5_400 * MS)] {
        with_changed(3, FakeNode::watching, async move |world| {
            let waiter = client_without_an_order(&world, false);
            let waiting = world.time(waiter.lock("a", TTL).wait_unbounded());
            let ((guard, took), ()) = both(waiting, async {
                until_attempts(&world, attempts).await;
                world.nodes[1..].iter().for_each(|node| node.inner().remove("a"));
            })
            .await;
            drop(guard.unwrap());
            assert!((shortest..=longest).contains(&took), "{attempts} attempts with split votes: {took:?}");
        });
    }
}

/// The second attempt reaches no node. The votes of the third one are split, as those of the first one.
#[test]
fn a_request_without_an_order_soon_repeats_an_attempt_with_split_votes_after_an_outage() {
    with_changed(3, FakeNode::watching, async |world| {
        let waiter = client_without_an_order(&world, false);
        let waiting = world.time(waiter.lock("a", TTL).wait_unbounded());
        let ((guard, took), ()) = both(waiting, async {
            until_attempts(&world, 1).await;
            let outage = || Fault::unavailable().on(Operation::Acquire);
            world.nodes.iter().for_each(|node| node.inject(outage()));
            until_attempts(&world, 2).await;
            world.nodes.iter().for_each(Faulty::clear_faults);
            until_attempts(&world, 3).await;
            world.nodes[1..].iter().for_each(|node| node.inner().remove("a"));
        })
        .await;
        drop(guard.unwrap());
        assert!(took <= 1_000 * MS, "after three retry delays: {took:?}");
    });
}

/// A notification leads to the second attempt. The other clients split its votes again before it arrives.
#[test]
fn a_request_without_an_order_soon_repeats_an_attempt_with_split_votes_after_a_notification() {
    with_changed(3, FakeNode::watching, async |world| {
        let waiter = client_without_an_order(&world, true);
        contend(&world, &waiter, 0, &Log::default());
        until_attempts(&world, 1).await;
        world.nodes[1..].iter().for_each(|node| {
            node.inject(Fault::apply_late(10 * MS).on(Operation::Acquire).once());
            node.inner().remove("a");
        });
        let ((), took) = world.time(until_attempts(&world, 2)).await;
        assert!(took < 10 * MS, "a notification ends the wait: {took:?}");
        hold(&world.nodes[1..2], "one", 6 * TTL);
        hold(&world.nodes[2..], "other", 6 * TTL);
        let ((), took) = world.time(until_attempts(&world, 3)).await;
        assert!((100 * MS..=220 * MS).contains(&took), "a retry delay after the replies: {took:?}");
    });
}

/// It could not use the reservation, because no other node has passed the lock on.
#[test]
fn a_request_enters_its_place_again_after_a_reservation_that_it_could_not_use() {
    with_watching(async |world| {
        let guard = reserving(&world).await;
        contend(&world, &world.other_client(), 0, &Log::default());
        world.sleep(MS).await;
        world.nodes[0].inner().remove("a");
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes("1"));
        world.nodes[0].inner().set_holder("a", claim.token().clone(), Ttl::MAX);
        world.nodes[0].inner().call(Request::Release(claim)).await.unwrap();
        assert_eq!(Some(0), places(&world).await[0], "the lock is reserved there");
        world.sleep(2 * NODE_TIMEOUT).await;
        assert_eq!(vec![Some(1); 5], places(&world).await);
        guard.release().await.unwrap();
    });
}

/// Each attempt is granted by the nodes that the holder did not reach. That is no split between waiters.
#[test]
fn a_request_keeps_its_time_while_the_holder_lacks_a_minority_of_nodes() {
    with_five(async |world| keeps_its_time(&world, 2).await);
}

/// Each attempt has failed before the last node that denies it replies.
#[test]
fn a_request_keeps_its_time_if_a_node_of_the_holder_replies_late() {
    with_nodes(4, async |world| {
        world.nodes[3].inject(Fault::delay(5 * MS).on(Operation::Acquire));
        keeps_its_time(&world, 1).await;
    });
}

/// The token that denies each attempt may be that of another attempt only once.
#[test]
fn a_request_keeps_its_time_while_a_node_of_the_holder_is_down() {
    with_five(async |world| {
        let guard = reserving_on(&world, 2).await;
        world.nodes[4].inject(Fault::unavailable());
        keeps_its_time_beside(&world, 2, guard).await;
    });
}

async fn keeps_its_time(world: &World, lacking: usize) {
    let guard = reserving_on(world, lacking).await;
    keeps_its_time_beside(world, lacking, guard).await;
}

/// The holder lacks the first nodes.
async fn keeps_its_time_beside(world: &World, lacking: usize, guard: Guard) {
    let waiter = world.other_client();
    world.nodes[..lacking].iter().for_each(|node| node.inner().remove("a"));
    let waiting = waiter.lock("a", TTL).retry_delay(200 * MS).wait_unbounded();
    let ((next, took), ()) = both(world.time(waiting), async {
        world.sleep(4_000 * MS).await;
        enter_dead(world, 3_900 * MS).await;
        guard.release().await.unwrap();
    })
    .await;
    assert!(took < 4_200 * MS, "the lock was reserved for a later request: {took:?}");
    next.unwrap().release().await.unwrap();
}

/// Other requests that wait do not prolong its place.
#[test]
fn a_waiter_that_died_long_ago_is_forgotten_although_others_wait() {
    with_watching(async |world| {
        let guard = world.redlock.lock("a", 6 * TTL).await.unwrap();
        enter_dead(&world, TTL).await;
        contend(&world, &world.other_client(), 0, &Log::default());
        world.sleep(10_000 * MS).await;
        assert_eq!(vec![Some(2); 5], places(&world).await);
        world.sleep(6_000 * MS).await;
        assert_eq!(vec![Some(1); 5], places(&world).await);
        guard.release().await.unwrap();
        world.sleep(TTL).await;
        world.nothing_left().await;
    });
}

/// Returns the number of places on each node.
async fn places(world: &World) -> Vec<Option<u32>> {
    let mut places = Vec::new();
    for node in &world.nodes {
        let request = Request::Inspect("a".into_resource().unwrap());
        places.push(match node.inner().call(request).await.unwrap() {
            Reply::Held(entry) => entry.waiters,
            Reply::Free { waiters } => waiters,
            other => panic!("{other:?}"),
        });
    }
    places
}

#[test]
fn a_request_enters_its_place_on_a_node_that_was_down() {
    with_watching(async |world| {
        world.nodes[..2].iter().for_each(FakeNode::crash);
        let clients = [world.other_client(), world.other_client()];
        let guard = reserving_on(&world, 4).await;
        for (name, client) in (0..).zip(&clients) {
            contend(&world, client, name, &Log::default());
        }
        world.sleep(NODE_TIMEOUT).await;
        assert_eq!(vec![Some(0), Some(0), Some(2), Some(2), Some(2)], places(&world).await);
        world.nodes[..2].iter().for_each(FakeNode::restart);
        world.sleep(NODE_TIMEOUT).await;
        assert_eq!(vec![Some(2); 5], places(&world).await);
        guard.release().await.unwrap();
        world.sleep(TTL).await;
        world.nothing_left().await;
    });
}

/// The connection may have hidden that the place was lost, with all data or with a reservation that has expired.
#[test]
fn a_request_enters_its_place_again_over_another_connection() {
    with_changed(
        5,
        |node| node.watching().ordered(),
        async |world| {
            let guard = reserving(&world).await;
            contend(&world, &world.other_client(), 0, &Log::default());
            world.sleep(MS).await;
            let before = world.request_counts(Operation::Release);
            world.nodes[0].crash();
            world.nodes[0].inner().clear();
            world.nodes[0].restart();
            assert_eq!(Some(0), places(&world).await[0]);
            world.sleep(NODE_TIMEOUT).await;
            assert_eq!(vec![Some(1); 5], places(&world).await);
            let after = world.request_counts(Operation::Release);
            assert_eq!(before[0] + 1, after[0]);
            assert_eq!(before[1..], after[1..], "the other nodes have the place");
            guard.release().await.unwrap();
        },
    );
}

/// With two failed nodes of five, the first denial decides the round, before contention is certain.
#[test]
fn a_request_has_its_place_while_a_minority_of_nodes_is_down() {
    with_watching(async |world| {
        for node in &world.nodes[..2] {
            node.inject(Fault::unavailable());
        }
        let log = Log::default();
        let clients: Vec<_> = (0..6).map(|_| world.other_client()).collect();
        let guard = reserving_on(&world, 4).await;
        for (name, client) in (0..).zip(&clients) {
            contend(&world, client, name, &log);
            world.sleep(MS).await;
        }
        let waiters = world.redlock.inspect("a").await.unwrap().waiters();
        assert_eq!(Some(6), waiters);
        guard.release().await.unwrap();
        world.sleep(TTL).await;
        assert_eq!(vec![0, 1, 2, 3, 4, 5], *log.lock().unwrap());
    });
}

/// A round is decided by a quorum of replies. The other nodes must know the waiter too.
#[test]
fn a_node_that_replies_late_enters_the_place() {
    with_watching(async |world| {
        let waiter = world.other_client();
        let guard = reserving(&world).await;
        world.nodes[4].inject(Fault::delay(20 * MS).on(Operation::Acquire).times(1));
        let waiting = world.time(waiter.lock("a", TTL).wait_unbounded());
        let ((next, _), ()) = both(waiting, async {
            world.sleep(30 * MS).await;
            guard.release().await.unwrap();
            let holder = world.nodes[4].inner().holder("a").expect("the node has not reserved the lock");
            assert!(holder.as_bytes().starts_with(b"next#"));
        })
        .await;
        next.unwrap().release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The request has given up before the node replied.
#[test]
fn a_node_that_replies_too_late_enters_nothing() {
    with_watching(async |world| {
        let hasty = world.other_client();
        let guard = reserving(&world).await;
        world.nodes[4].inject(Fault::delay(20 * MS).on(Operation::Acquire).times(1));
        assert!(hasty.lock("a", TTL).max_wait(10 * MS).await.is_err());
        world.sleep(30 * MS).await;
        guard.release().await.unwrap();
        world.settle().await;
        assert_eq!(None, world.nodes[4].inner().holder("a"), "a request that has ended has a reservation");
    });
}

/// Its server did not know the script, for example, so the attempt took a second command.
#[test]
fn a_node_that_enters_the_place_too_late_is_left_again() {
    with_watching(async |world| {
        let hasty = world.other_client();
        let guard = reserving(&world).await;
        let (error, ()) = both(hasty.lock("a", TTL).max_wait(10 * MS), async {
            world.sleep(5 * MS).await;
            world.nodes[4].inject(Fault::delay(20 * MS).on(Operation::Acquire).times(1));
        })
        .await;
        assert_eq!(Some(Position::new(1, 1)), error.unwrap_err().position());
        world.sleep(30 * MS).await;
        let reply = world.nodes[4].inner().call(Request::Inspect("a".into_resource().unwrap())).await;
        assert!(
            matches!(reply, Ok(Reply::Held(entry)) if entry.waiters == Some(0)),
            "the place is still there"
        );
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn the_waiters_are_counted_and_a_request_that_gives_up_has_its_position() {
    with_watching(async |world| {
        let clients: Vec<_> = (0..3).map(|_| world.other_client()).collect();
        let guard = reserving(&world).await;
        contend(&world, &clients[0], 0, &Log::default());
        world.sleep(MS).await;
        let request = clients[1].lock("a", TTL).max_wait(100 * MS).into_future();
        let (error, ()) = both(request, async {
            world.sleep(MS).await;
            contend(&world, &clients[2], 2, &Log::default());
            world.sleep(MS).await;
            // One node has the place of a client that all others have forgotten, and one has none.
            enter_dead_on(&world.nodes[..1], TTL).await;
            world.nodes[1].inner().clear();
            let inspection = world.redlock.inspect("a").await.unwrap();
            assert_eq!(Some(3), inspection.waiters());
            assert!(inspection.to_string().ends_with(" for at least 10.0s, 3 waiters"), "{inspection}");
        })
        .await;
        let error = error.unwrap_err();
        assert_eq!(Some(Position::new(2, 3)), error.position(), "{:?}", error.node_reports());
        assert!(error.to_string().ends_with(", position 2 of 3 waiters, after 100.0ms"), "{error}");
        world.settle().await;
        assert_eq!(Some(2), world.redlock.inspect("a").await.unwrap().waiters());
        guard.release().await.unwrap();
    });
}

/// Otherwise, the number would be too small whenever the lock passes on.
#[test]
fn a_waiter_for_which_the_lock_is_reserved_is_counted() {
    with_watching(async |world| {
        for node in &world.nodes {
            let place = Token::from_bytes(format!("next#{}", "d".repeat(40)));
            node.inner().set_holder("a", place, Ttl::new(NODE_TIMEOUT).unwrap());
        }
        let inspection = world.redlock.inspect("a").await.unwrap();
        assert_eq!((true, Some(1)), (inspection.is_free(), inspection.waiters()));
        let error = world.redlock.lock("a", TTL).max_wait(MS).await.unwrap_err();
        assert_eq!(Some(Position::new(2, 2)), error.position());
    });
}

#[test]
fn a_request_that_waits_for_its_turn_has_its_position_in_the_process() {
    with_watching(async |world| {
        let log = Log::default();
        let guard = world.lock().await;
        contend(&world, &world.redlock, 0, &log);
        world.sleep(MS).await;
        let request = world.redlock.lock("a", TTL).max_wait(100 * MS).into_future();
        let (error, ()) = both(request, async {
            world.sleep(MS).await;
            contend(&world, &world.redlock, 2, &log);
        })
        .await;
        assert_eq!(Some(Position::new(2, 3)), error.unwrap_err().position());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_single_attempt_has_no_position() {
    with_watching(async |world| {
        let _guard = world.lock().await;
        let error = world.other_client().lock("a", TTL).max_wait(Duration::ZERO).await.unwrap_err();
        assert_eq!((ErrorKind::Contended, None), (error.kind(), error.position()));
        assert!(!error.to_string().contains("waiter"), "{error}");
    });
}
