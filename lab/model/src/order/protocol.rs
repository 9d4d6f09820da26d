//! The rule as a state machine: its bounds, and the effects of the steps.

use std::mem;

use crate::catalog::Rule;
use crate::explore::Model;
use crate::order::client::{KEPT, LEFT, UNNAMED, attempt, begin, end, send};
use crate::order::property::Property;
use crate::order::scope::{ATTEMPTS, CLIENTS, NODES, REQUESTS, Role, Scope};
use crate::order::state::{Client, Key, Message, Phase, Place, State, Vote};
use crate::order::step::Step;
use crate::order::turns::note_entered;
use crate::order::variant::Variant;

/// The rule within bounds, either sound or with one change.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// The bounds.
    pub scope: Scope,
    /// The broken rule, if any.
    pub variant: Variant,
}

impl Turns {
    pub(crate) fn is_foreign(self, client: usize) -> bool {
        self.scope.roles[client] == Role::Foreign
    }

    fn apply(self, state: &mut State, step: Step) {
        match step {
            Step::Begin { client, later, placed } => {
                begin(state, client, later);
                attempt(state, client, placed);
            }
            Step::Attempt { client } => attempt(state, client, !state.clients[client].plain),
            Step::GiveBack { client, penalty, open } => self.give_back(state, client, penalty, open),
            Step::Enter { client, node } => {
                let Client { attempt, requests, penalty, .. } = state.clients[client];
                let message = Message { kind: KEPT, attempt, request: requests - 1, penalty };
                state.nodes[node].links[client].send(message);
            }
            Step::Leave { client } => {
                let Client { phase, plain, .. } = state.clients[client];
                if phase == Phase::Trying {
                    send(state, client, UNNAMED, |vote| vote != Vote::Pending);
                }
                if !plain {
                    send(state, client, LEFT, |_| true);
                }
                end(state, client, Phase::Idle);
            }
            Step::Release { client, open, next } => self.release_lock(state, client, open, next),
            Step::Carry { client, node, delay } => {
                if let Some(message) = state.nodes[node].links[client].take() {
                    let granted = self.carry_out(state, node, client, message, delay);
                    self.reply(state, node, client, message, granted);
                }
            }
            Step::CarryStray { client, node } => {
                if let Some(message) = state.nodes[node].links[client].stray.take() {
                    self.carry_out(state, node, client, message, 0);
                }
            }
            Step::Expire { node } => {
                let key = mem::take(&mut state.nodes[node].key);
                if let Key::Reserved(place) = key {
                    state.clients[place.client].forget_turns();
                }
                state.opened = true;
            }
            Step::Forget { client, node } => self.forget(state, node, client),
            Step::Fault { kind, client, node } => {
                state.faults += 1;
                state.clients.iter_mut().for_each(Client::forget_turns);
                self.fault(state, kind, client, node);
            }
        }
        self.decide(state);
        note_entered(state);
    }
}

impl Turns {
    /// Ends the places of a client on a node that have been there for too long.
    pub(crate) fn forget(self, state: &mut State, node: usize, client: usize) {
        for place in (0..state.clients[client].requests).map(|request| Place { client, request }) {
            if self.may_forget(state, node, place) {
                *state.nodes[node].entry(place) = 0;
            }
        }
    }
}

impl Rule for Turns {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        let most = scope.requests.iter().copied().max().unwrap_or_default();
        let fits = usize::from(most) <= REQUESTS && most * scope.attempts <= ATTEMPTS;
        let requests: u8 = scope.requests.iter().sum();
        assert!(fits && requests <= 7 && scope.faults <= 3 && scope.open_turns <= 3, "too large: {scope}");
        Self { scope, variant }
    }
}

impl Model for Turns {
    type State = State;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = Property::ALL;

    fn first(&self) -> State {
        let mut state = State::default();
        let holder = self.scope.roles.iter().rposition(|role| *role != Role::Absent);
        if let Some(client) = holder.filter(|_| self.scope.held > 0) {
            state.clients[client] =
                Client { phase: Phase::Held, requests: 1, attempt: 1, ..Client::default() };
            for node in &mut state.nodes[..self.scope.held] {
                node.key = Key::Token { client, attempt: 1 };
                node.links[client].vote = Vote::Granted;
            }
        }
        state
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        // A failed attempt is released at its decision.
        if let Some(failed) = state.clients.iter().position(|client| client.phase == Phase::Failed) {
            return self.steps_of_client(state, failed, steps);
        }
        (0..CLIENTS).for_each(|client| self.steps_of_client(state, client, steps));
        (0..NODES).for_each(|node| self.steps_of_node(state, node, steps));
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = *state;
        self.apply(&mut next, step);
        next
    }

    fn key(&self, state: &State) -> impl AsRef<[u64]> {
        state.key()
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        property.holds(*self, state)
    }
}
