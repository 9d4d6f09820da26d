//! The possible steps in a state, and their effects.

use std::mem;

use crate::catalog::Rule;
use crate::explore::Model;
use crate::order::property::{PROPERTIES, Property};
use crate::order::scope::{ATTEMPTS, CLIENTS, Fault, MOST_PENALTY, NODES, QUORUM, REQUESTS, Role, Scope};
use crate::order::state::{Client, Fate, Key, Kind, Message, Phase, Place, State, Vote};
use crate::order::step::Step;
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

    fn steps_of_client(self, state: &State, number: usize, steps: &mut Vec<Step>) {
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

    fn steps_of_node(self, state: &State, number: usize, steps: &mut Vec<Step>) {
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

    fn apply(self, state: &mut State, step: Step) {
        match step {
            Step::Begin { client, later, placed } => {
                begin(state, client, later);
                attempt(state, client, placed);
            }
            Step::Attempt { client } => attempt(state, client, !state.clients[client].plain),
            Step::GiveBack { client, penalty, open } => self.give_back(state, client, penalty, open),
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
            Step::Fault { kind, client, node } => {
                state.faults += 1;
                state.clients.iter_mut().for_each(Client::forget_turns);
                self.fault(state, kind, client, node);
            }
        }
        self.decide(state);
        note_entered(state);
    }

    /// Releases a failed attempt on the nodes that have replied. The others follow when they reply, with the place if the
    /// request still waits and has made no other attempt.
    pub(crate) fn give_back(self, state: &mut State, number: usize, penalty: u8, open: bool) {
        let votes = state.nodes.map(|node| node.links[number].vote);
        let is_usable = votes.iter().filter(|vote| **vote == Vote::Failed).count() < QUORUM;
        let keeps = is_usable && !self.is_foreign(number);
        let client = &mut state.clients[number];
        let had_place = !client.plain;
        client.penalty = if is_usable { client.penalty + penalty } else { 0 };
        state.open_turns += u8::from(open);
        let place = if keeps { Fate::Kept } else { Fate::Unnamed };
        send(state, number, Kind::Release { place, open }, |vote| vote != Vote::Pending);
        if had_place && !keeps {
            send(state, number, LEFT, |_| true);
        }
        end(state, number, Phase::Waiting);
        state.clients[number].plain = !keeps;
    }

    fn release_lock(self, state: &mut State, number: usize, open: bool, next: Option<bool>) {
        state.open_turns += u8::from(open);
        let place = if next.is_some() { Fate::Next } else { Fate::Unnamed };
        send(state, number, Kind::Release { place, open }, |_| true);
        // A denial that arrives later removes the place.
        if !state.clients[number].plain && self.variant != Variant::LockKeepsItsPlace {
            send(state, number, LEFT, |vote| vote == Vote::Pending);
        }
        end(state, number, Phase::Idle);
        if let Some(later) = next {
            begin(state, number, later);
            state.clients[number].phase = Phase::Waiting;
        }
    }

    /// Records the reply to a request, and sends what follows from it.
    pub(crate) fn reply(
        self,
        state: &mut State,
        node: usize,
        client: usize,
        message: Message,
        granted: bool,
    ) {
        let Kind::Acquire { placed } = message.kind else { return };
        if !state.is_awaited(client, message) {
            let Client { phase, attempt, requests, plain, penalty, .. } = state.clients[client];
            let is_current = (requests, attempt) == (message.request + 1, message.attempt) && !plain;
            let waits = is_current && matches!(phase, Phase::Waiting | Phase::Failed);
            let link = &mut state.nodes[node].links[client];
            if phase == Phase::Held && attempt == message.attempt {
                link.vote = if granted { Vote::Granted } else { Vote::Denied };
                if placed && !granted && self.variant != Variant::LockKeepsItsPlace {
                    link.send(Message { kind: LEFT, ..message });
                }
            } else if waits {
                // The node enters the place, or the penalty.
                let kind = Kind::Release { place: Fate::Kept, open: false };
                link.send(Message { kind, penalty, ..message });
            } else if phase != Phase::Dead && (granted || link.stray.is_some()) {
                link.release(message);
            }
            return;
        }
        let admitted = state.nodes[node].lost_by & !(1 << client) == 0;
        state.nodes[node].links[client].vote = match (admitted, granted) {
            (false, _) => Vote::Failed,
            (true, true) => Vote::Granted,
            (true, false) => Vote::Denied,
        };
    }

    fn fault(self, state: &mut State, kind: Fault, client: usize, number: usize) {
        let node = &mut state.nodes[number];
        match kind {
            Fault::Late | Fault::Repeat | Fault::NoReply => {
                let Some(message) = node.links[client].take() else { return };
                if kind != Fault::NoReply {
                    node.links[client].stray = Some(message);
                }
                let granted = kind != Fault::Late && self.carry_out(state, number, client, message, 0);
                if kind == Fault::Repeat {
                    self.reply(state, number, client, message, granted);
                } else if state.is_awaited(client, message) {
                    state.nodes[number].links[client].vote = Vote::Failed;
                } else if kind == Fault::Late
                    && matches!(message.kind, Kind::Release { place, .. } if place != Fate::Left)
                {
                    state.nodes[number].links[client].release(message);
                }
            }
            Fault::Death => end(state, client, Phase::Dead),
            Fault::Pause => {
                node.key = Key::Absent;
                state.opened = true;
            }
            Fault::Loss => {
                (node.key, node.waiters) = Default::default();
                state.opened = true;
                for (client, owner) in state.clients.iter().enumerate() {
                    if matches!(owner.phase, Phase::Trying | Phase::Held) {
                        node.lost_by |= 1 << client;
                    }
                    let vote = &mut node.links[client].vote;
                    if *vote == Vote::Granted {
                        *vote = Vote::GrantedAndLost;
                    }
                }
            }
            Fault::LossOfWaiters => node.waiters = Default::default(),
            Fault::ClockStep => {
                for score in node.waiters.iter_mut().flatten().filter(|score| **score > 0) {
                    *score += 4;
                }
            }
        }
    }

    /// Decides every attempt whose result is certain.
    pub(crate) fn decide(self, state: &mut State) {
        for number in 0..CLIENTS {
            if state.clients[number].phase != Phase::Trying {
                continue;
            }
            let place = state.place(number);
            let counts = |node: usize| {
                let granted =
                    matches!(state.nodes[node].links[number].vote, Vote::Granted | Vote::GrantedAndLost);
                let reserved = state.nodes[node].key == Key::Reserved(place);
                granted || reserved && self.variant == Variant::ReservationIsAVote
            };
            let granted = (0..NODES).filter(|node| counts(*node)).count();
            let pending = state.nodes.iter().filter(|node| node.links[number].vote == Vote::Pending).count();
            if granted >= QUORUM {
                state.clients[number].phase = Phase::Held;
                note_overtaken(state, number);
                if !state.clients[number].plain && self.variant != Variant::LockKeepsItsPlace {
                    send(state, number, LEFT, |vote| vote == Vote::Denied);
                }
            } else if granted + pending < QUORUM {
                state.clients[number].phase = Phase::Failed;
            }
        }
    }
}

fn attempt(state: &mut State, number: usize, placed: bool) {
    let client = &mut state.clients[number];
    client.phase = Phase::Trying;
    client.attempt += 1;
    client.tries += 1;
    client.plain = !placed;
    send_acquires(state, number);
}

/// A release without a place.
const UNNAMED: Kind = Kind::Release { place: Fate::Unnamed, open: false };

/// The end of a place.
const LEFT: Kind = Kind::Release { place: Fate::Left, open: false };

/// Sends the acquires of an attempt.
pub(crate) fn send_acquires(state: &mut State, number: usize) {
    for node in &mut state.nodes {
        node.links[number].vote = Vote::Pending;
    }
    let placed = !state.clients[number].plain;
    send(state, number, Kind::Acquire { placed }, |_| true);
}

fn begin(state: &mut State, number: usize, later: bool) {
    state.epoch += u8::from(later);
    let client = &mut state.clients[number];
    client.begins[usize::from(client.requests)] = state.epoch;
    client.requests += 1;
    (client.tries, client.penalty, client.entered, client.overtaken) = (0, 0, false, 0);
}

/// Ends an attempt or a lock.
pub(crate) fn end(state: &mut State, number: usize, phase: Phase) {
    let client = &mut state.clients[number];
    client.phase = phase;
    client.plain = false;
    if phase != Phase::Waiting {
        client.forget_turns();
    }
    for node in &mut state.nodes {
        node.links[number].vote = Vote::None;
        node.lost_by &= !(1 << number);
    }
}

/// Sends a request to the nodes with such a vote. A release that cannot change anything is not sent.
fn send(state: &mut State, number: usize, kind: Kind, to: impl Fn(Vote) -> bool) {
    let Client { attempt, requests, penalty, .. } = state.clients[number];
    let message = Message { kind, attempt, request: requests - 1, penalty };
    for link in state.nodes.iter_mut().map(|node| &mut node.links[number]) {
        let is_void = kind == UNNAMED && link.vote == Vote::Denied && link.stray.is_none();
        if to(link.vote) && !is_void {
            link.send(message);
        }
    }
}

/// Counts the turn of a client for each waiter that has been overtaken.
fn note_overtaken(state: &mut State, winner: usize) {
    let Client { plain, requests, begins, .. } = state.clients[winner];
    let began = |client: &Client| client.begins[usize::from(client.requests.max(1)) - 1];
    let own = begins[usize::from(requests) - 1];
    let opened = state.opened;
    for client in state.clients.iter_mut().filter(|client| client.entered && began(client) < own) {
        if plain {
            state.barged |= !opened;
        } else {
            client.overtaken = (client.overtaken + 1).min(7);
        }
    }
}

/// Notes which places are entered on all nodes.
fn note_entered(state: &mut State) {
    for number in 0..CLIENTS {
        let place = state.place(number);
        let known = |node: usize| {
            let mut node = state.nodes[node];
            node.key == Key::Reserved(place) || *node.entry(place) > 0
        };
        let entered = state.is_living(place) && (0..NODES).all(known);
        state.clients[number].entered |= entered;
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

    const PROPERTIES: &'static [Property] = &PROPERTIES;

    fn first(&self) -> State {
        let mut state = State::default();
        let holder = self.scope.roles.iter().rposition(|role| *role != Role::Absent);
        if let Some(client) = holder.filter(|_| self.scope.held) {
            state.clients[client] =
                Client { phase: Phase::Held, requests: 1, attempt: 1, ..Client::default() };
            for node in &mut state.nodes {
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
