//! A client: a machine with a clock, and a program on it with a `Redlock`, which may be stopped, killed and restarted.

mod keeper;
mod program;
mod protected;
mod scripted;
mod sharer;
mod waiter;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::runtime::Runtime;
use redlock_testkit::sim::{Clock, Process, Simulation};

use self::program::Program;
pub use self::program::RETRY_DELAY;
pub(super) use self::program::name;
pub(super) use self::protected::Protected;
use super::change::{Change, Times};
use super::{Activity, Script};
use crate::history::{EventKind, FaultKind, Place};
use crate::network::Network;

/// The behavior of a client.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // the settings are independent
pub(super) struct Behavior {
    pub(super) resources: usize,
    pub(super) shortest_ttl: Duration,
    pub(super) longest_ttl: Duration,
    pub(super) node_timeout: Duration,
    pub(super) drift_factor: f64,
    pub(super) does: Activity,
    /// If `true`, it acts some time after it has checked its lease.
    pub(super) careless: bool,
    /// If `true`, it reads the protected resource before it writes its token there.
    pub(super) reads_first: bool,
    /// Its program, if it is not random.
    pub(super) script: Option<Script>,
}

#[derive(Clone)]
pub(super) struct Client(Arc<Shared>);

struct Shared {
    number: usize,
    clock: Clock,
    network: Network,
    behavior: Behavior,
    /// The protected resources, if it also acquires locks with fencing tokens.
    protected: Option<Protected>,
    /// The lists of nodes, if they are changed.
    change: Option<(Change, Times)>,
    state: Mutex<State>,
}

struct State {
    chance: fastrand::Rng,
    process: Process,
    /// If `true`, the program runs or is only stopped.
    alive: bool,
    /// The reasons why it is stopped.
    stopped: Vec<FaultKind>,
    /// If `true`, the program is to complete.
    closing: bool,
}

impl Client {
    pub(super) fn new(
        simulation: &Simulation,
        network: Network,
        number: usize,
        clock: Clock,
        seed: u64,
        behavior: Behavior,
        (protected, lists): (Option<Protected>, Option<(Change, Times)>),
    ) -> Self {
        let process = simulation.process_with_clock(&format!("c{number}"), clock);
        let chance = fastrand::Rng::with_seed(seed);
        let state = State { chance, process, alive: false, stopped: Vec::new(), closing: false };
        Self(Arc::new(Shared {
            number,
            clock,
            network,
            behavior,
            protected,
            change: lists,
            state: Mutex::new(state),
        }))
    }

    /// Starts its program.
    pub(super) fn start(&self) {
        let mut state = self.state();
        state.alive = true;
        let (process, chance) = (state.process.clone(), state.chance.fork());
        drop(state);
        let program = Program::new(self.clone(), &process, chance);
        process.spawn(Box::pin(program.run()));
    }

    /// Starts its program again after it was killed.
    pub(super) fn restart(&self) {
        let mut state = self.state();
        if state.alive {
            return;
        }
        state.process = state.process.restart();
        drop(state);
        self.end_fault(FaultKind::Kill);
        self.start();
    }

    pub(super) fn pause(&self) {
        self.begin_fault(FaultKind::Pause);
        let mut state = self.state();
        state.process.pause();
        state.stopped.push(FaultKind::Pause);
    }

    pub(super) fn suspend(&self) {
        self.begin_fault(FaultKind::Suspension);
        let mut state = self.state();
        state.process.suspend();
        state.stopped.push(FaultKind::Suspension);
    }

    /// Ends a pause, a suspension or both, if there is one.
    pub(super) fn resume(&self) {
        let mut state = self.state();
        let stopped = std::mem::take(&mut state.stopped);
        state.process.resume();
        drop(state);
        for fault in stopped {
            self.end_fault(fault);
        }
    }

    pub(super) fn kill(&self) {
        self.begin_fault(FaultKind::Kill);
        let mut state = self.state();
        state.alive = false;
        let (stopped, process) = (std::mem::take(&mut state.stopped), state.process.clone());
        drop(state);
        for fault in stopped {
            self.end_fault(fault);
        }
        // The mutex is released before, because the dropped tasks may lock it.
        process.kill();
    }

    /// Makes its program release everything and complete.
    pub(super) fn close(&self) {
        self.state().closing = true;
    }

    /// Returns whether its program has ended, for any reason.
    pub(super) fn has_ended(&self) -> bool {
        !self.state().alive
    }

    /// Records the tasks of its program, if there are any.
    pub(super) fn record_tasks(&self) {
        let tasks = self.state().process.tasks();
        if tasks > 0 {
            self.0.network.recorder().record(EventKind::Runs { client: self.0.number, tasks });
        }
    }

    fn is_closing(&self) -> bool {
        self.state().closing
    }

    fn ended(&self) {
        self.state().alive = false;
    }

    fn begin_fault(&self, fault: FaultKind) {
        self.0.network.recorder().record(EventKind::FaultBegins(Place::Client(self.0.number), fault));
    }

    fn end_fault(&self, fault: FaultKind) {
        self.0.network.recorder().record(EventKind::FaultEnds(Place::Client(self.0.number), fault));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client(c{})", self.0.number)
    }
}
