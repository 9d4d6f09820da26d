//! A simulated program: a runtime with a clock of its own, which can be stopped, put to sleep and killed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::{BoxFuture, Instant, Runtime};

use super::executor::World;

/// The machine that a process runs on, as the executor sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Machine {
    pub(super) paused: bool,
    pub(super) suspended: bool,
    pub(super) dead: bool,
    clock: Clock,
}

/// How a clock differs from true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Where it began when true time did.
    pub offset: Duration,
    /// How much faster it runs, in parts per million; negative if slower. More than -1,000,000.
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
    /// What the clock shows at a true time.
    pub fn at(self, now: Instant) -> Instant {
        let elapsed = now.elapsed_since_origin();
        Instant::since_origin(self.offset + scaled(elapsed, self.rate(), MILLION))
    }

    /// The true time in which the clock moves by `duration`.
    pub fn true_duration(self, duration: Duration) -> Duration {
        scaled(duration, MILLION, self.rate())
    }

    fn rate(self) -> u128 {
        u128::try_from(1_000_000 + i64::from(self.drift_ppm)).ok().filter(|rate| *rate > 0).unwrap_or(1)
    }
}

const MILLION: u128 = 1_000_000;

/// `duration * numerator / denominator`, rounded up, so that a timer never fires early by its own clock.
fn scaled(duration: Duration, numerator: u128, denominator: u128) -> Duration {
    let nanos = (duration.as_nanos() * numerator).div_ceil(denominator);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A simulated program, and the [`Runtime`] for everything in it. Clones are the same program.
///
/// Dropping a handle does nothing: the program goes on.
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

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime as core's builder takes it.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(self.clone())
    }

    /// Stops the program, as SIGSTOP does: its clock goes on and its timers fire, but none of its code runs.
    pub fn pause(&self) {
        self.world.state().machines[self.number].paused = true;
    }

    /// Suspends its machine: none of its code runs and its timers stand still, while its clock goes on.
    pub fn suspend(&self) {
        self.world.suspend(self.number, true);
    }

    /// Ends a pause, a suspension, or both.
    pub fn resume(&self) {
        self.world.state().machines[self.number].paused = false;
        self.world.suspend(self.number, false);
    }

    /// Kills the program: its tasks are dropped, and what it spawns while they are is dropped too.
    pub fn kill(&self) {
        self.world.kill(self.number);
    }

    /// Starts a program anew on the same machine: another process with the same name and clock. This one stays as it is.
    #[must_use]
    pub fn start_again(&self) -> Self {
        Self::new(Arc::clone(&self.world), &self.name, self.clock())
    }

    /// How many of its tasks have not ended.
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
