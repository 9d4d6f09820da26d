//! A simulated lock server: a store, a wall clock of its own, and everything that happens to machines.
//!
//! A stopped server keeps what it receives, in order, and carries it out when it goes on; a crashed one loses that. What
//! a crash has cost shows at the restart: a key that would have expired meanwhile was not lost.

#[cfg(redlock_broken)]
mod broken;
mod loss;
mod machine;

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event_listener::{Event, EventListener};
use futures_channel::oneshot;
use redlock_core::{Instant, IntoResource, Runtime, Token};

pub use self::machine::Keeps;
use self::machine::Machine;
use super::process::{Clock, Process};
use super::watch::Armed;
use crate::faulty::state::{Answer, Request};
use crate::history::{self, Place, Recorder, Said, Trouble, What};
use crate::memory::name;

/// A simulated lock server. Clones are handles to the same one.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    number: usize,
    /// A process whose clock is right.
    world: Process,
    recorder: Recorder,
    state: Mutex<State>,
    /// Fires when the server dies, and its connections with it.
    died: Event,
}

struct State {
    machine: Machine,
    up: bool,
    /// Counts starts: a connection to an earlier one is gone.
    incarnation: u64,
    /// What was received while the server was stopped; `None` while it runs.
    received: Option<Vec<Received>>,
    keeps: Keeps,
    /// Since when it is down.
    crashed: Instant,
}

type Received = (Delivery, oneshot::Sender<Answer>);

/// A request that arrives.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) request: Request,
    pub(super) shown: history::Request,
    pub(super) travelled: Duration,
    /// Whether the other copy was carried out.
    pub(super) spent: Arc<AtomicBool>,
    /// Where a watch is put that it has begun.
    pub(super) armed: Armed,
}

/// What a server did with a request, and until when the key stands, in true time, where the request wrote it.
struct Carried {
    answer: Answer,
    until: Option<Instant>,
    /// What fires at the next change, where the request was to watch.
    changed: Option<EventListener>,
}

/// What becomes of a request that arrives.
pub(super) enum Arrival {
    /// The server is down.
    Gone,
    Carried(Answer),
    /// The server is stopped: the answer comes when it goes on, or never.
    Waits(oneshot::Receiver<Answer>),
}

impl Server {
    pub(super) fn new(number: usize, clock: Clock, world: Process, recorder: Recorder) -> Self {
        let machine = Machine::new(clock);
        let state = State {
            machine,
            up: true,
            incarnation: 0,
            received: None,
            keeps: Keeps::All,
            crashed: Instant::ORIGIN,
        };
        Self(Arc::new(Shared { number, world, recorder, state: Mutex::new(state), died: Event::new() }))
    }

    /// Its number, from 0.
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Dies at once, with all that it had received and not carried out. What it keeps shows when it is back.
    pub fn crash(&self, keeps: Keeps) {
        self.strikes(Trouble::Crash);
        let mut state = self.state();
        state.up = false;
        state.keeps = keeps;
        state.crashed = self.0.world.now();
        let received = state.received.take();
        drop(state);
        if received.is_some() {
            self.passes(Trouble::Hang);
        }
        // Outside of the lock: whoever waits is woken.
        drop(received);
        self.0.died.notify(usize::MAX);
    }

    /// Comes back from a crash, running, with what it has kept; does nothing where there was none.
    pub fn restart(&self) {
        let now = self.0.world.now();
        let mut state = self.state();
        if state.up {
            return;
        }
        let keeps = mem::take(&mut state.keeps);
        let lost = state.machine.lose_all_but(&keeps, now);
        let forgot = keeps == Keeps::Nothing && state.machine.lose_counters();
        let away = now.saturating_duration_since(state.crashed);
        state.up = true;
        state.incarnation += 1;
        drop(state);
        self.passes(Trouble::Crash);
        if forgot {
            self.strikes(Trouble::Amnesia(away));
        }
        self.record_loss(&lost);
    }

    /// Stops, as by SIGSTOP: it receives, and carries out when it [resumes](Server::resume).
    pub fn hang(&self) {
        self.strikes(Trouble::Hang);
        self.state().received.get_or_insert_default();
    }

    /// Goes on, and carries out first what it has received meanwhile, in order; does nothing where it was not stopped.
    pub fn resume(&self) {
        let mut state = self.state();
        let Some(received) = state.received.take() else { return };
        self.passes(Trouble::Hang);
        let carry_out = |(delivery, reply)| (self.carry_out(&mut state.machine, &delivery), reply);
        let carried: Vec<(_, oneshot::Sender<_>)> = received.into_iter().map(carry_out).collect();
        drop(state);
        for (answer, reply) in carried {
            // The network waits for every answer, whether or not the client still does.
            drop(reply.send(answer));
        }
    }

    /// Has no memory for new keys, or has again. What exists can be extended and released meanwhile.
    pub fn out_of_memory(&self, is: bool) {
        let was = mem::replace(&mut self.state().machine.out_of_memory, is);
        self.note(Trouble::OutOfMemory, was, is);
    }

    /// Rejects every write, as a server does that has become a replica, or does no longer.
    pub fn read_only(&self, is: bool) {
        let was = mem::replace(&mut self.state().machine.read_only, is);
        self.note(Trouble::ReadOnly, was, is);
    }

    /// Sets the wall clock forward by so many milliseconds, or back if they are negative.
    pub fn step_clock(&self, millis: i64) {
        self.strikes(Trouble::Step(millis));
        let now = self.0.world.now();
        let moved = self.state().machine.step_clock(millis, now);
        for (token, until) in moved {
            let token = self.0.recorder.number(&token);
            self.0.recorder.record(What::Moved { server: self.0.number, token, until });
        }
    }

    /// Puts something that is no lock under the key of a resource, as another program might that uses the name for
    /// something else. It never expires. Answers whether it could: a lock is not overwritten, and a server that is down,
    /// stopped or takes no writes says nothing to that program either.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn put_other(&self, resource: impl IntoResource) -> bool {
        let (resource, now) = (name(resource), self.0.world.now());
        let mut state = self.state();
        let put = state.up && state.received.is_none() && state.machine.put_other(&resource, now);
        drop(state);
        if put {
            self.strikes(Trouble::WrongType);
        }
        put
    }

    /// Deletes what is no lock under the key of a resource, in whichever state the server is.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn remove_other(&self, resource: impl IntoResource) {
        if self.state().machine.remove_other(&name(resource)) {
            self.passes(Trouble::WrongType);
        }
    }

    /// Whether it has not crashed, or is back.
    pub fn is_up(&self) -> bool {
        self.state().up
    }

    /// How many locks stand.
    pub fn len(&self) -> usize {
        let now = self.0.world.now();
        self.state().machine.locks(now).len()
    }

    /// Whether no lock stands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes down which locks stand.
    pub fn record_locks(&self) {
        let now = self.0.world.now();
        let stand = self.state().machine.locks(now);
        for (token, _) in stand {
            let token = self.0.recorder.number(&token);
            self.0.recorder.record(What::Stands { server: self.0.number, token });
        }
    }

    /// Which start of the server runs; `None` while it is down.
    pub(super) fn incarnation(&self) -> Option<u64> {
        let state = self.state();
        state.up.then_some(state.incarnation)
    }

    /// Fires when it dies. Listen first, then look.
    pub(super) fn listen_for_death(&self) -> EventListener {
        self.0.died.listen()
    }

    pub(super) fn receive(&self, delivery: &Delivery) -> Arrival {
        let mut state = self.state();
        if !state.up {
            return Arrival::Gone;
        }
        match &mut state.received {
            Some(received) => {
                let (reply, answer) = oneshot::channel();
                received.push((delivery.clone(), reply));
                Arrival::Waits(answer)
            }
            None => Arrival::Carried(self.carry_out(&mut state.machine, delivery)),
        }
    }

    /// Carries out, and writes it down in the same step: the history has the order in which things were done.
    fn carry_out(&self, machine: &mut Machine, delivery: &Delivery) -> Answer {
        let Carried { answer, until, changed } = machine.carry_out(&delivery.request, self.0.world.now());
        delivery.armed.put(changed);
        let again = delivery.spent.swap(true, Ordering::Relaxed);
        let (request, said, travelled) = (delivery.shown, Said::of(&answer), delivery.travelled);
        self.0.recorder.record(What::Carried { request, said, until, travelled, again });
        answer
    }

    fn record_loss(&self, lost: &[Token]) {
        for token in lost {
            let token = self.0.recorder.number(token);
            self.0.recorder.record(What::Lost { server: self.0.number, token });
        }
    }

    fn note(&self, trouble: Trouble, was: bool, is: bool) {
        match (was, is) {
            (false, true) => self.strikes(trouble),
            (true, false) => self.passes(trouble),
            _ => {}
        }
    }

    fn strikes(&self, trouble: Trouble) {
        self.0.recorder.record(What::Strikes(Place::Server(self.0.number), trouble));
    }

    fn passes(&self, trouble: Trouble) {
        self.0.recorder.record(What::Passes(Place::Server(self.0.number), trouble));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server(n{})", self.0.number)
    }
}
