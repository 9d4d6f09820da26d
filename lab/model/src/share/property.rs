//! The invariants of readers and writers.

use crate::share::scope::{CLIENTS, NODES, Role, Scope};
use crate::share::state::State;

named! {
    /// A property of readers and writers.
    pub enum Property {
        /// No other client has a valid lease while a writer has one.
        Exclusion = "no writer beside another holder",
        /// As long as a lease is valid, its entry exists on every node that counted for it.
        CountedEntriesExist = "counted entries exist",
        /// No client removes or changes the entry of another client.
        NoTrespass = "no trespass",
    }
}

impl Property {
    /// Returns true if the property holds in a state.
    pub(crate) fn holds(self, scope: Scope, state: &State) -> bool {
        let valid = |role: Role| {
            (0..CLIENTS).filter(|client| scope.roles[*client] == role && state.is_valid(*client)).count()
        };
        match self {
            Self::Exclusion => match valid(Role::Writer) {
                0 => true,
                1 => valid(Role::Reader) == 0,
                _ => false,
            },
            Self::CountedEntriesExist => (0..CLIENTS).all(|client| {
                let exists = |node: usize| {
                    let link = &state.nodes[node][client];
                    !link.counted || link.entry.is_some()
                };
                !state.is_valid(client) || (0..NODES).all(exists)
            }),
            Self::NoTrespass => !state.trespassed,
        }
    }
}
