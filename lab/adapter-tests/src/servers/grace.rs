//! The grace period on servers that stop at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redlock_core::Lease;

use super::*;
use crate::Adapter;

const TTL: Duration = Duration::from_secs(4);
const GRACE: Duration = Duration::from_secs(1);
const LOCKS: u64 = 50;

/// The longest time in milliseconds for which the runtime of a test did not run a task that was due.
fn lateness() -> Arc<AtomicU64> {
    let (longest, last) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let noted = Arc::clone(&longest);
    tokio::spawn(async move {
        let mut last = last;
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let gap = u64::try_from(last.elapsed().as_millis()).unwrap_or(u64::MAX);
            noted.fetch_max(gap, Ordering::Relaxed);
            last = Instant::now();
        }
    });
    longest
}

/// Fifty locks are in different parts of their renewals when a majority stops.
pub(crate) async fn work_is_signaled_a_grace_period_before_its_lock_ends<A: Adapter>() {
    let servers = five();
    let redlock = builder::<A>(&servers).node_timeout(TTL / 8).build().unwrap();
    all_up(&redlock).await;
    let late = lateness();
    let mut works = Vec::new();
    for number in 0..LOCKS {
        let work = async |lease: Lease| {
            lease.ending().await;
            let left = lease.remaining();
            loop {
                assert!(lease.is_held(), "polled without the lock");
                if lease.remaining() < left.saturating_sub(GRACE / 2) {
                    return left;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let request = redlock.lock(number.to_string(), TTL).grace(GRACE);
        works.push(tokio::spawn(request.run(work)));
        tokio::time::sleep(TTL / 100).await;
    }
    tokio::time::sleep(TTL).await;
    assert!(works.iter().all(|work| !work.is_finished()), "the locks are renewed");
    servers[..3].iter().for_each(RedisServer::pause);
    for work in works {
        let result = work.await.unwrap();
        // A task that is due in one gap may be polled at the end of the next one.
        let late = 2 * Duration::from_millis(late.load(Ordering::Relaxed));
        match result {
            Ok(left) => {
                let whole = GRACE + TTL / 50;
                assert!(
                    left + late >= whole,
                    "signaled with {left:?} left; the runtime was late by {late:?}"
                );
            }
            // The work had no time to end: the machine ran nothing during the grace period.
            Err(error) => assert!(late >= GRACE / 2, "{error}; the runtime was late by {late:?}"),
        }
    }
    servers[..3].iter().for_each(RedisServer::resume);
    nothing_left(&redlock, &servers).await;
}
