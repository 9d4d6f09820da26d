//! The invariants of every state.

use std::fmt;

use crate::scope::CLIENTS;
use crate::state::{Flight, State};

/// A property of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// I1: at most one client has a valid lease.
    Exclusion,
    /// I6: as long as a lease is valid, its key exists on every node that counted for it.
    CountedKeysExist,
    /// I8: if an ended attempt has a key on a node, or a write in flight to it, a cleanup is pending there. Writes by
    /// the second copy of a request are exempt, since no client can know of them.
    NothingLeftBehind,
    /// No client extends, overwrites or deletes the key of another client.
    NoTrespass,
    /// A lease that has ended does not become valid again.
    NoRevival,
}

/// All properties.
pub const PROPERTIES: [Property; 5] = [
    Property::Exclusion,
    Property::CountedKeysExist,
    Property::NothingLeftBehind,
    Property::NoTrespass,
    Property::NoRevival,
];

impl Property {
    /// Returns true if the property holds in a state.
    pub fn holds(self, state: &State) -> bool {
        match self {
            Self::Exclusion => state.clients.iter().filter(|client| client.is_valid()).count() <= 1,
            Self::CountedKeysExist => (0..CLIENTS).all(|client| counted_keys_exist(state, client)),
            Self::NothingLeftBehind => (0..CLIENTS).all(|client| nothing_left_behind(state, client)),
            Self::NoTrespass => !state.trespassed,
            Self::NoRevival => !state.revived,
        }
    }
}

fn counted_keys_exist(state: &State, client: usize) -> bool {
    let has = &state.clients[client];
    let exists =
        |key: crate::Key| (usize::from(key.client), usize::from(key.attempt)) == (client, has.current());
    !has.is_valid()
        || state.nodes.iter().all(|node| !node.links[client].counted || node.key.is_some_and(exists))
}

fn nothing_left_behind(state: &State, client: usize) -> bool {
    state.nodes.iter().all(|node| {
        let attempts = node.links[client].attempts.iter().enumerate();
        attempts.filter(|(number, _)| state.clients[client].has_ended(*number)).all(|(number, attempt)| {
            let own = |key: crate::Key| {
                (usize::from(key.client), usize::from(key.attempt)) == (client, number) && !key.by_copy
            };
            let there = node.key.is_some_and(own);
            let to_come = attempt.writes().any(Flight::is_in_flight);
            attempt.cleanup.is_pending() || !(there || to_come)
        })
    })
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "I1 exclusion",
            Self::CountedKeysExist => "I6 counted keys exist",
            Self::NothingLeftBehind => "I8 nothing left behind",
            Self::NoTrespass => "no trespass",
            Self::NoRevival => "no revival",
        })
    }
}
