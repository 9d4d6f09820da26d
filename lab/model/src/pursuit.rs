//! When a write whose outcome is unknown has been undone for certain: the rules of the chase, in the model's terms.
//!
//! Connections have no numbers here: what counts is whether the one that a write went over still stands. An answered
//! release went over the one that stands, since a connection that breaks ends all calls on it.

use crate::scope::Transport;
use crate::variant::Variant;

/// What an attempt may have left on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The node said that our key is there.
    pub(crate) written: bool,
    /// The outcome of an earlier write is known.
    pub(crate) settled: bool,
    /// Writes whose calls are open.
    pub(crate) in_flight: u8,
    /// Writes whose calls have ended without an answer.
    pub(crate) unknown: u8,
    /// All of these were sent on the connection that stands.
    pub(crate) on_connection: bool,
}

/// How far the undoing of an attempt on one node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Undo {
    /// None is owed, or it is done.
    #[default]
    None,
    /// It begins when the call of the write has ended.
    Waits,
    /// A release is out.
    First,
    /// One was answered, which is not enough. The next goes out a node timeout later, and is out from then on.
    Second,
}

impl Trace {
    /// The call of a write begins.
    pub(crate) fn begin(&mut self, transport: Transport, variant: Variant) {
        let stands = transport == Transport::Streams;
        let same = self.unsettled() == 0 || self.on_connection;
        self.on_connection = stands && (same || variant == Variant::LastConnectionStandsForAll);
        self.in_flight += 1;
    }

    /// It has ended, and the write is known to have been carried out, or not to be.
    pub(crate) fn settle(&mut self, written: bool) {
        self.in_flight -= 1;
        self.written |= written;
        self.settled = true;
        self.forget_connection();
    }

    /// It has ended without an answer.
    pub(crate) fn lose(&mut self) {
        self.in_flight -= 1;
        self.unknown += 1;
    }

    /// The connection breaks.
    pub(crate) fn disconnect(&mut self) {
        self.on_connection = false;
    }

    /// Whether a release that fails is owed again.
    pub(crate) fn owes(self) -> bool {
        self.written || self.unsettled() > 0
    }

    /// Whether a release, answered with or without having deleted the key, is the last one that it takes.
    pub(crate) fn is_undone_by(self, deleted: bool, variant: Variant) -> bool {
        let unsettled = self.unsettled();
        let alone = match variant {
            Variant::StaleDeletionCounts => unsettled == 0 || (unsettled == 1 && deleted),
            Variant::DeletionSettlesAll => unsettled == 0 || (!self.settled && deleted),
            Variant::RefusedWriteIsForgotten => {
                unsettled == 0 || (unsettled == 1 && !self.written && deleted)
            }
            _ => unsettled == 0 || (unsettled == 1 && !self.settled && deleted),
        };
        let behind = match variant {
            Variant::UnsentCountsAsSent => self.on_connection,
            Variant::AnyConnectionIsBehind => self.in_flight == 0,
            _ => self.in_flight == 0 && self.on_connection,
        };
        alone || behind || variant == Variant::OneAnswerEndsTheChase
    }

    fn unsettled(self) -> u8 {
        self.in_flight + self.unknown
    }

    /// Of settled writes the connection does not matter.
    fn forget_connection(&mut self) {
        self.on_connection &= self.unsettled() > 0;
    }

    /// 8 bits.
    pub(crate) fn bits(self) -> u64 {
        let counts = u64::from(self.in_flight) << 3 | u64::from(self.unknown);
        counts << 3
            | u64::from(self.settled) << 2
            | u64::from(self.written) << 1
            | u64::from(self.on_connection)
    }
}

impl Undo {
    pub(crate) fn is_owed(self) -> bool {
        self != Self::None
    }

    /// 3 bits.
    pub(crate) fn bits(self) -> u64 {
        self as u64
    }
}
