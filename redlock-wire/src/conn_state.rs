//! The state of a node's connection, and the rules for changing it.
//!
//! The state and the right to change it are under one mutex. A supervisor may change the state only if its epoch is the
//! current one. Thus a replaced supervisor, whose runtime is not driven any more, can change nothing when it is polled
//! again. A generation identifies one connection and is never reused.

#[cfg(all(test, loom))]
mod loom_tests;

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use event_listener::{Event, EventListener};
use redlock_core::node::{ConnectionId, QuarantineReason, ServerId};
use redlock_core::runtime::{Instant, Runtime};

use crate::admission::Behind;
use crate::admission::checked::{Checked, Clock};
use crate::admission::keeper::Checks;
use crate::admission::look;
use crate::common_check::CommonCheck;
use crate::connection::Connection;
use crate::handshake::Server;
use crate::message::{Failure, Reply};
use crate::native;
use crate::push::Hub;
use crate::request::{Dialect, Step};
use crate::socket::{Observation, SocketHandle};
use crate::sync::{Mutex, MutexGuard, locked};
use crate::telemetry;

/// The state of the connection.
pub(crate) enum State<K: Connection> {
    /// There is no supervisor: the node is unused, or the supervisor's runtime has ended.
    Idle,
    /// The first connection attempt is in progress.
    Connecting {
        /// The time by which the state should have changed, if the supervisor runs.
        due: Instant,
    },
    /// Connected.
    Up(Arc<Link<K>>),
    /// Not connected; the supervisor will try again.
    Down {
        /// The reason.
        reason: String,
        /// The time by which the state should have changed, if the supervisor runs.
        due: Instant,
    },
}

/// A connection that is ready for use. It closes when the last clone of its `Arc` is dropped: those of the state, the
/// supervisor and the requests in flight.
pub(crate) struct Link<K: Connection> {
    pub(crate) generation: u64,
    pub(crate) connection: K,
    pub(crate) hub: Hub,
    pub(crate) server: Server,
    /// The checks of votes, if there is restart admission.
    pub(crate) checks: Option<Checks>,
    /// The next check that votes have in common.
    common_check: CommonCheck,
    keeps_order: bool,
    /// `true` once the server has rejected a native command. It publishes no other data.
    only_scripts: AtomicBool,
    /// `true` once the connection is not in use any more.
    replaced: AtomicBool,
    /// `true` if the runtime that opened the connection has shut down.
    orphaned: AtomicBool,
    /// The number of requests that were dropped without a reply, since the last reply.
    ///
    /// It changes under the mutex of `doubt`. A request to a responsive server reads it only, and locks nothing.
    unanswered: AtomicU32,
    doubt: Mutex<Doubt>,
    /// Notified when a request is dropped while there was no doubt.
    doubted: Event,
}

/// The knowledge about a connection over which requests were dropped.
#[derive(Default)]
struct Doubt {
    /// The number of requests that were sent since the first one was dropped.
    sent: u32,
    /// The time when the first one was dropped, or of the last probe since.
    since: Instant,
}

impl<K: Connection> Link<K> {
    /// Sends a request behind all that were sent before.
    pub(crate) fn call(&self, request: K::Packed) -> impl Future<Output = Result<Reply, Failure>> + Send {
        self.connection.call(request)
    }

    /// Returns the features of the server that requests use.
    pub(crate) fn dialect(&self) -> Dialect {
        let only_scripts = self.only_scripts.load(Ordering::Relaxed);
        let delete = self.server.delete.filter(|_| !only_scripts);
        Dialect { set_get: self.server.set_get, delete, scripts: self.server.scripts.is_ok() }
    }

    /// Records that the server rejected a native command. If it always will, only scripts are sent from now on.
    pub(crate) fn learn(&self, step: Step, reply: &Result<Reply, Failure>) {
        let is_native = matches!(step, Step::Native(_));
        if is_native && reply.as_ref().is_ok_and(native::is_unavailable) {
            self.only_scripts.store(true, Ordering::Relaxed);
        }
    }

    /// Sends a request. If its reply is a vote, the check follows that it needs.
    ///
    /// Without an admission the vote does not count in any case, so no check follows.
    pub(crate) async fn request(
        self: &Arc<Self>,
        request: K::Packed,
        is_vote: bool,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<Reply, Failure> {
        let gate = self.hub.gate();
        let checks = self.checks.as_ref().filter(|checks| is_vote && checks.follow_votes(gate));
        let checks = checks.filter(|_| gate.is_admitted());
        let reply = match checks {
            Some(checks) if !checks.are_common => {
                Box::pin(self.checked_vote(request, checks, &**runtime)).await?
            }
            _ => {
                // The future of a call may be large, so there is one place for it.
                let call = pin!(self.call(request));
                match checks {
                    Some(_) => Box::pin(self.common_check.behind(call, || self.check(runtime))).await?,
                    None => call.await?,
                }
            }
        };
        if is_vote && matches!(&reply, Reply::Error(message) if message.starts_with("READONLY")) {
            gate.lose(QuarantineReason::Replica);
        }
        Ok(reply)
    }

    /// Sends a request with the check behind it, in one pipeline.
    async fn checked_vote(
        &self,
        request: K::Packed,
        checks: &Checks,
        runtime: &dyn Runtime,
    ) -> Result<Reply, Failure> {
        if checks.behind == Behind::Nothing {
            let (reply, clock) = self.checked(checks).send_one(request).await?;
            self.apply_clock(checks, clock, runtime);
            return Ok(reply);
        }
        let mut replies = self.check_behind(vec![request], checks, runtime).await?;
        Ok(replies.swap_remove(0))
    }

    /// Sends a check behind all requests that were sent before.
    fn check(
        self: &Arc<Self>,
        runtime: &Arc<dyn Runtime>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<K> {
        let (link, runtime) = (Arc::clone(self), Arc::clone(runtime));
        async move {
            let Some(checks) = &link.checks else { return Ok(()) };
            link.check_behind(Vec::new(), checks, &*runtime).await.map(drop)
        }
    }

    /// Sends requests and a check behind them. Returns the replies to the requests.
    async fn check_behind(
        &self,
        mut requests: Vec<K::Packed>,
        checks: &Checks,
        runtime: &dyn Runtime,
    ) -> Result<Vec<Reply>, Failure> {
        let (gate, checked) = (self.hub.gate(), self.checked(checks));
        let (replies, clock) = match checks.behind {
            Behind::Comparison if gate.knows_stamp() => {
                let (replies, compared) = checked.compare(requests, checks.keeper.stamp).await?;
                gate.compare(&compared);
                (replies, checked.clock_in(&compared))
            }
            Behind::Look(look) if gate.knows_stamp() => {
                let count = requests.len();
                requests.push(look.short::<K>());
                let (replies, clock) = checked.send(requests).await?;
                self.apply_clock(checks, clock, runtime);
                let (replies, found) = checked.with_script(replies, count, || look.full::<K>()).await?;
                gate.compare_found(look::read(&[found]).as_ref());
                return Ok(replies);
            }
            // Without a stamp, there is nothing to compare with.
            Behind::Nothing | Behind::Comparison | Behind::Look(_) => checked.send(requests).await?,
        };
        self.apply_clock(checks, clock, runtime);
        Ok(replies)
    }

    /// Applies a reading of the server's clock behind votes.
    fn apply_clock(&self, checks: &Checks, clock: Clock, runtime: &dyn Runtime) {
        let gate = self.hub.gate();
        match clock {
            Clock::Shows(time) => checks.keeper.check_clock(gate, time, runtime),
            // This vote does not count; later ones do, as over a new connection.
            Clock::Denied => {
                checks.keeper.clock_denied();
                gate.lose(QuarantineReason::NotChecked);
            }
            Clock::NotRead => {}
        }
    }

    /// Returns the parts of the connection that its restart admission needs.
    pub(crate) fn checked<'a>(&'a self, checks: &'a Checks) -> Checked<'a, K> {
        let Self { connection, hub, server, .. } = self;
        let Checks { behind, clock, .. } = checks;
        Checked { connection, gate: hub.gate(), behind: *behind, clock, is_tracked: server.pushes.is_ok() }
    }

    /// Returns the identifier of the connection, if it keeps the order.
    pub(crate) fn id(&self) -> Option<ConnectionId> {
        self.keeps_order.then_some(ConnectionId(self.generation))
    }

    /// Returns whether the connection is not in use any more.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Records a reply: the connection works.
    pub(crate) fn answered(&self) {
        if self.is_doubted() {
            let mut doubt = locked(&self.doubt);
            self.unanswered.store(0, Ordering::Relaxed);
            doubt.sent = 0;
        }
    }

    /// Returns whether requests were dropped since the last reply.
    pub(crate) fn is_doubted(&self) -> bool {
        self.unanswered() > 0
    }

    /// Returns the number of requests in a row that were dropped.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Records at `now` that a request was dropped while there was no doubt. Any number of concurrent ones counts as
    /// one.
    pub(crate) fn doubt(&self, now: Instant) {
        let mut doubt = locked(&self.doubt);
        if self.unanswered() == 0 {
            self.unanswered.store(1, Ordering::Relaxed);
            doubt.since = now;
        }
        drop(doubt);
        self.doubted.notify(usize::MAX);
    }

    /// Listens for the first request that is dropped. Listen first, then look.
    pub(crate) fn listen_for_doubt(&self) -> EventListener {
        self.doubted.listen()
    }

    /// Records that the supervisor is still probing at `now`.
    pub(crate) fn probed(&self, now: Instant) {
        locked(&self.doubt).since = now;
    }

    /// Records that a request was dropped at `now`. Returns how many in a row that makes, and the time since the last
    /// supervision.
    pub(crate) fn request_dropped(&self, now: Instant) -> (u32, Duration) {
        let doubt = locked(&self.doubt);
        let unanswered = self.unanswered().saturating_add(1);
        self.unanswered.store(unanswered, Ordering::Relaxed);
        (unanswered, now.saturating_duration_since(doubt.since))
    }

    /// Records that a request is to be sent despite the doubt. Returns how many were sent before.
    pub(crate) fn sent_in_doubt(&self) -> u32 {
        let mut doubt = locked(&self.doubt);
        let before = doubt.sent;
        doubt.sent = before.saturating_add(1);
        before
    }

    /// Returns whether the runtime that opened the connection has shut down.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Relaxed)
    }

    /// Returns the activity on the socket, or `None` if the adapter does not own the socket.
    pub(crate) fn observe(&self) -> Option<Observation> {
        self.connection.socket().map(SocketHandle::observe)
    }
}

/// A closed connection receives nothing, so its watches must complete.
impl<K: Connection> Drop for Link<K> {
    fn drop(&mut self) {
        self.hub.close();
    }
}

pub(crate) struct ConnState<K: Connection> {
    /// The label of the node in metrics.
    node: Box<str>,
    current: Mutex<Current<K>>,
    changed: Event,
}

struct Current<K: Connection> {
    state: State<K>,
    /// The epoch of the current supervisor.
    epoch: u64,
    /// The generation of the last connection.
    generation: u64,
    /// The last server that was reached, if it is known.
    server: Option<ServerId>,
}

impl<K: Connection> ConnState<K> {
    pub(crate) fn new(node: &str) -> Self {
        let current = Current { state: State::Idle, epoch: 0, generation: 0, server: None };
        Self { node: node.into(), current: Mutex::new(current), changed: Event::new() }
    }

    /// Returns the present state.
    pub(crate) fn state(&self) -> State<K> {
        self.state_and_server().0
    }

    /// Returns the present state, and the last server that was reached.
    pub(crate) fn state_and_server(&self) -> (State<K>, Option<ServerId>) {
        let current = locked(&self.current);
        (current.state.clone(), current.server)
    }

    /// Returns why there is no connection, if that is known.
    pub(crate) fn reason(&self) -> Option<String> {
        match &locked(&self.current).state {
            State::Down { reason, .. } => Some(reason.clone()),
            _ => None,
        }
    }

    /// Listens for the next change, or for the drop of the node.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Wakes all listeners.
    pub(crate) fn notify(&self) {
        self.changed.notify(usize::MAX);
    }

    /// Replaces the supervisor, if `next` finds that the state needs one. Returns the epoch of the new one.
    ///
    /// `next` runs under the mutex.
    pub(crate) fn take_over(&self, next: impl FnOnce(&State<K>) -> Option<State<K>>) -> Option<u64> {
        let mut current = locked(&self.current);
        let next = next(&current.state)?;
        current.epoch += 1;
        let epoch = current.epoch;
        self.change(current, next);
        Some(epoch)
    }

    /// Returns whether the supervisor of this epoch is the current one.
    pub(crate) fn is_current(&self, epoch: u64) -> bool {
        locked(&self.current).epoch == epoch
    }

    /// Returns whether the connection of this generation is in use.
    pub(crate) fn is_up(&self, generation: u64) -> bool {
        locked(&self.current).state.is_up(generation)
    }

    /// Publishes the connection of a supervisor. Returns `None` if that supervisor was replaced.
    pub(crate) fn up(
        &self,
        epoch: u64,
        connection: K,
        hub: Hub,
        server: Server,
        checks: Option<Checks>,
    ) -> Option<Arc<Link<K>>> {
        let keeps_order = connection.keeps_order();
        let mut current = locked(&self.current);
        if current.epoch != epoch {
            return None;
        }
        current.generation += 1;
        current.server = server.id.or(current.server);
        let link = Arc::new(Link {
            generation: current.generation,
            connection,
            hub,
            server,
            checks,
            common_check: CommonCheck::default(),
            keeps_order,
            only_scripts: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            orphaned: AtomicBool::new(false),
            unanswered: AtomicU32::new(0),
            doubt: Mutex::default(),
            doubted: Event::new(),
        });
        self.change(current, State::Up(Arc::clone(&link)));
        Some(link)
    }

    /// Publishes that the supervisor has no connection. Returns whether it is still the current one.
    pub(crate) fn down(&self, epoch: u64, reason: String, due: Instant) -> bool {
        let current = locked(&self.current);
        let is_current = current.epoch == epoch;
        if is_current {
            self.change(current, State::Down { reason, due });
        }
        is_current
    }

    /// Publishes that a request found the connection broken. This wakes the supervisor, which then reconnects.
    pub(crate) fn broken(&self, generation: u64, reason: &str, due: Instant) {
        let current = locked(&self.current);
        if current.state.is_up(generation) {
            self.change(current, State::Down { reason: reason.to_owned(), due });
        }
    }

    /// Publishes that the supervisor's runtime has ended.
    pub(crate) fn ended(&self, epoch: u64) {
        let current = locked(&self.current);
        if current.epoch == epoch {
            if let State::Up(link) = &current.state {
                link.orphaned.store(true, Ordering::Relaxed);
            }
            self.change(current, State::Idle);
        }
    }

    /// Writes the state; no other code does. The old state is dropped after the mutex is released, and its connection
    /// closes with it. Requests in flight may keep it open, but its replies do not count any more.
    fn change(&self, mut current: MutexGuard<'_, Current<K>>, next: State<K>) {
        let is_up = matches!(next, State::Up(_));
        let old = mem::replace(&mut current.state, next);
        telemetry::connection_changed(&self.node, matches!(old, State::Up(_)), is_up);
        // Closed under the mutex: once another state is seen, nothing is sent over the old connection. That
        // includes requests that began over it and are not sent yet. A client that owns its socket may still send what
        // it has queued. It receives no more requests: each checks `replaced` before it is sent.
        let reader = match &old {
            State::Up(link) => {
                link.replaced.store(true, Ordering::Release);
                link.connection.socket().and_then(SocketHandle::close)
            }
            _ => None,
        };
        drop(current);
        if let Some(reader) = reader {
            reader.wake();
        }
        if let State::Up(link) = &old {
            link.hub.close();
        }
        drop(old);
        self.notify();
    }
}

impl<K: Connection> Drop for ConnState<K> {
    fn drop(&mut self) {
        if matches!(locked(&self.current).state, State::Up(_)) {
            telemetry::connection_changed(&self.node, true, false);
        }
    }
}

impl<K: Connection> State<K> {
    /// Returns whether the connection of this generation is in use.
    pub(crate) fn is_up(&self, generation: u64) -> bool {
        matches!(self, Self::Up(link) if link.generation == generation)
    }

    /// Returns the connection in use.
    pub(crate) fn link(&self) -> Option<&Arc<Link<K>>> {
        match self {
            Self::Up(link) => Some(link),
            _ => None,
        }
    }
}

impl<K: Connection> Clone for State<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Connecting { due } => Self::Connecting { due: *due },
            Self::Up(link) => Self::Up(Arc::clone(link)),
            Self::Down { reason, due } => Self::Down { reason: reason.clone(), due: *due },
        }
    }
}
