//! The invariants of a change of the nodes.

use crate::change::scope::{CLIENTS, NODES};
use crate::change::state::State;

named! {
    /// A property of a change of the nodes.
    pub enum Property {
        /// At most one client has a valid lease.
        Exclusion = "exclusion",
        /// As long as a lease is valid, each node that counted for it has its key, or is in quarantine.
        CountedKeysExist = "counted keys exist",
    }
}

impl Property {
    /// Returns true if the property holds in a state.
    pub(crate) fn holds(self, state: &State) -> bool {
        let valid = || (0..CLIENTS).filter(|client| state.is_valid(*client));
        match self {
            Self::Exclusion => valid().count() <= 1,
            Self::CountedKeysExist => valid().all(|client| {
                let exists = |node: usize| {
                    let counted = state.nodes[node].links[client].counted;
                    !counted || state.owner_on(node) == Some(client) || !state.is_admitted(node)
                };
                (0..NODES).all(exists)
            }),
        }
    }
}
