//! The wall clock of a simulated server, by which its keys expire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_testkit::sim::{Clock, Process};

/// A clock that shows whole milliseconds and may be set, forward and back.
///
/// A key thus expires up to one millisecond early. That is the worst behavior of a server that follows its clock.
/// Clones are handles to the same clock.
#[derive(Clone, Debug)]
pub(super) struct WallClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// A process whose clock is right.
    world: Process,
    clock: Clock,
    steps: Mutex<Steps>,
}

/// The total times by which the clock was set.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// The time forward, from the origin.
    forward: Duration,
    back: Duration,
}

/// The initial time, far enough from zero to be set back.
const EPOCH: Duration = Duration::from_secs(1_000_000);

impl WallClock {
    pub(super) fn new(clock: Clock, world: Process) -> Self {
        let steps = Mutex::new(Steps { forward: EPOCH, back: Duration::ZERO });
        Self(Arc::new(Shared { world, clock, steps }))
    }

    /// Sets the clock forward by `millis`, or back if negative.
    pub(super) fn step(&self, millis: i64) {
        let by = Duration::from_millis(millis.unsigned_abs());
        let mut steps = self.steps();
        if millis < 0 {
            steps.back += by;
        } else {
            steps.forward += by;
        }
    }

    /// Returns the true time at which the clock shows `shown`, if it is not set.
    ///
    /// For a past time it returns the present one.
    pub(super) fn true_time(&self, shown: Instant) -> Instant {
        self.0.world.now() + self.0.clock.true_duration(shown.saturating_duration_since(self.exact()))
    }

    fn exact(&self) -> Instant {
        let Steps { forward, back } = *self.steps();
        self.0.clock.at(self.0.world.now()) + forward - back
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime for WallClock {
    fn now(&self) -> Instant {
        let exact = self.exact();
        exact - Duration::from_nanos(u64::from(exact.elapsed_since_origin().subsec_nanos()) % 1_000_000)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.0.world.sleep(self.0.clock.true_duration(duration))
    }

    fn spawn(&self, future: BoxFuture<()>) {
        self.0.world.spawn(future);
    }
}
