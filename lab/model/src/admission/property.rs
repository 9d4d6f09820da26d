//! The invariants of every state.

use std::fmt;

/// A property of the admission rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// I1: at most one client has a valid lease.
    Exclusion,
    /// Every node is admitted for a new client after one wait without losses.
    NoneStuck,
}

/// The properties that the rule guarantees.
pub(crate) const PROPERTIES: [Property; 2] = [Property::Exclusion, Property::NoneStuck];

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "I1 exclusion",
            Self::NoneStuck => "no node is stuck",
        })
    }
}
