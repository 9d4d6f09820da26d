//! The rule of a node. It contains most broken variants.

use crate::order::protocol::Turns;
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
        let score = self.score(state, client, message, delay);
        let node = &mut state.nodes[number];
        match message.kind {
            Kind::Acquire { placed } => {
                self.acquire(node, client, message.attempt, placed.then_some((place, score)))
            }
            Kind::Release { place: fate, open } => {
                if fate == Fate::LeftToNext {
                    let next = Place { request: place.request + 1, ..place };
                    let begin = state.clients[client].begins[usize::from(next.request)];
                    *node.entry(next) = 4 * begin + delay + 1;
                }
                let hands_over = !open && !self.is_foreign(client);
                let deleted = self.release(node, message, place, score, hands_over);
                state.opened |= deleted && !hands_over;
                false
            }
        }
    }

    /// Returns the score of a place: the time at which its request began, as the node sees it, and the penalty.
    fn score(self, state: &State, client: usize, message: Message, delay: u8) -> u8 {
        let begin = state.clients[client].begins[usize::from(message.request)];
        let score = 4 * begin + delay + message.penalty + 1;
        // The clock of the last client is slow.
        let is_slow = self.variant == Variant::ClientClockIsTheScore && client > 0;
        if is_slow { score.saturating_sub(6).max(1) } else { score }
    }

    fn acquire(self, node: &mut Node, client: usize, attempt: u8, place: Option<(Place, u8)>) -> bool {
        let token = Key::Token { client, attempt };
        if node.key == token {
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
            let ahead = node.first(Some(place)).filter(|(first, _)| *first < score);
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
        let left = matches!(fate, Fate::Left | Fate::LeftToNext);
        if fate == Fate::Kept && self.variant != Variant::FailedAttemptLosesItsPlace {
            *node.entry(place) = score;
        }
        if left && self.variant != Variant::LeavingStaysAWaiter {
            *node.entry(place) = 0;
        }
        let held = node.key == Key::Token { client: place.client, attempt: message.attempt };
        let reserved =
            node.key == Key::Reserved(place) && self.variant != Variant::LeavingKeepsItsReservation;
        let counts = held
            || left && (reserved || self.variant == Variant::LeavingComparesNothing)
            || self.variant == Variant::ReleaseDeletesAnyReservation && matches!(node.key, Key::Reserved(_))
            || self.variant == Variant::ReleaseComparesNothing;
        if !counts || node.key == Key::Absent {
            return false;
        }
        node.key = Key::Absent;
        let next = if self.variant == Variant::LastComeFirstServed { node.last() } else { node.first(None) };
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
