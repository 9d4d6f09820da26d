//! Simulated lock servers: a store, its own wall clock, and the faults of machines.
//!
//! A stopped server keeps the received requests, in order, and carries them out when it resumes. A crashed server loses
//! them. The losses of a crash are determined at the restart: a key that would have expired meanwhile was not lost.

mod commands;
mod loss;
mod machine;
mod wall_clock;

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event_listener::{Event, EventListener};
use futures_channel::oneshot;
use redlock_core::node::{NodeError, Reply, Token};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{IntoResource, Resource};
use redlock_server::{ClientId, Command};
use redlock_testkit::Request;
use redlock_testkit::sim::{Clock, Process};

use self::commands::Arrived;
pub use self::machine::Persistence;
use self::machine::{Data, Machine, Memory, Redis, changes, is_place};
use crate::history::{self, EventKind, FaultKind, Place, Recorder, TokenNumber};

/// The first bytes of announcements of node lists.
const ANNOUNCEMENTS: [&[u8]; 3] = [b"nodes ", b"agreed nodes ", b"copied nodes "];

/// A simulated lock server. Clones are handles to the same server.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    number: usize,
    /// A process whose clock is right.
    world: Process,
    recorder: Recorder,
    state: Mutex<State>,
    /// Notified when the server and its connections die.
    died: Event,
    /// Notified of a loss while the server is running, and of a change of the stamp.
    changed: Event,
}

struct State {
    machine: Machine,
    up: bool,
    /// The number of starts. A connection to an earlier incarnation is lost.
    incarnation: u64,
    /// The requests received while the server is stopped; `None` while it runs.
    received: Option<Vec<Received>>,
    persistence: Persistence,
    /// The time of the last crash.
    crashed: Instant,
    /// The number of losses while it was running. Connected clients are notified of each, in order with replies.
    losses: u64,
    /// The number of changes of the stamp by looks, and the true time of the last one.
    renewals: u64,
    renewed: Instant,
    /// The additional speed of the clock in parts per million.
    slewed: i32,
    /// The true times of corrections of the clock forward: the beginning, and the end if it has ended.
    corrections: Vec<(Instant, Option<Instant>)>,
    /// True while it is a replica.
    demoted: bool,
}

/// A message that waits while the server is stopped.
enum Received {
    Request(Delivery, oneshot::Sender<Carried>),
    Look(Command, oneshot::Sender<Looked>),
    Bytes(Arrived),
    /// The end of a connection.
    Close(ClientId),
}

/// The result of a request.
pub(crate) type Outcome = Result<Reply, NodeError>;

/// A request that was carried out.
pub(crate) struct Carried {
    pub(crate) outcome: Outcome,
    pub(crate) pushed: Pushed,
    /// The reply to the look that followed the request, if one was sent behind it.
    pub(crate) look: Option<redlock_wire::Reply>,
    pub(crate) clock: ClockShown,
}

/// The changes of a running server before a request was carried out, of which connected clients are notified.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pushed {
    /// The number of losses.
    pub(crate) losses: u64,
    /// The number of changes of the stamp.
    pub(crate) renewals: u64,
}

/// The wall clock of a server behind a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockShown {
    /// The true time.
    pub(crate) at: Instant,
    /// The time by the clock since the Unix epoch.
    pub(crate) unix_time: Duration,
}

/// A look that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Looked {
    pub(crate) reply: redlock_wire::Reply,
    pub(crate) pushed: Pushed,
    pub(crate) clock: ClockShown,
}

/// An arriving request.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) request: Request,
    /// The look that follows in the same pipeline, if one does.
    pub(crate) look: Option<Command>,
    pub(crate) shown: history::Request,
    pub(crate) travelled: Duration,
    /// Set when a copy was carried out.
    pub(crate) spent: Arc<AtomicBool>,
}

/// An executed request. `until` is the true time at which a written key expires.
struct Executed {
    outcome: Outcome,
    until: Option<Instant>,
}

/// The handling of an arriving request.
pub(crate) enum Arrival {
    /// The server is down.
    Gone,
    Carried(Carried),
    /// The server is stopped: the reply comes when it resumes, or never.
    Waits(oneshot::Receiver<Carried>),
}

impl Server {
    /// Creates a server that receives requests.
    pub(crate) fn new(number: usize, clock: Clock, world: Process, recorder: Recorder) -> Self {
        let machine = Machine::Memory(Memory::new(clock, world.clone()));
        Self::with(number, machine, world, recorder)
    }

    fn with(number: usize, machine: Machine, world: Process, recorder: Recorder) -> Self {
        let state = State {
            machine,
            up: true,
            incarnation: 0,
            received: None,
            persistence: Persistence::All,
            crashed: Instant::ORIGIN,
            losses: 0,
            renewals: 0,
            renewed: Instant::ORIGIN,
            slewed: 0,
            corrections: Vec::new(),
            demoted: false,
        };
        let (state, died, changed) = (Mutex::new(state), Event::new(), Event::new());
        Self(Arc::new(Shared { number, world, recorder, state, died, changed }))
    }

    /// Returns its number, from 0.
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Crashes the server, with all requests that it has received and not carried out.
    ///
    /// `persistence` determines the data after the restart.
    pub fn crash(&self, persistence: Persistence) {
        self.begin_fault(FaultKind::Crash);
        let mut state = self.state();
        state.up = false;
        state.persistence = persistence;
        state.crashed = self.0.world.now();
        let received = state.received.take();
        let connections = state.machine.redis().map(Redis::disconnect_all);
        drop(state);
        connections.into_iter().flatten().for_each(|connection| connection.sever());
        if received.is_some() {
            self.end_fault(FaultKind::Hang);
        }
        // The mutex is released before, because the drop wakes tasks.
        drop(received);
        self.0.died.notify(usize::MAX);
    }

    /// Restarts a crashed server with the data that it has kept.
    ///
    /// If it has not crashed, this has no effect.
    pub fn restart(&self) {
        let mut state = self.state();
        if state.up {
            return;
        }
        let persistence = mem::take(&mut state.persistence);
        let lost = state.machine.lose_all_but(&persistence);
        let forgot = persistence == Persistence::Nothing && state.machine.lose_counters();
        let away = self.0.world.now().saturating_duration_since(state.crashed);
        state.up = true;
        state.incarnation += 1;
        state.machine.start();
        drop(state);
        self.end_fault(FaultKind::Crash);
        if forgot {
            self.begin_fault(FaultKind::Amnesia(away));
        }
        self.record_loss(&lost);
        if persistence == Persistence::Older {
            self.record_rollback();
        }
    }

    /// Stops the server, as SIGSTOP does.
    ///
    /// It receives requests, and carries them out when it [resumes](Server::resume).
    pub fn hang(&self) {
        self.begin_fault(FaultKind::Hang);
        self.state().received.get_or_insert_default();
    }

    /// Resumes a stopped server. It first carries out the received requests, in order.
    ///
    /// If it is not stopped, this has no effect.
    pub fn resume(&self) {
        let mut state = self.state();
        let Some(received) = state.received.take() else { return };
        self.end_fault(FaultKind::Hang);
        let (mut carried, mut looked) = (Vec::new(), Vec::new());
        for message in received {
            match message {
                Received::Request(delivery, reply) => {
                    carried.push((self.carry_out(&mut state, &delivery), reply));
                }
                Received::Look(command, reply) => {
                    looked.push((self.carry_look(&mut state, &command), reply));
                }
                Received::Bytes(arrived) => self.carry_out_commands(&mut state, &arrived),
                Received::Close(client) => {
                    state.machine.redis().into_iter().for_each(|redis| redis.close(client));
                }
            }
        }
        drop(state);
        // The network waits for every reply, even if the client does not.
        for (outcome, sender) in carried {
            drop(sender.send(outcome));
        }
        for (look, reply) in looked {
            reply.send(look).ok();
        }
    }

    /// Sets whether the server has no memory for new keys.
    ///
    /// Existing keys can still be extended and released.
    pub fn out_of_memory(&self, is: bool) {
        let was = self.state().machine.set_out_of_memory(is);
        self.note(FaultKind::OutOfMemory, was, is);
    }

    /// Sets whether the server rejects every write, like a replica.
    pub fn read_only(&self, is: bool) {
        let mut state = self.state();
        let was = state.machine.is_read_only();
        state.machine.set_read_only(is);
        drop(state);
        self.note(FaultKind::ReadOnly, was, is);
    }

    /// Steps the wall clock forward by `millis`, or back if negative.
    pub fn step_clock(&self, millis: i64) {
        self.begin_fault(FaultKind::Step(millis));
        let now = self.0.world.now();
        let mut state = self.state();
        let moved = state.machine.step_clock(millis);
        if millis > 0 {
            // A slew may go on.
            state.corrections.insert(0, (now, Some(now)));
        }
        drop(state);
        self.record_moved(moved);
    }

    /// Makes the wall clock run faster by these parts per million, as if it was slewed. 0 ends that.
    pub fn slew_clock(&self, ppm: i32) {
        let now = self.0.world.now();
        let mut state = self.state();
        let before = mem::replace(&mut state.slewed, ppm);
        if before == ppm {
            return;
        }
        let moved = state.machine.slew_clock(ppm);
        if let Some((_, until)) = state.corrections.last_mut().filter(|(_, until)| until.is_none()) {
            *until = Some(now);
        }
        if ppm > 0 {
            state.corrections.push((now, None));
        }
        drop(state);
        if before != 0 {
            self.end_fault(FaultKind::Drift(before));
        }
        if ppm != 0 {
            self.begin_fault(FaultKind::Drift(ppm));
        }
        self.record_moved(moved);
    }

    /// Sets a non-lock value under a resource, as another program might. It never expires.
    ///
    /// Returns whether it was set. A lock is not overwritten, and a server that is down, stopped or rejects writes does
    /// not accept the value either.
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn set_non_lock_value(&self, resource: impl IntoResource) -> bool {
        let resource = name(resource);
        let mut state = self.state();
        let put = state.up && state.received.is_none() && state.machine.set_non_lock_value(&resource);
        drop(state);
        if put {
            self.begin_fault(FaultKind::WrongType);
        }
        put
    }

    /// Deletes a non-lock value of a resource, in any state of the server.
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn remove_non_lock_value(&self, resource: impl IntoResource) {
        if self.state().machine.remove_non_lock_value(&name(resource)) {
            self.end_fault(FaultKind::WrongType);
        }
    }

    /// Returns whether the server is up: it has not crashed, or was restarted.
    pub fn is_up(&self) -> bool {
        self.state().up
    }

    /// Returns the number of live locks.
    pub fn len(&self) -> usize {
        self.state().machine.locks().len()
    }

    /// Returns whether there is no live lock.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tokens of the live locks. Announcements of node lists are none: they stay until they expire.
    pub fn locks(&self) -> Vec<TokenNumber> {
        let locks = self.state().machine.locks();
        let is_lock = |token: &Token| !ANNOUNCEMENTS.iter().any(|title| token.as_bytes().starts_with(title));
        let locks = locks.iter().filter(|(token, _)| is_lock(token));
        locks.map(|(token, _)| self.0.recorder.number(token)).collect()
    }

    /// Records the live locks in the history.
    pub fn record_locks(&self) {
        for token in self.locks() {
            self.0.recorder.record(EventKind::Left { server: self.0.number, token });
        }
    }

    /// Returns the incarnation of the server; `None` while it is down.
    pub(crate) fn incarnation(&self) -> Option<u64> {
        let state = self.state();
        state.up.then_some(state.incarnation)
    }

    /// Listens for the crash of the server. Callers listen before they check the state.
    pub(crate) fn listen_for_death(&self) -> EventListener {
        self.0.died.listen()
    }

    /// Listens for the next loss, or change of the stamp, of which connected clients are notified.
    pub(crate) fn listen_for_changes(&self) -> EventListener {
        self.0.changed.listen()
    }

    /// Returns the changes of which connected clients are notified.
    pub(crate) fn pushed(&self) -> Pushed {
        self.state().pushed()
    }

    pub(crate) fn receive(&self, delivery: &Delivery) -> Arrival {
        let mut state = self.state();
        if !state.up {
            return Arrival::Gone;
        }
        match &mut state.received {
            Some(received) => {
                let (reply, arrival) = oneshot::channel();
                received.push(Received::Request(delivery.clone(), reply));
                Arrival::Waits(arrival)
            }
            None => Arrival::Carried(self.carry_out(&mut state, delivery)),
        }
    }

    /// Returns whether the clock has moved ahead within a time before `at`, unseen by a client that watches it.
    ///
    /// A client sees nothing that was before it began to watch, unless the stamp was renewed since. `None`: it does not
    /// watch.
    pub(crate) fn has_jumped_unseen(&self, watched: Option<Instant>, at: Instant, within: Duration) -> bool {
        let state = self.state();
        let from = state.renewed.max(at - within);
        let until = watched.map_or(at, |watched| watched.min(at));
        state
            .corrections
            .iter()
            .any(|(began, ended)| *began < until && ended.is_none_or(|ended| ended >= from))
    }

    /// Carries a look out, once the server runs. Returns `None` if it is down, or crashes before.
    pub(crate) async fn look(&self, command: Command) -> Option<Looked> {
        let arrival = {
            let mut state = self.state();
            if !state.up {
                return None;
            }
            let Some(received) = &mut state.received else {
                return Some(self.carry_look(&mut state, &command));
            };
            let (reply, arrival) = oneshot::channel();
            received.push(Received::Look(command, reply));
            arrival
        };
        arrival.await.ok()
    }

    /// Carries a request out, and records it in the same step.
    ///
    /// The history thus has the order in which requests were carried out.
    fn carry_out(&self, state: &mut State, delivery: &Delivery) -> Carried {
        let memory = state.machine.memory();
        let before = memory.reservations();
        let Executed { outcome, until } = memory.carry_out(&delivery.request);
        let after = memory.reservations();
        let again = delivery.spent.swap(true, Ordering::Relaxed);
        let (request, travelled) = (delivery.shown, delivery.travelled);
        let reply = history::Reply::of(&outcome);
        self.0.recorder.record(EventKind::CarriedOut { request, reply, until, travelled, again });
        self.record_moved(changes(&before, &after, self.0.world.now()));
        let look = delivery.look.as_ref().map(|command| self.carry_look(state, command).reply);
        Carried { outcome, pushed: state.pushed(), look, clock: self.clock(state) }
    }

    /// Carries a look out, and reads the clock behind it.
    fn carry_look(&self, state: &mut State, command: &Command) -> Looked {
        let (reply, is_stamped) = state.machine.memory().look(command);
        if is_stamped {
            state.renewals += 1;
            state.renewed = self.0.world.now();
            self.0.changed.notify(usize::MAX);
        }
        Looked { reply, pushed: state.pushed(), clock: self.clock(state) }
    }

    fn clock(&self, state: &State) -> ClockShown {
        ClockShown { at: self.0.world.now(), unix_time: state.machine.clock().unix_time() }
    }

    fn record_moved(&self, moved: Vec<(Token, Instant)>) {
        for (token, until) in moved {
            let token = self.0.recorder.number(&token);
            self.0.recorder.record(EventKind::Moved { server: self.0.number, token, until });
        }
    }

    /// Records that the data was replaced by an older copy, and the locks that it contains.
    fn record_rollback(&self) {
        self.begin_fault(FaultKind::Rollback);
        let locks = self.state().machine.locks();
        self.record_moved(locks);
    }

    /// Records the loss of locks. That of a reservation changes the order only.
    fn record_loss(&self, lost: &[Token]) {
        for token in lost.iter().filter(|token| !is_place(token.as_bytes())) {
            let token = self.0.recorder.number(token);
            self.0.recorder.record(EventKind::Lost { server: self.0.number, token });
        }
    }

    fn note(&self, fault: FaultKind, was: bool, is: bool) {
        match (was, is) {
            (false, true) => self.begin_fault(fault),
            (true, false) => self.end_fault(fault),
            _ => {}
        }
    }

    fn begin_fault(&self, fault: FaultKind) {
        self.0.recorder.record(EventKind::FaultBegins(Place::Server(self.0.number), fault));
    }

    fn end_fault(&self, fault: FaultKind) {
        self.0.recorder.record(EventKind::FaultEnds(Place::Server(self.0.number), fault));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pushed(&self) -> Pushed {
        Pushed { losses: self.losses, renewals: self.renewals }
    }
}

/// Converts a name. It panics, so that a run with an invalid name fails instead of finding no key.
fn name(resource: impl IntoResource) -> Resource {
    resource.into_resource().unwrap_or_else(|error| panic!("{error}"))
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server(n{})", self.0.number)
    }
}
