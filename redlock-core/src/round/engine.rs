//! The one loop that carries rounds out.
//!
//! A round is polled in the task of its caller first, so an uncontended lock needs no other task. All requests are
//! polled together: there are few of them, and a task for each would cost more. The caller has its result as soon as it
//! is certain. What is left, such as late replies and releases, then moves to the runtime. The same happens if the
//! caller no longer waits.

#[cfg(all(test, loom))]
mod loom_tests;

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use event_listener::EventListener;
use smallvec::SmallVec;
use tracing::Span;

use crate::decide::time_limit::Pace;
use crate::node::{
    Begun, Connecting, ConnectionId, Exchange, NodeError, Operation, Reply, Request, ServerId,
};
use crate::round::nodes::{Nodes, Noted, Ticket};
use crate::round::outcome::outcome as outcome_of;
use crate::round::{Heard, Io, Round};
use crate::runtime::{BoxFuture, LONGEST_SLEEP};
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// Carries a round out, with this limit for each request. Nothing is sent before the first poll.
///
/// The round counts as outstanding work from now on.
pub(crate) fn run<R: Round>(
    nodes: &Arc<Nodes>,
    round: R,
    start: Instant,
    limit: Duration,
    span: Span,
) -> Run<R> {
    Run(Some(Box::new(Engine {
        round,
        flights: SmallVec::new(),
        io: Io::default(),
        limit,
        pace: Pace::new(start, limit),
        last_reading: start,
        timer: None,
        phase: Phase::New,
        changed: None,
        span,
        nodes: nodes.ticket(),
    })))
}

/// A round that its caller waits for. If it is dropped after its first poll, the rest continues in the background.
///
/// It is boxed from the beginning. Usually a minority of the nodes is late, and then only the pointer moves.
pub(crate) struct Run<R: Round>(Option<Box<Engine<R>>>);

struct Engine<R: Round> {
    round: R,
    flights: SmallVec<[Flight<R::Tag>; 5]>,
    io: Io<R::Tag>,
    /// The time limit of one request.
    limit: Duration,
    pace: Pace,
    /// The time of the last clock reading.
    last_reading: Instant,
    /// Created when the first request has to wait, so immediate replies need none.
    timer: Option<BoxFuture<()>>,
    phase: Phase,
    /// The event that may end requests early.
    changed: Option<EventListener>,
    span: Span,
    /// Dropped last: the round counts as outstanding until nothing is left of it.
    nodes: Ticket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    /// The requests were prepared, and not polled yet.
    Started,
    /// There is no result yet.
    Open,
    /// There was a result.
    Decided,
}

/// One request.
struct Flight<T> {
    node: usize,
    tag: T,
    connection: Option<ConnectionId>,
    server: Option<ServerId>,
    /// The request was sent at this time or later.
    sent: Instant,
    /// The time by which its limit has moved, because this process has paused since, in milliseconds.
    paused: u32,
    state: State,
}

enum State {
    /// Nothing was sent.
    Connecting(Operation, Connecting),
    Sent(Request, BoxFuture<Result<Reply, NodeError>>),
    Ended(Operation, Outcome),
    /// The round knows the outcome, or did not want the request any more.
    Done,
}

impl<T: Copy> Flight<T> {
    /// Begins the request, of which nothing was sent before.
    fn begin<R: Round<Tag = T>>(&mut self, nodes: &Nodes, round: &mut R) {
        let Some(request) = round.request(self.node, self.tag) else {
            self.state = State::Done;
            return round.unsent(self.node, self.tag, nodes.now());
        };
        self.state = match nodes.peers[self.node].node.begin(&request) {
            Begun::Connecting(attempt) => State::Connecting(request.operation(), attempt),
            Begun::Sent(Exchange { connection, server, reply }) => {
                (self.connection, self.server) = (connection, server);
                round.sent(self.node, self.tag, connection);
                State::Sent(request, reply)
            }
        };
    }

    /// Completes when the request has ended, or its time is over.
    fn poll(&mut self, cx: &mut Context<'_>, is_over: bool) -> Poll<()> {
        let (operation, outcome) = match &mut self.state {
            State::Sent(request, reply) => {
                let outcome = match reply.as_mut().poll(cx) {
                    Poll::Ready(reply) => outcome_of(reply, request),
                    Poll::Pending if is_over => Outcome::TimedOut,
                    Poll::Pending => return Poll::Pending,
                };
                (request.operation(), outcome)
            }
            State::Connecting(operation, _) if is_over => (*operation, Outcome::Failed(not_connected())),
            State::Connecting(..) => return Poll::Pending,
            State::Ended(..) | State::Done => return Poll::Ready(()),
        };
        self.state = State::Ended(operation, outcome);
        Poll::Ready(())
    }

    /// Ends the request without another poll, which might send it. Returns `true`.
    fn poll_no_more(&mut self) -> bool {
        let (operation, outcome) = match &self.state {
            State::Sent(request, _) => (request.operation(), Outcome::TimedOut),
            State::Connecting(operation, _) => (*operation, Outcome::Failed(not_connected())),
            State::Ended(..) | State::Done => return true,
        };
        self.state = State::Ended(operation, outcome);
        true
    }

    /// Takes the outcome, if the request has ended.
    fn take_outcome(&mut self) -> Option<(Operation, Outcome)> {
        // Checked first: requests are checked more often than they end.
        if !matches!(self.state, State::Ended(..)) {
            return None;
        }
        match mem::replace(&mut self.state, State::Done) {
            State::Ended(operation, outcome) => Some((operation, outcome)),
            _ => None,
        }
    }

    /// Returns the end of its time.
    fn until(&self, limit: Duration) -> Instant {
        self.sent + limit + Duration::from_millis(self.paused.into())
    }

    /// Moves the end of its time.
    fn extend(&mut self, pause: Duration) {
        let millis = u32::try_from(pause.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
        self.paused = self.paused.saturating_add(millis);
    }

    fn is_unwanted<R: Round<Tag = T>>(&self, round: &R) -> bool {
        matches!(self.state, State::Connecting(..)) && round.request(self.node, self.tag).is_none()
    }
}

impl<R: Round> Run<R> {
    /// Carries the round out in the background, and ignores its result.
    pub(crate) fn in_background(mut self) {
        let Some(mut engine) = self.0.take() else { return };
        engine.start();
        engine.detach();
    }
}

impl<R: Round> Future for Run<R> {
    type Output = R::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R::Output> {
        // Taken out for the poll: a round that panics is not polled again.
        let mut engine = self.0.take().expect("a round is not polled after its result");
        let Poll::Ready(result) = engine.drive(cx) else {
            self.0 = Some(engine);
            return Poll::Pending;
        };
        engine.detach();
        Poll::Ready(result.expect("a round has a result once all requests have ended"))
    }
}

impl<R: Round> Drop for Run<R> {
    fn drop(&mut self) {
        let Some(mut engine) = self.0.take() else { return };
        if engine.phase != Phase::New {
            let span = engine.span.clone();
            let _entered = span.enter();
            let Engine { nodes, round, io, last_reading, flights, .. } = &mut *engine;
            *last_reading = nodes.now();
            round.abandon(*last_reading, io);
            flights.retain(|flight| !flight.is_unwanted(round));
            engine.detach();
        }
    }
}

/// What is left of a round without its caller.
impl<R: Round> Future for Engine<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(result) = ready!(self.drive(cx)) {
            drop(result);
        }
        Poll::Ready(())
    }
}

/// The runtime has ended, or the round has panicked. What can no longer be sent here is left to cleanup.
impl<R: Round> Drop for Engine<R> {
    fn drop(&mut self) {
        if self.is_busy() && self.phase != Phase::New {
            self.round.interrupt(self.nodes.now(), &mut self.io);
            self.nodes.leave(mem::take(&mut self.io.cleanups));
        }
    }
}

impl<R: Round> Engine<R> {
    /// Completes with the result once it is certain, and later with `None` when all requests have ended.
    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Option<R::Output>> {
        let span = self.span.clone();
        let _entered = span.enter();
        self.start();
        let mut result = None;
        let mut over = false;
        loop {
            self.send();
            let any_ended = self.poll_changed(cx) | self.poll_flights(cx, over);
            if self.phase == Phase::Started {
                self.phase = Phase::Open;
                self.round.all_sent();
            }
            if any_ended {
                over = false;
                self.hear(&mut result);
            } else if result.is_some() || self.flights.is_empty() {
                return Poll::Ready(result);
            } else if self.changed.is_none() && self.listen() {
                // Requests that reply at once need no listener. It is polled in the next turn of the loop. The event may
                // have preceded it, so it is checked now.
                if self.drop_unwanted() {
                    self.hear(&mut result);
                }
            } else {
                // One more poll after the limit: a reply that has arrived counts.
                ready!(self.poll_timer(cx));
                over = true;
            }
        }
    }

    fn start(&mut self) {
        if self.phase == Phase::New {
            self.phase = Phase::Started;
            self.round.start(&mut self.io);
        }
    }

    /// Moves what is left to the runtime.
    fn detach(mut self: Box<Self>) {
        self.timer = None;
        self.clean_up();
        if self.is_busy() {
            let nodes = Arc::clone(&self.nodes);
            nodes.runtime.spawn(Pin::from(self));
        }
    }

    fn is_busy(&self) -> bool {
        !self.flights.is_empty() || !self.io.sends.is_empty()
    }

    fn clean_up(&mut self) {
        for cleanup in self.io.cleanups.drain(..) {
            self.nodes.clean_up(cleanup);
        }
    }

    /// Begins the requests that the round wants.
    fn send(&mut self) {
        self.clean_up();
        for (node, tag) in mem::take(&mut self.io.sends) {
            let sent = self.last_reading;
            let mut flight =
                Flight { node, tag, connection: None, server: None, sent, paused: 0, state: State::Done };
            flight.begin(&self.nodes, &mut self.round);
            self.flights.push(flight);
        }
    }

    /// Begins to listen for the event that may end requests early. Returns whether there is one.
    fn listen(&mut self) -> bool {
        self.changed = self.round.listen();
        self.changed.is_some()
    }

    /// Drops the requests that are not wanted any more. Returns whether there were any.
    fn drop_unwanted(&mut self) -> bool {
        let Self { round, flights, .. } = self;
        let before = flights.len();
        flights.retain(|flight| round.is_wanted(flight.tag));
        flights.len() < before
    }

    /// Handles the event that may end requests early. Returns whether it has.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_changed = false;
        while let Some(Poll::Ready(())) = self.changed.as_mut().map(|changed| Pin::new(changed).poll(cx)) {
            self.listen();
            has_changed |= self.drop_unwanted();
        }
        has_changed
    }

    /// Polls all requests before the first outcome is handled. Returns whether any has ended.
    fn poll_flights(&mut self, cx: &mut Context<'_>, over: bool) -> bool {
        let Self { nodes, round, flights, limit, last_reading, .. } = self;
        let may_poll_late = round.may_poll_late();
        let now = if may_poll_late { *last_reading } else { nodes.now() };
        let mut any_ended = false;
        for flight in flights {
            let too_late = !may_poll_late && now >= flight.sent + *limit;
            if too_late {
                any_ended |= flight.poll_no_more();
                continue;
            }
            while let State::Connecting(_, attempt) = &mut flight.state {
                if Pin::new(attempt).poll(cx).is_pending() {
                    break;
                }
                flight.begin(nodes, round);
                if matches!(flight.state, State::Connecting(..)) {
                    // Another attempt. It is polled in the next turn of the task, so that attempts without an end do
                    // not block the thread.
                    cx.waker().wake_by_ref();
                    break;
                }
            }
            any_ended |= flight.poll(cx, over && *last_reading >= flight.until(*limit)).is_ready();
        }
        any_ended
    }

    /// Tells the round about the requests that have ended.
    fn hear(&mut self, result: &mut Option<R::Output>) {
        let at = self.nodes.now();
        self.last_reading = at;
        for index in 0..self.flights.len() {
            let flight = &mut self.flights[index];
            let Some((operation, outcome)) = flight.take_outcome() else { continue };
            let Flight { node, tag, connection, server, sent, .. } = *flight;
            let latency = at.saturating_duration_since(sent);
            let (name, counts_always) = (self.round.name(operation), self.round.counts_always());
            let outcome =
                self.nodes.note(Noted { node, operation, name, latency, counts_always }, outcome, at);
            self.round.heard(Heard { node, tag, outcome, connection, server, sent, at }, &mut self.io);
            self.ask(at, result);
        }
        self.flights.retain(|flight| !matches!(flight.state, State::Done));
        // Requests that are not wanted any more end without being heard.
        if self.flights.is_empty() {
            self.ask(at, result);
        }
    }

    fn ask(&mut self, at: Instant, result: &mut Option<R::Output>) {
        if self.phase == Phase::Open {
            *result = self.round.result(at, &mut self.io);
            if result.is_some() {
                self.phase = Phase::Decided;
            }
        }
    }

    /// Completes once the time of a request is over, by the clock.
    ///
    /// The timer is only a reason to read the clock. It is set from the last reading, which was in this poll or right
    /// before it. A pause in between makes the limit late, never early.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(timer) = &mut self.timer {
                ready!(timer.as_mut().poll(cx));
                // A completed timer must not be polled again.
                self.timer = None;
                self.last_reading = self.nodes.now();
                let pause = self.pace.tick(self.last_reading);
                self.flights.iter_mut().for_each(|flight| flight.extend(pause));
            }
            let ends = self.flights.iter().map(|flight| flight.until(self.limit));
            let until = ends.min().unwrap_or(self.last_reading);
            if until <= self.last_reading {
                return Poll::Ready(());
            }
            let left = self.pace.next(until).saturating_duration_since(self.last_reading);
            self.timer = Some(self.nodes.runtime.sleep(left.min(LONGEST_SLEEP)));
        }
    }
}

fn not_connected() -> NodeError {
    NodeError::unavailable("not connected in time")
}
