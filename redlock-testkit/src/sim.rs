//! A simulated runtime: virtual time, a seeded scheduler, no threads and no real time.
//!
//! [`Simulation`] runs async code that takes its time and randomness from a [`Runtime`](redlock_core::runtime::Runtime), such as
//! anything built on a [`Redlock`](redlock_core::Redlock). Time does not move while a task can run, and jumps to the
//! next timer when none can, so an hour passes in milliseconds. The order of ready tasks and every random byte are
//! drawn from the seed: the same seed replays the same run.
//!
//! Each [`Process`] is a separate `Runtime`: a program on a machine with its own clock. It can be paused (stopped, as
//! by SIGSTOP), suspended (like a laptop whose lid is closed) and killed.
//!
//! ```
//! use std::time::Duration;
//! use redlock_testkit::{fake_redlock_on, sim::Simulation};
//!
//! let simulation = Simulation::new(42);
//! let service = simulation.process("service");
//! let (redlock, _nodes) = fake_redlock_on(5, service.runtime());
//!
//! simulation.block_on(&service, async move {
//!     let ttl = Duration::from_secs(10);
//!     let guard = redlock.lock("invoice:42", ttl).await?;
//!     // Waits its whole 5 s, in no time at all.
//!     let request = redlock.lock("invoice:42", ttl);
//!     assert!(request.max_wait(Duration::from_secs(5)).await.is_err());
//!     assert!(guard.remaining() < Duration::from_secs(5));
//!     Ok::<(), redlock_core::Error>(())
//! })?;
//! # Ok::<(), redlock_core::Error>(())
//! ```

mod executor;
mod process;
mod seeds;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redlock_core::runtime::Instant;

use self::executor::{Step, World};
pub use self::process::{Clock, Process};
pub use self::seeds::for_each_seed;

/// A world of simulated programs with one true time.
///
/// Dropping it kills all programs, so that none outlives a test.
pub struct Simulation {
    world: Arc<World>,
    seed: u64,
    max_polls: u64,
}

/// The default limit of polls, above which a run is a hot loop. An hour of a busy lock has about 100,000.
const MAX_POLLS: u64 = 50_000_000;

impl Simulation {
    /// Creates a world in which all random decisions are drawn from `seed`.
    ///
    /// ```
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_testkit::sim::Simulation;
    /// let random = |seed| {
    ///     let mut bytes = [0; 16];
    ///     Simulation::new(seed).process("service").fill_random(&mut bytes);
    ///     bytes
    /// };
    /// assert_eq!(random(42), random(42), "a seed replays its run");
    /// ```
    pub fn new(seed: u64) -> Self {
        Self { world: Arc::new(World::new(seed)), seed, max_polls: MAX_POLLS }
    }

    /// Sets the maximum number of polls of one run. The default is 50 million.
    ///
    /// A run with more polls counts as a hot loop and panics. An hour of a busy lock has about 100,000.
    ///
    /// ```should_panic
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_testkit::sim::Simulation;
    /// let simulation = Simulation::new(42).max_polls(1_000);
    /// let service = simulation.process("service");
    /// simulation.block_on::<()>(&service.clone(), async move {
    ///     loop { service.sleep(Duration::ZERO).await } // panics instead of hanging
    /// });
    /// ```
    #[must_use]
    pub fn max_polls(mut self, polls: u64) -> Self {
        self.max_polls = polls;
        self
    }

    /// Returns the seed, for the message of a failed assertion.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # fn run(simulation: &Simulation, node: &MemoryNode) -> Result<(), redlock_core::Error> {
    /// #     let service = simulation.process("service");
    /// #     let redlock = Redlock::builder(service.clone()).node(node.clone()).build()?;
    /// #     drop(simulation.block_on(&service, redlock.lock("orders:42", Duration::from_secs(10)))?);
    /// #     simulation.run_for(Duration::from_secs(1));
    /// #     Ok(())
    /// # }
    /// for seed in 0..100 {
    ///     let simulation = Simulation::new(seed);
    ///     let node = MemoryNode::new("fake-1");
    ///     run(&simulation, &node)?; // the service under test
    ///     assert!(node.is_empty(), "seed {} leaves a key behind", simulation.seed());
    /// }
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the true time. A process sees it only if its clock is right.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::Runtime;
    /// # use redlock_testkit::sim::Simulation;
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// let (start, night) = (simulation.now(), Duration::from_secs(8 * 3600));
    /// simulation.block_on(&service, service.sleep(night));
    /// assert_eq!(start + night, simulation.now());
    /// ```
    pub fn now(&self) -> Instant {
        self.world.state().now
    }

    /// Starts a program on a machine whose clock is right.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # let (simulation, ttl) = (Simulation::new(42), Duration::from_secs(10));
    /// # let node = MemoryNode::with_runtime("fake-1", simulation.process("server").runtime());
    /// let [a, b] = ["a", "b"].map(|name| simulation.process(name));
    /// let first = Redlock::builder(a.clone()).node(node.clone()).build()?;
    /// let second = Redlock::builder(b.clone()).node(node.clone()).build()?;
    /// let _guard = simulation.block_on(&a, first.lock("report", ttl))?;
    /// let denied = simulation.block_on(&b, second.lock("report", ttl).try_now())?;
    /// assert!(denied.is_none(), "the other process holds the lock");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn process(&self, name: &str) -> Process {
        self.process_with_clock(name, Clock::default())
    }

    /// Starts a program on a machine whose clock differs from true time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::runtime::{Instant, Runtime};
    /// # use redlock_testkit::sim::{Clock, Simulation};
    /// # let simulation = Simulation::new(42);
    /// let slow = Clock { drift_ppm: -500, ..Clock::default() };
    /// let service = simulation.process_with_clock("service", slow);
    /// simulation.run_for(Duration::from_secs(1_000));
    /// let expected = Instant::since_origin(Duration::from_millis(999_500));
    /// assert_eq!(expected, service.now());
    /// ```
    pub fn process_with_clock(&self, name: &str, clock: Clock) -> Process {
        Process::new(Arc::clone(&self.world), name, clock)
    }

    /// Runs `work` in a process until it completes, and all other tasks meanwhile.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// # let (simulation, ttl) = (Simulation::new(42), Duration::from_secs(10));
    /// # let service = simulation.process("service");
    /// # let node = MemoryNode::with_runtime("fake-1", service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).node(node.clone()).build()?;
    /// let guard = simulation.block_on(&service, redlock.lock("orders:42", ttl))?;
    /// assert!(guard.is_held());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if no task can run any more before `work` has completed (a deadlock, a paused process). It also panics if
    /// the number of polls indicates a hot loop. The message contains the seed.
    pub fn block_on<T: Send + 'static>(
        &self,
        process: &Process,
        work: impl IntoFuture<Output = T, IntoFuture: Send + 'static>,
    ) -> T {
        let result = Arc::new(Mutex::new(None));
        let (slot, work) = (Arc::clone(&result), work.into_future());
        let work = async move {
            let value = work.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        };
        self.world.spawn(process.number(), Box::pin(work));
        let forever = Instant::since_origin(Duration::MAX);
        for _ in 0..self.max_polls {
            if let Some(value) = result.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return value;
            }
            if let Step::Stuck = self.world.step(forever) {
                panic!("seed {}: {process:?} waits for something that cannot happen", self.seed);
            }
        }
        panic!("seed {}: {process:?} has not ended after {} polls: a hot loop", self.seed, self.max_polls);
    }

    /// Runs all tasks for this true time.
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
    /// simulation.run_for(Duration::from_secs(8 * 3600));
    /// assert!(guard.is_held(), "it was renewed all night");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the number of polls indicates a hot loop. The message contains the seed.
    pub fn run_for(&self, duration: Duration) {
        let until = self.now() + duration;
        for _ in 0..self.max_polls {
            if let Step::Stuck = self.world.step(until) {
                self.world.idle_until(until);
                return;
            }
        }
        panic!("seed {}: {} polls in {duration:?}: a hot loop", self.seed, self.max_polls);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.world.kill_all();
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("seed", &self.seed)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
