//! Observers of a lock: what they see, and what they cost.

use futures_util::future::select_all;
use redlock_core::{Inspection, KeepAlive, Observer, ReleaseOutcome};
use tokio::time::timeout;

use super::*;
use crate::Adapter;
use crate::wait::{PATIENCE, eventually, soon};

const OBSERVERS: usize = 20;

/// Longer than the interval at which observers poll if the servers cannot notify.
const QUIET: Duration = Duration::from_secs(3);

/// Returns the label of the next holder; `None` if the lock is free.
async fn next(observer: &mut Observer) -> Option<String> {
    let label = |inspection: Inspection| inspection.holder()?.owner().map(str::to_owned);
    label(soon(observer.changed()).await.unwrap())
}

/// Returns the number of commands of observers that the servers have carried out.
fn commands(servers: &[RedisServer]) -> Vec<u64> {
    let of_observers = ["get", "pttl", "client|caching", "evalsha", "eval"];
    servers.iter().map(|server| of_observers.iter().map(|name| server.commandstats(name)).sum()).collect()
}

pub(crate) async fn twenty_observers_see_each_holder_and_a_quiet_lock_costs_nothing<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    // The TTL is so long that no renewal falls into the test. A renewal is a change, which observers notice.
    let ttl = 10 * PATIENCE;
    let mut observers: Vec<_> = (0..OBSERVERS).map(|_| redlock.observe("a")).collect();
    for observer in &mut observers {
        assert_eq!(None, next(observer).await);
    }
    for holder in ["one", "two"] {
        let guard = redlock.lock("a", ttl).owner(holder).keep_alive(KeepAlive::new()).await.unwrap();
        for observer in &mut observers {
            assert_eq!(Some(holder), next(observer).await.as_deref());
        }
        // Each of the five votes is a change, and three of them sufficed for all that was seen.
        granted_by_all(&guard).await;
        eventually("observers send nothing while nothing changes", PATIENCE, async || {
            let before = commands(&servers);
            let changes = select_all(observers.iter_mut().map(|observer| Box::pin(observer.changed())));
            assert!(timeout(QUIET, changes).await.is_err(), "nothing has changed");
            before == commands(&servers)
        })
        .await;
        guard.release().await.unwrap();
        for observer in &mut observers {
            assert_eq!(None, next(observer).await);
        }
    }
    drop(observers);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn an_observer_sees_a_crashed_holder_expire_and_survives_restarts<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let ttl = Duration::from_secs(2);
    let mut observer = redlock.observe("a");
    drop(redlock.lock("a", ttl).owner("one").await.unwrap().forget());
    assert_eq!(Some("one"), next(&mut observer).await.as_deref());
    assert_eq!(None, next(&mut observer).await, "expired");

    let _guard = redlock.lock("a", TTL).owner("two").await.unwrap();
    assert_eq!(Some("two"), next(&mut observer).await.as_deref());
    // The connections of a majority are replaced while nothing is polled.
    for server in &servers[..3] {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    drop(redlock.lock("b", TTL).await.unwrap());
    for server in &servers {
        server.command(&["DEL", "a"]);
    }
    assert_eq!(None, next(&mut observer).await, "deleted");
}

pub(crate) async fn a_broken_lock_is_free_and_its_holder_learns_of_it<A: Adapter>() {
    let servers = five();
    let (redlock, stranger) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let guard = redlock.lock("a", TTL).owner("one").await.unwrap();
    granted_by_all(&guard).await;
    let inspection = redlock.inspect("a").await.unwrap();
    let holder = inspection.holder().unwrap();
    assert_eq!(ReleaseOutcome::Released, redlock.break_lock(&inspection, holder).await.unwrap());
    let other = stranger.lock("a", TTL).await.unwrap();
    assert_eq!(ErrorKind::Lost, guard.renew().await.unwrap_err().kind());
    // The lock has changed hands since the inspection.
    assert_eq!(ReleaseOutcome::AlreadyLost, redlock.break_lock(&inspection, holder).await.unwrap());
    other.renew().await.unwrap();
    drop((guard, other));
    stranger.close().await;
    nothing_left(&redlock, &servers).await;
}
