//! The possible steps in a state, and their effects.

use crate::catalog::Rule;
use crate::decision::Vote;
use crate::explore::Model;
use crate::keep::property::Property;
use crate::keep::scope::{EXTENSIONS, NODES, QUORUM, Scope};
use crate::keep::state::{Flight, Key, Other, Phase, State};
use crate::keep::step::{Request, RequestKind, Step};
use crate::keep::variant::Variant;

/// The rule within bounds, either sound or with one change.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    /// The bounds.
    pub scope: Scope,
    /// The broken rule, if any.
    pub variant: Variant,
}

impl Keeping {
    fn steps_of_clients(self, state: &State, steps: &mut Vec<Step>) {
        let is = &state.keeper;
        if is.phase == Phase::Idle {
            steps.push(Step::Attempt);
        } else if is.lapsed <= is.round {
            steps.push(Step::Lapse);
        }
        if is.phase == Phase::Held {
            steps.push(Step::Keep);
            if !is.extending && is.round < self.scope.extensions {
                steps.push(Step::Extend);
            }
        }
        if matches!(is.phase, Phase::Waiting | Phase::Keeping) && state.faults < self.scope.faults {
            steps.push(Step::Cancel);
        }
        if matches!(is.phase, Phase::Keeping | Phase::Kept) && !is.elapsed {
            steps.push(Step::Elapse);
        }
        if is.phase == Phase::Kept && is.elapsed {
            steps.push(Step::RelyNoLonger);
        }
        match state.other {
            Other::Idle => steps.push(Step::OtherAttempt),
            Other::Acquiring | Other::Held => steps.push(Step::OtherEnd),
            Other::Ended => {}
        }
    }

    fn steps_on(self, state: &State, node: usize, steps: &mut Vec<Step>) {
        let faulty = state.faults < self.scope.faults;
        let (mut connected, mut requests) = (false, state.nodes[node]);
        for kind in RequestKind::all() {
            let request = Request { node, kind };
            let flight = *requests.flight(kind);
            if flight != Flight::None {
                steps.push(Step::Carry(request));
            }
            if flight == Flight::Sent && faulty {
                steps.extend([Step::CarryWithoutReply(request), Step::Fail(request)]);
            }
            connected |= matches!(flight, Flight::Sent | Flight::Ordered);
        }
        if connected && faulty {
            steps.push(Step::Break { node });
        }
        if state.nodes[node].wanted {
            steps.push(Step::OtherCarry { node });
        }
        if self.may_expire(state, node) {
            steps.push(Step::Expire { node });
        }
    }

    /// A key exists at least as long as every validity and promise that counts on it.
    fn may_expire(self, state: &State, node: usize) -> bool {
        let is = &state.keeper;
        let released = is.phase == Phase::Kept && self.variant == Variant::GuardReleases;
        state.nodes[node].key.is_some_and(|key| match key {
            Key::Other => state.other == Other::Ended,
            Key::Own(_) if released || self.variant == Variant::KeysExpireEarly => true,
            Key::Own(life) => (!life.kept || is.elapsed) && life.round.is_none_or(|round| round < is.lapsed),
        })
    }

    fn apply(self, state: &mut State, step: Step) {
        match step {
            Step::Attempt => {
                state.keeper.phase = Phase::Acquiring;
                for node in &mut state.nodes {
                    (node.writes[0], node.vote) = (Flight::Sent, Vote::Pending);
                }
            }
            Step::Extend => {
                state.keeper.round += 1;
                state.keeper.extending = true;
                let round = usize::from(state.keeper.round);
                for node in &mut state.nodes {
                    (node.extends[round - 1], node.vote) = (Flight::Sent, Vote::Pending);
                }
            }
            Step::Keep => self.begin_to_keep(state),
            Step::Cancel => {
                state.faults += 1;
                state.keeper.phase = Phase::Ended;
            }
            Step::Lapse => {
                let is = &mut state.keeper;
                is.lapsed += 1;
                let valid = is.phase == Phase::Held && is.is_valid();
                if matches!(is.phase, Phase::Acquiring | Phase::Held) && !valid {
                    is.phase = Phase::Ended;
                }
            }
            Step::Elapse if self.variant == Variant::TimeCountsFromTheSuccess => state.keeper.elapsed = true,
            Step::Elapse | Step::RelyNoLonger => state.keeper.phase = Phase::Ended,
            Step::Carry(request) => {
                let waits = *state.nodes[request.node].flight(request.kind) == Flight::Sent;
                let granted = self.carry_out(state, request);
                if waits {
                    self.ended(state, request, if granted { Vote::Granted } else { Vote::Denied });
                }
            }
            Step::CarryWithoutReply(request) => {
                state.faults += 1;
                self.carry_out(state, request);
                self.ended(state, request, Vote::Failed);
            }
            Step::Fail(request) => {
                state.faults += 1;
                state.nodes[request.node].flight(request.kind).abandon();
                self.ended(state, request, Vote::Failed);
            }
            Step::Break { node } => {
                state.faults += 1;
                self.disconnect(state, node);
            }
            Step::OtherAttempt => {
                state.other = Other::Acquiring;
                state.nodes.iter_mut().for_each(|node| node.wanted = true);
            }
            Step::OtherCarry { node } => carry_other(state, node),
            Step::OtherEnd => state.other = Other::Ended,
            Step::Expire { node } => state.nodes[node].key = None,
        }
    }

    /// The requests on the connection lose their order, and the open calls end.
    fn disconnect(self, state: &mut State, node: usize) {
        let mut open = Vec::new();
        for kind in RequestKind::all() {
            let flight = state.nodes[node].flight(kind);
            if *flight == Flight::Sent {
                open.push(kind);
            }
            if *flight != Flight::None {
                *flight = Flight::Free;
            }
        }
        for kind in open {
            self.ended(state, Request { node, kind }, Vote::Failed);
        }
    }
}

/// Carries the acquire of the other client out.
fn carry_other(state: &mut State, node: usize) {
    state.nodes[node].wanted = false;
    let key = &mut state.nodes[node].key;
    *key = key.or(Some(Key::Other));
    let granted = state.nodes.iter().filter(|node| node.key == Some(Key::Other)).count();
    if state.other == Other::Acquiring && granted >= QUORUM {
        state.other = Other::Held;
    }
}

impl Rule for Keeping {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        assert!(usize::from(scope.extensions) <= EXTENSIONS, "too large: {scope}");
        Self { scope, variant }
    }
}

impl Model for Keeping {
    type State = State;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = Property::ALL;

    fn first(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        // Without a lease and without a promise, nothing can be violated any more.
        if state.keeper.phase == Phase::Ended {
            return;
        }
        self.steps_of_clients(state, steps);
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
        state.key()
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        property.holds(state)
    }
}
