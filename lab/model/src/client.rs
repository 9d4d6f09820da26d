//! The behavior of clients: when a round is decided, how it continues, and which cleanup is pending afterwards.

use crate::cleanup::Cleanup;
use crate::protocol::Protocol;
use crate::scope::NODES;
use crate::state::{Client, Extension, Flight, Order, Phase, State, VoteState};
use crate::step::{Event, Request, RequestKind, Step};
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
            Step::Attempt { client } => self.attempt(client),
            Step::Cancel { client } => {
                self.state.faults += 1;
                self.clean_up(client);
            }
            Step::Extend { client } => self.extend(client),
            Step::Release { client } => self.release(client),
            Step::Lapse { client } => self.lapse(client),
            Step::Carry(request) => self.carry(request),
            Step::CarryWithoutReply(request) => {
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
            Step::Reply(request) => self.reply(request, true),
            Step::ReplyUncounted(request) => {
                self.state.faults += 1;
                self.reply(request, false);
            }
            Step::Fail(request) => {
                self.state.faults += 1;
                self.fail(request);
            }
            Step::Break { client, node } => {
                self.state.faults += 1;
                self.disconnect(client, node);
            }
            Step::Expire { node } => self.state.nodes[node].key = None,
            Step::Abandon { client, attempt, node } => {
                let part = &mut self.state.nodes[node].links[client].attempts[attempt];
                (part.release, part.cleanup) = (Flight::None, Cleanup::None);
            }
        }
    }

    fn attempt(&mut self, client: usize) {
        let Protocol { scope, variant } = *self.protocol;
        let is = &mut self.state.clients[client];
        *is = Client { phase: Phase::Acquiring, attempts: is.attempts + 1, ..Client::default() };
        let current = is.current();
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            link.vote = VoteState::Pending;
            link.attempts[current].acquire = Flight::Sent;
            link.attempts[current].write_state.begin(scope.transport, variant);
        }
    }

    fn extend(&mut self, client: usize) {
        let is = &mut self.state.clients[client];
        is.round += 1;
        is.extension = Extension::Open;
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            (link.vote, link.extend) = (VoteState::Pending, Flight::Sent);
        }
    }

    /// Ends a lease. The cleanup is settled now: later outcomes may belong to writes that follow the releases.
    pub(crate) fn release(&mut self, client: usize) {
        let variant = self.protocol.variant;
        let (current, round) = (self.state.clients[client].current(), self.state.clients[client].round);
        let refills = variant == Variant::RefillAfterTheRelease
            && self.state.clients[client].extension == Extension::Won;
        for node in 0..NODES {
            let vote = self.state.nodes[node].links[client].vote;
            self.send_release(Request { client, attempt: current, node, kind: RequestKind::Release });
            let part = &mut self.state.nodes[node].links[client].attempts[current];
            if variant != Variant::StateReadAtTheReply {
                // Open calls may be sent after the release, and their replies are ignored.
                for write in part.writes_mut() {
                    *write = match *write {
                        Flight::Sent => Flight::Late(Order::Free),
                        Flight::Granted | Flight::Denied => Flight::None,
                        other => other,
                    };
                }
            }
            if refills && matches!(vote, VoteState::Denied | VoteState::Pending) {
                part.refills[usize::from(round) - 1] = Flight::Late(Order::Free);
            }
        }
        self.retire(client);
    }

    /// Cleans up an attempt: at once on nodes where the acquire call has ended, and elsewhere when it ends.
    pub(crate) fn clean_up(&mut self, client: usize) {
        let current = self.state.clients[client].current();
        for node in 0..NODES {
            let request = Request { client, attempt: current, node, kind: RequestKind::Release };
            let part = self.part(request);
            if part.acquire.is_open() {
                part.cleanup = Cleanup::Waits;
            } else {
                self.send_release(request);
            }
        }
        self.retire(client);
    }

    /// Resets the client, which has no open calls left.
    pub(crate) fn retire(&mut self, client: usize) {
        let (protocol, is) = (self.protocol, &mut self.state.clients[client]);
        let current = is.current();
        *is = Client { attempts: is.attempts, ..Client::default() };
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            link.vote = VoteState::None;
            link.counted = false;
            link.extend = protocol.canceled(link.extend);
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
        if only_granted && !part.write_state.written {
            (part.cleanup, part.write_state) = (Cleanup::None, part.write_state);
            return;
        }
        part.release = Flight::Sent;
        if part.cleanup != Cleanup::Second {
            part.cleanup = Cleanup::First;
        }
        for write in part.writes_mut() {
            if *write == Flight::Late(Order::Connection) {
                *write = Flight::Late(Order::BeforeRelease);
            }
        }
    }

    /// The clock of the client jumps, as after a pause. The client checks once more for replies that have arrived.
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
            let request = Request { client, attempt: current, node, kind: RequestKind::Acquire };
            match self.part(request).acquire {
                Flight::Sent => self.fail(request),
                Flight::Granted | Flight::Denied => self.reply(request, true),
                Flight::None | Flight::Late(_) => {}
            }
        }
    }
}

impl Protocol {
    /// Returns the state of a canceled extension. It can only prolong the life of a key, so it no longer matters.
    pub(crate) fn canceled(self, extend: Flight) -> Flight {
        let creates = self.variant == Variant::ExtensionCreatesAndCounts;
        if creates && extend.is_in_flight() { Flight::Late(Order::Free) } else { Flight::None }
    }
}
