//! The end of a time limit on replies.
//!
//! A limit measures the node, not this process. This process may not run for a while (a busy machine, a blocked
//! runtime). Then its timers are due and the replies are unread at the same moment. Thus a limit consists of parts, each
//! with a timer. A part whose timer was late does not count: all limits move by it. Once the process runs again, the
//! node has as much time as it had before. The number of parts that do not count is bounded.

use std::time::Duration;

use crate::types::instant::Instant;

/// The number of parts of a limit. More parts recognize shorter pauses and need more timers.
const PARTS: u32 = 8;

/// The maximum number of parts that do not count.
///
/// Between that many late parts, the runtime has run often enough to read a reply.
const MAX_UNCOUNTED: u32 = 2 * PARTS;

/// The lateness of timers on an idle machine.
const TOLERANCE: Duration = Duration::from_millis(3);

/// The parts of the limits of requests that are sent together, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    part: Duration,
    /// The end of the present part, at which the clock is read.
    next: Instant,
    /// The number of parts that did not count.
    uncounted: u32,
}

impl Pace {
    pub(crate) fn new(start: Instant, limit: Duration) -> Self {
        let part = limit / PARTS;
        Self { part, next: start + part, uncounted: 0 }
    }

    /// Returns when to read the clock next, if the first of the limits passes at `end`.
    pub(crate) fn next(&mut self, end: Instant) -> Instant {
        self.next = self.next.min(end);
        self.next
    }

    /// Returns by how much all limits move at `now`, because the process has paused.
    pub(crate) fn tick(&mut self, now: Instant) -> Duration {
        if now < self.next {
            return Duration::ZERO;
        }
        let late = now.saturating_duration_since(self.next);
        self.next = now + self.part;
        if late <= self.part.max(TOLERANCE) || self.uncounted == MAX_UNCOUNTED {
            return Duration::ZERO;
        }
        self.uncounted += 1;
        self.part + late
    }
}

/// The time limit of one request. Its timer fires at [`next`](TimeLimit::next).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    pace: Pace,
    end: Instant,
}

impl TimeLimit {
    pub(crate) fn new(start: Instant, limit: Duration) -> Self {
        Self { pace: Pace::new(start, limit), end: start + limit }
    }

    /// Returns when to read the clock next.
    pub(crate) fn next(&mut self) -> Instant {
        self.pace.next(self.end)
    }

    /// Returns whether the limit has passed at `now`.
    pub(crate) fn has_passed(&mut self, now: Instant) -> bool {
        self.pace.next(self.end);
        self.end = self.end + self.pace.tick(now);
        now >= self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(160);

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    /// Returns when the limit passes if the timers are late by `delays`, one after the other.
    fn passes(limit: Duration, delays: impl IntoIterator<Item = Duration>) -> Instant {
        let mut time_limit = TimeLimit::new(at(1000), limit);
        let mut delays = delays.into_iter();
        loop {
            let now = time_limit.next() + delays.next().unwrap_or_default();
            if time_limit.has_passed(now) {
                return now;
            }
        }
    }

    fn millis(delays: &[u64]) -> Vec<Duration> {
        delays.iter().copied().map(Duration::from_millis).collect()
    }

    #[test]
    fn a_running_process_waits_no_longer_than_the_limit() {
        assert_eq!(at(1160), passes(LIMIT, []));
        // Timers may be late by one part at most.
        assert_eq!(at(1160), passes(LIMIT, millis(&[0, 20, 0, 20])));
        assert!(!TimeLimit::new(at(1000), LIMIT).has_passed(at(1159)));
        assert_eq!(at(1000), passes(Duration::ZERO, []));
    }

    #[test]
    fn a_pause_does_not_count_towards_the_limit() {
        assert_eq!(at(1160 + 170), passes(LIMIT, millis(&[150])), "in the first part");
        assert_eq!(at(1160 + 170), passes(LIMIT, millis(&[0, 0, 150])), "in the third");
        assert_eq!(at(1160 + 320), passes(LIMIT, millis(&[150, 0, 130])), "in two of them");
        assert_eq!(at(1160 + 170), passes(LIMIT, millis(&[0, 0, 0, 0, 0, 0, 0, 150])), "in the last");
    }

    #[test]
    fn a_process_that_is_always_late_still_times_out() {
        let late = || std::iter::repeat(Duration::from_millis(90));
        assert!((at(1000 + 16 * 110)..=at(1160 + 17 * 110)).contains(&passes(LIMIT, late())));
    }

    proptest! {
        #[test]
        fn no_limit_passes_early_and_every_limit_passes(
            nanos in 0_u64..1_000_000_000, delays in prop::collection::vec(0_u64..1_000_000_000, 0..40),
        ) {
            let limit = Duration::from_nanos(nanos);
            let passed = passes(limit, delays.iter().copied().map(Duration::from_nanos));
            prop_assert!(passed >= at(1000) + limit);
        }
    }
}
