//! The invariants of a lock that is kept.

use crate::keep::state::{Key, Life, Other, Phase, State};

named! {
    /// A property of a lock that is kept.
    pub enum Property {
        /// Another client has no valid lease as long as the lease is valid, or the promised time has not ended.
        Exclusion = "no other holder before the end",
        /// The key exists until the promised end on every node that counted for the success.
        CountedKeysExist = "counted keys exist",
        /// No other request of the client changes the life that the keep has set. Requests are exempt if their connection
        /// broke.
        LifeAsSet = "life as set",
        /// The client does not change the key of another client.
        NoTrespass = "no trespass",
    }
}

/// The life that a keep sets.
const KEPT: Key = Key::Own(Life { kept: true, round: None });

impl Property {
    /// Returns true if the property holds in a state.
    pub(crate) fn holds(self, state: &State) -> bool {
        match self {
            Self::Exclusion => !(state.is_protected() && state.other == Other::Held),
            Self::CountedKeysExist => {
                let has_own = |key: Option<Key>| matches!(key, Some(Key::Own(_)));
                let exist = state.nodes.iter().all(|node| !node.counted || has_own(node.key));
                state.keeper.phase != Phase::Kept || exist
            }
            Self::LifeAsSet => {
                let as_set = |key: Option<Key>| key.is_none_or(|key| key == KEPT || key == Key::Other);
                state.nodes.iter().all(|node| !node.settled || as_set(node.key))
            }
            Self::NoTrespass => !state.trespassed,
        }
    }
}
