//! The end of the cleanup of a write whose outcome is unknown.
//!
//! A write that can create a key (an acquire, a refill) and has no reply may be carried out at any later time. A
//! stopped server carries it out when it resumes, with the full TTL. Thus a release is repeated until the key cannot
//! appear any more. This is certain in three cases:
//!
//! - A release deleted the key, and there was only ever one write.
//! - The node replied to a release that was sent after the write on the same connection. Thus the write came first.
//! - Without such a connection, the node replied to two releases at least a node timeout apart. Before the second one,
//!   it carried out everything that it had received before the first one.
//!
//! A release is known to follow a write only if the call of the write had ended before. A call that has begun may not
//! have sent anything yet. It may wait for a place in a queue, or its task may have used up its turn. A call that has
//! ended sends nothing any more. After a release, no call of a write is polled once its node timeout is over. Requests
//! that its client has queued are not sent after the connection has changed
//! ([`Exchange::connection`](crate::node::Exchange::connection)). Thus the second of two releases that far apart follows the
//! write.
//!
//! While the client is in use, time alone never ends the cleanup. `round/cleanup` and `round/pending` state the limits:
//! 60 s after the last handle is gone, and the size of the queue.

use std::time::Duration;

use crate::types::identity::ConnectionId;
use crate::types::instant::Instant;

/// The state of the writes of a claim on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct WriteState {
    /// True if the node reported that it has the key of this claim.
    written: bool,
    /// True if any write has settled: its outcome is known.
    ///
    /// If requests may arrive twice, a second copy of that write can still have created the key, even if the write was
    /// denied.
    any_settled: bool,
    /// The number of writes whose calls have not ended. They may have been sent, or be sent at any moment.
    in_flight: u16,
    /// The number of writes whose calls ended without a reply.
    ///
    /// Nothing more is sent, but what was sent may still be carried out.
    unknown: u16,
    /// The connection of all these writes, if it was the same.
    connection: Option<ConnectionId>,
}

impl WriteState {
    /// Begins the call of a write that can create the key, over this connection.
    pub(crate) fn begin(&mut self, connection: Option<ConnectionId>) {
        let same = !self.has_unsettled() || self.connection == connection;
        self.connection = if same { connection } else { None };
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// Ends a call whose write has been carried out, or never will be.
    pub(crate) fn settle(&mut self, written: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.written |= written;
        self.any_settled = true;
    }

    /// Ends a call whose write has an unknown outcome.
    pub(crate) fn end_unknown(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.unknown = self.unknown.saturating_add(1);
    }

    /// Returns whether the node reported that it has the key.
    pub(crate) fn is_written(self) -> bool {
        self.written
    }

    /// Returns the connection of all writes; `None` if there was no single one.
    pub(crate) fn write_connection(self) -> Option<ConnectionId> {
        self.connection
    }

    /// Returns whether a write may still be sent.
    pub(crate) fn is_in_flight(self) -> bool {
        self.in_flight > 0
    }

    /// Returns whether the outcome of any write is not known.
    pub(crate) fn has_unsettled(self) -> bool {
        self.unsettled() > 0
    }

    /// Returns whether the node may have the key, or get it later.
    pub(crate) fn may_be_there(self) -> bool {
        self.written || self.has_unsettled()
    }

    /// Returns the pending release of these writes.
    pub(crate) fn pending_release(self) -> PendingRelease {
        PendingRelease { writes: self, first_reply: None }
    }

    /// Returns the state of a claim whose writes are not recorded here. Some of them may have unknown outcomes.
    pub(crate) fn foreign() -> Self {
        Self { written: true, any_settled: true, unknown: 1, ..Self::default() }
    }

    pub(crate) fn unsettled(self) -> u16 {
        self.in_flight.saturating_add(self.unknown)
    }
}

/// Access for explorations of broken rules.
#[cfg(test)]
impl WriteState {
    /// Returns whether any write has settled.
    pub(crate) fn has_settled(self) -> bool {
        self.any_settled
    }

    /// Takes this connection for that of all writes.
    pub(crate) fn keep_connection(&mut self, connection: Option<ConnectionId>) {
        self.connection = connection;
    }
}

/// The pending cleanup of a claim on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct PendingRelease {
    writes: WriteState,
    /// The time of the reply to the first release.
    first_reply: Option<Instant>,
}

/// The step after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The key cannot appear any more.
    Done,
    /// Another release is needed, at this time or later.
    Again(Instant),
}

/// One release that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRelease {
    /// The reply: true if a key was deleted. `None` if there is no reply.
    pub(crate) deleted: Option<bool>,
    /// The connection over which the release was sent.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
}

impl PendingRelease {
    /// Returns the writes that it cleans up.
    #[cfg(test)]
    pub(crate) fn writes(self) -> WriteState {
        self.writes
    }

    /// Returns the step after a release.
    pub(crate) fn next(&mut self, release: EndedRelease, node_timeout: Duration) -> Next {
        match release.deleted {
            Some(deleted) => self.after_reply(deleted, release, node_timeout),
            None => self.without_reply(release.at),
        }
    }

    fn after_reply(&mut self, deleted: bool, release: EndedRelease, node_timeout: Duration) -> Next {
        let WriteState { any_settled, in_flight, connection, .. } = self.writes;
        let unsettled = self.writes.unsettled();
        let alone = unsettled == 0 || (unsettled == 1 && !any_settled && deleted);
        let behind = in_flight == 0 && connection.is_some() && connection == release.connection;
        match self.first_reply {
            _ if alone || behind => Next::Done,
            Some(first) if release.sent.saturating_duration_since(first) >= node_timeout => Next::Done,
            Some(first) => Next::Again(first + node_timeout),
            None => {
                self.first_reply = Some(release.at);
                Next::Again(release.at + node_timeout)
            }
        }
    }

    /// Handles a release without a reply. Another one follows, unless the node cannot have anything of this claim.
    pub(crate) fn without_reply(self, now: Instant) -> Next {
        if self.writes.may_be_there() { Next::Again(now) } else { Next::Done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);
    const A: Option<ConnectionId> = Some(ConnectionId(1));
    const B: Option<ConnectionId> = Some(ConnectionId(2));

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn reply(deleted: bool, connection: Option<ConnectionId>, sent: u64) -> EndedRelease {
        EndedRelease { deleted: Some(deleted), connection, sent: at(sent), at: at(sent + 1) }
    }

    fn unsettled(connections: &[Option<ConnectionId>]) -> PendingRelease {
        let mut writes = WriteState::default();
        for connection in connections {
            writes.begin(*connection);
            writes.end_unknown();
        }
        writes.pending_release()
    }

    #[test]
    fn a_write_in_flight_can_be_sent_after_the_release() {
        let mut writes = WriteState::default();
        writes.begin(A);
        assert_eq!(
            Next::Done,
            writes.pending_release().next(reply(true, A, 0), TIMEOUT),
            "the write was carried out"
        );
        assert_ne!(Next::Done, writes.pending_release().next(reply(false, A, 0), TIMEOUT));
        writes.end_unknown();
        assert_eq!(
            Next::Done,
            writes.pending_release().next(reply(false, A, 0), TIMEOUT),
            "the call had ended"
        );
    }

    #[test]
    fn a_deleted_key_ends_the_cleanup_of_a_single_write() {
        assert_eq!(Next::Done, unsettled(&[A]).next(reply(true, B, 0), TIMEOUT));
        assert_ne!(Next::Done, unsettled(&[A, B]).next(reply(true, B, 0), TIMEOUT));
    }

    #[test]
    fn a_deleted_key_can_come_from_an_earlier_write_than_the_unsettled_one() {
        let mut writes = WriteState::default();
        writes.begin(A);
        writes.settle(true);
        writes.begin(A);
        assert_ne!(Next::Done, writes.pending_release().next(reply(true, B, 0), TIMEOUT));
    }

    #[test]
    fn a_deleted_key_can_come_from_the_repetition_of_a_denied_write() {
        let mut writes = WriteState::default();
        writes.begin(None);
        writes.settle(false);
        writes.begin(None);
        assert_ne!(Next::Done, writes.pending_release().next(reply(true, None, 0), TIMEOUT));
    }

    #[test]
    fn a_reply_after_the_write_on_its_connection_ends_the_cleanup() {
        assert_eq!(Next::Done, unsettled(&[A]).next(reply(false, A, 0), TIMEOUT));
        assert_eq!(Next::Done, unsettled(&[A, A]).next(reply(false, A, 0), TIMEOUT));
        assert_ne!(
            Next::Done,
            unsettled(&[A, B]).next(reply(false, B, 0), TIMEOUT),
            "one of the writes was on connection A"
        );
        assert_ne!(
            Next::Done,
            unsettled(&[None]).next(reply(false, None, 0), TIMEOUT),
            "the order is unknown"
        );
    }

    #[test]
    fn without_order_two_replies_a_node_timeout_apart_end_the_cleanup() {
        let mut pending_release = unsettled(&[A]);
        assert_eq!(Next::Again(at(101)), pending_release.next(reply(false, B, 0), TIMEOUT));
        assert_eq!(
            Next::Again(at(101)),
            pending_release.next(reply(false, B, 100), TIMEOUT),
            "the second release was sent too early"
        );
        assert_eq!(
            Next::Again(at(500)),
            pending_release.without_reply(at(500)),
            "time alone does not end the cleanup"
        );
        assert_eq!(Next::Done, pending_release.next(reply(false, B, 101), TIMEOUT));
    }

    #[test]
    fn a_settled_write_needs_one_reply_and_no_write_needs_none() {
        let mut writes = WriteState::default();
        assert_eq!(Next::Done, writes.pending_release().without_reply(at(0)));
        writes.begin(A);
        writes.settle(true);
        assert_eq!(Next::Again(at(0)), writes.pending_release().without_reply(at(0)), "the key was written");
        assert_eq!(Next::Done, writes.pending_release().next(reply(false, B, 0), TIMEOUT));
    }

    #[test]
    fn a_write_is_in_flight_until_its_call_has_ended() {
        let mut writes = WriteState::default();
        assert!(!writes.is_in_flight() && !writes.written);
        writes.begin(A);
        writes.begin(A);
        writes.settle(true);
        assert!(writes.is_in_flight() && writes.written);
        assert!(writes.has_unsettled());
        writes.end_unknown();
        assert!(!writes.is_in_flight() && writes.has_unsettled());
    }

    #[test]
    fn a_write_of_another_process_may_be_settled_or_in_flight() {
        let foreign = || WriteState::foreign().pending_release();
        assert!(foreign().writes.written);
        assert_ne!(Next::Done, foreign().next(reply(true, A, 0), TIMEOUT), "a refill may follow");
        assert_ne!(Next::Done, foreign().next(reply(false, A, 0), TIMEOUT));
        assert_eq!(Next::Again(at(0)), foreign().without_reply(at(0)));
    }

    #[test]
    fn a_new_write_after_settled_ones_has_its_own_connection() {
        let mut writes = WriteState::default();
        writes.begin(A);
        writes.settle(false);
        writes.begin(B);
        writes.end_unknown();
        assert_eq!(Next::Done, writes.pending_release().next(reply(false, B, 0), TIMEOUT));
    }
}
