//! The possible steps in a state, and the behavior of clients.

use crate::catalog::Rule;
use crate::decision::{Decision, Vote};
use crate::explore::Model;
use crate::lease::{Client, Phase};
use crate::share::property::Property;
use crate::share::scope::{CLIENTS, NODES, Role, Scope};
use crate::share::state::{Flight, State};
use crate::share::step::{Request, RequestKind, Step};
use crate::share::variant::Variant;

/// The rule within bounds, either sound or with one change.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// The bounds.
    pub scope: Scope,
    /// The broken rule, if any.
    pub variant: Variant,
}

impl Sharing {
    fn steps_of(self, state: &State, client: usize, steps: &mut Vec<Step>) {
        let is = &state.clients[client];
        match is.phase {
            Phase::Idle if self.scope.roles[client] != Role::Absent => steps.push(Step::Attempt { client }),
            Phase::Idle | Phase::Ended => {}
            Phase::Acquiring => {
                if state.faults < self.scope.faults {
                    steps.push(Step::Cancel { client });
                }
                if is.lapsed == 0 {
                    steps.push(Step::Lapse { client });
                }
            }
            Phase::Held => {
                steps.push(Step::Release { client });
                if is.can_lapse() {
                    steps.push(Step::Lapse { client });
                }
                if is.can_extend(self.scope.extensions[client]) {
                    steps.push(Step::Extend { client });
                }
            }
        }
    }

    fn steps_between(self, state: &State, client: usize, node: usize, steps: &mut Vec<Step>) {
        let (link, is) = (&state.nodes[node][client], &state.clients[client]);
        let faulty = state.faults < self.scope.faults;
        let reads = self.scope.roles[client] == Role::Reader;
        for (flight, kind) in [(link.acquire, RequestKind::Acquire), (link.extend, RequestKind::Extend)] {
            let request = Request { client, node, kind };
            match flight {
                Flight::None => {}
                Flight::Sent => {
                    steps.push(Step::Carry(request));
                    if reads && kind == RequestKind::Acquire {
                        steps.push(Step::Deny(request));
                    }
                    if faulty && kind == RequestKind::Acquire {
                        steps.push(Step::CarryTwice(request));
                    }
                }
                Flight::Granted | Flight::Denied => steps.push(Step::Reply(request)),
            }
            if faulty && flight != Flight::None {
                steps.push(Step::Fail(request));
            }
        }
        if link.late_write {
            steps.push(Step::Carry(Request { client, node, kind: RequestKind::Refill }));
        }
        if is.phase == Phase::Ended {
            steps.push(Step::Remove { client, node });
        }
        if self.may_expire(state, client, node) {
            steps.push(Step::Expire { client, node });
        }
    }

    /// An entry exists at least as long as the validity that it counts for. An ended lease has no validity left.
    fn may_expire(self, state: &State, client: usize, node: usize) -> bool {
        let is = &state.clients[client];
        state.nodes[node][client].entry.is_some_and(|round| {
            is.phase == Phase::Ended || round < is.lapsed || self.variant == Variant::EntriesExpireEarly
        })
    }

    fn apply(self, state: &mut State, step: Step) {
        match step {
            Step::Attempt { client } => {
                state.clients[client].phase = Phase::Acquiring;
                for links in &mut state.nodes {
                    (links[client].acquire, links[client].vote) = (Flight::Sent, Vote::Pending);
                }
            }
            Step::Cancel { client } => {
                state.faults += 1;
                end(state, client);
            }
            Step::Extend { client } => {
                state.clients[client].extend();
                for links in &mut state.nodes {
                    (links[client].extend, links[client].vote) = (Flight::Sent, Vote::Pending);
                }
            }
            Step::Release { client } => end(state, client),
            Step::Lapse { client } => state.clients[client].lapsed += 1,
            Step::Carry(request) => {
                let granted = self.carry_out(state, request);
                replied(state, request, granted);
            }
            Step::CarryTwice(request) => {
                state.faults += 1;
                state.nodes[request.node][request.client].late_write = true;
                let granted = self.carry_out(state, request);
                replied(state, request, granted);
            }
            Step::Deny(request) => replied(state, request, false),
            Step::Reply(request) => {
                let flight = std::mem::take(flight(state, request));
                let vote = if flight == Flight::Granted { Vote::Granted } else { Vote::Denied };
                self.voted(state, request, vote);
            }
            Step::Fail(request) => {
                state.faults += 1;
                let is_write = request.kind == RequestKind::Acquire;
                let before = std::mem::take(flight(state, request));
                state.nodes[request.node][request.client].late_write |= is_write && before == Flight::Sent;
                self.voted(state, request, Vote::Failed);
            }
            Step::Remove { client, node } => self.remove(state, client, node),
            Step::Expire { client, node } => self.expire(state, client, node),
        }
    }

    /// Records the vote of a node, and decides the round if possible.
    fn voted(self, state: &mut State, request: Request, vote: Vote) {
        let Request { client, node, kind } = request;
        let is = state.clients[client];
        // A late reply to the acquisition changes nothing.
        let counts = match kind {
            RequestKind::Acquire => is.phase == Phase::Acquiring,
            RequestKind::Extend => is.extending,
            RequestKind::Refill => false,
        };
        if !counts {
            // The extension has succeeded already, so the node is refilled.
            state.nodes[node][client].late_write |= kind == RequestKind::Extend && vote == Vote::Denied;
            return;
        }
        state.nodes[node][client].vote = vote;
        match (self.decision(state, client), is.phase) {
            (Decision::Open, _) => {}
            (Decision::Won, Phase::Acquiring) if is.lapsed == 0 => {
                let late = u8::from(self.variant == Variant::ValidityFromTheReply);
                let is = &mut state.clients[client];
                (is.phase, is.deadline) = (Phase::Held, late);
                count_votes(state, client);
            }
            (_, Phase::Acquiring) => end(state, client),
            (Decision::Won, _) if state.is_valid(client) => {
                state.clients[client].extended();
                for links in &mut state.nodes {
                    links[client].late_write |= links[client].vote == Vote::Denied;
                }
                count_votes(state, client);
            }
            _ => {
                state.clients[client].extending = false;
                forget_round(state, client);
            }
        }
    }

    fn decision(self, state: &State, client: usize) -> Decision {
        let count = |wanted: Vote| state.nodes.iter().filter(|links| links[client].vote == wanted).count();
        let (granted, pending) = (count(Vote::Granted), count(Vote::Pending));
        let reads = self.scope.roles[client] == Role::Reader;
        let is_one = reads && self.variant == Variant::OneNodeIsEnoughToRead;
        let quorum = if is_one { 1 } else { NODES / 2 + 1 };
        Decision::of(granted, pending, quorum)
    }
}

/// Sends the reply to a request that was carried out, if its call is open.
fn replied(state: &mut State, request: Request, granted: bool) {
    if request.kind == RequestKind::Refill {
        state.nodes[request.node][request.client].late_write = false;
    } else {
        *flight(state, request) = if granted { Flight::Granted } else { Flight::Denied };
    }
}

fn flight(state: &mut State, request: Request) -> &mut Flight {
    let link = &mut state.nodes[request.node][request.client];
    if request.kind == RequestKind::Extend { &mut link.extend } else { &mut link.acquire }
}

/// Ends an attempt or a lease. Its open acquires may be carried out later.
fn end(state: &mut State, client: usize) {
    state.clients[client] = Client::ENDED;
    for links in &mut state.nodes {
        let link = &mut links[client];
        link.late_write |= link.acquire == Flight::Sent;
        (link.acquire, link.counted) = (Flight::None, false);
        link.entry = link.entry.map(|_| 0);
    }
    forget_round(state, client);
}

/// Drops the votes and the extensions. A canceled extension can only prolong the life of an entry.
fn forget_round(state: &mut State, client: usize) {
    for links in &mut state.nodes {
        (links[client].vote, links[client].extend) = (Vote::None, Flight::None);
    }
}

/// Counts the votes of a round that is won. Calls of an extension stay open: a later denial leads to a refill.
fn count_votes(state: &mut State, client: usize) {
    for links in &mut state.nodes {
        links[client].counted = std::mem::take(&mut links[client].vote) == Vote::Granted;
    }
}

impl Rule for Sharing {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        assert!(scope.extensions.iter().all(|count| *count <= 2), "too large: {scope}");
        Self { scope, variant }
    }
}

impl Model for Sharing {
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
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = *state;
        self.apply(&mut next, step);
        // Only one rule needs the order of the entries.
        if self.variant != Variant::LastReaderSetsTheExpiry {
            for link in next.nodes.iter_mut().flatten() {
                link.is_last = false;
            }
        }
        next
    }

    fn key(&self, state: &State) -> impl AsRef<[u64]> {
        state.key()
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        property.holds(self.scope, state)
    }
}
