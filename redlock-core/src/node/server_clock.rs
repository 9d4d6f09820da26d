//! The wall clock of a server, as a client observes it.
//!
//! A server stores the end of a TTL as a time of its wall clock. If the clock steps forward or runs fast, keys expire
//! early, and the server grants locks that other clients still hold. Thus a jump of the clock is a loss of locks, and
//! the node is [quarantined](crate::node#restart-admission).
//!
//! No command of a server shows its clock without such corrections, so the clock of the client is the reference. Each
//! reading bounds the difference between the two clocks:
//!
//! - It was at most the time of the server, less the time at which the request was sent.
//! - It was at least the time of the server, less the time at which the reply was read.
//!
//! The clock has jumped if the least difference of a reading is greater than the greatest difference of an earlier one,
//! by more than the tolerance: 0.25 % of the time in between, and 5 ms. A late reply makes the least difference smaller.
//! Therefore neither a pause of the client nor a slow network is taken for a jump.
//!
//! A comparison with the last reading only would not notice a clock that runs fast, or many small steps. Readings are
//! kept until a newer one is older than every lock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::types::instant::Instant;

/// The rate of a clock that is tolerated is one in this number: 0.25 %.
const RATE: i64 = 400;

/// The tolerated difference in nanoseconds, whatever the time between two readings is.
const SLACK: i64 = 5_000_000;

/// The time between two readings that are kept, unless the second is the lower bound.
const SPACING: Duration = Duration::from_secs(1);

/// The maximum number of readings that are kept. Each is a second or more later than the one before.
const MAX_BASELINES: usize = 4096;

/// One reading of the wall clock of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time before the request was sent, on the clock of the [`Runtime`](crate::runtime::Runtime).
    ///
    /// If it is `None`, the reading is compared with earlier ones, and does not bound later ones.
    pub sent: Option<Instant>,
    /// The time of the server since the Unix epoch.
    pub server: Duration,
    /// The time after the reply was read, on the clock of the [`Runtime`](crate::runtime::Runtime).
    pub received: Instant,
}

/// The wall clock of one server, compared with the clock of this process.
///
/// A backend that takes part in [restart admission](crate::node#restart-admission) reads the clock of its server behind
/// every vote, in the same pipeline, and once a second with the time before the request. After a [jump](Self::jump), the
/// node is in quarantine for [`Quarantine::duration`](crate::node::Quarantine::duration), on the clock of the client.
/// The vote of that reading does not count.
///
/// ```
/// # use std::time::Duration;
/// # use redlock_core::node::{ClockReading, ServerClock};
/// # use redlock_core::runtime::Instant;
/// let mut clock = ServerClock::default();
/// let at = |seconds, server| {
///     let sent = Instant::ORIGIN + Duration::from_secs(seconds);
///     ClockReading { sent: Some(sent), server, received: sent + Duration::from_millis(1) }
/// };
/// let (first, kept) = (Duration::from_secs(1_800_000_000), Duration::from_secs(30));
/// assert_eq!(None, clock.jump(at(0, first), kept));
/// assert_eq!(None, clock.jump(at(1, first + Duration::from_secs(1)), kept));
///
/// // Half a second too much.
/// let ahead = clock.jump(at(2, first + Duration::from_millis(2_500)), kept);
/// assert!(ahead > Some(Duration::from_millis(490)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServerClock {
    /// The readings that bound the next ones, the lowest bound and the oldest first.
    ///
    /// A reading is left out if a later one has a lower bound: it would never decide.
    baselines: VecDeque<Baseline>,
}

/// An earlier reading.
#[derive(Clone, Copy, Debug)]
struct Baseline {
    received: Instant,
    /// The greatest possible difference of the clocks, less the tolerated rate since the origin of the client's clock.
    bound: i64,
}

impl ServerClock {
    /// Records a reading. Returns how far the clock has jumped ahead at least; `None` if it has not.
    ///
    /// Earlier readings bound this one for the time `kept`, which is the length of a quarantine. After a jump, only this
    /// reading bounds later ones.
    pub fn jump(&mut self, reading: ClockReading, kept: Duration) -> Option<Duration> {
        let ClockReading { sent, server, received } = reading;
        let rated = nanos(received.elapsed_since_origin()) / RATE;
        let difference = |at: Instant| nanos(server).saturating_sub(nanos(at.elapsed_since_origin()));
        let least = difference(received);
        let excess = self
            .baselines
            .front()
            .map_or(i64::MIN, |lowest| least.saturating_sub(rated).saturating_sub(lowest.bound));
        let jumped = excess > SLACK;
        if jumped {
            self.baselines.clear();
        }
        if let Some(sent) = sent {
            self.keep(Baseline { received, bound: difference(sent).saturating_sub(rated) }, kept);
        }
        jumped.then(|| Duration::from_nanos(excess.unsigned_abs()))
    }

    /// Forgets all readings: the next one is that of another server.
    pub fn restart(&mut self) {
        self.baselines.clear();
    }

    fn keep(&mut self, new: Baseline, kept: Duration) {
        while self.baselines.back().is_some_and(|last| last.bound >= new.bound) {
            self.baselines.pop_back();
        }
        let is_close = |last: &Baseline| new.received < last.received + SPACING;
        if !self.baselines.back().is_some_and(is_close) && self.baselines.len() < MAX_BASELINES {
            self.baselines.push_back(new);
        }
        // The newest of those that are too old stays, so that there is always one.
        while self.baselines.get(1).is_some_and(|second| second.received + kept <= new.received) {
            self.baselines.pop_front();
        }
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEPT: Duration = Duration::from_secs(10);
    const EPOCH: Duration = Duration::from_secs(1_800_000_000);

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// A server clock that a test sets.
    struct World {
        clock: ServerClock,
        /// The time of the client in microseconds.
        now: u64,
        /// The time of the server clock beyond that of the client, in microseconds.
        ahead: u64,
    }

    impl World {
        fn new() -> Self {
            Self { clock: ServerClock::default(), now: 1_000_000, ahead: 0 }
        }

        /// Reads the clock. The request and the reply take these times in microseconds.
        fn read(&mut self, there: u64, back: u64) -> Option<Duration> {
            let sent = Instant::ORIGIN + micros(self.now);
            self.now += there;
            let server = EPOCH + micros(self.now + self.ahead);
            self.now += back;
            let received = Instant::ORIGIN + micros(self.now);
            self.clock.jump(ClockReading { sent: Some(sent), server, received }, KEPT)
        }

        fn pass(&mut self, micros: u64) {
            self.now += micros;
        }
    }

    #[test]
    fn a_step_is_noticed_once() {
        let mut world = World::new();
        assert_eq!(None, world.read(100, 100));
        world.pass(1_000_000);
        world.ahead += 500_000;
        let ahead = world.read(100, 100).unwrap();
        assert!(ahead > micros(497_000) && ahead <= micros(500_000), "{ahead:?}");
        assert_eq!(None, world.read(100, 100));
    }

    #[test]
    fn a_clock_that_runs_fast_is_noticed_although_each_difference_is_small() {
        for (permille, is_fast) in [(83, true), (15, true), (4, true), (2, false), (0, false)] {
            let mut world = World::new();
            let jumped = (0..1_000).any(|_| {
                world.pass(10_000);
                world.ahead += 10 * permille;
                world.read(50, 50).is_some()
            });
            assert_eq!(is_fast, jumped, "{permille} per mille");
        }
    }

    #[test]
    fn small_steps_are_noticed_within_the_time_of_a_quarantine() {
        let mut world = World::new();
        let jumped = (0..9).any(|_| {
            world.pass(1_000_000);
            world.ahead += 4_000;
            world.read(50, 50).is_some()
        });
        assert!(jumped);
    }

    #[test]
    fn a_clock_that_was_set_back_is_not_ahead_until_it_passes_the_earlier_time() {
        let mut world = World::new();
        world.ahead = 10_000_000;
        assert_eq!(None, world.read(50, 50));
        world.pass(1_000_000);
        world.ahead = 0;
        assert_eq!(None, world.read(50, 50));
        world.ahead = 10_000_000;
        assert!(world.read(50, 50).is_some(), "keys that were set meanwhile expire early");
    }

    #[test]
    fn the_reading_of_another_server_is_no_jump() {
        let mut world = World::new();
        world.read(50, 50);
        world.ahead = 10_000_000;
        world.clock.restart();
        assert_eq!(None, world.read(50, 50));
    }

    #[test]
    fn a_reading_without_the_time_before_it_bounds_no_later_one() {
        let (mut world, mut clock) = (World::new(), ServerClock::default());
        let mut read = |ahead: u64, is_bound: bool| {
            world.pass(1_000_000);
            let now = Instant::ORIGIN + micros(world.now);
            let server = EPOCH + micros(world.now + ahead);
            clock.jump(ClockReading { sent: is_bound.then_some(now), server, received: now }, KEPT)
        };
        assert_eq!(None, read(0, false));
        assert_eq!(None, read(500_000, true), "there is no bound");
        assert!(read(900_000, false).is_some());
        assert_eq!(None, read(2_000_000, true), "there is no bound after a jump");
    }

    #[test]
    fn few_readings_are_kept() {
        let mut world = World::new();
        for _ in 0..100_000 {
            world.pass(10_000);
            assert_eq!(None, world.read(50, 50));
        }
        assert!(world.clock.baselines.len() < 5, "{}", world.clock.baselines.len());
        // Ever slower requests keep the most.
        for step in 0..20_000 {
            world.pass(1_000_000);
            assert_eq!(None, world.read(5_000 * step, 50));
        }
        assert!(world.clock.baselines.len() <= MAX_BASELINES);
    }

    /// One step of a run: the time that passes, by how much the clock of the server moves ahead, and the times of the
    /// request and of the reply, in microseconds.
    fn steps() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
        let micros = || prop_oneof![0..2_000_u64, 0..300_000_u64, Just(0)];
        proptest::collection::vec(
            (0..2_000_000_u64, prop_oneof![3 => Just(0), 1 => micros()], micros(), micros()),
            1..60,
        )
    }

    proptest! {
        /// Delays of requests and replies never look like a jump.
        #[test]
        fn delays_are_no_jump(steps in steps()) {
            let mut world = World::new();
            for (passed, _, there, back) in steps {
                world.pass(passed);
                prop_assert_eq!(None, world.read(there, back));
            }
        }

        /// The rule with all readings of the time, without any choice among them.
        #[test]
        fn the_readings_that_are_left_out_never_decide(steps in steps()) {
            let mut world = World::new();
            let mut all: Vec<(u64, i64)> = Vec::new();
            for (passed, moved, there, back) in steps {
                world.pass(passed);
                world.ahead += moved;
                let ahead = i64::try_from(world.ahead).unwrap();
                let jumped = world.read(there, back).is_some();
                let (read, signed) = (world.now, |micros: u64| i64::try_from(micros).unwrap());
                let (least, greatest) = (ahead - signed(back), ahead + signed(there));
                // One microsecond for rounding, in favor of either side.
                let excess = |(at, bound): &(u64, i64)| (least - bound) * 400 - signed(read - at) - 400 * 5_000;
                let within = |(at, _): &&(u64, i64)| read - at < 10_000_000;
                let surely = all.iter().filter(within).any(|before| excess(before) > 400);
                let possibly = all.iter().any(|before| excess(before) > -400);
                prop_assert!(jumped || !surely);
                prop_assert!(!jumped || possibly);
                if jumped {
                    all.clear();
                }
                all.push((read, greatest));
            }
        }
    }
}
