//! When a write whose outcome is unknown has been undone for certain.
//!
//! A write that can create a key (an acquire, a refill) and was not answered may be carried out at any later time: a
//! stopped server carries it out when it wakes, with its full TTL. So a release pursues it, and the pursuit ends only
//! when the key cannot appear any more:
//!
//! - a release deleted it, and it was the only write there ever was; or
//! - the node answered a release that was sent behind the write on the same connection: the write came before; or
//! - there being no such connection, the node answered two releases at least a node timeout apart: what it had received
//!   before the first it has carried out before the second.
//!
//! A release is known to be behind a write only if the write's call had ended before: a call that has begun may not have
//! sent anything yet (it waits for a place in a queue, or its task has used up its turn), while one that has ended sends
//! nothing any more. Behind a release no
//! call of a write is polled once its node timeout is over, so the second of two releases that far apart is behind.
//!
//! Time passing at the client ends no pursuit.

use std::time::Duration;

use crate::broken::{Variant, broken};
use crate::clock::Instant;
use crate::node::ConnectionId;

/// What a claim may have left on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The node said that our key is there.
    written: bool,
    /// The outcome of an earlier write is known. Where requests may arrive twice, a second copy of it can still have
    /// created the key, also of one that was refused.
    settled: bool,
    /// Writes whose calls have not ended. They may have been sent, or be sent any moment.
    in_flight: u32,
    /// Writes whose calls have ended without an answer: nothing is sent any more, and what was may be carried out.
    unknown: u32,
    /// The connection that all of these were sent on, if it was one.
    connection: Option<ConnectionId>,
}

impl Trace {
    /// The call of a write that can create the key begins; `connection` as read before.
    pub(crate) fn begin(&mut self, connection: Option<ConnectionId>) {
        let same = self.unsettled() == 0 || self.connection == connection;
        self.connection = if same { connection } else { None };
        self.in_flight += 1;
    }

    /// The call has ended, and the write is known to have been carried out, or not to be.
    pub(crate) fn settle(&mut self, written: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.written |= written;
        self.settled = true;
    }

    /// The call has ended, and what becomes of the write is unknown.
    pub(crate) fn lose(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.unknown += 1;
    }

    /// Where the node is not known to have the key: the connection that it was to be written over, if there was one.
    #[allow(clippy::option_option)] // "known to have the key" and "no connection" are two things
    pub(crate) fn connection_without_key(self) -> Option<Option<ConnectionId>> {
        (!self.written).then_some(self.connection)
    }

    /// Whether a write may still be sent.
    pub(crate) fn is_in_flight(self) -> bool {
        self.in_flight > 0
    }

    /// What a release must achieve on this node that is sent now.
    pub(crate) fn pursue(self) -> Pursuit {
        Pursuit { trace: self, first_answer: None }
    }

    /// Of a claim that another process wrote, and perhaps has not settled.
    pub(crate) fn foreign() -> Self {
        Self { written: true, settled: true, unknown: 1, ..Self::default() }
    }

    fn unsettled(self) -> u32 {
        self.in_flight + self.unknown
    }
}

/// The undoing of a claim on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pursuit {
    trace: Trace,
    /// When the node answered the first release.
    first_answer: Option<Instant>,
}

/// What comes after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The key cannot appear any more.
    Done,
    /// Another release, to be sent at this time or later.
    Again(Instant),
}

/// One release, as it was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) deleted: bool,
    /// The node's connection, read after the answer. Connections never come back, so if it is the write's, the release
    /// went over it too.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
}

impl Pursuit {
    /// A release was answered.
    pub(crate) fn answered(&mut self, answer: Answer, node_timeout: Duration) -> Next {
        let Trace { settled, in_flight, connection, .. } = self.trace;
        let unsettled = self.trace.unsettled();
        let alone = unsettled == 0 || (unsettled == 1 && !settled && answer.deleted);
        let behind = in_flight == 0 && connection.is_some() && connection == answer.connection;
        match self.first_answer {
            _ if alone || behind || broken(Variant::ChaseEndsAtFirstAnswer) => Next::Done,
            Some(first) if answer.sent.saturating_duration_since(first) >= node_timeout => Next::Done,
            Some(first) => Next::Again(first + node_timeout),
            None => {
                self.first_answer = Some(answer.at);
                Next::Again(answer.at + node_timeout)
            }
        }
    }

    /// Whether the node said that our key is there.
    pub(crate) fn is_written(self) -> bool {
        self.trace.written
    }

    /// A release was not answered. Whether another is owed: not where nothing of ours can be.
    pub(crate) fn failed(self, now: Instant) -> Next {
        if broken(Variant::ChaseGivesUp) {
            return Next::Done;
        }
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

    fn unsettled(connections: &[Option<ConnectionId>]) -> Pursuit {
        let mut trace = Trace::default();
        for connection in connections {
            trace.begin(*connection);
            trace.lose();
        }
        trace.pursue()
    }

    #[test]
    fn a_write_in_flight_may_be_sent_behind_the_release() {
        let mut trace = Trace::default();
        trace.begin(A);
        assert_eq!(Next::Done, trace.pursue().answered(answer(true, A, 0), TIMEOUT), "it was carried out");
        assert_ne!(Next::Done, trace.pursue().answered(answer(false, A, 0), TIMEOUT));
        trace.lose();
        assert_eq!(Next::Done, trace.pursue().answered(answer(false, A, 0), TIMEOUT), "its call had ended");
    }

    #[test]
    fn a_deleted_key_ends_the_pursuit_of_a_single_write() {
        assert_eq!(Next::Done, unsettled(&[A]).answered(answer(true, B, 0), TIMEOUT));
        assert_ne!(Next::Done, unsettled(&[A, B]).answered(answer(true, B, 0), TIMEOUT));
    }

    #[test]
    fn what_was_deleted_may_be_an_earlier_write_than_the_one_that_is_unsettled() {
        let mut trace = Trace::default();
        trace.begin(A);
        trace.settle(true);
        trace.begin(A);
        assert_ne!(Next::Done, trace.pursue().answered(answer(true, B, 0), TIMEOUT));
    }

    #[test]
    fn what_was_deleted_may_be_the_second_copy_of_a_write_that_was_refused() {
        let mut trace = Trace::default();
        trace.begin(None);
        trace.settle(false);
        trace.begin(None);
        assert_ne!(Next::Done, trace.pursue().answered(answer(true, None, 0), TIMEOUT));
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
        let mut pursuit = unsettled(&[A]);
        assert_eq!(Next::Again(at(101)), pursuit.answered(answer(false, B, 0), TIMEOUT));
        assert_eq!(Next::Again(at(101)), pursuit.answered(answer(false, B, 100), TIMEOUT), "sent too early");
        assert_eq!(Next::Again(at(500)), pursuit.failed(at(500)), "time alone ends nothing");
        assert_eq!(Next::Done, pursuit.answered(answer(false, B, 101), TIMEOUT));
    }

    #[test]
    fn a_settled_write_needs_one_answer_and_nothing_needs_none() {
        let mut trace = Trace::default();
        assert_eq!(Next::Done, trace.pursue().failed(at(0)));
        trace.begin(A);
        trace.settle(true);
        assert_eq!(Next::Again(at(0)), trace.pursue().failed(at(0)), "our key is there");
        assert_eq!(Next::Done, trace.pursue().answered(answer(false, B, 0), TIMEOUT));
    }

    #[test]
    fn a_write_is_in_flight_until_its_call_has_ended() {
        let mut trace = Trace::default();
        assert!(!trace.is_in_flight() && !trace.pursue().is_written());
        trace.begin(A);
        trace.begin(A);
        trace.settle(true);
        assert!(trace.is_in_flight() && trace.pursue().is_written());
        trace.lose();
        assert!(!trace.is_in_flight());
    }

    #[test]
    fn what_another_process_wrote_may_be_there_and_may_still_come() {
        let foreign = || Trace::foreign().pursue();
        assert!(foreign().is_written());
        assert_ne!(Next::Done, foreign().answered(answer(true, A, 0), TIMEOUT), "a refill may come behind");
        assert_ne!(Next::Done, foreign().answered(answer(false, A, 0), TIMEOUT));
        assert_eq!(Next::Again(at(0)), foreign().failed(at(0)));
    }

    #[test]
    fn a_new_write_after_all_are_settled_has_a_connection_of_its_own() {
        let mut trace = Trace::default();
        trace.begin(A);
        trace.settle(false);
        trace.begin(B);
        trace.lose();
        assert_eq!(Next::Done, trace.pursue().answered(answer(false, B, 0), TIMEOUT));
    }
}
