//! The fencing rule as a state machine: the steps that are possible in a state, and their effects.

use crate::catalog::Rule;
use crate::explore::Model;
use crate::fence::property::{PROPERTIES, Property};
use crate::fence::scope::{Counters, Extensions, FAR, MOST_ATTEMPTS, MOST_NODES, Scope};
use crate::fence::state::{Node, Phase, Round, State};
use crate::fence::step::Step;
use crate::fence::variant::Variant;

/// The rule within bounds, either sound or broken.
#[derive(Clone, Copy, Debug)]
pub struct Fencing {
    /// The bounds.
    pub scope: Scope,
    /// The variant of the rule.
    pub variant: Variant,
}

impl Fencing {
    fn steps_of(self, state: &State, attempt: usize, steps: &mut Vec<Step>) {
        let (is, owner) = (state.attempts[attempt], self.owner(attempt));
        if is.phase == Phase::None {
            return;
        }
        let late = self.variant == Variant::TokenFollowsLaterReplies && is.phase == Phase::Granted;
        for node in 0..self.scope.nodes {
            let on = state.nodes[node];
            let outlier = is.outlier && self.lies(node);
            let listens = (is.phase == Phase::Acquiring || late) && !is.has_received(node) && !outlier;
            if listens && self.lies(node) {
                steps.push(Step::Lie { attempt, node });
            }
            if on.key.is_none() {
                for counter in self.raised(state, on.counter) {
                    steps.push(Step::Set { attempt, node, counter, received: false });
                    if listens {
                        steps.push(Step::Set { attempt, node, counter, received: true });
                    }
                }
            } else if on.key == Some(owner) && self.variant == Variant::ReacquireRaises {
                for counter in self.raised(state, on.counter) {
                    steps.push(Step::Again { attempt, node, counter, received: false });
                    if listens {
                        steps.push(Step::Again { attempt, node, counter, received: true });
                    }
                }
            } else if on.key == Some(owner) && listens {
                steps.push(Step::Again { attempt, node, counter: on.counter, received: true });
            }
            if is.is_decided() {
                let after = self.confirmed(is, owner, on);
                let new = self.receives_confirmations(state, attempt) && !is.has_received(node);
                if after.is_some_and(|after| after != on || new) {
                    steps.push(Step::Confirm { attempt, node });
                }
            }
            if self.scope.extensions != Extensions::None && self.refilled(is, owner, on).is_some() {
                steps.push(Step::Refill { attempt, node });
            }
        }
        if is.phase == Phase::Granted {
            // An extension whose round would be of another kind if it started now can be followed by a new one.
            let now = self.round(state, attempt);
            let may = match self.scope.extensions {
                Extensions::None => false,
                Extensions::Behind => is.round == Round::None && now == Round::Behind,
                Extensions::Any => is.round != now,
            };
            if may {
                steps.push(Step::Extend { attempt });
            }
        }
    }

    /// Returns true if the attempt receives the confirmation of a node. Every confirmation that can be received is
    /// received, since it only helps the attempt.
    fn receives_confirmations(self, state: &State, attempt: usize) -> bool {
        let is = state.attempts[attempt];
        let always = self.variant == Variant::EarlierRepliesCount;
        is.phase == Phase::Confirming || is.round != Round::None || always
    }

    fn carry(self, state: &mut State, step: Step) {
        match step {
            Step::Begin { attempt } => Self::begin(state, attempt),
            Step::Set { attempt, node, counter, received }
            | Step::Again { attempt, node, counter, received } => {
                state.nodes[node] = Node { key: Some(self.owner(attempt)), counter };
                if received {
                    self.replied(state, attempt, node, counter);
                }
            }
            Step::Lie { attempt, node } => self.replied(state, attempt, node, FAR),
            Step::Confirm { attempt, node } => {
                let (is, on) = (state.attempts[attempt], state.nodes[node]);
                if let Some(after) = self.confirmed(is, self.owner(attempt), on) {
                    state.nodes[node] = after;
                    if self.receives_confirmations(state, attempt) {
                        self.counted(state, attempt, node);
                    }
                }
            }
            Step::Extend { attempt } => self.extend(state, attempt),
            Step::Refill { attempt, node } => {
                let (is, on) = (state.attempts[attempt], state.nodes[node]);
                state.nodes[node] = self.refilled(is, self.owner(attempt), on).unwrap_or(on);
            }
            Step::Vanish { node } => state.nodes[node] = self.vanished(state.nodes[node]),
            Step::Pass { node } => state.nodes[node].counter += 1,
        }
    }
}

impl Rule for Fencing {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        let counters = match scope.counters {
            Counters::UpTo(bound) => bound < if scope.lies { FAR } else { 15 },
            Counters::Any => !scope.lies,
        };
        assert!(
            scope.nodes <= MOST_NODES && scope.attempts <= MOST_ATTEMPTS && counters,
            "too large: {scope}"
        );
        let may_forget = variant == Variant::Sound && scope.counters == Counters::Any;
        assert!(may_forget || !scope.forgets, "only the sound rule may forget attempts");
        Self { scope, variant }
    }

    fn consequences(&self, before: &State, step: Step, after: &State) -> String {
        self.outcome(before, step, after)
    }
}

impl Model for Fencing {
    type State = State;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = PROPERTIES;

    fn first(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let begun = |attempt: &usize| state.attempts[*attempt].phase != Phase::None;
        // Attempts are interchangeable.
        if let Some(attempt) = (0..self.scope.attempts).find(|attempt| !begun(attempt)) {
            steps.push(Step::Begin { attempt });
        }
        for attempt in 0..self.scope.attempts {
            self.steps_of(state, attempt, steps);
        }
        for (node, on) in state.nodes.iter().enumerate().take(self.scope.nodes) {
            if on.key.is_some() {
                steps.push(Step::Vanish { node });
            } else if matches!(self.scope.counters, Counters::UpTo(bound) if on.counter < bound) {
                steps.push(Step::Pass { node });
            }
        }
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = *state;
        self.carry(&mut next, step);
        if self.scope.lies {
            self.look_for_far(&mut next);
        }
        if self.scope.forgets {
            self.forget(&mut next);
        }
        if self.scope.counters == Counters::Any {
            self.rank(&mut next);
        }
        next
    }

    fn key(&self, state: &State) -> impl AsRef<[u64]> {
        self.packed(state)
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        state.violated & property.bit() == 0
    }
}
