//! A client: the real core with its own clock, which only the test moves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{AbortHandle, abortable};
use redlock_core::node::Token;
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{Error, ErrorKind, Guard, Redlock, ReleaseOutcome};
use redlock_model::NODES;
use redlock_testkit::sim::{Process, Simulation};

use super::node::{Script, ScriptedNode};

/// A TTL so long that only the test ends a lease.
pub(crate) const TTL: Duration = Duration::from_secs(10_000);

/// A timeout that is short compared with the TTL, as in practice.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(100);

type Slot<T> = Arc<Mutex<Option<T>>>;

pub(crate) struct Program {
    simulation: Simulation,
    process: Process,
    client: usize,
    script: Arc<Mutex<Script>>,
    /// Kept alive, since cleanup ends a minute after the last handle is dropped.
    redlocks: Vec<Redlock>,
    /// The tokens of its attempts, as received by the nodes.
    pub(crate) tokens: Vec<Token>,
    /// The start times of the rounds of the current lease.
    pub(crate) rounds: Vec<Instant>,
    attempt: Slot<Result<Guard, Error>>,
    abort_handle: Option<AbortHandle>,
    pub(crate) guard: Option<Guard>,
    pub(crate) extension: Slot<Result<(), ErrorKind>>,
    pub(crate) released: Slot<Result<ReleaseOutcome, ErrorKind>>,
}

impl Program {
    pub(crate) fn new(client: usize, seed: u64, script: &Arc<Mutex<Script>>) -> Self {
        let simulation = Simulation::new(seed);
        let process = simulation.process("client");
        Self {
            simulation,
            process,
            client,
            script: Arc::clone(script),
            redlocks: Vec::new(),
            tokens: Vec::new(),
            rounds: Vec::new(),
            attempt: Slot::default(),
            abort_handle: None,
            guard: None,
            extension: Slot::default(),
            released: Slot::default(),
        }
    }

    /// Creates a separate handle for every attempt. With one handle, attempts would wait for each other in its local
    /// queue.
    fn redlock(&self) -> Redlock {
        let node = |node| ScriptedNode {
            script: Arc::clone(&self.script),
            clock: self.process.runtime(),
            client: self.client,
            node,
            label: format!("n{node}"),
        };
        let builder = Redlock::builder(self.process.clone());
        (0..NODES)
            .fold(builder, |builder, number| builder.node(node(number)))
            .node_timeout(NODE_TIMEOUT)
            .clock_drift_factor(0.0)
            .build()
            .expect("the labels of the nodes are unique")
    }

    pub(crate) fn now(&self) -> Instant {
        self.process.now()
    }

    /// Runs all tasks that can run at this moment.
    pub(crate) fn settle(&mut self) {
        self.simulation.run_for(Duration::ZERO);
    }

    /// Lets time pass while the program runs.
    pub(crate) fn wait(&mut self, duration: Duration) {
        self.simulation.run_for(duration);
    }

    /// Lets time pass while the program is paused.
    pub(crate) fn stop_until(&mut self, until: Instant) {
        self.process.pause();
        self.simulation.run_for(until.saturating_duration_since(self.now()));
        self.process.resume();
        self.settle();
    }

    pub(crate) fn attempt(&mut self) {
        self.rounds = vec![self.now()];
        self.attempt = Slot::default();
        let redlock = self.redlock();
        // A single attempt. Requests that do not wait would repeat it while the votes are split.
        let request = redlock.lock("resource", TTL).max_attempts(1);
        let (attempt, handle) = abortable(request.into_future());
        self.redlocks.push(redlock);
        let slot = Arc::clone(&self.attempt);
        self.abort_handle = Some(handle);
        self.process.spawn(Box::pin(async move {
            if let Ok(outcome) = attempt.await {
                *filled(&slot) = Some(outcome);
            }
        }));
        self.settle();
    }

    pub(crate) fn cancel(&mut self) {
        self.abort_handle.take().expect("an attempt is open").abort();
        self.settle();
    }

    /// Returns the outcome of the attempt, if it is known: a grant, or the cause of the failure.
    pub(crate) fn outcome(&mut self) -> Option<Result<(), ErrorKind>> {
        let outcome = filled(&self.attempt).take()?;
        Some(match outcome {
            Ok(guard) => {
                self.guard = Some(guard);
                Ok(())
            }
            // The model does not distinguish the holders that denials name.
            Err(error) if error.kind() == ErrorKind::Undecided => Err(ErrorKind::Contended),
            Err(error) => Err(error.kind()),
        })
    }

    pub(crate) fn extend(&mut self) {
        self.rounds.push(self.now());
        self.extension = Slot::default();
        let (lease, slot) =
            (self.guard.as_ref().expect("a lease is extended").lease(), Arc::clone(&self.extension));
        self.process.spawn(Box::pin(async move {
            let outcome = lease.extend(TTL).await.map_err(|error| error.kind());
            *filled(&slot) = Some(outcome);
        }));
        self.settle();
    }

    pub(crate) fn release(&mut self) {
        self.released = Slot::default();
        let (guard, slot) = (self.guard.take().expect("a lease is released"), Arc::clone(&self.released));
        self.process.spawn(Box::pin(async move {
            let outcome = guard.release().await.map_err(|error| error.kind());
            *filled(&slot) = Some(outcome);
        }));
        self.settle();
    }
}

/// Returns the content of a slot.
pub(crate) fn filled<T>(slot: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
