//! The decision of a round, which is the same for each kind of lock.

/// The decision of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Open,
    Won,
    Lost,
}

impl Decision {
    /// Decides at the first moment when no missing vote can change the decision.
    pub(crate) fn of(granted: usize, pending: usize, quorum: usize) -> Self {
        match () {
            () if granted >= quorum => Self::Won,
            () if granted + pending < quorum => Self::Lost,
            () => Self::Open,
        }
    }

    /// Returns the decision of a round that must be won in two lists of nodes.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Won, Self::Won) => Self::Won,
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            _ => Self::Open,
        }
    }
}

/// The vote of a node in the open round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vote {
    #[default]
    None,
    Pending,
    Granted,
    Denied,
    Failed,
}
