//! What clients do: when a round is decided, what follows, and what is owed afterwards.

use crate::protocol::Protocol;
use crate::pursuit::Undo;
use crate::scope::NODES;
use crate::state::{Client, Extension, Flight, Order, Phase, Standing, State};
use crate::step::{Asks, Event, Request, Step};
use crate::variant::Variant;

/// A state that is being changed.
pub(crate) struct World<'a> {
    pub(crate) protocol: &'a Protocol,
    pub(crate) state: &'a mut State,
    pub(crate) see: &'a mut dyn FnMut(Event),
}

impl World<'_> {
    pub(crate) fn apply(&mut self, step: Step) {
        match step {
            Step::Ask { client } => self.ask(client),
            Step::Cancel { client } => {
                self.state.faults += 1;
                self.undo(client);
            }
            Step::Extend { client } => self.extend(client),
            Step::Release { client } => self.release(client),
            Step::Lapse { client } => self.lapse(client),
            Step::Carry(request) => self.carry(request),
            Step::CarryUnanswered(request) => {
                self.state.faults += 1;
                self.deliver(request);
                self.fail(request);
            }
            Step::CarryTwice(request) => {
                self.state.faults += 1;
                self.part(request).copy = true;
                self.carry(request);
            }
            Step::CarryCopy(request) => {
                self.part(request).copy = false;
                self.carry_out(request, true);
            }
            Step::Answer(request) => self.answer(request),
            Step::Fail(request) => {
                self.state.faults += 1;
                self.fail(request);
            }
            Step::Break { client, node } => {
                self.state.faults += 1;
                self.disconnect(client, node);
            }
            Step::Expire { node } => self.state.nodes[node].key = None,
            Step::GiveUp { client, attempt, node } => {
                let part = &mut self.state.nodes[node].links[client].attempts[attempt];
                (part.release, part.undo) = (Flight::None, Undo::None);
            }
        }
    }

    fn ask(&mut self, client: usize) {
        let Protocol { scope, variant } = *self.protocol;
        let is = &mut self.state.clients[client];
        *is = Client { phase: Phase::Asking, attempts: is.attempts + 1, ..Client::default() };
        let current = is.current();
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            link.vote = Standing::Pending;
            link.attempts[current].acquire = Flight::Sent;
            link.attempts[current].trace.begin(scope.transport, variant);
        }
    }

    fn extend(&mut self, client: usize) {
        let is = &mut self.state.clients[client];
        is.round += 1;
        is.extension = Extension::Open;
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            (link.vote, link.extend) = (Standing::Pending, Flight::Sent);
        }
    }

    /// Ends a lease. What is owed is settled now: what becomes known later may have happened behind the releases.
    pub(crate) fn release(&mut self, client: usize) {
        let variant = self.protocol.variant;
        let (current, round) = (self.state.clients[client].current(), self.state.clients[client].round);
        let refills = variant == Variant::RefillAfterTheRelease
            && self.state.clients[client].extension == Extension::Won;
        for node in 0..NODES {
            let vote = self.state.nodes[node].links[client].vote;
            self.send_release(Request { client, attempt: current, node, asks: Asks::Release });
            let part = &mut self.state.nodes[node].links[client].attempts[current];
            if variant != Variant::TraceReadAtTheAnswer {
                // The calls that are open may send behind the release, and nobody listens to them any more.
                for write in part.writes_mut() {
                    *write = match *write {
                        Flight::Sent => Flight::Late(Order::Free),
                        Flight::Granted | Flight::Refused => Flight::None,
                        other => other,
                    };
                }
            }
            if refills && matches!(vote, Standing::Refused | Standing::Pending) {
                part.refills[usize::from(round) - 1] = Flight::Late(Order::Free);
            }
        }
        self.retire(client);
    }

    /// Undoes an attempt: where the call of its acquire has ended at once, elsewhere as soon as it has.
    pub(crate) fn undo(&mut self, client: usize) {
        let current = self.state.clients[client].current();
        for node in 0..NODES {
            let request = Request { client, attempt: current, node, asks: Asks::Release };
            let part = self.part(request);
            if part.acquire.is_open() {
                part.undo = Undo::Waits;
            } else {
                self.send_release(request);
            }
        }
        self.retire(client);
    }

    /// The client has nothing open any more.
    pub(crate) fn retire(&mut self, client: usize) {
        let (protocol, is) = (self.protocol, &mut self.state.clients[client]);
        let current = is.current();
        *is = Client { attempts: is.attempts, ..Client::default() };
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            link.vote = Standing::None;
            link.counted = false;
            link.extend = protocol.abandoned(link.extend);
            if let Some(key) = &mut node.key {
                if (usize::from(key.client), usize::from(key.attempt)) == (client, current) {
                    key.round = 0;
                }
            }
        }
    }

    pub(crate) fn send_release(&mut self, request: Request) {
        let only_granted = self.protocol.variant == Variant::ReleaseOnlyWhereGranted;
        let part = self.part(request);
        if only_granted && !part.trace.written {
            (part.undo, part.trace) = (Undo::None, part.trace);
            return;
        }
        part.release = Flight::Sent;
        if part.undo != Undo::Second {
            part.undo = Undo::First;
        }
        for write in part.writes_mut() {
            if *write == Flight::Late(Order::Connection) {
                *write = Flight::Late(Order::BeforeRelease);
            }
        }
    }

    /// The client's clock jumps: the process may have been stopped. It looks once more at what is there.
    pub(crate) fn lapse(&mut self, client: usize) {
        let is = &mut self.state.clients[client];
        let (current, round) = (is.current(), is.lapsed);
        is.lapsed += 1;
        if is.extension == Extension::Won && is.round == round {
            self.end_extension(client);
        }
        if round > 0 {
            return;
        }
        for node in 0..NODES {
            let request = Request { client, attempt: current, node, asks: Asks::Acquire };
            match self.part(request).acquire {
                Flight::Sent => self.fail(request),
                Flight::Granted | Flight::Refused => self.answer(request),
                Flight::None | Flight::Late(_) => {}
            }
        }
    }
}

impl Protocol {
    /// Of an extension that nobody waits for nothing is left to happen: it can but make a key live longer.
    pub(crate) fn abandoned(self, extend: Flight) -> Flight {
        let creates = self.variant == Variant::ExtensionCreatesAndCounts;
        if creates && extend.is_under_way() { Flight::Late(Order::Free) } else { Flight::None }
    }
}
