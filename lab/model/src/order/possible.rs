//! The possible steps in a state.

use crate::order::protocol::Turns;
use crate::order::scope::{Fault, MOST_PENALTY, QUORUM};
use crate::order::state::{Client, Fate, Key, Kind, Phase, Place, State};
use crate::order::step::Step;
use crate::order::variant::Variant;

impl Turns {
    pub(crate) fn steps_of_client(self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
        let has_room = state.nodes.iter().all(|node| node.links[number].has_room());
        let faulty = state.faults < self.scope.faults;
        let opens: &[bool] = if state.open_turns < self.scope.open_turns { &[false, true] } else { &[false] };
        match client.phase {
            Phase::Idle if client.requests < self.scope.requests[number] && has_room => {
                for later in [true, false] {
                    if later || state.epoch > 0 {
                        if self.scope.plain || self.is_foreign(number) {
                            steps.push(Step::Begin { client: number, later, placed: false });
                        }
                        if !self.is_foreign(number) {
                            steps.push(Step::Begin { client: number, later, placed: true });
                        }
                    }
                }
            }
            Phase::Waiting if client.tries < self.scope.attempts && has_room => {
                steps.push(Step::Attempt { client: number });
            }
            Phase::Failed => {
                let is_split = !client.plain && state.is_split(number) && client.penalty < MOST_PENALTY;
                let penalties: &[u8] = if is_split { &[0, 2] } else { &[0] };
                for (penalty, open) in
                    penalties.iter().flat_map(|penalty| opens.iter().map(move |open| (*penalty, *open)))
                {
                    steps.push(Step::GiveBack { client: number, penalty, open });
                }
            }
            Phase::Held => {
                let has_next =
                    self.scope.next && !client.plain && client.requests < self.scope.requests[number];
                let nexts: &[Option<bool>] =
                    if has_next { &[None, Some(true), Some(false)] } else { &[None] };
                steps.extend(nexts.iter().map(|next| Step::Release {
                    client: number,
                    open: false,
                    next: *next,
                }));
                if opens.len() > 1 {
                    steps.push(Step::Release { client: number, open: true, next: None });
                }
            }
            _ => {}
        }
        if self.scope.leaves && matches!(client.phase, Phase::Trying | Phase::Waiting) {
            steps.push(Step::Leave { client: number });
        }
        let lives = !matches!(client.phase, Phase::Idle | Phase::Failed | Phase::Dead);
        if faulty && lives && self.scope.kinds.contains(&Fault::Death) {
            steps.push(Step::Fault { kind: Fault::Death, client: number, node: 0 });
        }
    }

    pub(crate) fn steps_of_node(self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let node = &state.nodes[number];
        for (client, link) in node.links.iter().enumerate() {
            if let Some(message) = link.queue[0] {
                let is_entered = *{ *node }.entry(Place { client, request: message.request }) > 0;
                let has_score = match message.kind {
                    Kind::Acquire { placed } => placed,
                    Kind::Release { place, .. } => place == Fate::Next || place == Fate::Kept && !is_entered,
                };
                steps.push(Step::Carry { client, node: number, delay: 0 });
                if has_score && self.scope.delays {
                    steps.push(Step::Carry { client, node: number, delay: 1 });
                }
            }
            if link.stray.is_some() {
                steps.push(Step::CarryStray { client, node: number });
            }
        }
        if self.may_expire(state, number) {
            steps.push(Step::Expire { node: number });
        }
        if state.faults < self.scope.faults {
            self.faults_of_node(state, number, steps);
        }
    }

    fn faults_of_node(self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let node = &state.nodes[number];
        for &kind in self.scope.kinds {
            let fault = |client: usize| Step::Fault { kind, client, node: number };
            match kind {
                Fault::Late | Fault::Repeat => {
                    let mut links = node.links.iter().enumerate();
                    let possible =
                        links.by_ref().filter(|(_, link)| link.queue[0].is_some() && link.stray.is_none());
                    steps.extend(possible.map(|(client, _)| fault(client)));
                }
                Fault::NoReply => {
                    for (client, link) in node.links.iter().enumerate() {
                        let awaited = link.queue[0].is_some_and(|message| state.is_awaited(client, message));
                        if awaited {
                            steps.push(fault(client));
                        }
                    }
                }
                Fault::Death => {}
                Fault::Pause => {
                    let ends = match node.key {
                        Key::Absent => false,
                        Key::Token { client, attempt } => state.has_ended(client, attempt),
                        Key::Reserved(_) => true,
                    };
                    if ends && !self.may_expire(state, number) {
                        steps.push(fault(0));
                    }
                }
                Fault::Loss => steps.push(fault(0)),
                Fault::LossOfWaiters | Fault::ClockStep => {
                    if node.first().is_some() {
                        steps.push(fault(0));
                    }
                }
            }
        }
    }

    /// A key expires when its attempt has ended, and a reservation unless its client is about to use it.
    fn may_expire(self, state: &State, number: usize) -> bool {
        match state.nodes[number].key {
            Key::Absent => false,
            Key::Token { client, attempt } => {
                let owner = &state.clients[client];
                let is_released = state.nodes[number].links[client].queue[0].is_some();
                state.has_ended(client, attempt) && (owner.phase == Phase::Dead || !is_released)
            }
            Key::Reserved(_) if self.variant == Variant::ReservationsDoNotExpire => false,
            Key::Reserved(place) => {
                let Client { phase, tries, .. } = state.clients[place.client];
                let waits = phase == Phase::Waiting && tries > 0;
                !state.is_living(place) || waits && !state.is_in_flight() && !self.is_ready(state, place)
            }
        }
    }

    /// Returns true if a quorum of nodes is absent or reserved for the place, or if any node is reserved for it and too few
    /// nodes hold a lock to explain the others.
    pub(crate) fn is_ready(self, state: &State, place: Place) -> bool {
        let count = |key: Key| state.nodes.iter().filter(|node| node.key == key).count();
        let (own, absent) = (count(Key::Reserved(place)), count(Key::Absent));
        let unlocked =
            || state.nodes.iter().map(|node| node.key).filter(|key| !matches!(key, Key::Token { .. }));
        let is_split = || own > 0 && unlocked().count() >= QUORUM;
        own + absent >= QUORUM || self.variant != Variant::MinorityWaits && is_split()
    }
}
