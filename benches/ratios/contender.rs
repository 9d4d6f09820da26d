//! What is measured: something that locks and releases, whichever crate does it.

pub(crate) mod fenced;
pub(crate) mod fred_by_hand;
pub(crate) mod ours;
mod polling;
pub(crate) mod redis_by_hand;
pub(crate) mod rslock;

use std::future::Future;
use std::time::Duration;

/// Long against everything that is measured: no lock expires meanwhile.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A lock over several servers. Waits for it where it is contended, and panics where it does not get it.
pub(crate) trait Contender: Clone + Send + Sync + 'static {
    type Held: Send + 'static;

    fn acquire(&self, key: &str) -> impl Future<Output = Self::Held> + Send;

    /// Returns when this contender considers the lock released.
    fn release(&self, held: Self::Held) -> impl Future<Output = ()> + Send;

    /// Makes a held lock valid for [`TTL`] again.
    fn extend(&self, held: &mut Self::Held) -> impl Future<Output = ()> + Send;
}

/// How the two clients are driven by hand. Whoever writes it knows the algorithm, and leaves out everything but its core:
/// no timeouts, no retries, no undoing.
mod by_hand {
    use std::fmt::Write as _;
    use std::future::Future;

    use futures_util::stream::{FuturesUnordered, StreamExt};

    pub(super) const RELEASE: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    pub(super) const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return \
                                     redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

    /// 160 random bits in hexadecimal.
    pub(super) fn token() -> String {
        let mut random = [0; 20];
        getrandom::fill(&mut random).expect("the system has random numbers");
        random.iter().fold(String::with_capacity(40), |mut text, byte| {
            write!(text, "{byte:02x}").expect("strings can be written to");
            text
        })
    }

    /// Sends to all nodes at once and returns when a quorum said yes; the other calls go on in the background.
    pub(super) async fn at_quorum<F>(calls: impl ExactSizeIterator<Item = F>)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let quorum = calls.len() / 2 + 1;
        let mut calls: FuturesUnordered<F> = calls.collect();
        let mut granted = 0;
        while granted < quorum {
            let vote = calls.next().await.expect("a quorum of nodes works");
            granted += usize::from(vote);
        }
        if !calls.is_empty() {
            tokio::spawn(async move { while calls.next().await.is_some() {} });
        }
    }
}
