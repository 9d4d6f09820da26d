//! The delay before the next connection attempt.

use std::time::Duration;

use redlock_core::runtime::Runtime;

use crate::credentials::UNAVAILABLE;
use crate::handshake::{CLUSTER_NODE, SENTINEL};
use crate::options::SHORTEST_DELAY;

/// The delay after a rejected login or certificate, without credentials, or at a server in the wrong mode.
///
/// The next attempt fails as well until an operator corrects the cause.
const DENIED: Duration = Duration::from_secs(5);

/// Delays that double from 10 ms up to the longest, without end.
#[derive(Debug)]
pub(crate) struct Backoff {
    last: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { last: Duration::ZERO, longest: longest.max(SHORTEST_DELAY) }
    }

    /// Starts again with the first delay.
    pub(crate) fn reset(&mut self) {
        self.last = Duration::ZERO;
    }

    /// Returns the delay after an attempt that failed for this reason.
    pub(crate) fn after(&mut self, reason: &str) -> Duration {
        let delay = self.next();
        if is_denied(reason) { self.longest.max(DENIED) } else { delay }
    }

    /// Returns the delay after a connection was lost.
    pub(crate) fn next(&mut self) -> Duration {
        self.last = self.last.saturating_mul(2).clamp(SHORTEST_DELAY, self.longest);
        self.last
    }
}

/// Returns whether the message indicates a rejected login or certificate, missing credentials, or a server in the wrong
/// mode.
fn is_denied(reason: &str) -> bool {
    if reason.contains(SENTINEL) || reason.contains(CLUSTER_NODE) {
        return true;
    }
    let reason = reason.to_lowercase();
    let words =
        ["wrongpass", "noauth", "noperm", "err auth", "authentication failed", "certificate", UNAVAILABLE];
    words.iter().any(|word| reason.contains(word))
}

/// Returns a random delay between half of `delay` and `delay`.
///
/// The clients of a restarting server thus reconnect at different times.
pub(crate) fn jittered(delay: Duration, runtime: &dyn Runtime) -> Duration {
    let mut random = [0; 4];
    runtime.fill_random(&mut random);
    delay / 2 + (delay / 2).mul_f64(f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::unsuitable_mode;
    use crate::options::LONGEST_DELAY;

    const REASON: &str = "Connection refused (os error 111)";

    fn delays(backoff: &mut Backoff, count: usize) -> Vec<u128> {
        (0..count).map(|_| backoff.after(REASON).as_millis()).collect()
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(LONGEST_DELAY);
        assert_eq!(vec![10, 20, 40, 80, 160, 200, 200], delays(&mut backoff, 7));
        backoff.reset();
        assert_eq!(vec![10, 20], delays(&mut backoff, 2));
        let mut chosen = Backoff::new(Duration::from_secs(1));
        assert_eq!(vec![10, 20, 40, 80, 160, 320, 640, 1000, 1000], delays(&mut chosen, 9));
        assert_eq!(vec![10, 10], delays(&mut Backoff::new(Duration::ZERO), 2));
        assert!(*delays(&mut Backoff::new(Duration::MAX), 200).last().unwrap() > 1_000_000_000_000);
    }

    #[test]
    fn a_rejected_login_is_retried_later() {
        for reason in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOAUTH Authentication required.",
            "ERR AUTH <password> called without any password configured for the default user.",
            "Password authentication failed- AuthenticationFailed",
            "locks cannot be released: NOPERM this user has no permissions to run the 'evalsha' command",
            "invalid peer certificate: UnknownIssuer",
            "credentials unavailable: no such file",
            unsuitable_mode("redis_mode:sentinel").unwrap(),
            unsuitable_mode("redis_mode:cluster").unwrap(),
        ] {
            assert_eq!(DENIED, Backoff::new(LONGEST_DELAY).after(reason), "{reason}");
            assert_eq!(2 * DENIED, Backoff::new(2 * DENIED).after(reason));
        }
        for reason in [
            REASON,
            "LOADING Redis is loading",
            "connection attempt timed out (300ms)",
            "the connection was lost",
        ] {
            assert_eq!(SHORTEST_DELAY, Backoff::new(LONGEST_DELAY).after(reason), "{reason}");
        }
    }

    #[test]
    fn jitter_is_between_half_and_all_of_the_delay() {
        let runtime = redlock_core::TokioRuntime::new();
        for _ in 0..1000 {
            let delay = jittered(LONGEST_DELAY, &runtime);
            assert!((LONGEST_DELAY / 2..=LONGEST_DELAY).contains(&delay), "{delay:?}");
        }
    }
}
