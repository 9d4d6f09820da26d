//! The end of the cleanup of a write whose outcome is unknown.
//!
//! A write that can create a key (an acquire, a refill) and has no reply may be carried out at any later time. A
//! stopped server carries it out when it resumes, with the full TTL. So a release is repeated until the key cannot
//! appear any more. This is certain in three cases:
//!
//! - A release deleted the key, and there was only ever one write.
//! - The node replied to a release that was sent after the write on the same connection. So the write came first.
//! - Without such a connection, the node replied to two releases at least a node timeout apart. Before the second one,
//!   it carried out everything that it had received before the first one.
//!
//! A release is known to follow a write only if the call of the write had ended before. A call that has begun may not
//! have sent anything yet. It may wait for a place in a queue, or its task may have used up its turn. A call that has
//! ended sends nothing any more. After a release, no call of a write is polled once its node timeout is over. Requests
//! that its client has queued are not sent after the connection has changed
//! ([`LockNode::connection`](crate::LockNode::connection)). So the second of two releases that far apart follows the
//! write.
//!
//! Time alone never ends the cleanup.

use std::time::Duration;

use crate::node::ConnectionId;
use crate::types::instant::Instant;

/// The possible traces of a claim on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteState {
    /// True if the node reported that it has the key of this claim.
    written: bool,
    /// True if the outcome of an earlier write is known.
    ///
    /// If requests may arrive twice, a second copy of that write can still have created the key, even if the write was
    /// denied.
    settled: bool,
    /// The number of writes whose calls have not ended. They may have been sent, or be sent at any moment.
    in_flight: u32,
    /// The number of writes whose calls ended without a reply.
    ///
    /// Nothing more is sent, but what was sent may still be carried out.
    unknown: u32,
    /// The connection of all these writes, if it was the same.
    connection: Option<ConnectionId>,
}

impl WriteState {
    /// Begins the call of a write that can create the key. `connection` is the connection as read before the call.
    pub(crate) fn begin(&mut self, connection: Option<ConnectionId>) {
        let same = self.unsettled() == 0 || self.connection == connection;
        self.connection = if same { connection } else { None };
        self.in_flight += 1;
    }

    /// Ends a call whose write has been carried out, or never will be.
    pub(crate) fn settle(&mut self, written: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.written |= written;
        self.settled = true;
    }

    /// Ends a call whose write has an unknown outcome.
    pub(crate) fn lose(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.unknown += 1;
    }

    /// Returns the connection of the writes, if the node is not known to have the key.
    ///
    /// The inner `None` means that there was no single connection.
    #[allow(clippy::option_option)] // "known to have the key" and "no connection" are two cases
    pub(crate) fn connection_without_key(self) -> Option<Option<ConnectionId>> {
        (!self.written).then_some(self.connection)
    }

    /// Returns whether a write may still be sent.
    pub(crate) fn is_in_flight(self) -> bool {
        self.in_flight > 0
    }

    /// Returns what a release that is sent now must achieve on this node.
    pub(crate) fn pending_release(self) -> PendingRelease {
        PendingRelease { trace: self, first_answer: None }
    }

    /// Returns the state of a claim that another process wrote. Some of these writes may have unknown outcomes.
    pub(crate) fn foreign() -> Self {
        Self { written: true, settled: true, unknown: 1, ..Self::default() }
    }

    fn unsettled(self) -> u32 {
        self.in_flight + self.unknown
    }
}

/// The pending cleanup of a claim on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingRelease {
    trace: WriteState,
    /// The time of the reply to the first release.
    first_answer: Option<Instant>,
}

/// The step after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The key cannot appear any more.
    Done,
    /// Another release is needed, at this time or later.
    Again(Instant),
}

/// The reply to one release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) deleted: bool,
    /// The connection of the node, read after the reply.
    ///
    /// Connections never come back. So if it is that of the write, the release used it too.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
}

impl PendingRelease {
    /// Handles a release with a reply.
    pub(crate) fn answered(&mut self, answer: Answer, node_timeout: Duration) -> Next {
        let WriteState { settled, in_flight, connection, .. } = self.trace;
        let unsettled = self.trace.unsettled();
        let alone = unsettled == 0 || (unsettled == 1 && !settled && answer.deleted);
        let behind = in_flight == 0 && connection.is_some() && connection == answer.connection;
        match self.first_answer {
            _ if alone || behind => Next::Done,
            Some(first) if answer.sent.saturating_duration_since(first) >= node_timeout => Next::Done,
            Some(first) => Next::Again(first + node_timeout),
            None => {
                self.first_answer = Some(answer.at);
                Next::Again(answer.at + node_timeout)
            }
        }
    }

    /// Handles a release without a reply. Another one follows, unless the node cannot have anything of this claim.
    pub(crate) fn failed(self, now: Instant) -> Next {
        if self.trace.written || self.trace.unsettled() > 0 { Next::Again(now) } else { Next::Done }
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

    fn answer(deleted: bool, connection: Option<ConnectionId>, sent: u64) -> Answer {
        Answer { deleted, connection, sent: at(sent), at: at(sent + 1) }
    }

    fn unsettled(connections: &[Option<ConnectionId>]) -> PendingRelease {
        let mut trace = WriteState::default();
        for connection in connections {
            trace.begin(*connection);
            trace.lose();
        }
        trace.pending_release()
    }

    #[test]
    fn a_write_in_flight_may_be_sent_behind_the_release() {
        let mut trace = WriteState::default();
        trace.begin(A);
        assert_eq!(
            Next::Done,
            trace.pending_release().answered(answer(true, A, 0), TIMEOUT),
            "it was carried out"
        );
        assert_ne!(Next::Done, trace.pending_release().answered(answer(false, A, 0), TIMEOUT));
        trace.lose();
        assert_eq!(
            Next::Done,
            trace.pending_release().answered(answer(false, A, 0), TIMEOUT),
            "its call had ended"
        );
    }

    #[test]
    fn a_deleted_key_ends_the_pursuit_of_a_single_write() {
        assert_eq!(Next::Done, unsettled(&[A]).answered(answer(true, B, 0), TIMEOUT));
        assert_ne!(Next::Done, unsettled(&[A, B]).answered(answer(true, B, 0), TIMEOUT));
    }

    #[test]
    fn what_was_deleted_may_be_an_earlier_write_than_the_one_that_is_unsettled() {
        let mut trace = WriteState::default();
        trace.begin(A);
        trace.settle(true);
        trace.begin(A);
        assert_ne!(Next::Done, trace.pending_release().answered(answer(true, B, 0), TIMEOUT));
    }

    #[test]
    fn what_was_deleted_may_be_the_second_copy_of_a_write_that_was_refused() {
        let mut trace = WriteState::default();
        trace.begin(None);
        trace.settle(false);
        trace.begin(None);
        assert_ne!(Next::Done, trace.pending_release().answered(answer(true, None, 0), TIMEOUT));
    }

    #[test]
    fn an_answer_behind_the_write_ends_it() {
        assert_eq!(Next::Done, unsettled(&[A]).answered(answer(false, A, 0), TIMEOUT));
        assert_eq!(Next::Done, unsettled(&[A, A]).answered(answer(false, A, 0), TIMEOUT));
        assert_ne!(
            Next::Done,
            unsettled(&[A, B]).answered(answer(false, B, 0), TIMEOUT),
            "one of them was on A"
        );
        assert_ne!(
            Next::Done,
            unsettled(&[None]).answered(answer(false, None, 0), TIMEOUT),
            "no order known"
        );
    }

    #[test]
    fn otherwise_it_takes_two_answers_a_node_timeout_apart() {
        let mut pending_release = unsettled(&[A]);
        assert_eq!(Next::Again(at(101)), pending_release.answered(answer(false, B, 0), TIMEOUT));
        assert_eq!(
            Next::Again(at(101)),
            pending_release.answered(answer(false, B, 100), TIMEOUT),
            "sent too early"
        );
        assert_eq!(Next::Again(at(500)), pending_release.failed(at(500)), "time alone ends nothing");
        assert_eq!(Next::Done, pending_release.answered(answer(false, B, 101), TIMEOUT));
    }

    #[test]
    fn a_settled_write_needs_one_answer_and_nothing_needs_none() {
        let mut trace = WriteState::default();
        assert_eq!(Next::Done, trace.pending_release().failed(at(0)));
        trace.begin(A);
        trace.settle(true);
        assert_eq!(Next::Again(at(0)), trace.pending_release().failed(at(0)), "our key is there");
        assert_eq!(Next::Done, trace.pending_release().answered(answer(false, B, 0), TIMEOUT));
    }

    #[test]
    fn a_write_is_in_flight_until_its_call_has_ended() {
        let mut trace = WriteState::default();
        assert!(!trace.is_in_flight() && !trace.written);
        trace.begin(A);
        trace.begin(A);
        trace.settle(true);
        assert!(trace.is_in_flight() && trace.written);
        trace.lose();
        assert!(!trace.is_in_flight());
    }

    #[test]
    fn what_another_process_wrote_may_be_there_and_may_still_come() {
        let foreign = || WriteState::foreign().pending_release();
        assert!(foreign().trace.written);
        assert_ne!(Next::Done, foreign().answered(answer(true, A, 0), TIMEOUT), "a refill may come behind");
        assert_ne!(Next::Done, foreign().answered(answer(false, A, 0), TIMEOUT));
        assert_eq!(Next::Again(at(0)), foreign().failed(at(0)));
    }

    #[test]
    fn a_new_write_after_all_are_settled_has_a_connection_of_its_own() {
        let mut trace = WriteState::default();
        trace.begin(A);
        trace.settle(false);
        trace.begin(B);
        trace.lose();
        assert_eq!(Next::Done, trace.pending_release().answered(answer(false, B, 0), TIMEOUT));
    }
}
