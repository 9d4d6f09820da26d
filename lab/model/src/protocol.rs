//! The protocol as a state machine: the steps that are possible in a state, and their effects.

use crate::catalog::Rule;
use crate::cleanup::Cleanup;
use crate::client::World;
use crate::explore::Model;
use crate::property::{PROPERTIES, Property};
use crate::scope::{ATTEMPTS, CLIENTS, EXTENSIONS, NODES, Scope, Transport};
use crate::state::{Extension, Flight, Order, Phase, State};
use crate::step::{Event, Request, RequestKind, Step};
use crate::variant::Variant;

/// The rules within bounds, either sound or with one of them broken.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The bounds.
    pub scope: Scope,
    /// The broken rule, if any.
    pub variant: Variant,
}

impl Protocol {
    /// Returns the state that a step leads to, and reports to `see` the results that clients see.
    pub fn apply(&self, state: &State, step: Step, see: &mut dyn FnMut(Event)) -> State {
        let mut next = *state;
        World { protocol: self, state: &mut next, see }.apply(step);
        next
    }

    /// Adds all steps that are possible in a state.
    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let faulty = state.faults < self.scope.faults;
        for client in 0..CLIENTS {
            self.steps_of(state, client, faulty, steps);
            for node in 0..NODES {
                self.steps_between(state, client, node, faulty, steps);
            }
        }
        for node in 0..NODES {
            if self.may_expire(state, node) {
                steps.push(Step::Expire { node });
            }
        }
    }

    fn steps_of(self, state: &State, client: usize, faulty: bool, steps: &mut Vec<Step>) {
        let is = &state.clients[client];
        match is.phase {
            Phase::Idle if is.attempts < self.scope.attempts[client] => steps.push(Step::Attempt { client }),
            Phase::Idle => {}
            Phase::Acquiring => {
                if faulty {
                    steps.push(Step::Cancel { client });
                }
                if is.lapsed == 0 {
                    steps.push(Step::Lapse { client });
                }
            }
            Phase::Held => {
                steps.push(Step::Release { client });
                let more = is.round < self.scope.extensions[client];
                if is.is_valid() && is.extension == Extension::None && more {
                    steps.push(Step::Extend { client });
                }
                if is.is_valid() {
                    steps.push(Step::Lapse { client });
                }
            }
        }
    }

    fn steps_between(self, state: &State, client: usize, node: usize, faulty: bool, steps: &mut Vec<Step>) {
        let link = &state.nodes[node].links[client];
        let mut connected = link.extend.is_open();
        let current = state.clients[client].current();
        let mut flight = |flight: Flight, attempt: usize, kind: RequestKind, blocked: bool| {
            let request = Request { client, attempt, node, kind };
            let at_once = flight == Flight::Sent && self.is_received_at_once(state, request);
            if flight.is_in_flight() && !blocked {
                steps.push(Step::Carry(request));
                if at_once && faulty {
                    steps.push(Step::CarryWithoutReply(request));
                }
            }
            if flight.has_reply() {
                steps.push(Step::Reply(request));
                let is_vote = matches!(kind, RequestKind::Acquire | RequestKind::Extend);
                if is_vote && faulty && self.scope.quarantine {
                    steps.push(Step::ReplyUncounted(request));
                }
            }
            // A release that is lost before it is carried out is sent again, which equals a release that stays in flight.
            if flight.is_open() && faulty && (flight.has_reply() || kind != RequestKind::Release) {
                steps.push(Step::Fail(request));
            }
        };
        flight(link.extend, current, RequestKind::Extend, false);
        for (attempt, part) in link.attempts.iter().enumerate() {
            flight(part.acquire, attempt, RequestKind::Acquire, false);
            for (number, refill) in part.refills.iter().enumerate() {
                flight(*refill, attempt, RequestKind::Refill(number), false);
            }
            let blocked = part.cleanup == Cleanup::First
                && part.writes().any(|write| write == Flight::Late(Order::BeforeRelease));
            flight(part.release, attempt, RequestKind::Release, blocked);
        }
        for (attempt, part) in link.attempts.iter().enumerate() {
            let acquire = Request { client, attempt, node, kind: RequestKind::Acquire };
            let datagrams = self.scope.transport == Transport::Datagrams;
            if part.acquire == Flight::Sent && datagrams && faulty {
                steps.push(Step::CarryTwice(acquire));
            }
            if part.copy {
                steps.push(Step::CarryCopy(acquire));
            }
            if part.cleanup.is_pending() && self.variant == Variant::CleanupEndsWithTime {
                steps.push(Step::Abandon { client, attempt, node });
            }
            let calls = part.writes().chain([part.release]);
            let ordered = |flight: Flight| {
                flight.is_open() || matches!(flight, Flight::Late(Order::Connection | Order::BeforeRelease))
            };
            connected |= part.write_state.on_connection || calls.into_iter().any(ordered);
        }
        if connected && faulty && self.scope.transport == Transport::Streams {
            steps.push(Step::Break { client, node });
        }
    }

    /// Returns true if only the cleanup on this node depends on the arrival of the reply. Then a later arrival need not
    /// be explored, since the next release can be carried out at any later time.
    pub(crate) fn is_received_at_once(self, state: &State, request: Request) -> bool {
        let part = &state.nodes[request.node].links[request.client].attempts[request.attempt];
        match request.kind {
            RequestKind::Acquire => part.cleanup == Cleanup::Waits,
            RequestKind::Release => self.variant != Variant::StateReadAtTheReply,
            RequestKind::Extend | RequestKind::Refill(_) => false,
        }
    }

    /// A key exists at least as long as the validity that it counts for. It was set after the start of the round, and
    /// the drift allowance compensates for the clocks. An ended lease has no validity left.
    fn may_expire(self, state: &State, node: usize) -> bool {
        state.nodes[node].key.is_some_and(|key| {
            let owner = &state.clients[usize::from(key.client)];
            owner.has_ended(usize::from(key.attempt))
                || key.round < owner.lapsed
                || self.variant == Variant::KeysExpireEarly
        })
    }
}

impl Rule for Protocol {
    type Scope = Scope;
    type Variant = Variant;

    const SOUND: Variant = Variant::Sound;

    fn broken(scope: Scope, variant: Variant) -> Self {
        let fits =
            |counts: [u8; CLIENTS], most: usize| counts.iter().all(|count| usize::from(*count) <= most);
        assert!(fits(scope.attempts, ATTEMPTS) && fits(scope.extensions, EXTENSIONS), "too large: {scope}");
        Self { scope, variant }
    }
}

impl Model for Protocol {
    type State = State;
    type Step = Step;
    type Property = Property;

    const PROPERTIES: &'static [Property] = &PROPERTIES;

    fn first(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        Self::steps(self, state, steps);
    }

    fn next(&self, state: &State, step: Step) -> State {
        self.apply(state, step, &mut |_| {})
    }

    fn key(&self, state: &State) -> impl AsRef<[u64]> {
        state.key()
    }

    fn holds(&self, property: Property, state: &State) -> bool {
        property.holds(state)
    }
}
