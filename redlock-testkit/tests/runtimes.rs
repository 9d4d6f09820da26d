//! The suite for runtimes on all runtimes of this repository.
//!
//! Tokio in paused time is not among them. Its clock is the later of the paused clock and the real one. By this clock,
//! a timer is early by the real time that passes while the paused clock stands still.

use std::sync::Arc;

use redlock_core::runtime::{BoxFuture, Runtime};
use redlock_core::{SmolRuntime, TokioRuntime};
use redlock_testkit::runtime_conformance::Driver;
use redlock_testkit::sim::{Clock, Process, Simulation};
use tokio::runtime::{Builder, Runtime as Tokio};

mod threads {
    redlock_testkit::runtime_conformance!(redlock_testkit::ThreadRuntime);
}

mod smol_executor {
    redlock_testkit::runtime_conformance!(super::OnSmol);
}

mod tokio_on_one_thread {
    redlock_testkit::runtime_conformance!(super::OnTokio::one_thread());
}

mod tokio_on_several_threads {
    redlock_testkit::runtime_conformance!(super::OnTokio::several_threads());
}

mod tokio_on_a_thread_of_its_own {
    redlock_testkit::runtime_conformance!(super::OnDedicatedTokio);
}

mod simulated {
    redlock_testkit::runtime_conformance!(super::Simulated::new());
}

struct OnSmol;

impl Driver for OnSmol {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(SmolRuntime::new())
    }
}

struct OnTokio(Tokio);

impl OnTokio {
    fn one_thread() -> Self {
        Self(Builder::new_current_thread().enable_time().build().expect("tokio starts"))
    }

    fn several_threads() -> Self {
        Self(Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("tokio starts"))
    }
}

impl Driver for OnTokio {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(TokioRuntime::new())
    }

    fn block_on(&self, case: BoxFuture<()>) {
        self.0.block_on(case);
    }
}

/// Cases run outside of any tokio runtime.
struct OnDedicatedTokio;

impl Driver for OnDedicatedTokio {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(TokioRuntime::dedicated())
    }
}

struct Simulated {
    simulation: Simulation,
    process: Process,
}

impl Simulated {
    /// Its clock runs too fast.
    fn new() -> Self {
        let simulation = Simulation::new(1);
        let process = simulation.process_with_clock("case", Clock { drift_ppm: 1_000, ..Clock::default() });
        Self { simulation, process }
    }
}

impl Driver for Simulated {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.process.runtime()
    }

    fn block_on(&self, case: BoxFuture<()>) {
        self.simulation.block_on(&self.process, case);
    }
}
