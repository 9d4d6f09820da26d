//! Waiting for a lock of another client, on servers that send notifications, with faults.

use super::*;
use crate::node::user;

/// Far longer than a notification takes. Far shorter than 5 s, the time after which a waiter retries without one.
const SOON: Duration = Duration::from_millis(2_500);

/// Long enough that nothing expires during a test.
const LONG: Duration = Duration::from_secs(600);

/// A task that waits for a lock, and returns the time of its acquisition.
struct Waiter {
    task: tokio::task::JoinHandle<(Guard, Instant)>,
}

impl Waiter {
    /// Starts to wait in a separate task. Returns when every server has reported that the lock is taken.
    async fn start(redlock: &Redlock, servers: &[RedisServer], resource: &'static str) -> Self {
        let before: Vec<_> = servers.iter().map(|server| server.commandstats("pttl")).collect();
        let redlock = redlock.clone();
        let task = tokio::spawn(async move {
            let guard = redlock.lock(resource, TTL).max_wait(LONG).await.unwrap();
            (guard, Instant::now())
        });
        let watched = async || {
            servers.iter().zip(&before).all(|(server, before)| server.commandstats("pttl") > *before)
        };
        eventually("every server has a watch", Duration::from_secs(60), watched).await;
        // The last reply is in flight.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Self { task }
    }

    /// Returns its lock. It must have acquired the lock within `limit` of `since`.
    async fn acquired(self, since: Instant, limit: Duration) -> Guard {
        let (guard, at) = tokio::time::timeout(Duration::from_secs(30), self.task).await.unwrap().unwrap();
        let took = at.saturating_duration_since(since);
        assert!(took < limit, "{took:?}");
        guard
    }

    fn waits(&self) -> bool {
        !self.task.is_finished()
    }
}

/// Acquires the lock like a program in another language.
fn set_keys(servers: &[RedisServer], resource: &str) {
    for server in servers {
        assert_eq!("OK", server.command(&["SET", resource, "foreign", "PX", "600000"]));
    }
}

fn delete_keys(servers: &[RedisServer], resource: &str) -> Instant {
    let since = Instant::now();
    for server in servers {
        assert_eq!("1", server.command(&["DEL", resource]));
    }
    since
}

pub(crate) async fn a_waiter_is_notified_of_a_release_in_another_language<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    set_keys(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let since = delete_keys(&servers, "a");
    drop(waiter.acquired(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn waiters_do_not_poll_for_a_lock_on_a_bare_quorum_with_a_hung_node<A: Adapter>() {
    let servers = five();
    let (holder, redlock) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    set_keys(&servers[3..], "a");
    let guard = holder.lock("a", LONG).await.unwrap();
    let _ = delete_keys(&servers[3..], "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    servers[0].pause();
    // A hung node sends no notification, and its key does not count as free.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(waiter.waits() && guard.is_held());
    let since = Instant::now();
    drop(guard);
    // The key is absent on four nodes: two where it was held, and two where it never was.
    let taken = waiter.acquired(since, SOON).await;
    servers[0].resume();
    drop(taken);
    holder.close().await;
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn restarted_nodes_are_watched_again<A: Adapter>() {
    let servers: Vec<_> = (0..5).map(|_| RedisServer::builder().persistent(true).start()).collect();
    let redlock = warm::<A>(&servers).await;
    set_keys(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    for server in &servers {
        server.restart();
        let watches = async || server.commandstats("pttl") > 0;
        eventually("the server is watched again", Duration::from_secs(60), watches).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(waiter.waits(), "a lost server does not count as free");
    let since = delete_keys(&servers, "a");
    drop(waiter.acquired(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_cut_connection_does_not_mean_a_free_lock_and_is_watched_again<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    set_keys(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let (watches, attempts): (Vec<_>, Vec<_>) =
        servers.iter().map(|server| (server.commandstats("pttl"), server.commandstats("set"))).unzip();
    for server in &servers {
        drop(server.command(&["CLIENT", "KILL", "TYPE", "normal"]));
    }
    let again =
        async || servers.iter().zip(&watches).all(|(server, watches)| server.commandstats("pttl") > *watches);
    eventually("all servers are watched again", Duration::from_secs(60), again).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(waiter.waits());
    // It may have attempts, because it polled while no server could notify it.
    let most = attempts.iter().max().unwrap() + 5;
    assert!(servers.iter().all(|server| server.commandstats("set") <= most), "too many attempts");
    let since = delete_keys(&servers, "a");
    drop(waiter.acquired(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn without_tracking_waiters_poll_and_each_node_warns_once<A: Adapter>() {
    let servers = five();
    let rights = "~* -@all +hello +info +set +get +del +pttl +pexpire +evalsha +eval +select";
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    let urls = servers.iter().map(|server| user(server, rights));
    let redlock = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    all_up(&redlock).await;
    set_keys(&servers, "a");
    let waiting = redlock.lock("a", TTL).max_wait(LONG).retry_delay(Duration::from_millis(40)).into_future();
    let task = tokio::spawn(waiting);
    // The next connection denies tracking for the same reason, which is not logged again. The connections are cut
    // one after another, so that a quorum stays connected.
    for server in &servers {
        let before = server.commandstats("evalsha");
        drop(server.command(&["CLIENT", "KILL", "TYPE", "normal"]));
        let again = async || server.commandstats("evalsha") > before;
        eventually("the server is used again", Duration::from_secs(60), again).await;
    }
    let polled = async || servers.iter().all(|server| server.commandstats("evalsha") > 10);
    eventually("it polls", Duration::from_secs(60), polled).await;
    assert!(!task.is_finished());
    let since = delete_keys(&servers, "a");
    let guard = task.await.unwrap().unwrap();
    assert!(since.elapsed() < SOON);
    drop(guard);
    assert_eq!(5, warnings.about("CLIENT TRACKING unavailable"), "one warning for each node");
    assert!(servers.iter().all(|server| server.commandstats("client|caching") == 0));
    nothing_left(&redlock, &servers).await;
}

/// The server tracks a single key, so it reports every other watched key as changed at once.
pub(crate) async fn a_tracking_table_of_one_key_causes_no_hot_loop<A: Adapter>() {
    let servers = five();
    for server in &servers {
        server.command(&["CONFIG", "SET", "tracking-table-max-keys", "1"]);
    }
    let redlock = warm::<A>(&servers).await;
    let names: Vec<_> = (0..20).map(|number| format!("key-{number}")).collect();
    for name in &names {
        set_keys(&servers, name);
    }
    let count = |command: &str| servers[0].commandstats(command);
    let (watches, attempts) = (count("client|caching"), count("zadd"));
    let start = Instant::now();
    let wait = |name: &String| tokio::spawn(redlock.lock(name, TTL).max_wait(LONG).into_future());
    let waiting: Vec<_> = names.iter().map(wait).collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (watches, attempts) = (count("client|caching") - watches, count("zadd") - attempts);
    // Each waiter arms a watch every 200 ms, after some shorter delays, and tries every 100 to 200 ms as without watches.
    let times = |every: u128| u64::try_from(start.elapsed().as_millis() / every).unwrap();
    assert!(watches <= 20 * (20 + times(200)), "armed {watches} watches for 20 waiters");
    assert!(attempts <= 20 * (2 + times(100)), "made {attempts} attempts for 20 waiters");
    for name in &names {
        let _ = delete_keys(&servers, name);
    }
    for task in waiting {
        drop(tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap().unwrap());
    }
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn flushed_servers_notify_a_waiter<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    set_keys(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let since = Instant::now();
    for server in &servers {
        server.command(&["FLUSHALL"]);
    }
    // fred does not report this push. The waiter then tries after 5 s without a notification.
    let limit = if A::REPORTS_FLUSH { SOON } else { Duration::from_secs(5) + SOON };
    drop(waiter.acquired(since, limit).await);
    nothing_left(&redlock, &servers).await;
}

/// With `NOLOOP`, the writes of the holder would end the watch of another task without a notification.
pub(crate) async fn a_waiter_is_notified_of_writes_over_its_connection<A: Adapter>() {
    let servers = five();
    let redlock = builder::<A>(&servers).node_timeout(NODE_TIMEOUT).local_queue(false).build().unwrap();
    all_up(&redlock).await;
    let guard = redlock.lock("a", LONG).await.unwrap();
    granted_by_all(&guard).await;
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let watches: Vec<_> = servers.iter().map(|server| server.commandstats("pttl")).collect();
    guard.extend(2 * LONG).await.unwrap();
    let again =
        async || servers.iter().zip(&watches).all(|(server, watches)| server.commandstats("pttl") > *watches);
    eventually("the watch reports the extension", Duration::from_secs(4), again).await;
    assert!(waiter.waits());
    let since = Instant::now();
    guard.release().await.unwrap();
    drop(waiter.acquired(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn claims_in_either_order_do_not_wait_for_each_other<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let rounds = |names: [&'static str; 2]| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            for _ in 0..100 {
                redlock.lock(names, TTL).max_wait(LONG).await.unwrap().release().await.unwrap();
            }
        })
    };
    let both = [rounds(["a", "b"]), rounds(["b", "a"])];
    for task in both {
        tokio::time::timeout(Duration::from_secs(30), task).await.unwrap().unwrap();
    }
    nothing_left(&redlock, &servers).await;
}
