//! Requests and their replies: the end of a call, and its leftovers.

use crate::cleanup::{Cleanup, WriteState};
use crate::client::World;
use crate::scope::{ATTEMPTS, Transport};
use crate::state::{Attempt, Flight, Order, VoteState};
use crate::step::{Request, RequestKind};
use crate::variant::Variant;

impl World<'_> {
    pub(crate) fn carry(&mut self, request: Request) {
        self.deliver(request);
        if self.flight(request).is_open() && self.protocol.is_received_at_once(self.state, request) {
            self.reply(request, true);
        }
    }

    /// Carries a request out on its node. The reply is in flight if the call is still open.
    pub(crate) fn deliver(&mut self, request: Request) {
        let at_once = self.protocol.variant == Variant::SecondReleaseAtOnce;
        if request.kind == RequestKind::Release && self.part(request).cleanup == Cleanup::Second && !at_once {
            self.drop_late_writes(request);
        }
        let granted = self.carry_out(request, false);
        let replied = if granted { Flight::Granted } else { Flight::Denied };
        let flight = self.flight(request);
        *flight = if flight.is_open() { replied } else { Flight::None };
    }

    /// Receives a reply. A vote that does not count still determines the cleanup.
    pub(crate) fn reply(&mut self, request: Request, counts: bool) {
        let Request { client, attempt, node, kind } = request;
        let granted = *self.flight(request) == Flight::Granted;
        let vote = VoteState::of_reply(granted, counts);
        *self.flight(request) = Flight::None;
        match kind {
            RequestKind::Acquire => {
                if self.needs_outcome(request) {
                    self.part(request).write_state.settle(granted);
                }
                self.voted(request, vote);
            }
            RequestKind::Refill(_) => {
                if self.needs_outcome(request) {
                    self.part(request).write_state.settle(granted);
                }
            }
            RequestKind::Extend => self.extension_voted(request, vote),
            RequestKind::Release => {
                let variant = self.protocol.variant;
                let part = &mut self.state.nodes[node].links[client].attempts[attempt];
                if part.cleanup == Cleanup::Second || part.write_state.is_completed_by(granted, variant) {
                    self.end_cleanup(request);
                } else {
                    (part.cleanup, part.release) = (Cleanup::Second, Flight::Sent);
                }
            }
        }
    }

    /// Ends a call without its reply.
    pub(crate) fn fail(&mut self, request: Request) {
        let order = match self.protocol.scope.transport {
            Transport::Streams => Order::Connection,
            Transport::Datagrams => Order::Free,
        };
        let flight = self.flight(request);
        let late = if *flight == Flight::Sent { Flight::Late(order) } else { Flight::None };
        *flight = late;
        match request.kind {
            RequestKind::Acquire => {
                if self.needs_outcome(request) {
                    self.part(request).write_state.lose();
                }
                self.voted(request, VoteState::Failed);
            }
            RequestKind::Refill(_) => {
                if self.needs_outcome(request) {
                    self.part(request).write_state.lose();
                }
            }
            RequestKind::Extend => {
                *self.flight(request) = self.protocol.canceled(late);
                self.extension_voted(request, VoteState::Failed);
            }
            RequestKind::Release => {
                let retried = self.protocol.variant != Variant::LateWriteIsNotCleanedUp;
                if self.part(request).write_state.needs_release() && retried {
                    self.send_release(request);
                } else {
                    self.end_cleanup(request);
                }
            }
        }
    }

    pub(crate) fn disconnect(&mut self, client: usize, node: usize) {
        let link = &mut self.state.nodes[node].links[client];
        for part in &mut link.attempts {
            part.write_state.disconnect();
        }
        for attempt in 0..ATTEMPTS {
            for kind in
                [RequestKind::Acquire, RequestKind::Refill(0), RequestKind::Refill(1), RequestKind::Release]
            {
                let request = Request { client, attempt, node, kind };
                if self.flight(request).is_open() {
                    self.fail(request);
                }
            }
        }
        let attempt = self.state.clients[client].current();
        let extend = Request { client, attempt, node, kind: RequestKind::Extend };
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

    /// Ends the cleanup of an attempt on a node.
    pub(crate) fn end_cleanup(&mut self, request: Request) {
        let part = self.part(request);
        part.release = Flight::None;
        part.cleanup = Cleanup::None;
        part.write_state = WriteState::default();
    }

    /// Returns true if the outcome of a write still matters for the cleanup.
    pub(crate) fn needs_outcome(&mut self, request: Request) -> bool {
        let late = self.protocol.variant == Variant::StateReadAtTheReply;
        let ended = self.state.clients[request.client].has_ended(request.attempt);
        let part = self.part(request);
        !ended || part.cleanup == Cleanup::Waits || (late && part.write_state.in_flight > 0)
    }

    pub(crate) fn part(&mut self, request: Request) -> &mut Attempt {
        &mut self.state.nodes[request.node].links[request.client].attempts[request.attempt]
    }

    fn flight(&mut self, request: Request) -> &mut Flight {
        let link = &mut self.state.nodes[request.node].links[request.client];
        let part = &mut link.attempts[request.attempt];
        match request.kind {
            RequestKind::Acquire => &mut part.acquire,
            RequestKind::Extend => &mut link.extend,
            RequestKind::Refill(number) => &mut part.refills[number],
            RequestKind::Release => &mut part.release,
        }
    }
}
