//! The rules of cleanup: when a write with an unknown outcome is known to be cleaned up.
//!
//! Connections have no numbers here. A write only records whether its connection still exists. A release with a reply
//! used the existing connection, since a connection that breaks ends all calls on it.

use crate::scope::Transport;
use crate::variant::Variant;

/// The possible writes of an attempt on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteState {
    /// True if the node has confirmed that the key of the attempt exists.
    pub(crate) written: bool,
    /// True if the outcome of an earlier write is known.
    pub(crate) settled: bool,
    /// The number of writes whose calls are open.
    pub(crate) in_flight: u8,
    /// The number of writes whose calls have ended without a reply.
    pub(crate) unknown: u8,
    /// True if all of these were sent on the existing connection.
    pub(crate) on_connection: bool,
}

/// The progress of the cleanup of an attempt on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cleanup {
    /// No cleanup is pending.
    #[default]
    None,
    /// The cleanup starts when the call of the write has ended.
    Waits,
    /// The first release is in flight.
    First,
    /// One reply was not enough. The second release is sent a node timeout later and counts as in flight from now on.
    Second,
}

impl WriteState {
    /// Records the start of a write.
    pub(crate) fn begin(&mut self, transport: Transport, variant: Variant) {
        let is_ordered = transport == Transport::Streams;
        let same = self.unsettled() == 0 || self.on_connection;
        self.on_connection = is_ordered && (same || variant == Variant::OnlyLastConnectionIsKept);
        self.in_flight += 1;
    }

    /// Records a write whose outcome is known.
    pub(crate) fn settle(&mut self, written: bool) {
        self.in_flight -= 1;
        self.written |= written;
        self.settled = true;
        self.forget_connection();
    }

    /// Records the end of a call without a reply.
    pub(crate) fn lose(&mut self) {
        self.in_flight -= 1;
        self.unknown += 1;
    }

    /// Records that the connection breaks.
    pub(crate) fn disconnect(&mut self) {
        self.on_connection = false;
    }

    /// Returns true if a failed release must be sent again.
    pub(crate) fn needs_release(self) -> bool {
        self.written || self.unsettled() > 0
    }

    /// Returns true if a release with a reply, which may have deleted the key, completes the cleanup.
    pub(crate) fn is_completed_by(self, deleted: bool, variant: Variant) -> bool {
        let unsettled = self.unsettled();
        let by_reply = match variant {
            Variant::StaleDeletionCounts => unsettled == 0 || (unsettled == 1 && deleted),
            Variant::DeletionSettlesAll => unsettled == 0 || (!self.settled && deleted),
            Variant::DeniedWriteIsForgotten => unsettled == 0 || (unsettled == 1 && !self.written && deleted),
            _ => unsettled == 0 || (unsettled == 1 && !self.settled && deleted),
        };
        let behind = match variant {
            Variant::UnsentCountsAsSent => self.on_connection,
            Variant::AnyConnectionIsOrdered => self.in_flight == 0,
            _ => self.in_flight == 0 && self.on_connection,
        };
        by_reply || behind || variant == Variant::OneReplyEndsCleanup
    }

    fn unsettled(self) -> u8 {
        self.in_flight + self.unknown
    }

    /// The connection does not matter for settled writes.
    fn forget_connection(&mut self) {
        self.on_connection &= self.unsettled() > 0;
    }

    /// Packs the writes into 8 bits.
    pub(crate) fn bits(self) -> u64 {
        let counts = u64::from(self.in_flight) << 3 | u64::from(self.unknown);
        counts << 3
            | u64::from(self.settled) << 2
            | u64::from(self.written) << 1
            | u64::from(self.on_connection)
    }
}

impl Cleanup {
    pub(crate) fn is_pending(self) -> bool {
        self != Self::None
    }

    /// Packs the cleanup into 3 bits.
    pub(crate) fn bits(self) -> u64 {
        self as u64
    }
}
