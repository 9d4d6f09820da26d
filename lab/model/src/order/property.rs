//! The properties of the order of waiters.

use crate::order::protocol::Turns;
use crate::order::scope::{CLIENTS, NODES};
use crate::order::state::{Key, Phase, Place, State, Vote};

named! {
    /// A property of the order of waiters.
    pub enum Property {
        /// At most one client holds the lock.
        Exclusion = "exclusion",
        /// The key of a lock exists on every node that counted for it, unless the node lost its data.
        CountedKeysExist = "counted keys exist",
        /// A waiter is overtaken a bounded number of times by requests with a place that began later.
        Order = "order",
        /// No plain attempt overtakes a waiter before a key became absent.
        NoBarging = "no barging",
        /// The first waiter to acquire the lock waits for no more ends of reservations than there are places of ended requests.
        Progress = "progress",
        /// No place of an ended request is left once all requests have been carried out; after faults, once a node has heard
        /// nothing of it for a long time.
        NothingLeft = "nothing left behind",
    }
}

impl Property {
    /// Returns true if the property holds in a state.
    pub(crate) fn holds(self, model: Turns, state: &State) -> bool {
        match self {
            Self::Exclusion => state.clients.iter().filter(|client| client.phase == Phase::Held).count() <= 1,
            Self::CountedKeysExist => (0..CLIENTS).all(|client| {
                let Some(attempt) = held(state, client) else { return true };
                let exists = |key: Key| key == Key::Token { client, attempt };
                state.nodes.iter().all(|node| node.links[client].vote != Vote::Granted || exists(node.key))
            }),
            Self::Order => state.clients.iter().all(|client| client.overtaken <= model.scope.overtaken),
            Self::NoBarging => !state.barged,
            Self::Progress => model.has_progress(state),
            Self::NothingLeft => state.is_in_flight() || nothing_left(&model.later(*state)),
        }
    }
}

impl Turns {
    /// Returns a state after faults, once all that nodes keep for a time has ended.
    fn later(self, mut state: State) -> State {
        if state.faults == 0 {
            return state;
        }
        for node in 0..NODES {
            (0..CLIENTS).for_each(|client| self.forget(&mut state, node, client));
            if matches!(state.nodes[node].key, Key::Reserved(place) if !state.is_living(place)) {
                state.nodes[node].key = Key::Absent;
            }
        }
        state
    }
}

fn held(state: &State, client: usize) -> Option<u8> {
    let is = &state.clients[client];
    (is.phase == Phase::Held).then_some(is.attempt)
}

fn nothing_left(state: &State) -> bool {
    let holds = |place: Place| held(state, place.client).is_some() && place == state.place(place.client);
    state.nodes.iter().all(|node| {
        let mut node = *node;
        (0..CLIENTS).all(|client| {
            (0..state.clients[client].requests).all(|request| {
                let place = Place { client, request };
                let known = node.key == Key::Reserved(place) || *node.entry(place) > 0;
                !known || state.is_living(place) || holds(place)
            })
        })
    })
}
