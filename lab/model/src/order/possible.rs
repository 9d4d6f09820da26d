//! The possible steps in a state.

use crate::order::protocol::Turns;
use crate::order::scope::{CLIENTS, Fault, MOST_PENALTY, NODES, PENALTY_OF_MANY, QUORUM};
use crate::order::state::{Client, Key, Phase, Place, State};
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
            Phase::Waiting => {
                if client.tries < self.scope.attempts && has_room {
                    steps.push(Step::Attempt { client: number });
                }
                let nodes = (0..NODES).filter(|node| self.may_enter(state, number, *node));
                steps.extend(nodes.map(|node| Step::Enter { client: number, node }));
            }
            Phase::Failed => {
                for open in opens.iter().copied() {
                    let give_back = |penalty| Step::GiveBack { client: number, penalty, open };
                    steps.extend(self.penalties(state, number).map(give_back));
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
                let most = if message.kind.may_enter() { self.scope.delays } else { 0 };
                steps.extend((0..=most).map(|delay| Step::Carry { client, node: number, delay }));
            }
            if link.stray.is_some() {
                steps.push(Step::CarryStray { client, node: number });
            }
        }
        if self.may_expire(state, number) {
            steps.push(Step::Expire { node: number });
        }
        for client in 0..CLIENTS {
            let places = (0..state.clients[client].requests).map(|request| Place { client, request });
            if places.into_iter().any(|place| self.may_forget(state, number, place)) {
                steps.push(Step::Forget { client, node: number });
            }
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

    /// Returns the penalties that a failed attempt may add: a split moves the time of its request, or does not.
    fn penalties(self, state: &State, number: usize) -> impl Iterator<Item = u8> {
        let client = &state.clients[number];
        let moves = self.variant == Variant::DenialsMoveTheTime
            && state.is_granted_in_part(number)
            && state.is_denied_by_one(number);
        let is_split = state.is_split(number) && client.penalty < MOST_PENALTY;
        let added = match client.plain {
            true => None,
            // As long as the lock is held, attempts follow, and each moves the time.
            _ if self.variant == Variant::SplitsMoveNothing => None,
            false if moves => Some(PENALTY_OF_MANY - client.penalty),
            false => is_split.then_some(MOST_PENALTY),
        };
        [0].into_iter().chain(added)
    }

    /// Returns true if a request enters its place again on a node, because its reservation has ended there, or the node has
    /// lost the place.
    fn may_enter(self, state: &State, client: usize, node: usize) -> bool {
        let place = state.place(client);
        let mut node = state.nodes[node];
        let is_known = *node.entry(place) > 0 || node.key == Key::Reserved(place);
        let has_replied = node.links[client].queue[0].is_none();
        self.scope.enters
            && state.clients[client].tries > 0
            && state.is_living(place)
            && has_replied
            && !is_known
    }

    /// Returns true if a place ends, because its request has made no attempt for a time that no message takes.
    pub(crate) fn may_forget(self, state: &State, node: usize, place: Place) -> bool {
        let lives = state.is_living(place);
        let ends = match self.variant {
            Variant::PlacesOfTheDeadStay => false,
            Variant::PlacesOfTheLivingEnd => true,
            _ => !lives,
        };
        let link = &state.nodes[node].links[place.client];
        ends && link.queue[0].is_none() && *{ state.nodes[node] }.entry(place) > 0
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
