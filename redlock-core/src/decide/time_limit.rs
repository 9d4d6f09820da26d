//! The end of a time limit on replies.
//!
//! A limit measures the node, not this process. This process may not run for a while (a busy machine, a blocked
//! runtime). Then its timers are due and the replies are unread at the same moment. Thus a limit consists of parts, each
//! with a timer, and a part whose timer was late does not count. Once the process runs again, the node has as much time
//! as it had before.
//!
//! A part in which the node replied to many other requests does not count either. The node works then, and the request
//! waits in a long queue, probably in this process. The number of parts that do not count is bounded.

use std::time::Duration;

use crate::types::instant::Instant;

/// The number of parts of a limit. More parts recognize shorter pauses and need more timers.
const PARTS: u32 = 8;

/// The number of replies to other requests in one part that show a long queue.
const QUEUE: u32 = 16;

/// The maximum number of parts that do not count. Behind a long queue, a limit lasts up to three times as long.
///
/// Between that many late parts, the runtime has run often enough to read a reply.
const MAX_UNCOUNTED: u32 = 2 * PARTS;

/// The lateness of timers on an idle machine.
const TOLERANCE: Duration = Duration::from_millis(3);

/// The state of one time limit. Its timer fires at [`next`](TimeLimit::next).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    nominal_end: Instant,
    /// The end, extended by the parts that did not count.
    end: Instant,
    part: Duration,
    next: Instant,
    /// The number of parts that did not count.
    uncounted: u32,
}

impl TimeLimit {
    pub(crate) fn new(start: Instant, limit: Duration) -> Self {
        let (end, part) = (start + limit, limit / PARTS);
        Self { nominal_end: end, end, part, next: start + part, uncounted: 0 }
    }

    /// Returns when the limit passes if the process runs all the time. It never passes sooner.
    pub(crate) fn nominal_end(&self) -> Instant {
        self.nominal_end
    }

    /// Returns when to read the clock next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Returns whether the limit has passed at `now`.
    ///
    /// `replies` returns how often the node has replied to other requests since the last call. It is called once a part.
    pub(crate) fn has_passed(&mut self, now: Instant, replies: impl FnOnce() -> u32) -> bool {
        if now < self.next {
            return false;
        }
        let late = now.saturating_duration_since(self.next);
        let was_paused = late > self.part.max(TOLERANCE);
        // Always called: a reply counts for the part in which it came.
        let is_queued = replies() >= QUEUE;
        if (was_paused || is_queued) && self.uncounted < MAX_UNCOUNTED {
            self.uncounted += 1;
            let pause = if was_paused { late } else { Duration::ZERO };
            self.end = self.end + self.part + pause;
        }
        self.next = self.end.min(now + self.part);
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
            if time_limit.has_passed(now, || 0) {
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
        assert!(!TimeLimit::new(at(1000), LIMIT).has_passed(at(1159), || QUEUE));
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

    #[test]
    fn many_replies_to_other_requests_extend_the_limit_up_to_three_times() {
        let end = |queued: u32, replies: u32| {
            let (mut limit, mut parts) = (TimeLimit::new(at(1000), LIMIT), 0);
            loop {
                let now = limit.next();
                parts += 1;
                if limit.has_passed(now, || if parts <= queued { replies } else { 0 }) {
                    return now;
                }
            }
        };
        assert_eq!(at(1160), end(8, QUEUE - 1), "few replies");
        assert_eq!(at(1160 + 3 * 20), end(3, QUEUE));
        assert_eq!(at(1160 + 16 * 20), end(u32::MAX, QUEUE));
        // Timers that are a little late do not prolong it further.
        let mut limit = TimeLimit::new(at(1000), LIMIT);
        let mut late = std::iter::from_fn(|| {
            let now = limit.next() + Duration::from_millis(5);
            (!limit.has_passed(now, || QUEUE)).then_some(now)
        });
        assert!(late.by_ref().last().unwrap() < at(1000 + 3 * 160));
    }

    proptest! {
        #[test]
        fn no_limit_passes_early_and_every_limit_passes(
            nanos in 0_u64..1_000_000_000, delays in prop::collection::vec(0_u64..1_000_000_000, 0..40),
        ) {
            let limit = Duration::from_nanos(nanos);
            let passed = passes(limit, delays.iter().copied().map(Duration::from_nanos));
            prop_assert!(passed >= TimeLimit::new(at(1000), limit).nominal_end());
        }
    }
}
