//! The invariants of tokens.

use std::fmt;

/// A property of the fencing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// I2: no two grants have the same token.
    Unique,
    /// I3: a grant that returned before an attempt started has a smaller token than the attempt.
    Increasing,
    /// I4: no extension succeeds if its round started after a newer grant had returned.
    NoLateExtension,
    /// A stronger I4: no round succeeds if fewer than a quorum of nodes had F <= m when it started.
    NoHopelessExtension,
    /// No counter of an honest node becomes a far one, and no far token is granted. Such a number would exhaust the
    /// range of tokens of the resource.
    Bounded,
    /// A property that is too strong and does not hold: no extension succeeds once a newer grant has returned.
    NoExtensionOnceReturned,
}

/// The properties that the rule guarantees.
pub(crate) const PROPERTIES: [Property; 5] = [
    Property::Unique,
    Property::Increasing,
    Property::NoLateExtension,
    Property::NoHopelessExtension,
    Property::Bounded,
];

impl Property {
    /// Returns the bit of this property.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unique => "I2 unique",
            Self::Increasing => "I3 increasing",
            Self::NoLateExtension => "I4 no late extension",
            Self::NoHopelessExtension => "I4 no hopeless extension",
            Self::Bounded => "bounded counters",
            Self::NoExtensionOnceReturned => "no extension once a newer grant has returned",
        })
    }
}
