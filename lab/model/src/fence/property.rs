//! What must hold of tokens.

use std::fmt;

/// A property of the fencing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// I2: no two grants have one token.
    Unique,
    /// I3: a grant that returned before an attempt began has a smaller token than what becomes of the attempt.
    Increasing,
    /// I4: no round that extends succeeds if it began after a newer grant had returned.
    NoLateExtension,
    /// The same, and more: nor does one that began when fewer than a quorum of nodes had F <= m, whoever raised the others.
    NoHopelessExtension,
    /// No counter of a node that does not lie becomes a far one, and no token is granted that is one: such a number ends the
    /// resource, for good where it is the last.
    Bounded,
    /// Too strong, and not true: no round that extends succeeds once a newer grant has returned, whenever it began.
    NoExtensionOnceReturned,
}

/// Those that the rule promises.
pub(crate) const PROPERTIES: [Property; 5] = [
    Property::Unique,
    Property::Increasing,
    Property::NoLateExtension,
    Property::NoHopelessExtension,
    Property::Bounded,
];

impl Property {
    /// A bit of its own.
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
