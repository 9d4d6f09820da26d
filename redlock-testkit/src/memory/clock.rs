//! The wall clock of a node in memory, which a test sets.

use std::time::Duration;

use redlock_core::ClockRate;
use redlock_core::runtime::Instant;

/// A clock that runs at another rate than the clock of the runtime, or was set. By default it is right.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    /// The time of the runtime at the last change.
    since: Instant,
    /// By how many nanoseconds the clock was ahead then.
    ahead: i128,
    ppm: i64,
}

impl WallClock {
    /// Returns the time of this clock at a time of the runtime.
    pub(super) fn at(&self, now: Instant) -> Instant {
        let ahead = self.ahead_at(now);
        let by = Duration::from_nanos(u64::try_from(ahead.unsigned_abs()).unwrap_or(u64::MAX));
        if ahead < 0 {
            Instant::since_origin(now.elapsed_since_origin().saturating_sub(by))
        } else {
            now + by
        }
    }

    /// Changes the rate from `now` on.
    pub(super) fn set_rate(&mut self, ppm: i64, now: Instant) {
        (self.ahead, self.since, self.ppm) = (self.ahead_at(now), now, ppm.max(-1_000_000));
    }

    /// Sets the clock forward.
    pub(super) fn step(&mut self, forward: Duration) {
        self.ahead += i128::try_from(forward.as_nanos()).unwrap_or_default();
    }

    /// Returns the rate, unless it is right.
    pub(super) fn rate(&self, now: Instant) -> Option<ClockRate> {
        let over = now.saturating_duration_since(self.since);
        (self.ppm != 0).then(|| ClockRate::new(self.ppm, 0, over))
    }

    fn ahead_at(&self, now: Instant) -> i128 {
        let passed = now.saturating_duration_since(self.since).as_nanos();
        self.ahead + i128::try_from(passed).unwrap_or_default() * i128::from(self.ppm) / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(millis)
    }

    #[test]
    fn rates_and_steps_add_up() {
        let mut clock = WallClock::default();
        assert_eq!((at(500), None), (clock.at(at(500)), clock.rate(at(500))));
        clock.set_rate(83_000, at(1_000));
        assert_eq!((at(1_000), at(2_083)), (clock.at(at(1_000)), clock.at(at(2_000))));
        clock.step(Duration::from_millis(10));
        clock.set_rate(-1_000_000, at(2_000));
        assert_eq!((at(2_093), at(2_093)), (clock.at(at(2_000)), clock.at(at(9_000))));
        assert_eq!(Some(ClockRate::new(-1_000_000, 0, Duration::from_secs(7))), clock.rate(at(9_000)));
        clock.set_rate(0, at(2_093));
        assert_eq!(at(3_000), clock.at(at(3_000)));
    }
}
