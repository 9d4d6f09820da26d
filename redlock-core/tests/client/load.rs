//! More requests than may be in flight at once.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crate::common::{MS, NODE_TIMEOUT, TTL, World, builder, with_five};
use futures_util::future::{join4, poll_immediate};
use redlock_core::node::{LockNode, Token, Ttl};
use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_core::{Builder, Error, ErrorKind, Guard, KeepAlive, Redlock};
use redlock_testkit::sim::Process;
use redlock_testkit::{FakeNode, Fault, Operation};

/// Creates a client of the same nodes with at most `max` attempts in flight.
fn bounded(world: &World, max: usize) -> Redlock {
    builder(&world.process, &world.nodes).max_concurrent_attempts(max).build().unwrap()
}

fn delay(world: &World, operation: Operation, delay: Duration) {
    world.nodes.iter().for_each(|node| node.inject(Fault::delay(delay).on(operation)));
}

async fn nothing_left(world: &World, redlock: &Redlock) {
    world.nodes.iter().for_each(FakeNode::clear_faults);
    assert_eq!(0, redlock.close().await);
    world.nothing_left().await;
}

/// The results of requests, in the order in which they ended.
type Ended = Arc<Mutex<Vec<(usize, Result<Guard, Error>)>>>;

/// Locks names in quick succession, each in a separate task.
async fn lock_all(world: &World, redlock: &Redlock, count: usize, wait: Duration) -> Ended {
    let ended = Ended::default();
    for number in 0..count {
        let (redlock, ended) = (redlock.clone(), Arc::clone(&ended));
        world.spawn(async move {
            let result = redlock.lock(number.to_string(), TTL).max_wait(wait).await;
            ended.lock().unwrap().push((number, result));
        });
        world.settle().await;
    }
    ended
}

#[test]
fn attempts_wait_until_others_are_decided_and_start_in_order() {
    with_five(async |world| {
        delay(&world, Operation::Acquire, 10 * MS);
        let redlock = bounded(&world, 4);
        let ended = lock_all(&world, &redlock, 10, TTL).await;
        for (seen, granted) in [(4, 0), (8, 4), (10, 8), (10, 10)] {
            assert_eq!(vec![seen; 5], world.request_counts(Operation::Acquire));
            assert_eq!(granted, ended.lock().unwrap().len());
            world.sleep(11 * MS).await;
        }
        let ended = std::mem::take(&mut *ended.lock().unwrap());
        let groups: Vec<_> = ended.iter().map(|(number, _)| number / 4).collect();
        assert_eq!(vec![0, 0, 0, 0, 1, 1, 1, 1, 2, 2], groups);
        // Their validity counts from before the first send, not from the request.
        let remaining = |index: usize| ended[index].1.as_ref().unwrap().remaining();
        assert!(remaining(9) > remaining(0) + 15 * MS);
        drop(ended);
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn a_request_without_a_permit_in_time_is_overloaded_and_sends_nothing() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        let redlock = bounded(&world, 1);
        let ended = lock_all(&world, &redlock, 4, Duration::ZERO).await;
        world.sleep(NODE_TIMEOUT + MS).await;
        // The first request is done, and the second is in flight. The others have waited for the maximum time of an
        // attempt.
        let ended = std::mem::take(&mut *ended.lock().unwrap());
        let kinds: Vec<_> =
            ended.iter().map(|(number, result)| (*number, result.as_ref().unwrap_err().kind())).collect();
        assert!(kinds.contains(&(0, ErrorKind::NoQuorum)), "{kinds:?}");
        for number in [2, 3] {
            let (_, result) = ended.iter().find(|(ended, _)| *ended == number).unwrap();
            let error = result.as_ref().unwrap_err();
            assert_eq!(ErrorKind::Overloaded, error.kind());
            assert!(error.node_reports().is_empty() && error.is_retryable());
            assert!(error.to_string().contains("overloaded"), "{error}");
        }
        assert_eq!(vec![2; 5], world.request_counts(Operation::Acquire));
        nothing_left(&world, &redlock).await;
    });
}

/// Locks names, so that every later attempt waits 15 s for its turn.
async fn queue_of_15_seconds(world: &World) -> (Redlock, Ended) {
    delay(world, Operation::Acquire, 150 * MS);
    let redlock = bounded(world, 1);
    let ended = lock_all(world, &redlock, 100, Duration::from_secs(60)).await;
    (redlock, ended)
}

#[test]
fn a_longer_waiting_time_is_also_the_limit_of_the_wait_for_a_permit() {
    with_five(async |world| {
        let (redlock, ended) = queue_of_15_seconds(&world).await;
        let (slots, rw_lock) = (redlock.slots("s", 3).unwrap(), redlock.rw_lock("w").unwrap());
        let wait = Duration::from_secs(30);
        let lock = async { redlock.lock("l", TTL).max_wait(wait).await.map(|guard| guard.is_held()) };
        let slot = async { slots.acquire(TTL).max_wait(wait).await.map(|guard| guard.is_held()) };
        let unbounded = redlock.slots("u", 3).unwrap();
        let unbounded = async { unbounded.acquire(TTL).wait_unbounded().await.map(|guard| guard.is_held()) };
        let writer = async { rw_lock.write(TTL).max_wait(wait).await.map(|guard| guard.is_held()) };
        let (granted, waited) = world.time(join4(lock, slot, unbounded, writer)).await;
        let granted = (granted.0.unwrap(), granted.1.unwrap(), granted.2.unwrap(), granted.3.unwrap());
        assert_eq!((true, true, true, true), granted);
        assert!(waited > Duration::from_secs(15), "{waited:?}");
        drop(ended);
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn no_request_waits_for_a_permit_longer_than_its_waiting_time() {
    with_five(async |world| {
        let (redlock, ended) = queue_of_15_seconds(&world).await;
        let (slots, rw_lock) = (redlock.slots("s", 3).unwrap(), redlock.rw_lock("w").unwrap());
        let wait = Duration::from_secs(1);
        let (lock, waited) = world.time(redlock.lock("l", TTL).max_wait(wait)).await;
        assert_eq!((ErrorKind::Overloaded, wait), (lock.unwrap_err().kind(), waited));
        let (slot, waited) = world.time(slots.acquire(TTL).max_wait(wait)).await;
        assert_eq!((ErrorKind::Overloaded, wait), (slot.unwrap_err().kind(), waited));
        let (writer, waited) = world.time(rw_lock.write(TTL).max_wait(wait)).await;
        assert_eq!((ErrorKind::Overloaded, wait), (writer.unwrap_err().kind(), waited));
        let (lock, waited) = world.time(redlock.lock("l", TTL).try_now()).await;
        assert_eq!((ErrorKind::Overloaded, Duration::from_secs(10)), (lock.unwrap_err().kind(), waited));
        drop(ended);
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn a_hung_minority_occupies_no_permit() {
    with_five(async |world| {
        delay(&world, Operation::Acquire, MS);
        world.nodes[..2].iter().for_each(|node| node.inject(Fault::hang()));
        let redlock = bounded(&world, 1);
        let ended = lock_all(&world, &redlock, 50, TTL).await;
        world.sleep(51 * MS).await;
        let ended = std::mem::take(&mut *ended.lock().unwrap());
        assert!(ended.len() == 50 && ended.iter().all(|(_, result)| result.is_ok()), "{ended:?}");
        drop(ended);
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn dropped_requests_return_their_permits() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        let redlock = bounded(&world, 1);
        let mut requests: Vec<_> =
            ["a", "b", "c"].map(|name| redlock.lock(name, TTL).into_future()).into_iter().collect();
        for request in &mut requests {
            assert!(poll_immediate(request).await.is_none());
        }
        // First the waiting request is dropped, then the one in flight. Its work continues without a permit.
        drop(requests.remove(1));
        drop(requests.remove(0));
        world.settle().await;
        world.nodes.iter().for_each(FakeNode::clear_faults);
        requests.remove(0).await.unwrap().release().await.unwrap();
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn closing_ends_the_wait_for_a_permit() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        let redlock = bounded(&world, 1);
        let ended = lock_all(&world, &redlock, 2, TTL).await;
        world.settle().await;
        let closing = redlock.clone();
        world.spawn(async move { assert_eq!(0, closing.close().await) });
        world.settle().await;
        let kinds: Vec<_> = ended
            .lock()
            .unwrap()
            .iter()
            .map(|(n, result)| (*n, result.as_ref().unwrap_err().kind()))
            .collect();
        assert_eq!(vec![(1, ErrorKind::Closed)], kinds);
        world.sleep(2 * NODE_TIMEOUT).await;
        nothing_left(&world, &redlock).await;
    });
}

/// 60 locks need three renewals per second each. About a hundred rounds per second are possible, so each lock gets at
/// least the one that it needs.
#[test]
fn under_overload_renewals_have_priority_over_new_requests() {
    with_five(async |world| {
        let redlock = bounded(&world, 1);
        let mut guards = Vec::new();
        for number in 0..60 {
            let request = redlock.lock(number.to_string(), Duration::from_secs(1));
            guards.push(request.keep_alive(KeepAlive::new()).await.unwrap());
        }
        delay(&world, Operation::Extend, 10 * MS);
        world.sleep(Duration::from_secs(20)).await;
        assert_eq!(60, guards.iter().filter(|guard| guard.is_held()).count());
        let new = redlock.lock("new", TTL).max_wait(TTL).await;
        assert_eq!(ErrorKind::Overloaded, new.unwrap_err().kind());
        guards.truncate(20);
        redlock.lock("new", TTL).max_wait(TTL).await.unwrap().release().await.unwrap();
        drop(guards);
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn requests_that_are_not_polled_do_not_block_others_forever() {
    with_five(async |world| {
        delay(&world, Operation::Acquire, 10 * MS);
        let redlock = bounded(&world, 2);
        let mut idle: Vec<_> =
            ["a", "b"].map(|name| redlock.lock(name, TTL).into_future()).into_iter().collect();
        for request in &mut idle {
            assert!(poll_immediate(request).await.is_none());
        }
        let (guard, waited) = world.time(redlock.lock("c", TTL).wait_unbounded()).await;
        guard.unwrap().release().await.unwrap();
        assert!(waited < Duration::from_secs(3), "{waited:?}");
        drop(idle);
        nothing_left(&world, &redlock).await;
    });
}

#[test]
fn a_burst_after_an_idle_time_is_served() {
    with_five(async |world| {
        delay(&world, Operation::Acquire, 60 * MS);
        let redlock = bounded(&world, 4);
        for _ in 0..2 {
            let ended = lock_all(&world, &redlock, 5, TTL).await;
            let mut request = redlock.lock("dropped", TTL).into_future();
            assert!(poll_immediate(&mut request).await.is_none());
            drop(request);
            world.sleep(Duration::from_secs(12)).await;
            assert!(ended.lock().unwrap().drain(..).all(|(_, result)| result.is_ok()));
            let ended = lock_all(&world, &redlock, 100, TTL).await;
            world.sleep(Duration::from_secs(9)).await;
            let ended = std::mem::take(&mut *ended.lock().unwrap());
            assert_eq!(100, ended.iter().filter(|(_, result)| result.is_ok()).count());
        }
        nothing_left(&world, &redlock).await;
    });
}

/// The last attempt was denied, so the wait for a permit could end with that error as well.
#[test]
fn a_request_that_was_denied_before_ends_as_closed() {
    with_five(async |world| {
        let foreign = Token::from_bytes("foreign");
        world.nodes.iter().for_each(|node| node.inner().set_holder("a", foreign.clone(), Ttl::MAX));
        let redlock = bounded(&world, 1);
        let (there, kind) = (redlock.clone(), Arc::new(Mutex::new(None)));
        let ended = Arc::clone(&kind);
        world.spawn(async move {
            let error = there.lock("a", TTL).await.unwrap_err();
            *ended.lock().unwrap() = Some(error.kind());
        });
        world.settle().await;
        assert_eq!(vec![1; 5], world.request_counts(Operation::Acquire));
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        let mut stalled = redlock.lock("b", TTL).into_future();
        assert!(poll_immediate(&mut stalled).await.is_none());
        // The request makes its next attempt meanwhile, and waits for the permit.
        world.sleep(NODE_TIMEOUT + MS).await;
        let closing = redlock.clone();
        world.spawn(async move { assert_eq!(0, closing.close().await) });
        world.sleep(MS).await;
        assert_eq!(Some(ErrorKind::Closed), *kind.lock().unwrap());
        drop(stalled);
        world.nodes.iter().for_each(FakeNode::clear_faults);
        world.sleep(MS).await;
    });
}

/// A runtime that stops polling some of its tasks, as one does that is not driven any more.
#[derive(Clone, Debug)]
struct Stalling {
    process: Process,
    /// The number of tasks so far.
    tasks: Arc<AtomicU32>,
    /// The tasks that are not polled any more.
    stalled: Arc<Mutex<Range<u32>>>,
}

impl Runtime for Stalling {
    fn now(&self) -> Instant {
        self.process.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.process.sleep(duration)
    }

    fn spawn(&self, mut task: BoxFuture<()>) {
        let (number, stalled) = (self.tasks.fetch_add(1, Ordering::Relaxed), Arc::clone(&self.stalled));
        self.process.spawn(Box::pin(poll_fn(move |cx| {
            let is_stalled = stalled.lock().unwrap().contains(&number);
            if is_stalled { Poll::Pending } else { task.as_mut().poll(cx) }
        })));
    }
}

#[test]
fn a_renewal_begins_although_another_one_is_stalled() {
    with_five(async |world| {
        let (tasks, stalled) = (Arc::<AtomicU32>::default(), Arc::new(Mutex::new(0..0)));
        let runtime = Stalling {
            process: world.process.clone(),
            tasks: Arc::clone(&tasks),
            stalled: Arc::clone(&stalled),
        };
        let nodes = world.nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        let builder = Builder::new(Arc::new(runtime)).nodes(nodes).node_timeout(NODE_TIMEOUT);
        let redlock = builder.max_concurrent_attempts(1).build().unwrap();
        let first = tasks.load(Ordering::Relaxed);
        let one = redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let of_one = first..tasks.load(Ordering::Relaxed);
        world.sleep(TTL / 10).await;
        let two = redlock.lock("b", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        delay(&world, Operation::Extend, NODE_TIMEOUT / 2);
        while world.request_counts(Operation::Extend) == vec![0; 5] {
            assert!(one.is_held(), "no renewal begins");
            world.sleep(MS).await;
        }
        *stalled.lock().unwrap() = of_one;
        world.nodes.iter().for_each(FakeNode::clear_faults);
        world.sleep(TTL * 2).await;
        assert_eq!((false, true), (one.is_held(), two.is_held()));
        *stalled.lock().unwrap() = 0..0;
        drop((one, two));
        nothing_left(&world, &redlock).await;
    });
}
