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
    /// The additional speed in parts per million; negative if slower.
    ///
    /// It must be more than -1,000,000.
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
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Instant;
    /// # use redlock_testkit::sim::Clock;
    /// let clock = Clock { offset: Duration::from_secs(5), drift_ppm: 10_000 };
    /// let now = Instant::since_origin(Duration::from_secs(100));
    /// assert_eq!(Instant::since_origin(Duration::from_secs(106)), clock.at(now));
    /// ```
    pub fn at(self, now: Instant) -> Instant {
        let elapsed = now.elapsed_since_origin();
        Instant::since_origin(self.offset + scaled(elapsed, self.rate(), MILLION))
    }

    /// Returns the true time in which the clock moves by `duration`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::sim::Clock;
    /// let fast = Clock { drift_ppm: 10_000, ..Clock::default() };
    /// let timer = Duration::from_secs(101);
    /// assert_eq!(Duration::from_secs(100), fast.true_duration(timer));
    /// ```
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
    ///
    /// ```
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// let service = simulation.process("service");
    /// assert_eq!(0, service.tasks(), "{} leaves tasks behind", service.name());
    /// assert_eq!("service", service.restart().name());
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the runtime, in the form that the builder of `redlock-core` accepts.
    ///
    /// ```
    /// # use redlock_core::{Builder, runtime::Runtime};
    /// # use redlock_testkit::{fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// let nodes = fake_nodes(3, service.runtime()).into_iter().map(Into::into);
    /// let redlock = Builder::new(service.runtime()).nodes(nodes).build()?;
    /// assert_eq!(service.now(), redlock.now());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(self.clone())
    }

    /// Pauses the program, as SIGSTOP does.
    ///
    /// Its clock continues and its timers fire, but none of its code runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # let (simulation, ttl) = (Simulation::new(42), Duration::from_secs(10));
    /// # let service = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("fake-1", service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).node(node.clone()).build()?;
    /// let request = redlock.lock("nightly-report", ttl).keep_alive(KeepAlive::new());
    /// let guard = simulation.block_on(&service, request)?;
    /// service.pause();
    /// simulation.run_for(ttl);
    /// assert!(!guard.is_held(), "a paused program sends no renewals");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn pause(&self) {
        self.world.state().machines[self.number].paused = true;
    }

    /// Suspends its machine: its clock continues, but its timers stop and no code runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// service.spawn(service.sleep(Duration::from_secs(1)));
    /// service.suspend();
    /// simulation.run_for(Duration::from_secs(3600));
    /// service.resume();
    /// simulation.run_for(Duration::from_millis(900));
    /// assert_eq!(1, service.tasks(), "the timer was stopped meanwhile");
    /// ```
    pub fn suspend(&self) {
        self.world.suspend(self.number, true);
    }

    /// Ends a pause, a suspension, or both.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// service.spawn(service.sleep(Duration::from_secs(1)));
    /// service.pause();
    /// simulation.run_for(Duration::from_secs(3600));
    /// service.resume();
    /// simulation.run_for(Duration::ZERO);
    /// assert_eq!(0, service.tasks(), "the timer fired during the pause");
    /// ```
    pub fn resume(&self) {
        self.world.state().machines[self.number].paused = false;
        self.world.suspend(self.number, false);
    }

    /// Kills the program and drops its tasks.
    ///
    /// Tasks that are spawned during these drops are dropped too.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # let (simulation, ttl) = (Simulation::new(42), Duration::from_secs(10));
    /// # let service = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("fake-1", service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).node(node.clone()).build()?;
    /// let request = redlock.lock("orders:42", ttl);
    /// let guard = simulation.block_on(&service, request)?;
    /// service.kill();
    /// drop(guard); // a killed program releases nothing
    /// simulation.run_for(ttl / 2);
    /// assert!(node.holder("orders:42").is_some(), "until the TTL is over");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn kill(&self) {
        self.world.kill(self.number);
    }

    /// Starts the program again on the same machine.
    ///
    /// It is another process with the same name and clock. This one does not change.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # let (simulation, ttl) = (Simulation::new(42), Duration::from_secs(10));
    /// # let service = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("fake-1", service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).node(node.clone()).build()?;
    /// # let _lost = simulation.block_on(&service, redlock.lock("orders:42", ttl))?;
    /// service.kill(); // while it holds the lock
    /// let service = service.restart();
    /// let redlock = Redlock::builder(service.clone()).node(node).build()?;
    /// let request = redlock.lock("orders:42", ttl).max_wait(2 * ttl);
    /// simulation.block_on(&service, request)?; // waits until the old lock has expired
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    #[must_use]
    pub fn restart(&self) -> Self {
        Self::new(Arc::clone(&self.world), &self.name, self.clock())
    }

    /// Returns the number of its tasks that have not completed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # let (simulation, ttl) = (Simulation::new(42), Duration::from_secs(10));
    /// # let service = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("fake-1", service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).node(node.clone()).build()?;
    /// let request = redlock.lock("nightly-report", ttl).keep_alive(KeepAlive::new());
    /// let guard = simulation.block_on(&service, request)?;
    /// assert!(service.tasks() > 0, "the renewals");
    /// simulation.block_on(&service, guard.release())?;
    /// simulation.run_for(Duration::from_secs(60));
    /// assert_eq!(0, service.tasks(), "no task is left behind");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
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
