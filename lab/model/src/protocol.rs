//! The protocol as a machine: which steps are possible in a state, and what each of them does.

use crate::client::World;
use crate::explore::Model;
use crate::property::{PROPERTIES, Property};
use crate::pursuit::Undo;
use crate::scope::{ATTEMPTS, CLIENTS, EXTENSIONS, NODES, Scope, Transport};
use crate::state::{Extension, Flight, Order, Phase, State};
use crate::step::{Asks, Event, Request, Step};
use crate::variant::Variant;

/// The rules, within bounds, sound or with one of them broken.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The bounds.
    pub scope: Scope,
    /// Which rule is broken, if one is.
    pub variant: Variant,
}

impl Protocol {
    /// The sound protocol.
    ///
    /// # Panics
    ///
    /// When the scope asks for more attempts or extensions than there is room for.
    pub fn new(scope: Scope) -> Self {
        Self::broken(scope, Variant::Sound)
    }

    /// With one rule broken.
    ///
    /// # Panics
    ///
    /// As [`new`](Protocol::new).
    pub fn broken(scope: Scope, variant: Variant) -> Self {
        let fits =
            |counts: [u8; CLIENTS], most: usize| counts.iter().all(|count| usize::from(*count) <= most);
        assert!(fits(scope.attempts, ATTEMPTS) && fits(scope.extensions, EXTENSIONS), "too large: {scope}");
        Self { scope, variant }
    }

    /// What a step leads to; `see` is told what clients see of it.
    pub fn apply(&self, state: &State, step: Step, see: &mut dyn FnMut(Event)) -> State {
        let mut next = *state;
        World { protocol: self, state: &mut next, see }.apply(step);
        next
    }

    /// Everything that can happen next.
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
            Phase::Idle if is.attempts < self.scope.attempts[client] => steps.push(Step::Ask { client }),
            Phase::Idle => {}
            Phase::Asking => {
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
        let mut flight = |flight: Flight, attempt: usize, asks: Asks, blocked: bool| {
            let request = Request { client, attempt, node, asks };
            let at_once = flight == Flight::Sent && self.is_heard_at_once(state, request);
            if flight.is_under_way() && !blocked {
                steps.push(Step::Carry(request));
                if at_once && faulty {
                    steps.push(Step::CarryUnanswered(request));
                }
            }
            if flight.is_answered() {
                steps.push(Step::Answer(request));
            }
            // A release that is lost before it is carried out is sent again: as if it were under way all the while.
            if flight.is_open() && faulty && (flight.is_answered() || asks != Asks::Release) {
                steps.push(Step::Fail(request));
            }
        };
        flight(link.extend, current, Asks::Extend, false);
        for (attempt, part) in link.attempts.iter().enumerate() {
            flight(part.acquire, attempt, Asks::Acquire, false);
            for (number, refill) in part.refills.iter().enumerate() {
                flight(*refill, attempt, Asks::Refill(number), false);
            }
            let blocked = part.undo == Undo::First
                && part.writes().any(|write| write == Flight::Late(Order::BeforeRelease));
            flight(part.release, attempt, Asks::Release, blocked);
        }
        for (attempt, part) in link.attempts.iter().enumerate() {
            let acquire = Request { client, attempt, node, asks: Asks::Acquire };
            let datagrams = self.scope.transport == Transport::Datagrams;
            if part.acquire == Flight::Sent && datagrams && faulty {
                steps.push(Step::CarryTwice(acquire));
            }
            if part.copy {
                steps.push(Step::CarryCopy(acquire));
            }
            if part.undo.is_owed() && self.variant == Variant::ChaseEndsWithTime {
                steps.push(Step::GiveUp { client, attempt, node });
            }
            let calls = part.writes().chain([part.release]);
            let ordered = |flight: Flight| {
                flight.is_open() || matches!(flight, Flight::Late(Order::Connection | Order::BeforeRelease))
            };
            connected |= part.trace.on_connection || calls.into_iter().any(ordered);
        }
        if connected && faulty && self.scope.transport == Transport::Streams {
            steps.push(Step::Break { client, node });
        }
    }

    /// Whether nothing depends on when the answer arrives, but what the client owes this node: then it need not be looked
    /// at later, since what follows from it (another release) can be carried out as late.
    pub(crate) fn is_heard_at_once(self, state: &State, request: Request) -> bool {
        let part = &state.nodes[request.node].links[request.client].attempts[request.attempt];
        match request.asks {
            Asks::Acquire => part.undo == Undo::Waits,
            Asks::Release => self.variant != Variant::TraceReadAtTheAnswer,
            Asks::Extend | Asks::Refill(_) => false,
        }
    }

    /// A key stands at least as long as the validity that it counts for: it was set after the round had begun, and the
    /// drift allowance makes up for the clocks. Whose lease has ended has no validity that anything could be counted for.
    fn may_expire(self, state: &State, node: usize) -> bool {
        state.nodes[node].key.is_some_and(|key| {
            let owner = &state.clients[usize::from(key.client)];
            owner.has_ended(usize::from(key.attempt))
                || key.round < owner.lapsed
                || self.variant == Variant::KeysExpireEarly
        })
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
