//! Checks mutual exclusion and the deletion of keys, observed from outside.

use std::error::Error;
use std::time::Duration;

use redlock_redis_rs::{Guard, Outcome, Redlock, ReleaseOutcome};
use redlock_testkit::RedisServer;
use tokio::time::{sleep, timeout};

use crate::peer::Peer;

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);
const WAIT_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn exclude(
    redlock: &Redlock,
    peer: &mut Peer,
    servers: &[RedisServer],
) -> Result<(), Box<dyn Error>> {
    // The other side holds the lock. This side is denied, and its cleanup leaves the keys of the other side alone.
    expect(peer.lock("a", TTL).await?, "the other side cannot acquire a free lock")?;
    everywhere(servers).await?;
    let held = keys(servers);
    expect(
        redlock.lock("a", TTL).try_now().await?.is_none(),
        "a lock of the other side does not exclude this side",
    )?;
    redlock.health().await; // runs after the cleanup on every connection
    expect(keys(servers) == held, "a denied attempt of this side changes keys of the other side")?;
    peer.unlock().await?;
    gone(servers).await?;

    // This side holds the lock, with the same checks in the other direction.
    let guard = lock_everywhere(redlock).await?;
    let held = keys(servers);
    expect(!peer.lock("a", TTL).await?, "a lock of this side does not exclude the other side")?;
    sleep(SHORT).await; // some clients clean up in the background
    expect(keys(servers) == held, "a denied attempt of the other side changes keys of this side")?;
    expect(guard.release().await? == ReleaseOutcome::Released, "this side has lost its lock")?;

    // The lock of the other side has expired, and this side holds it. A late release by the other side deletes nothing.
    expect(peer.lock("a", SHORT).await?, "the other side cannot acquire a released lock")?;
    sleep(SHORT / 2).await; // some clients continue in the background
    gone(servers).await?;
    let guard = lock_everywhere(redlock).await?;
    let held = keys(servers);
    peer.unlock().await?;
    sleep(SHORT).await;
    expect(keys(servers) == held, "a late release by the other side deletes the lock of this side")?;
    expect(guard.release().await? == ReleaseOutcome::Released, "this side has lost its lock")?;

    // The lock of this side has expired, and the other side holds it.
    let guard = redlock.lock("a", SHORT).await?;
    gone(servers).await?;
    expect(peer.lock("a", TTL).await?, "the other side cannot acquire an expired lock")?;
    everywhere(servers).await?;
    let held = keys(servers);
    expect(
        guard.release().await? != ReleaseOutcome::Released,
        "the expired lock of this side was released as held",
    )?;
    redlock.health().await;
    expect(keys(servers) == held, "a late release by this side deletes the lock of the other side")?;
    peer.unlock().await?;
    gone(servers).await
}

/// Acquires a lock that every server has granted.
async fn lock_everywhere(redlock: &Redlock) -> Result<Guard, Box<dyn Error>> {
    let guard = redlock.lock("a", TTL).await?;
    let everywhere = || guard.node_reports().iter().all(|vote| matches!(vote.outcome(), Outcome::Granted));
    until(everywhere, "the lock of this side is not on all servers").await?;
    Ok(guard)
}

/// Waits until all servers have granted, since some clients continue in the background after a quorum.
async fn everywhere(servers: &[RedisServer]) -> Result<(), Box<dyn Error>> {
    until(|| keys(servers).len() == servers.len(), "the lock of the other side is not on all servers").await
}

async fn gone(servers: &[RedisServer]) -> Result<(), Box<dyn Error>> {
    until(|| keys(servers).is_empty(), "keys are left behind").await
}

async fn until(is_so: impl Fn() -> bool, otherwise: &str) -> Result<(), Box<dyn Error>> {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    Ok(timeout(WAIT_LIMIT, wait).await.map_err(|_| otherwise.to_owned())?)
}

/// Returns every key of every server, with its value.
fn keys(servers: &[RedisServer]) -> Vec<(u16, String, String)> {
    let keys = |server: &RedisServer| {
        let with_value = |key: String| (server.port(), key.clone(), server.command(&["GET", &key]));
        server.keys().into_iter().map(with_value).collect::<Vec<_>>()
    };
    servers.iter().flat_map(keys).collect()
}

fn expect(is_so: bool, otherwise: &str) -> Result<(), Box<dyn Error>> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
