//! Waiting for a lock of another client, on servers that send notifications, with faults.

use super::*;

/// Far longer than a notification takes, and far shorter than the 5 s after which a waiter tries without one.
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
        eventually("every server is asked", Duration::from_secs(60), watched).await;
        // The last reply is in flight.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Self { task }
    }

    /// Returns its lock. It must have acquired the lock within `limit` of `since`.
    async fn gets_it(self, since: Instant, limit: Duration) -> Guard {
        let (guard, at) = tokio::time::timeout(Duration::from_secs(30), self.task).await.unwrap().unwrap();
        let took = at.saturating_duration_since(since);
        assert!(took < limit, "{took:?}");
        guard
    }

    fn waits(&self) -> bool {
        !self.task.is_finished()
    }
}

/// Acquires the lock as a program in another language does.
fn take(servers: &[RedisServer], resource: &str) {
    for server in servers {
        assert_eq!("OK", server.command(&["SET", resource, "theirs", "PX", "600000"]));
    }
}

fn let_go(servers: &[RedisServer], resource: &str) -> Instant {
    let since = Instant::now();
    for server in servers {
        assert_eq!("1", server.command(&["DEL", resource]));
    }
    since
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_waiter_is_woken_by_a_program_in_another_language<A: Adapter>() {
    let servers = five();
    let redlock = warm::<A>(&servers).await;
    take(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let since = let_go(&servers, "a");
    drop(waiter.gets_it(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_holder_on_exactly_a_quorum_with_one_of_its_nodes_hung_is_waited_for_without_polling<
    A: Adapter,
>() {
    let servers = five();
    let (holder, redlock) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    take(&servers[3..], "a");
    let guard = holder.lock("a", LONG).await.unwrap();
    let _ = let_go(&servers[3..], "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    servers[0].pause();
    // A hung node sends no notification and is not free.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(waiter.waits() && guard.is_held());
    let since = Instant::now();
    drop(guard);
    // Four nodes are free: two that were held, and two that never were.
    let taken = waiter.gets_it(since, SOON).await;
    servers[0].resume();
    drop(taken);
    holder.close().await;
    nothing_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn nodes_that_restart_while_a_waiter_waits_are_watched_again<A: Adapter>() {
    let servers: Vec<_> = (0..5).map(|_| RedisServer::builder().persistent(true).start()).collect();
    let redlock = warm::<A>(&servers).await;
    take(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    for server in &servers {
        server.restart();
        let asked = async || server.commandstats("pttl") > 0;
        eventually("it is asked again", Duration::from_secs(60), asked).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(waiter.waits(), "a server that is gone is not free");
    let since = let_go(&servers, "a");
    drop(waiter.gets_it(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn connections_that_are_cut_are_not_free_and_watch_again<A: Adapter>() {
    let servers = five();
    let redlock = warm::<A>(&servers).await;
    take(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let (asked, tried): (Vec<_>, Vec<_>) =
        servers.iter().map(|server| (server.commandstats("pttl"), server.commandstats("set"))).unzip();
    for server in &servers {
        drop(server.command(&["CLIENT", "KILL", "TYPE", "normal"]));
    }
    let again =
        async || servers.iter().zip(&asked).all(|(server, asked)| server.commandstats("pttl") > *asked);
    eventually("all are watched again", Duration::from_secs(60), again).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(waiter.waits());
    // It may have tried, because it polled while no server could notify it.
    let most = tried.iter().max().unwrap() + 5;
    assert!(servers.iter().all(|server| server.commandstats("set") <= most), "a herd");
    let since = let_go(&servers, "a");
    drop(waiter.gets_it(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn where_tracking_is_not_allowed_waiters_poll_and_each_node_warns_once<A: Adapter>() {
    let servers = five();
    for server in &servers {
        let rules =
            "SETUSER few on >pw ~* -@all +hello +info +set +get +del +pttl +pexpire +evalsha +eval +select";
        let words = ["ACL"].into_iter().chain(rules.split(' '));
        assert_eq!("OK", server.command(&words.collect::<Vec<_>>()));
    }
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    let urls = servers.iter().map(|server| format!("redis://few:pw@127.0.0.1:{}", server.port()));
    let redlock = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    all_up(&redlock).await;
    take(&servers, "a");
    let waiting = redlock.lock("a", TTL).max_wait(LONG).retry_delay(Duration::from_millis(40)).into_future();
    let task = tokio::spawn(waiting);
    // The next connection denies tracking for the same reason, which is not logged again. One after the other, so that
    // a quorum stays connected.
    for server in &servers {
        let before = server.commandstats("set");
        drop(server.command(&["CLIENT", "KILL", "TYPE", "normal"]));
        let again = async || server.commandstats("set") > before;
        eventually("it is used again", Duration::from_secs(60), again).await;
    }
    let polled = async || servers.iter().all(|server| server.commandstats("set") > 10);
    eventually("it polls", Duration::from_secs(60), polled).await;
    assert!(!task.is_finished());
    let since = let_go(&servers, "a");
    let guard = task.await.unwrap().unwrap();
    assert!(since.elapsed() < SOON);
    drop(guard);
    assert_eq!(5, warnings.about("CLIENT TRACKING unavailable"), "one of each node");
    assert!(servers.iter().all(|server| server.commandstats("pttl") == 0));
    nothing_left(&redlock, &servers).await;
}

/// The server tracks a single key, so it reports every other watched key as changed at once.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_table_of_watches_with_room_for_one_key_makes_nobody_loop<A: Adapter>() {
    let servers = five();
    for server in &servers {
        server.command(&["CONFIG", "SET", "tracking-table-max-keys", "1"]);
    }
    let redlock = warm::<A>(&servers).await;
    let names: Vec<_> = (0..20).map(|number| format!("key-{number}")).collect();
    for name in &names {
        take(&servers, name);
    }
    let count = |command: &str| servers[0].commandstats(command);
    let (asked, tried) = (count("pttl"), count("set"));
    let start = Instant::now();
    let wait = |name: &String| tokio::spawn(redlock.lock(name, TTL).max_wait(LONG).into_future());
    let waiting: Vec<_> = names.iter().map(wait).collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (asked, tried) = (count("pttl") - asked, count("set") - tried);
    // Each waiter arms a watch every 200 ms, after some shorter delays, and tries every 100 to 200 ms as without watches.
    let times = |every: u128| u64::try_from(start.elapsed().as_millis() / every).unwrap();
    assert!(asked <= 20 * (20 + times(200)), "asked {asked} times for 20 waiters");
    assert!(tried <= 20 * (2 + times(100)), "tried {tried} times for 20 waiters");
    for name in &names {
        let _ = let_go(&servers, name);
    }
    for task in waiting {
        drop(tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap().unwrap());
    }
    nothing_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn flushed_servers_wake_a_waiter<A: Adapter>() {
    let servers = five();
    let redlock = warm::<A>(&servers).await;
    take(&servers, "a");
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let since = Instant::now();
    for server in &servers {
        server.command(&["FLUSHALL"]);
    }
    // fred does not report this push. The waiter then tries after 5 s without a notification.
    let limit = if A::REPORTS_FLUSH { SOON } else { Duration::from_secs(5) + SOON };
    drop(waiter.gets_it(since, limit).await);
    nothing_left(&redlock, &servers).await;
}

/// With `NOLOOP`, the writes of the holder would end the watch of another task without a notification.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_holder_in_the_same_process_writes_over_the_same_connection<A: Adapter>() {
    let servers = five();
    let redlock = builder::<A>(&servers).node_timeout(NODE_TIMEOUT).local_queue(false).build().unwrap();
    all_up(&redlock).await;
    let guard = redlock.lock("a", LONG).await.unwrap();
    granted_by_all(&guard).await;
    let waiter = Waiter::start(&redlock, &servers, "a").await;
    let asked: Vec<_> = servers.iter().map(|server| server.commandstats("pttl")).collect();
    guard.extend(2 * LONG).await.unwrap();
    let again =
        async || servers.iter().zip(&asked).all(|(server, asked)| server.commandstats("pttl") > *asked);
    eventually("it is told of the extension", Duration::from_secs(4), again).await;
    assert!(waiter.waits());
    let since = Instant::now();
    guard.release().await.unwrap();
    drop(waiter.gets_it(since, SOON).await);
    nothing_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn claims_in_either_order_do_not_wait_for_each_other<A: Adapter>() {
    let servers = five();
    let redlock = warm::<A>(&servers).await;
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
