//! Followers that observe the leader: their load on the servers, and how soon they know of a new one.
//!
//! Each follower has connections of its own, as a separate process has.

use std::time::{Duration, Instant};

use redlock_core::{KeepAlive, Observer};
use redlock_testkit::RedisServer;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::monitor::Commands;
use super::{millis, scaled};
use crate::contender::redlock_client::RedlockClient;
use crate::groups::servers;
use crate::lane::{Flavor, percentiles, runtime};
use crate::report::Fact;
use crate::round::Effort;

const GROUP: &str = "20 followers observe the leader";
const FOLLOWERS: usize = 20;
const TTL: Duration = Duration::from_secs(5);

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let (servers, urls) = servers(5);
    let changes = scaled(effort, 300);
    let lasts = Duration::from_millis(scaled(effort, 20_000)).max(TTL / 2);
    runtime(Flavor::CurrentThread).block_on(async {
        let (seen, mut seen_by_all) = mpsc::unbounded_channel();
        for _ in 0..FOLLOWERS {
            let (observer, seen) = (RedlockClient::redis_rs(&urls).0.observe("leader"), seen.clone());
            tokio::spawn(follow(observer, seen));
        }
        let candidates = [RedlockClient::redis_rs(&urls), RedlockClient::redis_rs(&urls)].map(|client| client.0);
        let mut times = Vec::new();
        for (number, candidate) in (0..changes).zip(candidates.iter().cycle()) {
            let label = format!("leader-{number}");
            let guard = candidate.lock("leader", TTL).owner(&label).await.expect("a quorum replies");
            let elected = Instant::now();
            let mut last = elected;
            for _ in 0..FOLLOWERS {
                last = last.max(until_seen(&mut seen_by_all, &label).await);
            }
            times.push(last - elected);
            guard.release().await.expect("a quorum replies");
        }
        // The pause excludes the end of the last change.
        let guard = candidates[0].lock("leader", 4 * lasts).await.expect("a quorum replies");
        sleep(Duration::from_secs(1)).await;
        let quiet = requests(&servers[0], lasts).await;
        guard.release().await.expect("a quorum replies");
        let request = candidates[0].lock("leader", TTL).keep_alive(KeepAlive::new());
        let guard = request.await.expect("a quorum replies");
        sleep(Duration::from_secs(1)).await;
        let renewed = requests(&servers[0], lasts).await;
        guard.release().await.expect("a quorum replies");
        let times = percentiles(times);
        let fact = |what: &str, measured, goal| Fact { group: GROUP, what: what.to_owned(), measured, goal };
        vec![
            fact(
                "time from the grant until the last follower knows the leader",
                format!("p50 {}, p99 {}", millis(1e3 * times.p50), millis(1e3 * times.p99)),
                None,
            ),
            fact(
                "requests that name the lock per second and node, while it is neither renewed nor released",
                format!("{quiet:.2}"),
                Some(("0".to_owned(), quiet == 0.0)),
            ),
            fact(
                "requests that name the lock per second and node, renewals included, while it is renewed (TTL of 5 s)",
                format!("{renewed:.2}"),
                None,
            ),
        ]
    })
}

/// Sends the label of each leader, and the time at which the follower knows it.
async fn follow(mut observer: Observer, seen: mpsc::UnboundedSender<(String, Instant)>) {
    while let Ok(inspection) = observer.changed().await {
        let Some(label) = inspection.holder().and_then(|holder| holder.owner()) else { continue };
        let _ = seen.send((label.to_owned(), Instant::now()));
    }
}

/// Waits until one more follower knows this leader.
async fn until_seen(seen: &mut mpsc::UnboundedReceiver<(String, Instant)>, leader: &str) -> Instant {
    loop {
        let (label, at) = seen.recv().await.expect("the followers run");
        if label == leader {
            return at;
        }
    }
}

/// Returns the rate of requests that name the lock. Comparisons of node lists are not counted.
async fn requests(server: &RedisServer, lasts: Duration) -> f64 {
    Commands::during(server, lasts).await.requests_with("\"leader\"")
}
