//! The number of waiters, and the position of a request that gives up.

use redlock_core::{Error, Position};

use super::*;
use crate::Adapter;
use crate::node::user;
use crate::wait::{soon, until};

/// Long enough that nothing expires during a test.
const LONG: Duration = Duration::from_secs(600);

/// Waits until every server has this number of places.
async fn places(servers: &[RedisServer], number: usize) {
    // A place has two members.
    let members = (2 * number).to_string();
    until(async || servers.iter().all(|server| server.command(&["ZCARD", "a#waiting"]) == members)).await;
}

/// Returns the error of a request that has made an attempt with its place.
async fn gave_up(redlock: &Redlock) -> Error {
    soon(async {
        let mut wait = Duration::from_millis(200);
        loop {
            let error = redlock.lock("a", TTL).max_wait(wait).await.unwrap_err();
            // On a busy machine, the first attempt may take as long as the wait. It has no place.
            if error.position().is_some() {
                return error;
            }
            wait *= 2;
        }
    })
    .await
}

pub(crate) async fn three_waiters_are_counted_and_a_fourth_knows_its_position<A: Adapter>() {
    let servers = five();
    let holder = warm::<A>(&servers).await;
    let guard = holder.lock("a", LONG).await.unwrap();
    granted_by_all(&guard).await;
    assert_eq!(Some(0), holder.inspect("a").await.unwrap().waiters());
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        let redlock = warm::<A>(&servers).await;
        tasks.push(tokio::spawn(redlock.lock("a", TTL).max_wait(LONG).into_future()));
        clients.push(redlock);
        places(&servers, number).await;
    }
    let inspection = holder.inspect("a").await.unwrap();
    assert_eq!((true, Some(3)), (inspection.is_held_by(&guard), inspection.waiters()));
    assert!(inspection.to_string().ends_with(", 3 waiters"), "{inspection}");

    let last = warm::<A>(&servers).await;
    let error = gave_up(&last).await;
    assert_eq!(
        (ErrorKind::Contended, Some(Position::new(4, 4))),
        (error.kind(), error.position()),
        "{error}"
    );
    assert!(error.to_string().contains(", position 4 of 4 waiters, after "), "{error}");
    places(&servers, 3).await;

    guard.release().await.unwrap();
    for task in tasks {
        soon(task).await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(Some(0), holder.inspect("a").await.unwrap().waiters());
    clients.extend([holder, last]);
    nothing_left_of(&clients, &servers).await;
}

pub(crate) async fn a_waiter_that_died_long_ago_is_forgotten_although_others_wait<A: Adapter>() {
    let servers = five();
    let clients = [warm::<A>(&servers).await, warm::<A>(&servers).await];
    let guard = clients[0].lock("a", LONG).await.unwrap();
    granted_by_all(&guard).await;
    // Two members for each place. The score of the second one is the time of the last attempt: 100 s ago, and now.
    for (place, last) in [("next#dd 600", 100_000_000), ("next#ee 600", 0)] {
        for server in &servers {
            let time = server.command(&["TIME"]);
            let (seconds, micros) = time.split_once('\n').unwrap();
            let now =
                seconds.trim().parse::<i64>().unwrap() * 1_000_000 + micros.trim().parse::<i64>().unwrap();
            let [first, second] = [-now, now - last - 8_000_000_000_000_000].map(|score| score.to_string());
            server.command(&["ZADD", "a#waiting", &first, place, &second, &format!("+{place}")]);
        }
    }
    places(&servers, 2).await;
    let waiting = tokio::spawn(clients[1].lock("a", TTL).max_wait(LONG).into_future());
    let is_forgotten = |server: &RedisServer| {
        let [dead, other] =
            ["next#dd 600", "next#ee 600"].map(|place| server.command(&["ZSCORE", "a#waiting", place]));
        dead.is_empty() && !other.is_empty() && server.command(&["ZCARD", "a#waiting"]) == "4"
    };
    until(async || servers.iter().all(is_forgotten)).await;
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    nothing_left_of(&clients, &servers).await;
}

/// With two of five servers down, the first denial decides an attempt, before contention is certain.
pub(crate) async fn waiters_have_their_places_while_two_servers_are_down<A: Adapter>() {
    let servers = five();
    let (down, up) = servers.split_at(2);
    let clients = [warm::<A>(&servers).await, warm::<A>(&servers).await, warm::<A>(&servers).await];
    down.iter().for_each(RedisServer::kill);
    let guard = clients[0].lock("a", LONG).await.unwrap();
    let mut tasks = Vec::new();
    for (redlock, number) in clients[1..].iter().zip(1..) {
        tasks.push(tokio::spawn(redlock.lock("a", TTL).max_wait(LONG).into_future()));
        places(up, number).await;
    }
    guard.release().await.unwrap();
    for task in tasks {
        soon(task).await.unwrap().unwrap().release().await.unwrap();
    }
    down.iter().for_each(RedisServer::restart);
    nothing_left_of(&clients, &servers).await;
}

pub(crate) async fn without_the_rights_to_count_the_number_is_unknown<A: Adapter>() {
    let servers = five();
    let holder = warm::<A>(&servers).await;
    let guard = holder.lock("a", LONG).await.unwrap();
    granted_by_all(&guard).await;
    let urls = servers.iter().map(|server| user(server, "~* +@all -zcard -zrevrank"));
    let redlock = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    all_up(&redlock).await;
    let inspection = redlock.inspect("a").await.unwrap();
    assert_eq!((true, None), (inspection.is_held_by(&guard), inspection.waiters()));
    let error = redlock.lock("a", TTL).max_wait(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!((ErrorKind::Contended, None), (error.kind(), error.position()), "{error}");
    assert!(redlock.inspect("b").await.unwrap().is_free());
    drop(guard);
    nothing_left_of(&[holder, redlock], &servers).await;
}
