//! The longest TTL of any lock, from which the length of a quarantine follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_core::node::{Quarantine, Ttl};

/// The longest TTL, as stated by this program and as seen in stamps. Clones of the options share it.
#[derive(Debug)]
pub(crate) struct Longest {
    stated: Duration,
    /// The longest TTL in any stamp, in milliseconds.
    stamped: AtomicU64,
}

impl Longest {
    pub(crate) fn new(stated: Duration) -> Arc<Self> {
        let stated = stated.clamp(Ttl::MIN.as_duration(), Ttl::MAX.as_duration());
        Arc::new(Self { stated, stamped: AtomicU64::new(0) })
    }

    pub(crate) fn stated(&self) -> Duration {
        self.stated
    }

    /// Returns the longest TTL in milliseconds, rounded up.
    pub(crate) fn millis(&self) -> u64 {
        u64::try_from(self.stated.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// Records the longest TTL in a stamp. Returns it if it is longer than the stated one, and was not seen before.
    pub(crate) fn see(&self, stamped: Duration) -> Option<Duration> {
        let millis = u64::try_from(stamped.as_millis()).unwrap_or(u64::MAX);
        let before = self.stamped.fetch_max(millis, Ordering::Relaxed);
        (stamped > self.stated && millis > before && millis > self.millis()).then_some(stamped)
    }

    /// Returns how long a server stays in quarantine.
    pub(crate) fn wait(&self) -> Duration {
        Quarantine::duration(self.stated.max(Duration::from_millis(self.stamped.load(Ordering::Relaxed))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bound_of_all_programs_counts() {
        let longest = Longest::new(Duration::from_secs(30));
        assert_eq!(Duration::from_millis(30_302), longest.wait());
        assert_eq!(None, longest.see(Duration::from_secs(30)));
        assert_eq!(None, longest.see(Duration::from_secs(9)));
        assert_eq!(Some(Duration::from_secs(60)), longest.see(Duration::from_secs(60)));
        assert_eq!(None, longest.see(Duration::from_secs(60)), "reported once");
        assert_eq!(Duration::from_millis(60_602), longest.wait());
        assert_eq!(6, Longest::new(Duration::ZERO).wait().as_secs());
        assert_eq!(11, Longest::new(Duration::from_micros(10_001)).millis());
    }
}
