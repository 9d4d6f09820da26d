//! The restart admission of a node, as one client knows it. The state and the rules are those of `redlock-wire`.
//!
//! Only the transport differs. On a stream, a loss and a change of the stamp arrive before any later reply, so
//! each reply contains their numbers. With datagrams there is no such order, so a look follows each request, as over
//! connections that may change their socket.

use std::time::Duration;

use redlock_core::node::{Admission, ClockReading, ConnectionId, QuarantineReason};
use redlock_core::runtime::Instant;
use redlock_wire::fuzzing::{BegunLook, NodeAdmission};

use crate::server::{Looked, Pushed};

/// The time between two looks at a replica. Real clients close its connection, and look over the next one.
const REPLICA: Duration = Duration::from_millis(300);

/// The admission of one node over its present connection.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) rules: NodeAdmission,
    /// `None` for datagrams.
    connection: Option<ConnectionId>,
    /// The changes that the server has reported over this connection; `None` before the first reply.
    pushed: Option<Pushed>,
    /// True if a look over this connection has begun. It is the first thing that a real client sends.
    has_begun: bool,
    /// True if a look over this connection has ended. Real clients send requests only then.
    pub(super) is_checked: bool,
    is_replica: bool,
}

impl Gate {
    pub(super) fn new(label: &str, longest_ttl: Duration) -> Self {
        let rules = NodeAdmission::new(label, longest_ttl);
        let (has_begun, is_checked, is_replica) = (false, false, false);
        Self { rules, connection: None, pushed: None, has_begun, is_checked, is_replica }
    }

    /// Returns the admission over a connection.
    pub(super) fn read(&mut self, connection: Option<ConnectionId>, now: Instant) -> Admission {
        if self.connection != connection {
            self.rules.connect();
            (self.connection, self.pushed) = (connection, None);
            (self.has_begun, self.is_checked) = (false, false);
        }
        self.rules.admission(now)
    }

    /// Returns the time until the next look: zero if there is a reason to look.
    pub(super) fn next_look(&self, now: Instant) -> Duration {
        match self.rules.next_look(now) {
            _ if !self.has_begun => Duration::ZERO,
            next if self.is_replica => next.min(REPLICA),
            next => next,
        }
    }

    pub(super) fn begin(&mut self, now: Instant) -> BegunLook {
        self.has_begun = true;
        self.rules.begin(now)
    }

    /// Applies the result of a look.
    pub(super) fn looked(&mut self, look: BegunLook, looked: &Looked, sent: Instant, now: Instant) {
        self.record_losses(looked.pushed);
        // The client has read the stamp, so its changes before are not news.
        self.pushed = Some(looked.pushed);
        self.is_replica = self.rules.apply(look, &looked.reply, now);
        self.is_checked = true;
        let server = looked.clock.unix_time;
        self.rules.read_clock(ClockReading { sent: Some(sent), server, received: now });
    }

    /// Records the changes that the server had reported before it sent its next reply.
    pub(super) fn record_pushed(&mut self, pushed: Pushed) {
        self.record_losses(pushed);
        let known = self.pushed.unwrap_or(pushed);
        if pushed.renewals > known.renewals {
            self.rules.touch();
        }
        // Replies may overtake each other.
        let (losses, renewals) = (known.losses.max(pushed.losses), known.renewals.max(pushed.renewals));
        self.pushed = Some(Pushed { losses, renewals });
    }

    fn record_losses(&self, pushed: Pushed) {
        if self.pushed.is_some_and(|known| pushed.losses > known.losses) {
            self.rules.lose(QuarantineReason::DataLost);
        }
    }
}

#[cfg(test)]
mod tests {
    use redlock_wire::Reply;

    use super::*;
    use crate::server::ClockShown;

    const FIRST: Option<ConnectionId> = Some(ConnectionId(1));
    const NOW: Instant = Instant::ORIGIN;

    fn pushed(losses: u64, renewals: u64) -> Pushed {
        Pushed { losses, renewals }
    }

    fn looked(gate: &mut Gate, pushed: Pushed) {
        let begun = gate.begin(NOW);
        let stamp = Reply::Bytes(b"1 a 0 0 4000".to_vec());
        let reply = Reply::Array(vec![Reply::Int(0), Reply::Int(9_000), Reply::Int(4_000), stamp]);
        gate.looked(begun, &Looked { reply, pushed, clock: ClockShown::default() }, NOW, NOW);
    }

    fn is_admitted(gate: &mut Gate, connection: Option<ConnectionId>) -> bool {
        matches!(gate.read(connection, NOW), Admission::Admitted(_))
    }

    /// Returns a gate that a look has admitted, after losses of the server before the connection.
    fn admitted() -> Gate {
        let mut gate = Gate::new("n0", Duration::from_secs(4));
        assert!(!is_admitted(&mut gate, FIRST) && gate.next_look(NOW).is_zero());
        looked(&mut gate, pushed(7, 3));
        assert!(is_admitted(&mut gate, FIRST) && gate.is_checked && !gate.next_look(NOW).is_zero());
        gate
    }

    #[test]
    fn a_loss_before_a_reply_ends_the_admission_once() {
        let mut gate = admitted();
        gate.record_pushed(pushed(7, 3));
        assert!(is_admitted(&mut gate, FIRST), "nothing has changed");
        gate.record_pushed(pushed(8, 3));
        assert!(!is_admitted(&mut gate, FIRST) && gate.next_look(NOW).is_zero());
        looked(&mut gate, pushed(8, 3));
        gate.record_pushed(pushed(7, 3));
        assert!(is_admitted(&mut gate, FIRST), "a reply that was overtaken");
    }

    #[test]
    fn a_loss_that_arrives_with_a_look_needs_another_look() {
        let mut gate = admitted();
        looked(&mut gate, pushed(8, 3));
        assert!(!is_admitted(&mut gate, FIRST));
        looked(&mut gate, pushed(8, 3));
        assert!(is_admitted(&mut gate, FIRST));
    }

    #[test]
    fn a_renewed_stamp_makes_a_look_due_and_ends_nothing() {
        let mut gate = admitted();
        gate.record_pushed(pushed(7, 4));
        assert!(is_admitted(&mut gate, FIRST) && gate.next_look(NOW).is_zero());
    }

    #[test]
    fn another_connection_begins_with_a_look() {
        let mut gate = admitted();
        assert!(!is_admitted(&mut gate, Some(ConnectionId(2))));
        assert!(!gate.is_checked && gate.next_look(NOW).is_zero());
    }
}
