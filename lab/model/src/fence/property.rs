//! The invariants of tokens.

named! {
    /// A property of the fencing rule.
    pub enum Property {
        /// I2: no two grants have the same token.
        Unique = "I2 unique",
        /// I3: a grant that returned before an attempt started has a smaller token than the attempt.
        Increasing = "I3 increasing",
        /// I4: no extension succeeds if its round started after a newer grant had returned.
        NoLateExtension = "I4 no late extension",
        /// A stronger I4: no round succeeds if fewer than a quorum of nodes had F <= m when it started.
        NoHopelessExtension = "I4 no hopeless extension",
        /// No counter of an honest node becomes a far one, and no far token is granted. Such a number would exhaust the
        /// range of tokens of the resource.
        Bounded = "bounded counters",
        /// A property that is too strong and does not hold: no extension succeeds once a newer grant has returned.
        NoExtensionOnceReturned = "no extension once a newer grant has returned",
    }
}

/// The properties that the rule guarantees.
pub(crate) const PROPERTIES: &[Property] = Property::ALL.split_last().expect("there are several").1;

impl Property {
    /// Returns the bit of this property.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}
