//! When a time limit on replies has passed.
//!
//! A limit is to measure the node, not this process. A process that did not run for a while (a busy machine, a blocked
//! runtime) finds its timers due and the replies unread at the same moment. So the last part of a limit counts only if the
//! process ran meanwhile: if a timer of that length rang on time. Until then the wait goes on, for a bounded number of
//! such parts.

use std::time::Duration;

use crate::clock::Instant;

/// The last part is this fraction of the limit: long enough to read what has arrived, and little to wait for.
const PARTS: u32 = 16;

/// A timer that was late so often in a row is believed: the runtime has run as often, and read no reply.
const MAX_LATE: u32 = 16;

/// The state of one time limit. Its timer rings at [`next`](TimeLimit::next).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    end: Instant,
    part: Duration,
    next: Instant,
    /// Timers that were late, once the last part has begun.
    late: Option<u32>,
}

impl TimeLimit {
    pub(crate) fn new(start: Instant, limit: Duration) -> Self {
        let (end, part) = (start + limit, limit / PARTS);
        Self { end, part, next: end - part, late: None }
    }

    /// When the limit ends if the process runs all the time. It never passes sooner.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// When to look at the clock next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Looks at the clock. Returns whether the limit has passed.
    pub(crate) fn has_passed(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        let on_time = now.saturating_duration_since(self.next) <= self.part;
        match self.late {
            None => {
                self.late = Some(0);
                self.next = self.end.max(now + self.part);
                // Of a limit that is too short to have parts.
                self.part.is_zero()
            }
            Some(late) if on_time || late == MAX_LATE => true,
            Some(late) => {
                self.late = Some(late + 1);
                self.next = now + self.part;
                false
            }
        }
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

    /// When the limit passes, if each timer rings late by the next of `delays`.
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
    fn a_process_that_runs_waits_no_longer_than_the_limit() {
        assert_eq!(at(1160), passes(LIMIT, []));
        // Timers may be late by as much as the last part.
        assert_eq!(at(1170), passes(LIMIT, millis(&[0, 10])));
        assert!(!TimeLimit::new(at(1000), LIMIT).has_passed(at(1149)));
    }

    #[test]
    fn after_a_pause_the_last_part_begins_again() {
        assert_eq!(at(1310), passes(LIMIT, millis(&[150])), "paused before the last part");
        assert_eq!(at(1320), passes(LIMIT, millis(&[0, 150])), "paused within it");
        assert_eq!(at(1470), passes(LIMIT, millis(&[150, 150])), "paused twice");
    }

    #[test]
    fn a_process_that_is_always_late_gives_up_in_the_end() {
        let late = || std::iter::repeat(Duration::from_millis(90));
        assert_eq!(at(1150 + 18 * 90 + 17 * 10), passes(LIMIT, late()));
    }

    proptest! {
        #[test]
        fn no_limit_passes_early_and_every_limit_passes(
            nanos in 0_u64..1_000_000_000, delays in prop::collection::vec(0_u64..1_000_000_000, 0..40),
        ) {
            let limit = Duration::from_nanos(nanos);
            let passed = passes(limit, delays.iter().copied().map(Duration::from_nanos));
            prop_assert!(passed >= TimeLimit::new(at(1000), limit).end());
        }
    }
}
