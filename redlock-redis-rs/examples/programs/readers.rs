//! Readers of one name against as many plain locks, and writers under a steady stream of readers.

use std::time::{Duration, Instant};

use redlock_redis_rs::{Redlock, ReleaseOutcome};
use redlock_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::records::millis;

const TASKS: usize = 64;
const READERS: usize = 16;
const HOLD: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_secs(10);

pub(crate) async fn measure(rounds: usize) {
    let servers = RedisServer::start_many(5);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let urls = urls.join(",");
    let redlock = super::redlock(&urls);
    assert_eq!(5, redlock.health().await.healthy_nodes());
    // The two measurements alternate, so that both meet the same load of the machine.
    let (mut of_readers, mut of_locks) = (0.0, 0.0);
    for _ in 0..rounds {
        of_readers += throughput(&redlock, true).await;
        of_locks += throughput(&redlock, false).await;
    }
    let per_round = f64::from(u32::try_from(rounds).unwrap());
    println!("{TASKS} tasks: {:.0} read locks/s on one name", of_readers / per_round);
    println!("{TASKS} tasks: {:.0} plain locks/s, each task on a separate name", of_locks / per_round);
    write(&urls, 10 * rounds).await;
    redlock.close().await;
}

/// Returns how many locks are acquired and released per second.
async fn throughput(redlock: &Redlock, reads: bool) -> f64 {
    const EACH: u32 = 50;
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for task in 0..TASKS {
        let redlock = redlock.clone();
        tasks.spawn(async move {
            let (lock, name) = (redlock.rw_lock("read").unwrap(), format!("own-{task}"));
            for _ in 0..EACH {
                let outcome = if reads {
                    lock.read(TTL).await.unwrap().release().await
                } else {
                    redlock.lock(&*name, TTL).await.unwrap().release().await
                };
                assert_eq!(ReleaseOutcome::Released, outcome.unwrap());
            }
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
    f64::from(EACH) * f64::from(u32::try_from(TASKS).unwrap()) / start.elapsed().as_secs_f64()
}

/// Prints the waits of a writer. Readers of another client overlap all the time: the lock is never free by itself.
async fn write(urls: &str, writes: usize) {
    let (reading, writing) = (super::redlock(urls), super::redlock(urls));
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let lock = reading.rw_lock("stream").unwrap();
        readers.spawn(async move {
            tokio::time::sleep(HOLD * u32::try_from(reader).unwrap() / 16).await;
            loop {
                let guard = lock.read(TTL).wait_unbounded().await.unwrap();
                tokio::time::sleep(HOLD).await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(10 * HOLD).await;
    let (lock, mut waits) = (writing.rw_lock("stream").unwrap(), Vec::new());
    for _ in 0..writes {
        let start = Instant::now();
        let guard = lock.write(TTL).wait_unbounded().await.unwrap();
        waits.push(u64::try_from(start.elapsed().as_nanos()).unwrap());
        guard.release().await.unwrap();
        tokio::time::sleep(5 * HOLD).await;
    }
    readers.shutdown().await;
    waits.sort_unstable();
    println!("{writes} writes under {READERS} readers that hold {HOLD:?} each, without a pause:");
    println!("median wait {:.1} ms, longest {:.1} ms", millis(waits[writes / 2]), millis(waits[writes - 1]));
    reading.close().await;
    writing.close().await;
}
