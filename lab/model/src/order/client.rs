//! The behavior of clients: their requests, and what follows from the replies.

use crate::decision::Decision;
use crate::order::protocol::Turns;
use crate::order::scope::{CLIENTS, NODES, QUORUM};
use crate::order::state::{Client, Fate, Key, Kind, Message, Phase, State, Vote};
use crate::order::turns::note_overtaken;
use crate::order::variant::Variant;

/// A release without a place.
pub(crate) const UNNAMED: Kind = Kind::Release { place: Fate::Unnamed, open: false };

/// A release that enters a place again.
pub(crate) const KEPT: Kind = Kind::Release { place: Fate::Kept, open: false };

/// The end of a place.
pub(crate) const LEFT: Kind = Kind::Release { place: Fate::Left, open: false };

impl Turns {
    /// Releases a failed attempt on the nodes that have replied. The others follow when they reply, with the place if the
    /// request still waits and has made no other attempt.
    pub(crate) fn give_back(self, state: &mut State, number: usize, penalty: u8, open: bool) {
        let votes = state.nodes.map(|node| node.links[number].vote);
        let is_usable = votes.iter().filter(|vote| **vote == Vote::Failed).count() < QUORUM;
        let keeps = is_usable && !self.is_foreign(number);
        let is_granted = votes.iter().any(|vote| matches!(vote, Vote::Granted | Vote::GrantedAndLost));
        let client = &mut state.clients[number];
        let had_place = !client.plain;
        client.penalty = if is_usable { client.penalty + penalty } else { 0 };
        state.open_turns += u8::from(open);
        // A node that denies an attempt with a place has entered it, unless the order changes with the split.
        let is_entered = |vote| had_place && vote == Vote::Denied && !is_granted;
        let release = |place| Kind::Release { place, open };
        let kept = |vote| keeps && vote != Vote::Pending && !is_entered(vote);
        send(state, number, release(Fate::Unnamed), |vote| vote != Vote::Pending && !kept(vote));
        send(state, number, release(Fate::Kept), kept);
        if had_place && !keeps {
            send(state, number, LEFT, |_| true);
        }
        end(state, number, Phase::Waiting);
        state.clients[number].plain = !keeps;
    }

    pub(crate) fn release_lock(self, state: &mut State, number: usize, open: bool, next: Option<bool>) {
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
                link.send(Message { kind: KEPT, penalty, ..message });
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
        if admitted && placed && !granted {
            state.nodes[node].links[client].denied_by = state.nodes[node].key;
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
            match Decision::of(granted, pending, QUORUM) {
                Decision::Open => {}
                Decision::Won => {
                    state.clients[number].phase = Phase::Held;
                    note_overtaken(state, number);
                    if !state.clients[number].plain && self.variant != Variant::LockKeepsItsPlace {
                        send(state, number, LEFT, |vote| vote == Vote::Denied);
                    }
                }
                Decision::Lost => state.clients[number].phase = Phase::Failed,
            }
        }
    }
}

pub(crate) fn attempt(state: &mut State, number: usize, placed: bool) {
    let client = &mut state.clients[number];
    client.phase = Phase::Trying;
    client.attempt += 1;
    client.tries += 1;
    client.plain = !placed;
    send_acquires(state, number);
}

/// Sends the acquires of an attempt.
pub(crate) fn send_acquires(state: &mut State, number: usize) {
    for node in &mut state.nodes {
        node.links[number].vote = Vote::Pending;
    }
    let placed = !state.clients[number].plain;
    send(state, number, Kind::Acquire { placed }, |_| true);
}

pub(crate) fn begin(state: &mut State, number: usize, later: bool) {
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
        (node.links[number].vote, node.links[number].denied_by) = (Vote::None, Key::Absent);
        node.lost_by &= !(1 << number);
    }
}

/// Sends a request to the nodes with such a vote. A release that cannot change anything is not sent.
pub(crate) fn send(state: &mut State, number: usize, kind: Kind, to: impl Fn(Vote) -> bool) {
    let Client { attempt, requests, penalty, .. } = state.clients[number];
    let message = Message { kind, attempt, request: requests - 1, penalty };
    for link in state.nodes.iter_mut().map(|node| &mut node.links[number]) {
        let is_void = kind == UNNAMED && link.vote == Vote::Denied && link.stray.is_none();
        if to(link.vote) && !is_void {
            link.send(message);
        }
    }
}
