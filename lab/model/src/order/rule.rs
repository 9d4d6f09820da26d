//! The rule of a node. It contains most broken variants.

use crate::order::protocol::Turns;
use crate::order::scope::MOST_PENALTY;
use crate::order::state::{Fate, Key, Kind, Message, Node, Place, State};
use crate::order::variant::Variant;

impl Turns {
    /// Carries out a request. Returns true if it was an acquire that is granted.
    pub(crate) fn carry_out(
        self,
        state: &mut State,
        number: usize,
        client: usize,
        message: Message,
        delay: u8,
    ) -> bool {
        let place = Place { client, request: message.request };
        let score = self.score(state, place, message.penalty, delay);
        if matches!(message.kind, Kind::Release { place: Fate::Next, .. }) {
            let next = Place { request: place.request + 1, ..place };
            *state.nodes[number].entry(next) = self.score(state, next, 0, delay);
        }
        let node = &mut state.nodes[number];
        match message.kind {
            Kind::Acquire { placed } => {
                self.acquire(node, client, message.attempt, placed.then_some((place, score)))
            }
            Kind::Release { open, .. } => {
                let hands_over = !open && !self.is_foreign(client);
                let no_waiter = node.first().is_none();
                let deleted = self.release(node, message, place, score, hands_over);
                state.opened |= deleted && (no_waiter || !hands_over);
                false
            }
        }
    }

    /// Returns the score of a place: the time at which its request began, as the node sees it, and the penalty.
    fn score(self, state: &State, place: Place, penalty: u8, delay: u8) -> u8 {
        let begin = state.clients[place.client].begins[usize::from(place.request)];
        // Neither a delay nor a penalty reaches the next epoch.
        let epoch = self.scope.delays.max(1) + MOST_PENALTY + 1;
        let score = epoch * begin + delay + penalty + 1;
        // The clock of the first client is fast.
        let is_slow = self.variant == Variant::ClientClockIsTheScore && place.client > 0;
        if is_slow { score.saturating_sub(6).max(1) } else { score }
    }

    /// Returns the score of a place if the next request of its client enters it without a delay.
    pub fn next_score(self, state: &State, client: usize, node: usize) -> Option<u8> {
        let Message { kind, request, penalty, .. } = state.nodes[node].links[client].queue[0]?;
        kind.may_enter().then(|| self.score(state, Place { client, request }, penalty, 0))
    }

    fn acquire(self, node: &mut Node, client: usize, attempt: u8, place: Option<(Place, u8)>) -> bool {
        let token = Key::Token { client, attempt };
        if node.key == token {
            if let Some((place, _)) = place {
                *node.entry(place) = 0;
            }
            return true;
        }
        let is_reserved = match (node.key, place) {
            (Key::Reserved(owner), Some((place, _))) => {
                let own = owner == place && self.variant != Variant::OwnReservationDenies;
                own || self.variant == Variant::AcquireTakesAnyReservation
            }
            _ => false,
        };
        let free = node.key == Key::Absent || is_reserved;
        let Some((place, score)) = place else {
            if free {
                node.key = token;
            }
            return free;
        };
        if node.key == Key::Absent && self.variant != Variant::FirstComeFirstServed {
            let ahead = node.first().filter(|(least, first)| *first != place && *least < score);
            if let Some((_, first)) = ahead {
                self.reserve(node, first);
                *node.entry(place) = score;
                return false;
            }
        }
        if free {
            node.key = token;
            *node.entry(place) = 0;
        } else {
            *node.entry(place) = score;
        }
        free
    }

    /// Returns true if it deletes a key.
    fn release(self, node: &mut Node, message: Message, place: Place, score: u8, hands_over: bool) -> bool {
        let Kind::Release { place: fate, .. } = message.kind else { return false };
        let left = fate == Fate::Left;
        let is_reserved = node.key == Key::Reserved(place);
        if fate == Fate::Kept && (!is_reserved || self.variant == Variant::ReservedPlaceIsEntered) {
            *node.entry(place) = score;
        }
        if left && self.variant != Variant::LeavingStaysAWaiter {
            *node.entry(place) = 0;
        }
        let held = !left && node.key == Key::Token { client: place.client, attempt: message.attempt };
        let reserved = is_reserved && self.variant != Variant::LeavingKeepsItsReservation;
        let counts = held
            || left && (reserved || self.variant == Variant::LeavingComparesNothing)
            || self.variant == Variant::ReleaseDeletesAnyReservation && matches!(node.key, Key::Reserved(_))
            || self.variant == Variant::ReleaseComparesNothing;
        if !counts || node.key == Key::Absent {
            return false;
        }
        node.key = Key::Absent;
        let next = if self.variant == Variant::LastComeFirstServed { node.last() } else { node.first() };
        match next {
            Some((_, next)) if hands_over && self.variant != Variant::ReleaseHandsOverToNobody => {
                self.reserve(node, next);
            }
            _ => {}
        }
        true
    }

    fn reserve(self, node: &mut Node, place: Place) {
        node.key = Key::Reserved(place);
        if self.variant != Variant::HandOverKeepsTheWaiter {
            *node.entry(place) = 0;
        }
    }
}
