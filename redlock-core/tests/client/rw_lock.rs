//! Readers and writers.

use std::sync::{Arc, Mutex};

use crate::common::*;
use redlock_core::node::{Claim, LockNode, Request, Token, Ttl};
use redlock_core::runtime::Runtime;
use redlock_core::{Builder, ErrorKind, IntoResources, KeepAlive, LeaseState, Loss, ReleaseOutcome, RwLock};
use redlock_testkit::{Fault, MemoryNode};

fn locks(world: &World) -> (RwLock, RwLock) {
    (world.redlock.rw_lock("a").unwrap(), world.other_client().rw_lock("a").unwrap())
}

#[test]
fn readers_share_the_lock_and_exclude_writers() {
    with_five(async |world| {
        let (first, second) = locks(&world);
        let readers = [
            first.read(TTL).await.unwrap(),
            second.read(TTL).await.unwrap(),
            first.read(TTL).try_now().await.unwrap().unwrap(),
        ];
        assert!(readers.iter().all(|reader| reader.is_held() && reader.fencing_token().is_none()));
        for lock in [&first, &second] {
            assert!(lock.write(TTL).try_now().await.unwrap().is_none());
            assert_eq!(ErrorKind::Contended, kind(lock.write(TTL).max_wait(500 * MS).await));
        }
        for reader in readers {
            assert_eq!(ReleaseOutcome::Released, reader.release().await.unwrap());
        }
        let writer = second.write(TTL).fenced().await.unwrap();
        assert!(writer.fencing_token().is_some());
        assert!(first.read(TTL).try_now().await.unwrap().is_none());
        assert_eq!(ErrorKind::Contended, kind(first.read(TTL).max_wait(500 * MS).await));
        writer.release().await.unwrap();
        drop(first.read(TTL).await.unwrap());
        world.settle().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_plain_lock_excludes_readers_and_writers_and_is_excluded() {
    with_five(async |world| {
        let (first, _) = locks(&world);
        let plain = world.other_client();
        let guard = plain.lock("a", TTL).await.unwrap();
        assert!(first.read(TTL).try_now().await.unwrap().is_none());
        assert!(first.write(TTL).try_now().await.unwrap().is_none());
        guard.release().await.unwrap();
        let reader = first.read(TTL).await.unwrap();
        assert!(plain.lock("a", TTL).try_now().await.unwrap().is_none());
        assert!(plain.lock("a", TTL).fenced().try_now().await.unwrap().is_none());
        assert!(plain.lock(["a", "b"], TTL).try_now().await.unwrap().is_none());
        let inspection = plain.inspect("a").await.unwrap();
        assert_eq!(Some("readers"), inspection.holder().unwrap().owner());
        reader.release().await.unwrap();
        drop(plain.lock("a", TTL).await.unwrap());
        world.settle().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_reader_cannot_become_the_writer() {
    with_five(async |world| {
        let (first, _) = locks(&world);
        let reader = first.read(TTL).await.unwrap();
        let error = first.write(TTL).max_wait(500 * MS).await.unwrap_err();
        assert_eq!(ErrorKind::Contended, error.kind());
        assert!(
            error.to_string().contains("if this program is one of them, it must release first"),
            "{error}"
        );
        assert!(reader.is_held());
    });
}

/// New readers arrive all the time, and overlap: without precedence the lock would never be free.
#[test]
fn a_writer_waits_for_the_present_readers_only() {
    with_watching(async |world| {
        let (first, second) = locks(&world);
        let log = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..8 {
            let (there, lock, log) = (world.clone(), second.clone(), Arc::clone(&log));
            world.spawn(async move {
                for _ in 0..40 {
                    let reader = lock.read(TTL).await.unwrap();
                    there.sleep(50 * MS).await;
                    log.lock().unwrap().push(there.process.now());
                    drop(reader);
                }
            });
            world.sleep(7 * MS).await;
        }
        for _ in 0..5 {
            let (writer, waited) = world.time(first.write(TTL)).await;
            assert!(waited < 100 * MS, "{waited:?}");
            let before = log.lock().unwrap().len();
            world.sleep(200 * MS).await;
            assert_eq!(before, log.lock().unwrap().len(), "a reader beside the writer");
            drop(writer.unwrap());
            // Readers have their turn between two writers.
            world.sleep(100 * MS).await;
            assert!(before < log.lock().unwrap().len());
        }
        world.sleep(10_000 * MS).await;
        assert_eq!(320, log.lock().unwrap().len());
        world.nothing_left().await;
    });
}

/// Writers queue: each has its turn, while readers have second.
#[test]
fn writers_of_several_processes_queue_and_starve_no_reader() {
    with_watching(async |world| {
        let log = Arc::new(Mutex::new((0, 0)));
        for _ in 0..4 {
            let (there, lock) = (world.clone(), world.other_client().rw_lock("a").unwrap());
            let counts = Arc::clone(&log);
            world.spawn(async move {
                for _ in 0..10 {
                    let writer = lock.write(TTL).wait_unbounded().await.unwrap();
                    there.sleep(10 * MS).await;
                    counts.lock().unwrap().0 += 1;
                    writer.release().await.unwrap();
                }
            });
            let (there, lock) = (world.clone(), world.other_client().rw_lock("a").unwrap());
            let counts = Arc::clone(&log);
            world.spawn(async move {
                for _ in 0..10 {
                    let reader = lock.read(TTL).wait_unbounded().await.unwrap();
                    there.sleep(10 * MS).await;
                    counts.lock().unwrap().1 += 1;
                    reader.release().await.unwrap();
                }
            });
        }
        world.sleep(20_000 * MS).await;
        assert_eq!((40, 40), *log.lock().unwrap());
    });
}

#[test]
fn readers_are_notified_when_a_writer_releases() {
    with_watching(async |world| {
        let (first, second) = locks(&world);
        let writer = first.write(TTL).await.unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..20 {
            let (there, lock, log) = (world.clone(), second.clone(), Arc::clone(&log));
            world.spawn(async move {
                let reader = lock.read(TTL).await.unwrap();
                log.lock().unwrap().push(there.process.now());
                there.sleep(1_000 * MS).await;
                drop(reader);
            });
        }
        world.sleep(3_000 * MS).await;
        let released = world.process.now();
        writer.release().await.unwrap();
        world.sleep(900 * MS).await;
        let log = log.lock().unwrap().clone();
        assert_eq!(20, log.len());
        assert!(log.iter().all(|at| at.saturating_duration_since(released) < 20 * MS), "all at once");
    });
}

#[test]
fn a_reader_has_the_life_of_a_lock() {
    with_five(async |world| {
        let (first, second) = locks(&world);
        let kept = first.read(TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let expiring = second.read(TTL).await.unwrap();
        world.sleep(TTL / 2).await;
        expiring.extend(TTL).await.unwrap();
        world.sleep(TTL / 2 + TTL / 10).await;
        assert!(expiring.is_held(), "extended");
        world.sleep(TTL).await;
        assert!(matches!(expiring.state(), LeaseState::Lost(Loss::Expired)), "{:?}", expiring.state());
        assert!(kept.is_held());
        assert_eq!(ReleaseOutcome::AlreadyExpired, expiring.release().await.unwrap());
        assert!(second.write(TTL).try_now().await.unwrap().is_none(), "the other reader stays");
        // The key is deleted on a quorum: the next renewal reports the loss.
        world.nodes.iter().take(3).for_each(|node| node.inner().remove("a"));
        world.sleep(TTL).await;
        assert!(matches!(kept.state(), LeaseState::Lost(Loss::Revoked { .. })), "{:?}", kept.state());
        drop(kept);
        assert_eq!(7, first.read(TTL).run(async |lease| if lease.is_held() { 7 } else { 0 }).await.unwrap());
        drop(second.write(TTL).await.unwrap());
        world.settle().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_dropped_or_failed_read_request_leaves_nothing_behind() {
    with_five(async |world| {
        let (first, _) = locks(&world);
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(50 * MS)));
        let mut request = first.read(TTL).into_future();
        assert!(is_pending(&mut request).await);
        drop(request);
        world.sleep(1_000 * MS).await;
        world.nothing_left().await;
    });
}

#[test]
fn a_crashed_writer_keeps_readers_out_for_two_seconds_at_most() {
    with_watching(async |world| {
        let (_, second) = locks(&world);
        let gate = Claim::new("a:writer".into_resources().unwrap(), Token::from_bytes("crashed"));
        let ttl = Ttl::new(2_000 * MS).unwrap();
        for node in &world.nodes {
            assert!(node.call(Request::Acquire(gate.clone(), ttl)).await.unwrap().is_grant());
        }
        assert!(second.read(TTL).try_now().await.unwrap().is_none());
        let (reader, waited) = world.time(second.read(TTL)).await;
        assert!(reader.unwrap().is_held() && waited < 2_100 * MS, "{waited:?}");
    });
}

#[test]
fn a_backend_without_readers_is_an_error_before_anything_is_sent() {
    with_five(async |world| {
        let memory = MemoryNode::new("plain");
        let node: Arc<dyn LockNode> = Arc::new(Plain(memory.clone()));
        let redlock = Builder::new(world.process.runtime()).nodes([node]).build().unwrap();
        let lock = redlock.rw_lock("a").unwrap();
        assert_eq!(ErrorKind::Unsupported, kind(lock.read(TTL).await));
        assert!(memory.is_empty());
        assert!(lock.write(TTL).await.unwrap().is_held(), "a writer needs no support");
    });
}
