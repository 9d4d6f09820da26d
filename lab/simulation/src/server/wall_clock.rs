//! The wall clock of a simulated server, by which its keys expire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_testkit::sim::{Clock, Process};

/// A clock that shows whole milliseconds, may be set forward and back, and may run fast for a while.
///
/// A key thus expires up to one millisecond early. That is the worst behavior of a server that follows its clock.
/// Clones are handles to the same clock.
#[derive(Clone, Debug)]
pub(super) struct WallClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// A process whose clock is right.
    world: Process,
    /// The speed in parts per million, unless the clock is corrected.
    drift_ppm: i32,
    state: Mutex<State>,
}

/// The time that the clock shows since the last change.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The true time of the last change of the speed.
    since: Instant,
    /// The time that the clock has shown then, with all later steps.
    shown: Instant,
    drift_ppm: i32,
}

/// The initial time, far enough from zero to be set back.
const EPOCH: Duration = Duration::from_secs(1_000_000);

impl WallClock {
    pub(super) fn new(clock: Clock, world: Process) -> Self {
        let Clock { offset, drift_ppm } = clock;
        let shown = Instant::since_origin(offset + EPOCH);
        let state = Mutex::new(State { since: Instant::ORIGIN, shown, drift_ppm });
        Self(Arc::new(Shared { world, drift_ppm, state }))
    }

    /// Sets the clock forward by `millis`, or back if negative.
    pub(super) fn step(&self, millis: i64) {
        let by = Duration::from_millis(millis.unsigned_abs());
        let mut state = self.state();
        state.shown = if millis < 0 { state.shown - by } else { state.shown + by };
    }

    /// Makes the clock run faster by these parts per million than without a correction.
    pub(super) fn slew(&self, ppm: i32) {
        let (since, shown) = (self.0.world.now(), self.exact());
        *self.state() = State { since, shown, drift_ppm: self.0.drift_ppm + ppm };
    }

    /// Returns the true time at which the clock shows `shown`, if it is not set.
    ///
    /// For a past time it returns the present one.
    pub(super) fn true_time(&self, shown: Instant) -> Instant {
        self.0.world.now() + self.speed().true_duration(shown.saturating_duration_since(self.exact()))
    }

    /// Returns the time since the Unix epoch, as `TIME` does.
    pub(super) fn unix_time(&self) -> Duration {
        self.exact().elapsed_since_origin()
    }

    fn exact(&self) -> Instant {
        let State { since, shown, .. } = *self.state();
        let passed = self.0.world.now().saturating_duration_since(since);
        shown + self.speed().at(Instant::since_origin(passed)).elapsed_since_origin()
    }

    fn speed(&self) -> Clock {
        Clock { offset: Duration::ZERO, drift_ppm: self.state().drift_ppm }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime for WallClock {
    fn now(&self) -> Instant {
        let exact = self.exact();
        exact - Duration::from_nanos(u64::from(exact.elapsed_since_origin().subsec_nanos()) % 1_000_000)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.0.world.sleep(self.speed().true_duration(duration))
    }

    fn spawn(&self, future: BoxFuture<()>) {
        self.0.world.spawn(future);
    }
}
