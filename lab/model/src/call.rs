//! Requests and their answers: what becomes of a call, and of what it leaves behind.

use crate::client::World;
use crate::pursuit::{Trace, Undo};
use crate::scope::{ATTEMPTS, Transport};
use crate::state::{Attempt, Flight, Order};
use crate::step::{Asks, Request};
use crate::variant::Variant;

impl World<'_> {
    pub(crate) fn carry(&mut self, request: Request) {
        self.deliver(request);
        if self.flight(request).is_open() && self.protocol.is_heard_at_once(self.state, request) {
            self.answer(request);
        }
    }

    /// The node carries it out; the answer, if somebody waits for it, is on its way.
    pub(crate) fn deliver(&mut self, request: Request) {
        let at_once = self.protocol.variant == Variant::SecondReleaseAtOnce;
        if request.asks == Asks::Release && self.part(request).undo == Undo::Second && !at_once {
            self.drop_late_writes(request);
        }
        let granted = self.carry_out(request, false);
        let answered = if granted { Flight::Granted } else { Flight::Refused };
        let flight = self.flight(request);
        *flight = if flight.is_open() { answered } else { Flight::None };
    }

    pub(crate) fn answer(&mut self, request: Request) {
        let Request { client, attempt, node, asks } = request;
        let granted = *self.flight(request) == Flight::Granted;
        *self.flight(request) = Flight::None;
        match asks {
            Asks::Acquire => {
                if self.is_traced(request) {
                    self.part(request).trace.settle(granted);
                }
                self.voted(request, Some(granted));
            }
            Asks::Refill(_) => {
                if self.is_traced(request) {
                    self.part(request).trace.settle(granted);
                }
            }
            Asks::Extend => self.extension_voted(request, Some(granted)),
            Asks::Release => {
                let variant = self.protocol.variant;
                let part = &mut self.state.nodes[node].links[client].attempts[attempt];
                if part.undo == Undo::Second || part.trace.is_undone_by(granted, variant) {
                    self.undone(request);
                } else {
                    (part.undo, part.release) = (Undo::Second, Flight::Sent);
                }
            }
        }
    }

    /// A call ends without its answer.
    pub(crate) fn fail(&mut self, request: Request) {
        let order = match self.protocol.scope.transport {
            Transport::Streams => Order::Connection,
            Transport::Datagrams => Order::Free,
        };
        let flight = self.flight(request);
        let late = if *flight == Flight::Sent { Flight::Late(order) } else { Flight::None };
        *flight = late;
        match request.asks {
            Asks::Acquire => {
                if self.is_traced(request) {
                    self.part(request).trace.lose();
                }
                self.voted(request, None);
            }
            Asks::Refill(_) => {
                if self.is_traced(request) {
                    self.part(request).trace.lose();
                }
            }
            Asks::Extend => {
                *self.flight(request) = self.protocol.abandoned(late);
                self.extension_voted(request, None);
            }
            Asks::Release => {
                let chased = self.protocol.variant != Variant::StragglerIsNotChased;
                if self.part(request).trace.owes() && chased {
                    self.send_release(request);
                } else {
                    self.undone(request);
                }
            }
        }
    }

    pub(crate) fn disconnect(&mut self, client: usize, node: usize) {
        let link = &mut self.state.nodes[node].links[client];
        for part in &mut link.attempts {
            part.trace.disconnect();
        }
        for attempt in 0..ATTEMPTS {
            for asks in [Asks::Acquire, Asks::Refill(0), Asks::Refill(1), Asks::Release] {
                let request = Request { client, attempt, node, asks };
                if self.flight(request).is_open() {
                    self.fail(request);
                }
            }
        }
        let attempt = self.state.clients[client].current();
        let extend = Request { client, attempt, node, asks: Asks::Extend };
        if self.flight(extend).is_open() {
            self.fail(extend);
        }
        for part in &mut self.state.nodes[node].links[client].attempts {
            for write in part.writes_mut() {
                if matches!(write, Flight::Late(_)) {
                    *write = Flight::Late(Order::Free);
                }
            }
        }
    }

    /// Nothing more is owed.
    pub(crate) fn undone(&mut self, request: Request) {
        let part = self.part(request);
        part.release = Flight::None;
        part.undo = Undo::None;
        part.trace = Trace::default();
    }

    /// Whether what becomes of a write's call still matters.
    pub(crate) fn is_traced(&mut self, request: Request) -> bool {
        let late = self.protocol.variant == Variant::TraceReadAtTheAnswer;
        let ended = self.state.clients[request.client].has_ended(request.attempt);
        let part = self.part(request);
        !ended || part.undo == Undo::Waits || (late && part.trace.in_flight > 0)
    }

    pub(crate) fn part(&mut self, request: Request) -> &mut Attempt {
        &mut self.state.nodes[request.node].links[request.client].attempts[request.attempt]
    }

    fn flight(&mut self, request: Request) -> &mut Flight {
        let link = &mut self.state.nodes[request.node].links[request.client];
        let part = &mut link.attempts[request.attempt];
        match request.asks {
            Asks::Acquire => &mut part.acquire,
            Asks::Extend => &mut link.extend,
            Asks::Refill(number) => &mut part.refills[number],
            Asks::Release => &mut part.release,
        }
    }
}
