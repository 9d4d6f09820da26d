//! The activity of a client that acquires a lease once, extends it, and ends it.

use crate::pack::Words;

/// The activity of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The last round of the lease. Round 0 acquired it, the others extended it.
    pub(crate) round: u8,
    /// The round that set the deadline.
    pub(crate) deadline: u8,
    /// The number of rounds whose validity has ended by the clock of the client, in the order of the rounds.
    pub(crate) lapsed: u8,
    /// True while an extension is undecided.
    pub(crate) extending: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// The attempt is in progress.
    Acquiring,
    /// The client has a guard.
    Held,
    /// The attempt has failed, or the lease was released.
    Ended,
}

impl Client {
    /// The attempt has failed, or the lease was released.
    pub(crate) const ENDED: Self =
        Self { phase: Phase::Ended, round: 0, deadline: 0, lapsed: 0, extending: false };

    /// Returns true if the client may rely on its lease.
    pub(crate) fn is_valid(self) -> bool {
        self.phase == Phase::Held && self.deadline >= self.lapsed
    }

    /// Returns true if the client neither has a valid lease nor can get one without another attempt.
    pub(crate) fn is_over(self) -> bool {
        self.phase == Phase::Ended || self.lapsed > self.round
    }

    /// Returns true if the validity of one of its rounds has not ended.
    pub(crate) fn can_lapse(self) -> bool {
        self.lapsed <= self.round
    }

    /// Returns true if the client may extend its lease, so often at most.
    pub(crate) fn can_extend(self, extensions: u8) -> bool {
        self.is_valid() && !self.extending && self.round < extensions
    }

    /// Begins an extension.
    pub(crate) fn extend(&mut self) {
        (self.round, self.extending) = (self.round + 1, true);
    }

    /// Records that a quorum has granted the extension.
    pub(crate) fn extended(&mut self) {
        (self.deadline, self.extending) = (self.round, false);
    }

    /// Packs a client into 9 bits.
    pub(crate) fn bits(self) -> u64 {
        let words = Words::new().with(self.phase as u8, 2).with(self.round, 2).with(self.deadline, 2);
        words.with(self.lapsed, 2).with(self.extending, 1).word()
    }
}
