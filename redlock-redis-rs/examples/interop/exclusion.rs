//! Checks mutual exclusion and the deletion of keys, observed from outside.

use std::error::Error;
use std::time::Duration;

use redlock_redis_rs::{Guard, Outcome, Redlock, ReleaseOutcome};
use redlock_testkit::RedisServer;
use tokio::time::{sleep, timeout};

use crate::peer::Peer;

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn exclude(
    redlock: &Redlock,
    theirs: &mut Peer,
    servers: &[RedisServer],
) -> Result<(), Box<dyn Error>> {
    // The other side holds the lock: this side is denied, and its cleanup leaves the other side's keys alone.
    expect(theirs.lock("a", TTL).await?, "they are refused a free lock")?;
    everywhere(servers).await?;
    let held = keys(servers);
    expect(redlock.try_lock("a", TTL).await?.is_none(), "they do not exclude us")?;
    redlock.health().await; // runs after the cleanup on every connection
    expect(keys(servers) == held, "our refused attempt changes their keys")?;
    theirs.unlock().await?;
    gone(servers).await?;

    // This side holds the lock: the same in the other direction.
    let guard = ours(redlock).await?;
    let held = keys(servers);
    expect(!theirs.lock("a", TTL).await?, "we do not exclude them")?;
    sleep(SHORT).await; // some clients clean up in the background
    expect(keys(servers) == held, "their refused attempt changes our keys")?;
    expect(guard.release().await? == ReleaseOutcome::Released, "our lock is not ours any more")?;

    // The other side's lock has expired and this side holds it: a late release by the other side deletes nothing.
    expect(theirs.lock("a", SHORT).await?, "they are refused a lock that we have released")?;
    sleep(SHORT / 2).await; // some clients continue in the background
    gone(servers).await?;
    let guard = ours(redlock).await?;
    let held = keys(servers);
    theirs.unlock().await?;
    sleep(SHORT).await;
    expect(keys(servers) == held, "their late release deletes our lock")?;
    expect(guard.release().await? == ReleaseOutcome::Released, "our lock is not ours any more")?;

    // This side's lock has expired and the other side holds it.
    let guard = redlock.lock("a", SHORT).await?;
    gone(servers).await?;
    expect(theirs.lock("a", TTL).await?, "they are refused a lock that has expired")?;
    everywhere(servers).await?;
    let held = keys(servers);
    expect(guard.release().await? != ReleaseOutcome::Released, "our lock has expired and is held")?;
    redlock.health().await;
    expect(keys(servers) == held, "our late release deletes their lock")?;
    theirs.unlock().await?;
    gone(servers).await
}

/// Acquires a lock that every server has granted.
async fn ours(redlock: &Redlock) -> Result<Guard, Box<dyn Error>> {
    let guard = redlock.lock("a", TTL).await?;
    let everywhere = || guard.node_reports().iter().all(|vote| matches!(vote.outcome(), Outcome::Granted));
    until(everywhere, "our lock is not on all servers").await?;
    Ok(guard)
}

/// Waits until all servers have granted: some clients continue in the background after a quorum.
async fn everywhere(servers: &[RedisServer]) -> Result<(), Box<dyn Error>> {
    until(|| keys(servers).len() == servers.len(), "their lock is not on all servers").await
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
    Ok(timeout(PATIENCE, wait).await.map_err(|_| otherwise.to_owned())?)
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
