//! Locks of synchronous programs, in real time: threads without a runtime, and threads of one.
#![cfg(feature = "blocking")]
#![allow(clippy::unwrap_used)] // a panic fails the test

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redlock_core::blocking::{acquire, run, try_now, wait, wait_at_most};
use redlock_core::{ErrorKind, KeepAlive, Lease, Loss, Redlock, ReleaseOutcome, TokioRuntime};
use redlock_testkit::MemoryNode;

const TTL: Duration = Duration::from_secs(60);

fn nodes() -> [MemoryNode; 3] {
    ["a", "b", "c"].map(MemoryNode::new)
}

fn over(nodes: &[MemoryNode]) -> Redlock {
    let builder = Redlock::builder(TokioRuntime::dedicated());
    nodes.iter().cloned().fold(builder, redlock_core::Builder::node).build().unwrap()
}

#[test]
fn a_lock_is_acquired_denied_extended_and_released() {
    let nodes = nodes();
    let (one, other) = (over(&nodes), over(&nodes));
    let guard = acquire(one.lock("a", TTL)).unwrap();
    assert!(guard.is_held() && guard.check().is_ok());
    assert!(try_now(other.lock("a", TTL)).unwrap().is_none());
    let denied = acquire(other.lock("a", TTL).max_wait(Duration::from_millis(5)));
    assert_eq!(ErrorKind::Contended, denied.unwrap_err().kind());
    assert!(wait(other.inspect("a")).unwrap().is_held_by(&guard));
    guard.extend(2 * TTL).unwrap();
    assert!(guard.remaining() > TTL);
    wait(guard.renew()).unwrap();
    let lease = guard.lease();
    assert_eq!(ReleaseOutcome::Released, guard.release().unwrap());
    assert_eq!((Loss::Released, ErrorKind::Lost), (wait(lease.lost()), lease.check().unwrap_err().kind()));
    assert!(wait(one.health()).is_available());
    assert_eq!(Some(0), wait_at_most(TTL, one.close()));
    assert_eq!(ErrorKind::Closed, acquire(one.lock("a", TTL)).unwrap_err().kind());
}

#[test]
fn a_detached_lock_is_resumed_or_released() {
    let nodes = nodes();
    let (one, other) = (over(&nodes), over(&nodes));
    let detached =
        wait(acquire(one.lock("a", TTL).wait_until(one.now() + TTL)).unwrap().into_async().detach());
    let guard = wait(other.resume(&detached)).unwrap();
    assert!(guard.is_held() && guard.deadline() > Some(other.now()));
    assert_eq!(ReleaseOutcome::Released, wait(guard.release()).unwrap());
    assert_eq!(ErrorKind::Lost, wait(other.resume(&detached)).unwrap_err().kind());

    let detached = wait(acquire(one.lock("a", TTL)).unwrap().into_async().detach());
    assert_eq!(ReleaseOutcome::Released, wait(other.release(&detached)).unwrap());
    assert!(try_now(one.lock("a", TTL)).unwrap().is_some());
}

#[test]
fn the_lock_is_free_once_its_guard_is_dropped() {
    let nodes = nodes();
    let (one, other) = (over(&nodes), over(&nodes));
    for _ in 0..100 {
        let guard = acquire(one.lock("a", TTL)).unwrap();
        drop(guard);
        assert!(try_now(other.lock("a", TTL)).unwrap().is_some());
    }
}

#[test]
fn a_lock_is_kept_alive_while_the_program_computes() {
    let nodes = nodes();
    let ttl = Duration::from_secs(1);
    let guard = acquire(over(&nodes).lock("a", ttl).keep_alive(KeepAlive::new())).unwrap();
    #[allow(clippy::disallowed_methods)] // a thread without a runtime computes
    thread::sleep(3 * ttl);
    guard.check().unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().unwrap());
}

#[test]
fn work_gets_its_lease_and_a_loss_is_an_error_with_the_output() {
    let nodes = nodes();
    let redlock = over(&nodes);
    assert_eq!(42, run(redlock.lock("a", TTL), |lease| lease.check().map(|()| 42)).unwrap().unwrap());

    let work = |lease: &Lease| {
        nodes.iter().for_each(MemoryNode::clear);
        assert!(matches!(wait(lease.lost()), Loss::Revoked { .. }));
        lease.check()
    };
    let error = run(redlock.lock("a", Duration::from_secs(1)), work).unwrap_err();
    assert_eq!(ErrorKind::Lost, error.kind());
    assert_eq!(ErrorKind::Lost, error.into_output().unwrap().unwrap_err().kind());
}

#[test]
fn a_panic_of_the_work_is_propagated_and_the_lock_is_released() {
    let nodes = nodes();
    let redlock = over(&nodes);
    let panic =
        catch_unwind(AssertUnwindSafe(|| run(redlock.lock("a", TTL), |_| panic!("the panic as it was"))));
    assert_eq!(Some(&"the panic as it was"), panic.unwrap_err().downcast_ref::<&str>());
    assert!(nodes.iter().all(MemoryNode::is_empty));
}

/// Records the panics of this thread from now on, instead of printing them. The result returns their messages.
fn printed_panics() -> impl Fn() -> Vec<String> {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let (here, recorded) = (thread::current().id(), Arc::clone(&messages));
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().id() == here {
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref().cloned()).unwrap_or_default();
            recorded.lock().unwrap().push(text);
        } else {
            before(panic);
        }
    }));
    move || messages.lock().unwrap().clone()
}

#[test]
fn inside_an_async_runtime_methods_panic_with_a_clear_message_and_drop_does_not() {
    let nodes = nodes();
    let redlock = over(&nodes);
    let guard = acquire(redlock.lock("a", TTL)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let printed = printed_panics();
    runtime.block_on(async {
        drop(guard);
        for _ in 0..2 {
            catch_unwind(AssertUnwindSafe(|| wait(redlock.health()))).unwrap_err();
        }
    });
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let there = redlock.clone();
    let in_worker = workers.spawn(async move {
        let printed = printed_panics();
        catch_unwind(AssertUnwindSafe(|| wait(there.health()))).unwrap_err();
        let health = tokio::task::block_in_place(|| wait(there.health()));
        assert!(health.is_available(), "this part of a task may block");
        printed()
    });
    let messages = [printed(), workers.block_on(in_worker).unwrap()].concat();
    assert_eq!(3, messages.len(), "one panic for each call: {messages:?}");
    for message in messages {
        assert!(
            message.contains("inside an async runtime") && message.contains("spawn_blocking"),
            "{message}"
        );
    }
    let there = redlock.clone();
    let health = runtime.block_on(async { tokio::task::spawn_blocking(move || wait(there.health())).await });
    assert!(health.unwrap().is_available(), "a thread for blocking work may block");
    drop(acquire(redlock.lock("a", TTL)).unwrap());
}
