//! The compared libraries. Unlike the contenders of other groups, they may fail and report errors.

use std::time::Duration;

use redlock_core::Redlock;
use rslock::LockManager;

use crate::contender::redlock_client::RedlockClient;

/// A TTL longer than any measurement that releases locks. Thus a leftover key cannot disappear by expiring.
pub(super) const TTL: Duration = Duration::from_secs(600);

/// The default waiting time of a request.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// The library and its client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    RedisRs,
    Fred,
    Rslock,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::RedisRs, Self::Fred, Self::Rslock];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RedisRs => "redis-rs",
            Self::Fred => "fred",
            Self::Rslock => "rslock",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(super) fn connect(self, urls: &[String]) -> Client {
        match self {
            Self::RedisRs => Client::Redlock(RedlockClient::redis_rs(urls).0),
            Self::Fred => Client::Redlock(RedlockClient::fred(urls).0),
            Self::Rslock => Client::Rslock(LockManager::new(urls.to_vec())),
        }
    }
}

/// A lock over several servers with default settings.
#[derive(Clone)]
pub(super) enum Client {
    Redlock(Redlock),
    Rslock(LockManager),
}

impl Client {
    /// Locks a name and releases it. The error states the failed operation and the kind of the failure.
    pub(super) async fn cycle(&self, name: String) -> Result<(), String> {
        self.cycle_within(name, DEFAULT_WAIT).await
    }

    /// Same as [`cycle`](Self::cycle), with a waiting time. `rslock` has none.
    pub(super) async fn cycle_within(&self, name: String, wait: Duration) -> Result<(), String> {
        match self {
            Self::Redlock(redlock) => {
                let request = redlock.lock(name, TTL).max_wait(wait);
                let guard = request.await.map_err(|error| failed("lock", &error))?;
                guard.release().await.map_err(|error| failed("release", &error))?;
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(name.as_bytes(), TTL).await;
                let lock = lock.map_err(|error| format!("lock {}", variant(&error)))?;
                manager.unlock(&lock).await;
            }
        }
        Ok(())
    }

    /// Returns the lock of this project.
    ///
    /// # Panics
    ///
    /// Panics for another library.
    pub(super) fn redlock(&self) -> &Redlock {
        match self {
            Self::Redlock(redlock) => redlock,
            Self::Rslock(_) => panic!("rslock is not part of this measurement"),
        }
    }

    /// Waits for pending cleanup, and returns the number of abandoned cleanups.
    pub(super) async fn close(&self) -> u64 {
        match self {
            Self::Redlock(redlock) => redlock.close().await,
            // `rslock` has no such call and does no background work.
            Self::Rslock(_) => 0,
        }
    }
}

/// Returns the failed operation and the kind of the error.
pub(super) fn failed(what: &str, error: &redlock_core::Error) -> String {
    format!("{what} {:?}", error.kind())
}

/// Returns the name of the variant of an enum.
fn variant(error: &rslock::LockError) -> String {
    format!("{error:?}").chars().take_while(|letter| letter.is_alphanumeric()).collect()
}
