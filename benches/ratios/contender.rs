//! The measured interface: a library that locks and releases.

pub(crate) mod fenced;
pub(crate) mod fred_by_hand;
mod polling;
pub(crate) mod redis_by_hand;
pub(crate) mod redlock_client;
pub(crate) mod rslock;

use std::future::Future;
use std::time::Duration;

pub(crate) use by_hand::RELEASE;

/// A TTL far above all measured times, so that no lock expires.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A lock over several servers. It waits for a contended lock, and panics if it cannot acquire it.
pub(crate) trait Contender: Clone + Send + Sync + 'static {
    type Held: Send + 'static;

    fn acquire(&self, key: &str) -> impl Future<Output = Self::Held> + Send;

    /// Returns when this contender considers the lock released.
    fn release(&self, held: Self::Held) -> impl Future<Output = ()> + Send;

    /// Makes a held lock valid for [`TTL`] again.
    fn extend(&self, held: &mut Self::Held) -> impl Future<Output = ()> + Send;
}

/// The two clients used by hand, as by an author who knows the algorithm. It contains only the core of it: no timeouts,
/// no retries, no cleanup.
mod by_hand {
    use std::fmt::Write as _;
    use std::future::Future;

    use futures_util::stream::{FuturesUnordered, StreamExt};

    pub(crate) const RELEASE: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    pub(super) const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return \
                                     redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

    /// Returns 160 random bits in hexadecimal.
    pub(super) fn token() -> String {
        let mut random = [0; 20];
        getrandom::fill(&mut random).expect("the system has random numbers");
        random.iter().fold(String::with_capacity(40), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a String succeeds");
            text
        })
    }

    /// Sends to all nodes at once and returns when a quorum has granted. The other calls continue in the background.
    pub(super) async fn at_quorum<F>(calls: impl ExactSizeIterator<Item = F>)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let quorum = calls.len() / 2 + 1;
        let mut calls: FuturesUnordered<F> = calls.collect();
        let mut granted = 0;
        while granted < quorum {
            let vote = calls.next().await.expect("a quorum of nodes replies");
            granted += usize::from(vote);
        }
        if !calls.is_empty() {
            tokio::spawn(async move { while calls.next().await.is_some() {} });
        }
    }
}
