//! Restart admission: a server that may have lost locks does not count until the lost ones have expired.
//!
//! Each database has a *stamp*, the key `redlock:admission`. It has the identity of the server, and the time from which
//! on the server has lost nothing. A [look](look) reads it together with the present identity, in one step. If the two
//! do not belong together, the look renews the stamp: the server was restarted, flushed, or promoted. A server counts
//! once its stamp is older than every lock that it may have lost.
//!
//! - The look is part of the handshake, so a connection is checked before it is used. Replies over it come from the
//!   server that was checked: a restart closes it.
//! - A flush is pushed to the connection before the reply to any later request. If pushes do not come in order, a read of
//!   the stamp follows each request. If the connection may change its socket, a whole look follows instead.
//! - The [keeper](keeper) looks again once a second, after the wait, and after a push.
//!
//! [`rule`] makes the decisions, [`gate`] keeps them, and the other files do the I/O.

pub(crate) mod gate;
pub(crate) mod keeper;
pub(crate) mod look;
pub(crate) mod rule;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_core::node::{Quarantine, Ttl};

/// The key of the stamp.
pub(crate) const STAMP: &[u8] = b"redlock:admission";

/// The check that follows each request in the same pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// None: a flush is reported before the reply to any later request, or there is no restart admission.
    Nothing,
    /// The stamp is read: a flush is not reported in order.
    Stamp,
    /// A look: the connection may change its socket. The number is the longest TTL in milliseconds.
    Look(u64),
}

/// Returns whether a resource's key, given in parts, is reserved for stamps.
pub(crate) fn is_stamp(key_prefix: &[u8], name: &[u8]) -> bool {
    let mut key = key_prefix.iter().chain(name);
    key.by_ref().take(STAMP.len()).eq(STAMP) && key.next().is_none_or(|next| *next == b':')
}

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
    fn names_whose_key_is_the_stamp_are_reserved() {
        for at in 0..=STAMP.len() {
            assert!(is_stamp(&STAMP[..at], &STAMP[at..]), "for every end of the prefix");
        }
        assert!(is_stamp(b"", b"redlock:admission:x") && is_stamp(b"redlock:", b"admission:"));
        for free in ["redlock:admissio", "redlock:admissions", "x:redlock:admission", "invoice:42", ""] {
            assert!(!is_stamp(b"", free.as_bytes()), "{free}");
        }
    }

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
