//! A server from the view of one client: the node that is passed to the core.
//!
//! The results of this node are always true. *Unavailable* is returned only for a request that was not sent. A
//! connection that breaks makes every outcome on it unknown. An error of the server counts as its reply only if the
//! request cannot have arrived twice. A lost message never gets a reply: the caller's timeout ends the wait.

use std::future::{Future, pending, poll_fn};
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use event_listener::Event;
use futures_channel::oneshot;
use redlock_core::node::{
    Admission, Availability, Begun, ConnectionId, Exchange, LockNode, NodeError, NodeErrorKind, Operation,
    Profile, QuarantineReason, Reply, Request, ServerId, Status, Watch,
};
use redlock_core::runtime::{Instant, Runtime};

use super::gate::Gate;
use super::link::Link;
use super::looks;
use super::notifications::Subscription;
use super::{Direction, Network, Transport};
use crate::history::{self, EventKind, FaultKind, Place, TokenNumber};
use crate::server::{Arrival, Carried, ClockShown, Delivery, Outcome, Pushed, Server};

/// The longest time until a client notices that its connection is broken.
const NOTICED_WITHIN: Duration = Duration::from_millis(500);

/// The longest delay of a request whose reading of the clock is exact enough for every TTL of a run about clocks.
pub(crate) const EXACT: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub(super) struct Remote(Arc<InUse>);

/// A node that is in use. Watches that no client waits for any more may share its state, too.
pub(super) struct InUse(Arc<Shared>);

impl Deref for InUse {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

/// The facts that are chosen when a request begins.
#[derive(Clone, Copy)]
struct Begin {
    connection: Option<ConnectionId>,
    /// The number of the connection.
    generation: u64,
    incarnation: u64,
    admission: Admission,
}

pub(super) struct Shared {
    pub(super) network: Network,
    client: usize,
    pub(super) server: Server,
    /// The clock and the tasks of the client.
    pub(super) runtime: Arc<dyn Runtime>,
    label: String,
    link: Mutex<Link>,
    /// `None` if the client does not check whether the server may have lost locks.
    gate: Option<Mutex<Gate>>,
    longest_ttl: Option<Duration>,
    /// True while a look is in progress.
    pub(super) looking: AtomicBool,
    /// The time at which the last look ended without a result, if it did.
    pub(super) look_failed: Mutex<Option<Instant>>,
    /// Notified when a look has ended.
    pub(super) looked: Event,
    /// Notified when there is a reason to look.
    pub(super) due: Event,
    /// The true time since which this client watches the clock of the server. No decision depends on it.
    watched: Mutex<Option<Instant>>,
    /// Notified when the client notices that its connection is broken.
    pub(super) broken: Event,
}

/// A request in flight, or one of its two copies.
#[derive(Clone)]
struct Message {
    request: Request,
    shown: history::Request,
    sent: Instant,
    begin: Begin,
    twice: bool,
    reply: Arc<ReplySlot>,
}

/// The receiver of the first reply.
struct ReplySlot {
    /// Set when a copy was carried out.
    spent: Arc<AtomicBool>,
    sender: Mutex<Option<oneshot::Sender<Arrived>>>,
    /// Notified of changes at the client, for a watch.
    changed: Arc<Event>,
}

/// A reply at the client, with what followed the request.
struct Arrived {
    outcome: Outcome,
    look: Option<redlock_wire::Reply>,
    clock: ClockShown,
}

/// A request that was sent.
struct Flight {
    request: Request,
    shown: history::Request,
    begin: Begin,
}

impl Remote {
    pub(super) fn new(network: Network, client: usize, server: Server, runtime: Arc<dyn Runtime>) -> Self {
        let label = format!("n{}", server.number());
        let longest_ttl = network.state().longest_ttl;
        let gate = longest_ttl.map(|longest| Mutex::new(Gate::new(&label, longest)));
        let shared = Arc::new(Shared {
            network,
            client,
            server,
            runtime,
            label,
            link: Mutex::default(),
            gate,
            longest_ttl,
            looking: AtomicBool::new(false),
            look_failed: Mutex::default(),
            looked: Event::new(),
            due: Event::new(),
            watched: Mutex::default(),
            broken: Event::new(),
        });
        let in_use = Arc::new(InUse(Arc::clone(&shared)));
        if shared.gate.is_some() {
            shared.runtime.spawn(Box::pin(looks::keep(Arc::downgrade(&in_use), Arc::clone(&shared.runtime))));
            if shared.network.0.transport == Transport::Streams {
                shared.network.0.world.spawn(Box::pin(looks::notify(Arc::downgrade(&in_use))));
            }
        }
        Self(in_use)
    }

    async fn exchange(self, request: Request, begin: Begin) -> Outcome {
        let (flight, receiver) = self.0.send(request, begin)?;
        let mut arrived = pin!(async {
            match receiver.await {
                Ok(arrived) => arrived,
                // The message is lost, and no error will ever arrive.
                Err(oneshot::Canceled) => pending().await,
            }
        });
        loop {
            let broken = self.0.broken.listen();
            if self.0.link().generation() != begin.generation {
                return Err(NodeError::unknown("the connection was lost"));
            }
            if let Some(arrived) = until(arrived.as_mut(), broken).await {
                return self.0.read(&flight, arrived);
            }
        }
    }
}

impl Shared {
    /// Sends a request, unless its connection has ended. Returns the receiver of the reply, too.
    fn send(
        self: &Arc<Self>,
        request: Request,
        begin: Begin,
    ) -> Result<(Flight, oneshot::Receiver<Arrived>), NodeError> {
        let generation = begin.generation;
        if self.connection() != begin.connection {
            return Err(NodeError::unavailable("the connection was lost before the request was sent"));
        }
        let swallowed = self.link().is_broken();
        let recorder = self.network.recorder();
        let shown = history::Request {
            client: self.client,
            server: self.server.number(),
            operation: request.operation(),
            call: self.network.next_call(),
            token: request.claim().map_or(TokenNumber::NONE, |claim| recorder.number(claim.token())),
        };
        recorder.record(EventKind::Sent(shown));
        let fate = {
            let mut state = self.network.state();
            let traffic = state.requests;
            traffic.fate(&mut state.chance, self.network.0.transport == Transport::Datagrams)
        };
        let (sender, receiver) = oneshot::channel();
        let reply =
            ReplySlot { spent: Arc::default(), sender: Mutex::new(Some(sender)), changed: Arc::default() };
        let twice = fate.copies.len() > 1;
        let sent = self.network.0.world.now();
        let reply = Arc::new(reply);
        let flight = Flight { request: request.clone(), shown, begin };
        let message = Message { request, shown, sent, begin, twice, reply };
        if fate.late {
            self.begin_fault(FaultKind::Straggler);
        }
        if twice {
            self.begin_fault(FaultKind::Duplicate);
        }
        if fate.copies.is_empty() {
            self.lose(generation);
        }
        if !swallowed {
            for delay in fate.copies {
                let delay = match self.network.0.transport {
                    Transport::Streams => self.link().arrival(sent, delay).saturating_duration_since(sent),
                    Transport::Datagrams | Transport::Bytes => delay,
                };
                let (me, message) = (Arc::clone(self), message.clone());
                self.network.0.world.spawn(Box::pin(async move { me.deliver(message, delay).await }));
            }
        }
        Ok((flight, receiver))
    }

    /// Returns the number of the connection and the incarnation of the server.
    pub(super) fn connect(&self) -> Result<(u64, u64), NodeError> {
        let Some(incarnation) = self.server.incarnation() else {
            return Err(NodeError::unavailable("connection refused"));
        };
        let cut = self.is_cut(Direction::Requests) || self.is_cut(Direction::Replies);
        let mut link = self.link();
        if link.is_down() {
            if cut {
                return Err(NodeError::unavailable("no route to the server"));
            }
            link.reconnected();
        }
        Ok((link.generation(), incarnation))
    }

    async fn deliver(self: Arc<Self>, message: Message, delay: Duration) {
        let world = &self.network.0.world;
        world.sleep(delay).await;
        let streams = self.network.0.transport == Transport::Streams;
        if self.is_cut(Direction::Requests) {
            return self.lose(message.begin.generation);
        }
        if streams && self.server.incarnation() != Some(message.begin.incarnation) {
            return self.lose(message.begin.generation);
        }
        // A message on a broken connection may already have been in the server's buffer.
        if streams && !self.link().carries(message.begin.generation) && self.network.coin() {
            return;
        }
        let travelled = world.now().saturating_duration_since(message.sent);
        let Message { request, shown, reply, .. } = &message;
        let (request, spent) = (request.clone(), Arc::clone(&reply.spent));
        let look = self.gate().filter(|_| !streams).map(|gate| gate.rules.look_behind());
        let delivery = Delivery { request, look, shown: *shown, travelled, spent };
        let carried = match self.server.receive(&delivery) {
            Arrival::Gone => return self.lose(message.begin.generation),
            Arrival::Carried(carried) => carried,
            Arrival::Waits(receiver) => match receiver.await {
                Ok(carried) => carried,
                Err(oneshot::Canceled) => return self.lose(message.begin.generation),
            },
        };
        let outcome = match carried.outcome {
            Ok(Reply::Watching(watch)) => Ok(Reply::Watching(self.relay(watch, &message))),
            outcome => outcome,
        };
        self.reply(message, Carried { outcome, ..carried }).await;
    }

    /// Relays the notification of a watch to the client. Returns the watch of the client.
    fn relay(self: &Arc<Self>, watch: Watch, message: &Message) -> Watch {
        let Begin { generation, incarnation, .. } = message.begin;
        let notified = message.reply.changed.listen();
        let remaining = match watch.availability {
            Availability::Taken(remaining) => remaining,
            _ => None,
        };
        let client = Arc::clone(&message.reply.changed);
        let subscription =
            Subscription { generation, incarnation, changed: watch.changed, remaining, client };
        self.network.0.world.spawn(Box::pin(Arc::clone(self).notify(subscription)));
        Watch::new(watch.availability, Arc::clone(self).notified(generation, notified)).held_by(watch.holder)
    }

    async fn reply(self: Arc<Self>, message: Message, carried: Carried) {
        let Carried { outcome, pushed, look, clock } = carried;
        let fate = {
            let mut state = self.network.state();
            let traffic = state.replies;
            traffic.fate(&mut state.chance, false)
        };
        if fate.late {
            self.begin_fault(FaultKind::Straggler);
        }
        let Some(delay) = fate.copies.first() else { return self.lose(message.begin.generation) };
        self.network.0.world.sleep(*delay).await;
        if self.is_cut(Direction::Replies) {
            return self.lose(message.begin.generation);
        }
        let streams = self.network.0.transport == Transport::Streams;
        if streams && !self.link().carries(message.begin.generation) {
            return;
        }
        // The notification of a loss was sent before this reply, so it arrives before it.
        if streams {
            self.record_pushed(pushed);
        }
        let nothing = |error: &NodeError| {
            matches!(
                error.kind(),
                NodeErrorKind::Rejected | NodeErrorKind::WrongType | NodeErrorKind::DamagedCounter
            )
        };
        let outcome = match outcome {
            // This copy has changed nothing; the effect of the other one is unknown.
            Err(error) if message.twice && nothing(&error) => {
                Err(NodeError::unknown("the request arrived twice, and one copy was rejected"))
            }
            outcome => outcome,
        };
        let sender = message.reply.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            sender.send(Arrived { outcome, look, clock }).ok();
        }
    }

    /// Reads a reply at the client, and what followed the request.
    fn read(&self, flight: &Flight, Arrived { outcome, look, clock }: Arrived) -> Outcome {
        let Flight { request, shown, begin, .. } = flight;
        if let Some(gate) = self.gate() {
            if let Some(look) = look {
                gate.rules.apply_behind(&look);
            }
            if matches!(&outcome, Err(error) if error.to_string().contains("READONLY")) {
                gate.rules.lose(QuarantineReason::Replica);
            }
            // Without an admission, the vote does not count in any case.
            if request.is_vote() && matches!(begin.admission, Admission::Admitted(_)) {
                gate.rules.check_clock(clock.unix_time, &*self.runtime);
            }
            self.notify_if_due(&gate);
        }
        // The history does not depend on the code that judges the reply for the core.
        let counts = request.operation() == Operation::Release || self.counts(begin.admission);
        let reply = match history::Reply::of(&outcome) {
            history::Reply::Failed => history::Reply::Failed,
            reply if counts => reply,
            _ => history::Reply::Uncounted,
        };
        let is_vote = request.is_vote() && !matches!(reply, history::Reply::Uncounted);
        if is_vote && self.has_jumped_unseen(clock.at) {
            self.begin_fault(FaultKind::Unwatched);
        }
        self.network.recorder().record(EventKind::Received { request: *shown, reply });
        outcome.map(
            |reply| {
                if request.is_vote() { begin.admission.judge(reply, self.admission()) } else { reply }
            },
        )
    }

    /// Records the changes of which the server has notified the client.
    pub(super) fn record_pushed(&self, pushed: Pushed) {
        if let Some(mut gate) = self.gate() {
            gate.record_pushed(pushed);
            self.notify_if_due(&gate);
        }
    }

    fn notify_if_due(&self, gate: &Gate) {
        if gate.rules.is_look_due() {
            self.due.notify(usize::MAX);
        }
    }

    /// Records that a look has read the clock, at a true time. `sent` is the true time before.
    pub(super) fn watch_clock(&self, sent: Instant, at: Instant) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.is_none() && at.saturating_duration_since(sent) <= EXACT {
            *watched = Some(at);
        }
    }

    /// Returns whether the clock has jumped before this client began to watch it, so recently that a lock may be lost,
    /// and no client has renewed the stamp since.
    fn has_jumped_unseen(&self, at: Instant) -> bool {
        let Some(wait) = self.gate().map(|gate| gate.rules.wait()) else { return false };
        let watched = *self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        self.server.has_jumped_unseen(watched, at, wait.mul_f64(1.1))
    }

    /// Loses a message. On a stream that ends the connection.
    pub(super) fn lose(self: &Arc<Self>, generation: u64) {
        self.begin_fault(FaultKind::Loss);
        if self.network.0.transport == Transport::Streams {
            self.sever(generation);
        }
    }

    /// Breaks a connection. The client notices that soon.
    pub(super) fn sever(self: &Arc<Self>, generation: u64) {
        let mut link = self.link();
        if link.generation() != generation || !link.sever() {
            return;
        }
        drop(link);
        self.begin_fault(FaultKind::Disconnect);
        let (me, world) = (Arc::clone(self), &self.network.0.world);
        let noticed = self.network.draw(NOTICED_WITHIN);
        let timer = world.sleep(noticed);
        world.spawn(Box::pin(async move {
            timer.await;
            let cut = me.is_cut(Direction::Requests) || me.is_cut(Direction::Replies);
            me.link().noticed(!cut);
            me.broken.notify(usize::MAX);
        }));
    }

    pub(super) fn is_cut(&self, direction: Direction) -> bool {
        self.network.is_cut(self.client, self.server.number(), direction)
    }

    fn begin_fault(&self, fault: FaultKind) {
        let place = Place::Between(self.client, self.server.number());
        self.network.recorder().record(EventKind::FaultBegins(place, fault));
    }

    /// Returns whether a reply counts that is read now, if its request was sent in this admission.
    fn counts(&self, before: Admission) -> bool {
        let now = self.admission();
        before == now && !matches!(now, Admission::Quarantined(_))
    }

    pub(super) fn admission(&self) -> Admission {
        let connection = self.connection();
        let now = self.runtime.now();
        self.gate().map_or(Admission::Unchecked, |mut gate| gate.read(connection, now))
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        if self.network.0.transport == Transport::Datagrams {
            return None;
        }
        let incarnation = self.server.incarnation()?;
        let link = self.link();
        // Neither count ever decreases, so no pair repeats.
        (!link.is_down()).then(|| ConnectionId(link.generation() << 32 | incarnation))
    }

    pub(super) fn gate(&self) -> Option<MutexGuard<'_, Gate>> {
        Some(self.gate.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the output of the left future; `None` if the right one completes first.
pub(super) async fn until<T>(left: impl Future<Output = T>, right: impl Future<Output = ()>) -> Option<T> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| match left.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => right.as_mut().poll(context).map(|()| None),
    })
    .await
}

impl LockNode for Remote {
    fn label(&self) -> &str {
        &self.0.label
    }

    fn profile(&self) -> Profile {
        let mut profile = Profile::default().with_inspect().with_fencing().with_keep().with_shared();
        let state = self.0.network.state();
        (profile.watch, profile.places) = (state.notifications.is_some(), state.keeps_places);
        profile.longest_ttl = self.0.longest_ttl;
        profile
    }

    fn status(&self) -> Status {
        let mut status = Status::default();
        status.connection = self.0.connection();
        status.quarantine = match self.0.admission() {
            Admission::Quarantined(quarantine) => Some(quarantine),
            Admission::Unchecked | Admission::Admitted(_) => None,
        };
        status
    }

    fn begin(&self, request: &Request) -> Begun {
        let watches = matches!(request, Request::Watch(_) | Request::WatchShared(_));
        if watches && !self.profile().watch || matches!(request, Request::Vouch) {
            return Begun::failed(NodeError::unsupported(request));
        }
        let (generation, incarnation) = match self.0.connect() {
            Ok(connected) => connected,
            Err(error) => return Begun::failed(error),
        };
        let admission = self.0.admission();
        let is_unchecked = self.0.gate().is_some_and(|gate| !gate.is_checked);
        if request.is_vote() && is_unchecked && !self.0.has_just_failed_to_look() {
            return Begun::connecting(self.0.begin_look());
        }
        let connection = self.0.connection();
        let begin = Begin { connection, generation, incarnation, admission };
        Begun::Sent(Exchange {
            connection,
            server: Some(ServerId::new(self.0.label.as_str())),
            reply: Box::pin(self.clone().exchange(request.clone(), begin)),
        })
    }
}
