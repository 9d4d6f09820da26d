//! `rslock`, used as its documentation shows.

use std::time::Duration;

use rslock::{Lock, LockManager};

use super::{Contender, TTL};

#[derive(Clone)]
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(urls: &[String]) -> Self {
        Self(LockManager::new(urls.to_vec()))
    }

    /// Retries forever, with the default delay of the library.
    pub(crate) fn persistent(urls: &[String]) -> Self {
        let mut manager = LockManager::new(urls.to_vec());
        manager.set_retry(u32::MAX, Duration::from_millis(200));
        Self(manager)
    }
}

impl Contender for Rslock {
    type Held = Lock;

    async fn acquire(&self, key: &str) -> Lock {
        self.0.lock(key, TTL).await.expect("the lock is free")
    }

    async fn release(&self, held: Lock) {
        self.0.unlock(&held).await;
    }

    async fn extend(&self, held: &mut Lock) {
        *held = self.0.extend(held, TTL).await.expect("a quorum holds the lock");
    }
}
