//! A simulated program: a runtime with its own clock, which can be paused, suspended and killed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant, Runtime};

use super::executor::World;

/// The machine of a process, for the executor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Machine {
    pub(super) paused: bool,
    pub(super) suspended: bool,
    pub(super) dead: bool,
    clock: Clock,
}

/// The difference between a clock and true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The time that the clock shows when true time begins.
    pub offset: Duration,
    /// The additional speed in parts per million; negative if slower. It must be more than -1,000,000.
    pub drift_ppm: i32,
}

impl Machine {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    pub(super) fn runs(self) -> bool {
        !(self.paused || self.suspended || self.dead)
    }
}

impl Clock {
    /// Returns the time that the clock shows at a true time.
    pub fn at(self, now: Instant) -> Instant {
        let elapsed = now.elapsed_since_origin();
        Instant::since_origin(self.offset + scaled(elapsed, self.rate(), MILLION))
    }

    /// Returns the true time in which the clock moves by `duration`.
    pub fn true_duration(self, duration: Duration) -> Duration {
        scaled(duration, MILLION, self.rate())
    }

    fn rate(self) -> u128 {
        u128::try_from(1_000_000 + i64::from(self.drift_ppm)).ok().filter(|rate| *rate > 0).unwrap_or(1)
    }
}

const MILLION: u128 = 1_000_000;

/// Returns `duration * numerator / denominator`.
///
/// The result is rounded up, so that a timer never fires early by its own clock.
fn scaled(duration: Duration, numerator: u128, denominator: u128) -> Duration {
    let nanos = (duration.as_nanos() * numerator).div_ceil(denominator);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A simulated program, and the [`Runtime`] for everything in it.
///
/// Clones are handles to the same program. Dropping a handle has no effect: the program continues.
#[derive(Clone)]
pub struct Process {
    world: Arc<World>,
    number: usize,
    name: Arc<str>,
}

impl Process {
    pub(super) fn new(world: Arc<World>, name: &str, clock: Clock) -> Self {
        let mut state = world.state();
        let number = state.machines.len();
        state.machines.push(Machine::new(clock));
        drop(state);
        Self { world, number, name: name.into() }
    }

    /// Returns the name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the runtime, in the form that the builder of `redlock-core` accepts.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(self.clone())
    }

    /// Pauses the program, as SIGSTOP does.
    ///
    /// Its clock continues and its timers fire, but none of its code runs.
    pub fn pause(&self) {
        self.world.state().machines[self.number].paused = true;
    }

    /// Suspends its machine: its clock continues, but its timers stop and no code runs.
    pub fn suspend(&self) {
        self.world.suspend(self.number, true);
    }

    /// Ends a pause, a suspension, or both.
    pub fn resume(&self) {
        self.world.state().machines[self.number].paused = false;
        self.world.suspend(self.number, false);
    }

    /// Kills the program and drops its tasks.
    ///
    /// Tasks that are spawned during these drops are dropped too.
    pub fn kill(&self) {
        self.world.kill(self.number);
    }

    /// Starts the program again on the same machine.
    ///
    /// It is another process with the same name and clock. This one does not change.
    #[must_use]
    pub fn restart(&self) -> Self {
        Self::new(Arc::clone(&self.world), &self.name, self.clock())
    }

    /// Returns the number of its tasks that have not completed.
    pub fn tasks(&self) -> usize {
        self.world.tasks_of(self.number)
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    fn clock(&self) -> Clock {
        self.world.state().machines[self.number].clock
    }
}

impl Runtime for Process {
    fn now(&self) -> Instant {
        let state = self.world.state();
        state.machines[self.number].clock.at(state.now)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.world.sleep(self.number, self.clock().true_duration(duration))
    }

    fn spawn(&self, future: BoxFuture<()>) {
        self.world.spawn(self.number, future);
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.world.state().chance.fill(bytes);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({:?})", self.name)
    }
}
