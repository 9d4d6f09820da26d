//! The way in which a claim excludes others.

use crate::types::resource::Resource;

/// The way in which a claim excludes others.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// It excludes everyone.
    Exclusive,
    /// It excludes everyone, and has a fencing token.
    Fenced,
    /// It excludes everyone except readers. They are not granted while a writer has locked the gate.
    Shared { gate: Resource },
}

impl Mode {
    /// Returns the gate of a reader.
    pub(crate) fn gate(&self) -> Option<&Resource> {
        match self {
            Self::Exclusive | Self::Fenced => None,
            Self::Shared { gate } => Some(gate),
        }
    }
}
