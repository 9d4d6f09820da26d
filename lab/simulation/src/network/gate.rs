//! The admission of a simulated server, as one client knows it: looks, notifications of losses, and the wait.
//!
//! This follows the rule of the real connections. A client looks at the stamp over every connection before a vote
//! counts, and again when the wait is over. On a stream, the notification of a loss arrives before any later reply. With
//! datagrams there is no such order, so a look follows each request.

use std::time::Duration;

use redlock_core::node::{Admission, AdmissionId, ConnectionId, Quarantine, QuarantineReason};
use redlock_core::runtime::Instant;

use crate::server::{Identity, Look, Looked};

/// The time between two looks at a replica.
const REPLICA: Duration = Duration::from_millis(300);

/// The admission of one node. Pure.
#[derive(Debug)]
pub(super) struct Gate {
    /// The time for which a server stays in quarantine.
    wait: Duration,
    state: State,
    /// The connection of the state; `None` for datagrams.
    connection: Option<ConnectionId>,
    /// The number of losses that the server has reported over this connection.
    losses: u64,
    /// The last server that the client has seen here.
    known: Option<Identity>,
    /// The end of the wait by the clock of the client. It begins when the client sees another server here.
    own_wait: Instant,
    /// The number of state changes, from which identifiers of admissions are made.
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Unchecked,
    Out { reason: QuarantineReason, until: Instant },
    Admitted,
}

/// A look that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    changes: u64,
}

impl Gate {
    pub(super) fn new(longest_ttl: Duration) -> Self {
        Self {
            wait: Quarantine::duration(longest_ttl),
            state: State::Unchecked,
            connection: None,
            losses: 0,
            known: None,
            own_wait: Instant::ORIGIN,
            changes: 0,
        }
    }

    /// Returns the admission over a connection.
    pub(super) fn read(&mut self, connection: Option<ConnectionId>, now: Instant) -> Admission {
        if self.connection != connection {
            self.connection = connection;
            self.losses = 0;
            self.become_unchecked();
        }
        match self.state {
            State::Admitted => Admission::Admitted(AdmissionId(self.changes)),
            State::Out { reason, until } if now < until => {
                let remaining = until.saturating_duration_since(now);
                Admission::Quarantined(Quarantine::new(reason).ending_in(remaining))
            }
            // The quarantine has ended by the clock of the client, but the server decides.
            State::Out { .. } | State::Unchecked => {
                Admission::Quarantined(Quarantine::new(QuarantineReason::NotChecked))
            }
        }
    }

    pub(super) fn begin(&self) -> Ticket {
        Ticket { changes: self.changes }
    }

    /// Applies the result of a look, unless the state has changed since it began.
    pub(super) fn looked(&mut self, ticket: Ticket, looked: Looked, now: Instant) {
        if ticket.changes != self.changes || looked.losses < self.losses {
            return;
        }
        self.losses = looked.losses;
        self.apply(looked.look, now);
    }

    /// Records the number of losses that the server had before it sent its next reply.
    pub(super) fn record_losses(&mut self, losses: u64) {
        if losses > self.losses {
            self.losses = losses;
            self.become_unchecked();
        }
    }

    /// Applies the look that followed a request. It can end an admission, but cannot begin one.
    pub(super) fn apply_following_look(&mut self, look: Look, now: Instant) {
        let admitted = matches!(self.state, State::Admitted);
        let was_out = match self.state {
            State::Out { until, .. } => until,
            State::Unchecked | State::Admitted => Instant::ORIGIN,
        };
        let end = self.end(look, now);
        if end.is_some_and(|(_, until)| until > was_out) || (admitted && end.is_some()) {
            self.apply(look, now);
        }
    }

    /// Records that the server rejects writes, like a replica.
    pub(super) fn rejected(&mut self) {
        self.become_unchecked();
    }

    fn become_unchecked(&mut self) {
        self.state = State::Unchecked;
        self.changes += 1;
    }

    fn apply(&mut self, look: Look, now: Instant) {
        self.state = match self.end(look, now) {
            Some((reason, until)) => State::Out { reason, until },
            None => State::Admitted,
        };
        self.changes += 1;
    }

    /// Returns the end of the quarantine, and the reason; `None` if the server counts.
    fn end(&mut self, look: Look, now: Instant) -> Option<(QuarantineReason, Instant)> {
        let Look::Intact(identity, age) = look else {
            return Some((QuarantineReason::Replica, now + REPLICA));
        };
        if self.known.replace(identity).is_some_and(|known| known != identity) {
            self.own_wait = now + self.wait;
        }
        let until = (now + self.wait.saturating_sub(age)).max(self.own_wait);
        (until > now).then_some((QuarantineReason::Restarted, until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Option<ConnectionId> = Some(ConnectionId(1));

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    fn intact(age: u64, losses: u64) -> Looked {
        Looked { look: Look::Intact(Identity::default(), Duration::from_secs(age)), losses }
    }

    /// Returns a gate with a wait of six seconds, which has read a look at 10 s.
    fn gate(age: u64) -> Gate {
        let mut gate = Gate::new(Duration::from_secs(4));
        gate.read(FIRST, at(10));
        gate.looked(gate.begin(), intact(age, 0), at(10));
        gate
    }

    fn is_admitted(gate: &mut Gate, seconds: u64) -> bool {
        matches!(gate.read(FIRST, at(seconds)), Admission::Admitted(_))
    }

    fn is_unchecked(gate: &mut Gate, seconds: u64) -> bool {
        gate.read(FIRST, at(seconds)) == Admission::Quarantined(Quarantine::new(QuarantineReason::NotChecked))
    }

    #[test]
    fn a_server_counts_after_a_look_at_the_end_of_its_wait() {
        assert!(is_admitted(&mut gate(6), 10));
        let mut early = gate(5);
        assert!(!is_admitted(&mut early, 10) && !is_unchecked(&mut early, 10));
        assert!(is_unchecked(&mut early, 11), "another look is needed");
        early.looked(early.begin(), intact(6, 0), at(11));
        assert!(is_admitted(&mut early, 11));
    }

    #[test]
    fn another_connection_and_a_loss_need_another_look() {
        let mut other = gate(9);
        let before = other.read(FIRST, at(10));
        other.read(Some(ConnectionId(2)), at(10));
        assert!(is_unchecked(&mut other, 10));
        other.looked(other.begin(), intact(9, 0), at(10));
        assert!(is_admitted(&mut other, 10));
        assert_ne!(before, other.read(FIRST, at(10)), "the admission has changed");
        let mut flushed = gate(9);
        let stale = flushed.begin();
        flushed.record_losses(1);
        assert!(is_unchecked(&mut flushed, 10));
        flushed.looked(stale, intact(9, 1), at(10));
        assert!(is_unchecked(&mut flushed, 10), "the look began before the loss");
        flushed.looked(flushed.begin(), intact(9, 0), at(10));
        assert!(is_unchecked(&mut flushed, 10), "the look was carried out before the loss");
    }

    #[test]
    fn a_look_that_follows_a_request_only_ends_admissions() {
        let (mut admitted, mut out) = (gate(9), gate(0));
        admitted.apply_following_look(intact(9, 0).look, at(10));
        assert!(is_admitted(&mut admitted, 10));
        admitted.apply_following_look(intact(1, 0).look, at(10));
        assert!(!is_admitted(&mut admitted, 10));
        out.apply_following_look(intact(9, 0).look, at(10));
        assert!(!is_admitted(&mut out, 10));
    }

    #[test]
    fn a_client_that_knew_another_server_waits_by_its_own_clock() {
        let mut restarted = gate(9);
        let mut other = Identity::default();
        other.start();
        restarted.read(Some(ConnectionId(2)), at(10));
        let look = Look::Intact(other, Duration::from_secs(99));
        restarted.looked(restarted.begin(), Looked { look, losses: 0 }, at(10));
        let is_out = |gate: &mut Gate, seconds| {
            !matches!(gate.read(Some(ConnectionId(2)), at(seconds)), Admission::Admitted(_))
        };
        assert!(is_out(&mut restarted, 15));
        restarted.looked(restarted.begin(), Looked { look, losses: 0 }, at(16));
        assert!(!is_out(&mut restarted, 16));
    }
}
