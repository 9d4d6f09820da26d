//! The possible steps in a state, and the behavior of clients.

use crate::catalog::Rule;
use crate::change::property::Property;
use crate::change::rule::carry_out;
use crate::change::scope::{CLIENTS, NODES, Program, Scope};
use crate::change::state::{Key, Link, State};
use crate::change::step::{Request, RequestKind, Step};
use crate::change::variant::Variant;
use crate::decision::{Decision, Vote};
use crate::explore::Model;
use crate::lease::{Client, Phase};

/// The rule within bounds, either sound or with one change.
#[derive(Clone, Copy, Debug)]
pub struct Changing {
    /// The bounds.
    pub scope: Scope,
    /// The broken rule, if any.
    pub variant: Variant,
}

impl Changing {
    fn steps_of(self, state: &State, client: usize, steps: &mut Vec<Step>) {
        let is = &state.clients[client];
        match is.phase {
            Phase::Idle if self.may_begin(state, client) => steps.push(Step::Attempt { client }),
            Phase::Idle | Phase::Ended => {}
            Phase::Acquiring | Phase::Held => {
                steps.push(Step::End { client });
                if is.can_lapse() {
                    steps.push(Step::Lapse { client });
                }
            }
        }
        if is.can_extend(self.scope.extensions[client]) {
            steps.push(Step::Extend { client });
        }
    }

    /// The last step begins when all attempts and leases of the first one have ended, and none follows.
    fn may_begin(self, state: &State, client: usize) -> bool {
        let all = |wanted: Program, is: fn(&Client) -> bool| {
            (0..CLIENTS).all(|other| self.scope.programs[other] != wanted || is(&state.clients[other]))
        };
        match self.scope.programs[client] {
            Program::Absent => false,
            Program::Both => true,
            Program::Old => all(Program::New, |other| other.phase == Phase::Idle),
            Program::New if self.variant == Variant::TheLastStepDoesNotWait => true,
            Program::New => all(Program::Old, |other| other.phase == Phase::Idle || other.is_over()),
        }
    }

    fn steps_between(self, state: &State, client: usize, node: usize, steps: &mut Vec<Step>) {
        let is_faulty = state.faults < self.scope.faults;
        for kind in [RequestKind::Acquire, RequestKind::Extend] {
            let request = Request { client, node, kind };
            if !state.is_open(request) {
                continue;
            }
            steps.push(Step::Carry(request));
            if is_faulty {
                steps.extend([Step::CarryWithoutReply(request), Step::Fail(request)]);
            }
            if is_faulty && kind == RequestKind::Acquire {
                steps.push(Step::CarryTwice(request));
            }
        }
        if state.nodes[node].links[client].late_write {
            steps.push(Step::Carry(Request { client, node, kind: RequestKind::Late }));
        }
    }

    fn steps_on(self, state: &State, node: usize, steps: &mut Vec<Step>) {
        let Some(key) = state.nodes[node].key else { return };
        let is = &state.clients[key.client];
        if is.phase == Phase::Ended || key.round < is.lapsed {
            steps.push(Step::Expire { node });
        } else if state.losses < self.scope.losses {
            steps.push(Step::Lose { node });
        }
    }

    fn apply(self, state: &mut State, step: Step) {
        match step {
            Step::Attempt { client } => {
                state.clients[client].phase = Phase::Acquiring;
                self.each_link(state, client, |link| (link.acquire, link.vote) = (true, Vote::Pending));
            }
            Step::Extend { client } => {
                state.clients[client].extend();
                self.each_link(state, client, |link| (link.extend, link.vote) = (true, Vote::Pending));
            }
            Step::End { client } => end(state, client),
            Step::Lapse { client } => lapse(state, client),
            Step::Carry(request) => {
                let granted = carry_out(state, request);
                let counts = state.is_admitted(request.node) || self.variant == Variant::VotesCountAfterALoss;
                let vote = match granted {
                    true if counts => Vote::Granted,
                    true => Vote::Failed,
                    false => Vote::Denied,
                };
                self.ended(state, request, vote);
            }
            Step::CarryWithoutReply(request) => {
                state.faults += 1;
                carry_out(state, request);
                self.ended(state, request, Vote::Failed);
            }
            Step::CarryTwice(request) => {
                state.faults += 1;
                self.apply(state, Step::Carry(request));
                state.nodes[request.node].links[request.client].late_write = true;
            }
            Step::Fail(request) => {
                state.faults += 1;
                let is_write = request.kind == RequestKind::Acquire;
                state.nodes[request.node].links[request.client].late_write |= is_write;
                self.ended(state, request, Vote::Failed);
            }
            Step::Expire { node } => state.nodes[node].key = None,
            Step::Lose { node } => {
                state.losses += 1;
                if let Some(key) = state.nodes[node].key.take() {
                    let lost = &mut state.nodes[node].links[key.client].lost;
                    *lost = (*lost).max(Some(key.round));
                }
            }
        }
    }

    /// Changes the links of a client with each of its nodes.
    fn each_link(self, state: &mut State, client: usize, change: impl Fn(&mut Link)) {
        let Scope { lists, programs, .. } = self.scope;
        for (_, node) in
            state.nodes.iter_mut().enumerate().filter(|(node, _)| lists.has(programs[client], *node))
        {
            change(&mut node.links[client]);
        }
    }

    /// Records the end of a call, and decides the open round if it is one of its votes.
    fn ended(self, state: &mut State, request: Request, vote: Vote) {
        let Request { client, node, kind } = request;
        let (is, link) = (state.clients[client], &mut state.nodes[node].links[client]);
        let counts = match kind {
            RequestKind::Acquire => {
                link.acquire = false;
                is.phase == Phase::Acquiring
            }
            RequestKind::Extend => {
                link.extend = false;
                // The extension has succeeded already, so the node is refilled.
                link.late_write |= !is.extending && vote == Vote::Denied;
                is.extending
            }
            RequestKind::Late => {
                link.late_write = false;
                false
            }
        };
        if counts {
            link.vote = vote;
            self.decide(state, client);
        }
    }

    /// Decides the open round of a client, if it is certain.
    fn decide(self, state: &mut State, client: usize) {
        let decision = self.decision(state, client);
        let is = &mut state.clients[client];
        match (decision, is.phase) {
            (Decision::Open, _) => {}
            (Decision::Won, Phase::Acquiring) if is.lapsed == 0 => {
                is.phase = Phase::Held;
                count_votes(state, client);
            }
            (_, Phase::Acquiring) => end(state, client),
            (Decision::Won, _) if is.is_valid() => {
                is.extended();
                for node in &mut state.nodes {
                    let link = &mut node.links[client];
                    link.late_write |= link.vote == Vote::Denied;
                }
                count_votes(state, client);
            }
            _ => {
                is.extending = false;
                forget_round(state, client);
            }
        }
    }
}

/// Ends a validity. A node is admitted again once the leases whose keys it has lost have ended.
fn lapse(state: &mut State, client: usize) {
    let is = &mut state.clients[client];
    is.lapsed += 1;
    let lapsed = is.lapsed;
    for node in &mut state.nodes {
        let lost = &mut node.links[client].lost;
        *lost = lost.filter(|round| *round >= lapsed);
    }
}

/// Ends an attempt or a lease. Its open acquires may be carried out later.
fn end(state: &mut State, client: usize) {
    state.clients[client] = Client::ENDED;
    for node in &mut state.nodes {
        let link = &mut node.links[client];
        link.late_write |= link.acquire;
        (link.acquire, link.counted, link.lost) = (false, false, None);
        if let Some(key) = node.key.as_mut().filter(|key| key.client == client) {
            *key = Key { round: 0, ..*key };
        }
    }
    forget_round(state, client);
}

/// Drops the votes and the extensions. A canceled extension can only prolong the life of a key.
fn forget_round(state: &mut State, client: usize) {
    for node in &mut state.nodes {
        let link = &mut node.links[client];
        (link.vote, link.extend) = (Vote::None, false);
    }
}

/// Counts the votes of a round that is won. Calls of an extension stay open: a later denial leads to a refill.
fn count_votes(state: &mut State, client: usize) {
    for node in &mut state.nodes {
        let link = &mut node.links[client];
        link.counted = std::mem::take(&mut link.vote) == Vote::Granted;
    }
}

impl Rule for Changing {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        assert!(scope.extensions.iter().all(|count| *count <= 2), "too large: {scope}");
        Self { scope, variant }
    }
}

impl Model for Changing {
    type State = State;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = Property::ALL;

    fn first(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        for client in 0..CLIENTS {
            self.steps_of(state, client, steps);
            for node in 0..NODES {
                self.steps_between(state, client, node, steps);
            }
        }
        for node in 0..NODES {
            self.steps_on(state, node, steps);
        }
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = *state;
        self.apply(&mut next, step);
        next
    }

    fn key(&self, state: &State) -> impl AsRef<[u64]> {
        state.key(self.scope.lists)
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        property.holds(state)
    }
}
