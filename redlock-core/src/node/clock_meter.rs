//! The measurement of the rate of a server's clock.
//!
//! Two readings bound the rate. The server's clock has advanced by a known time. The client's clock has advanced by at
//! least the time between the first reply and the second request, and by at most the time between the first request and
//! the second reply. Thus slow replies make a rate less precise, and never wrong.
//!
//! All pairs of readings of about a minute are compared. A long time gives a precise rate, and a short one notices that
//! the clock has just begun to run fast, or has stepped.

use std::collections::VecDeque;
use std::time::Duration;

use super::server_clock::ClockReading;
use crate::types::clock_rate::ClockRate;
use crate::types::instant::Instant;

/// The shortest time between two readings that are kept.
const SPACING: Duration = Duration::from_secs(4);

/// The time for which a reading is kept. The newest of the older ones is kept, too.
const WINDOW: Duration = Duration::from_secs(60);

/// The shortest time over which a rate is measured.
const SHORTEST: Duration = Duration::from_millis(500);

/// Measures the rate of the clock of one server.
///
/// A backend records readings of its server's clock, such as one every five seconds, and returns the rate in
/// [`Status::clock_rate`](super::Status::clock_rate).
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::node::{ClockMeter, ClockReading};
/// # use redlock_core::runtime::Instant;
/// let mut meter = ClockMeter::default();
/// // A clock that runs 2 % fast, read after these seconds, in round trips of 2 ms.
/// let mut read = |seconds: u64| {
///     let sent = Instant::ORIGIN + Duration::from_secs(seconds);
///     let received = sent + Duration::from_millis(2);
///     let server = Duration::from_millis(1_020 * seconds + 1);
///     meter.record(ClockReading { sent: Some(sent), server, received })
/// };
/// assert_eq!(None, read(0));
/// let rate = read(10).expect("two readings");
/// assert!(rate.ppm.abs_diff(20_000) <= rate.error_ppm);
/// assert!(rate.error_ppm < 300 && rate.exceeds(0.01));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClockMeter {
    kept: VecDeque<Reading>,
    rate: Option<ClockRate>,
}

/// A reading with the time before its request.
#[derive(Clone, Copy, Debug)]
struct Reading {
    sent: Instant,
    server: Duration,
    received: Instant,
}

impl ClockMeter {
    /// Records a reading. Returns the rate, if there is an earlier reading that is at least 500 ms older.
    ///
    /// Of the rates between any two readings of about the last minute, it returns the one whose
    /// [least value](ClockRate::least_ppm) is the greatest. A reading without the time before its request is ignored.
    pub fn record(&mut self, reading: ClockReading) -> Option<ClockRate> {
        let ClockReading { sent, server, received } = reading;
        if let Some(sent) = sent {
            let new = Reading { sent, server, received };
            let later = |position: usize| self.kept.iter().skip(position + 1).chain([&new]);
            let pairs = self.kept.iter().enumerate();
            let pairs = pairs.flat_map(|(position, one)| later(position).map(move |other| (one, other)));
            let rates = pairs.filter_map(|(one, other)| one.rate_until(other));
            self.rate = rates.max_by_key(|rate| (rate.least_ppm(), rate.over)).or(self.rate);
            self.keep(new);
        }
        self.rate
    }

    /// Returns the last rate that was measured.
    #[must_use]
    pub fn rate(&self) -> Option<ClockRate> {
        self.rate
    }

    /// Forgets all readings: the next one is that of another server.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    fn keep(&mut self, new: Reading) {
        if self.kept.back().is_none_or(|last| new.received >= last.received + SPACING) {
            self.kept.push_back(new);
        }
        while self.kept.get(1).is_some_and(|second| second.received + WINDOW <= new.received) {
            self.kept.pop_front();
        }
    }
}

impl Reading {
    /// Returns the rate of the clock between this reading and a later one.
    fn rate_until(&self, later: &Self) -> Option<ClockRate> {
        let shortest = later.sent.saturating_duration_since(self.received);
        let longest = later.received.saturating_duration_since(self.sent);
        let passed = nanos(later.server) - nanos(self.server);
        // The rate is least if the most time has passed. For a clock that was set back it is the other way around.
        let ends = [shortest, longest].map(|time| ppm_above(passed, nanos(time)));
        let (least, greatest) = (ends[0].min(ends[1]), ends[0].max(ends[1]) + 1);
        let error_ppm = u64::try_from((greatest - least + 1) / 2).ok()?;
        let ppm = least + i64::try_from(error_ppm).ok()?;
        (shortest >= SHORTEST).then(|| ClockRate::new(ppm, error_ppm, shortest))
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 2)
}

/// Returns by how many parts per million `passed` is above `time`, rounded down.
fn ppm_above(passed: i128, time: i128) -> i64 {
    let ppm = ((passed - time).saturating_mul(1_000_000)).div_euclid(time.max(1));
    // Half of the range, so that the sum of two rates is in it.
    i64::try_from(ppm.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A server clock that a test sets, in microseconds.
    #[derive(Default)]
    struct World {
        meter: ClockMeter,
        now: u64,
        server: u64,
    }

    impl World {
        /// Lets time pass for both clocks. The clock of the server runs fast by `ppm`.
        fn pass(&mut self, micros: u64, ppm: i64) {
            self.now += micros;
            let share = i64::try_from(micros).unwrap() * ppm / 1_000_000;
            self.server = self.server.saturating_add(micros).saturating_add_signed(share);
        }

        fn read(&mut self, ppm: i64, there: u64, back: u64) -> Option<ClockRate> {
            let at = |micros| Instant::ORIGIN + Duration::from_micros(micros);
            let sent = at(self.now);
            self.pass(there, ppm);
            let server = Duration::from_micros(self.server);
            self.pass(back, ppm);
            self.meter.record(ClockReading { sent: Some(sent), server, received: at(self.now) })
        }

        /// Reads the clock once a second. Returns the last rate.
        fn run(&mut self, seconds: u64, ppm: i64) -> Option<ClockRate> {
            let mut last = None;
            for _ in 0..seconds {
                self.pass(1_000_000, ppm);
                last = self.read(ppm, 100, 100);
            }
            last
        }
    }

    #[test]
    fn a_rate_needs_two_readings_that_are_apart() {
        let mut world = World::default();
        assert_eq!(None, world.read(0, 100, 100));
        world.pass(499_000, 0);
        assert_eq!(None, world.read(0, 100, 100));
        world.pass(1_000, 0);
        assert!(world.read(0, 100, 100).is_some());
        world.meter.restart();
        assert_eq!((None, None), (world.meter.rate(), world.read(0, 100, 100)));
    }

    #[test]
    fn a_clock_that_runs_evenly_is_measured_over_a_minute() {
        for ppm in [0, 40, -40, 15_000, 83_000, -50_000, -1_000_000] {
            let mut world = World { server: 1 << 40, ..World::default() };
            let rate = world.run(300, ppm).unwrap();
            assert!(rate.ppm.abs_diff(ppm) <= rate.error_ppm && rate.error_ppm <= 7, "{ppm}: {rate:?}");
            assert!(rate.over + Duration::from_secs(1) > WINDOW, "{rate:?}");
            assert!(world.meter.kept.len() < 18);
        }
    }

    #[test]
    fn a_clock_that_begins_to_run_fast_is_noticed_soon_and_for_a_minute() {
        let mut world = World::default();
        assert!(!world.run(100, 50).unwrap().exceeds(0.01));
        assert!(world.run(20, 15_000).unwrap().exceeds(0.01));
        assert!(world.run(40, 50).unwrap().exceeds(0.01));
        assert!(!world.run(60, 50).unwrap().exceeds(0.01));
    }

    #[test]
    fn a_step_is_a_fast_rate_and_a_step_back_a_slow_one() {
        let mut world = World::default();
        world.run(100, 0);
        world.server += 150_000;
        for _ in 0..50 {
            assert!(world.run(1, 0).unwrap().exceeds(0.01));
        }
        world.server = 0;
        assert!(world.run(200, 0).unwrap().ppm.abs() < 10);
    }

    #[test]
    fn a_slow_reply_makes_a_rate_less_precise_and_not_fast() {
        let mut world = World::default();
        world.run(100, 0);
        world.pass(1_000_000, 0);
        let rate = world.read(0, 3_000_000, 100).unwrap();
        assert!(!rate.exceeds(0.01) && rate.least_ppm() <= 0, "{rate:?}");
    }

    proptest! {
        /// The true rate is always within the error, whatever the round trips take.
        #[test]
        fn the_rate_is_within_its_error(
            ppm in -900_000_i64..900_000,
            trips in proptest::collection::vec((0_u64..3_000_000, 0_u64..2_000_000, 0_u64..2_000_000), 2..30),
        ) {
            let mut world = World { server: 1 << 40, ..World::default() };
            for (pause, there, back) in trips {
                world.pass(pause, ppm);
                if let Some(rate) = world.read(ppm, there, back) {
                    // The world rounds each time to a microsecond.
                    prop_assert!(rate.ppm.abs_diff(ppm) <= rate.error_ppm + 200, "{:?}", rate);
                }
            }
        }
    }
}
