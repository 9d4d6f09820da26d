//! The admission of a simulated server, as one client knows it: looks, notifications of losses, and the wait.
//!
//! This follows the rule of the real connections. A client looks at the stamp over every connection before a vote
//! counts, and again when the wait is over. On a stream, the notification of a loss arrives before any later reply. With
//! datagrams there is no such order, so a look follows each request.
//!
//! The clock of the server is read behind each vote and each look. A jump is a loss: the server is out for a wait by the
//! clock of the client, and the next look renews the stamp.

use std::time::Duration;

use redlock_core::node::{
    Admission, AdmissionId, ClockReading, ConnectionId, Quarantine, QuarantineReason, ServerClock,
};
use redlock_core::runtime::Instant;

use crate::server::{Identity, Intact, Look, Looked, Pushed};

/// The time between two looks at a replica.
const REPLICA: Duration = Duration::from_millis(300);

/// The difference of two times that belong to one event.
const SAME_TIME: Duration = Duration::from_secs(1);

/// The admission of one node. Pure.
#[derive(Debug)]
pub(super) struct Gate {
    /// The time for which a server stays in quarantine.
    wait: Duration,
    state: State,
    /// The connection of the state; `None` for datagrams.
    connection: Option<ConnectionId>,
    /// The changes that the server has reported over this connection.
    pushed: Pushed,
    /// The last server that the client has seen here.
    known: Option<Identity>,
    /// The end of the wait by the clock of the client, and its reason. It begins when the client sees another server here,
    /// or a jump of its clock.
    own_wait: (Instant, QuarantineReason),
    clock: ServerClock,
    /// The time of the server at which a jump of its clock was noticed, until the stamp is younger.
    jumped: Option<Instant>,
    /// True if a change was noticed since the last look began.
    is_look_due: bool,
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
    /// The time of the server at which a jump was noticed: an older stamp is to be renewed.
    pub(super) jumped: Option<Instant>,
}

impl Gate {
    pub(super) fn new(longest_ttl: Duration) -> Self {
        Self {
            wait: Quarantine::duration(longest_ttl),
            state: State::Unchecked,
            connection: None,
            pushed: Pushed::default(),
            known: None,
            own_wait: (Instant::ORIGIN, QuarantineReason::Restarted),
            clock: ServerClock::default(),
            jumped: None,
            is_look_due: true,
            changes: 0,
        }
    }

    /// Returns the admission over a connection.
    pub(super) fn read(&mut self, connection: Option<ConnectionId>, now: Instant) -> Admission {
        if self.connection != connection {
            self.connection = connection;
            self.pushed = Pushed::default();
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

    /// Returns how long a server stays in quarantine.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// Returns the time until the next look, at most `interval`; zero if a change was noticed.
    pub(super) fn next_look(&self, interval: Duration, now: Instant) -> Duration {
        match self.state {
            _ if self.is_look_due => Duration::ZERO,
            State::Out { until, .. } => until.saturating_duration_since(now).min(interval),
            State::Unchecked | State::Admitted => interval,
        }
    }

    pub(super) fn begin(&mut self) -> Ticket {
        self.is_look_due = false;
        Ticket { changes: self.changes, jumped: self.jumped }
    }

    /// Applies the result of a look, unless the state has changed since it began.
    pub(super) fn looked(&mut self, ticket: Ticket, looked: Looked, now: Instant) {
        if let Look::Intact(Intact { since, is_renewed, .. }) = looked.look {
            let is_recorded = |jumped| since >= jumped || is_renewed && ticket.jumped == Some(jumped);
            self.jumped = self.jumped.filter(|jumped| !is_recorded(*jumped));
        }
        let end = self.end(looked.look, now);
        if ticket.changes != self.changes || looked.pushed.losses < self.pushed.losses {
            return;
        }
        self.pushed = looked.pushed;
        self.apply(end);
    }

    /// Records the changes that the server had reported before it sent its next reply. Returns whether a look is due.
    ///
    /// Nothing is lost if only the stamp has changed: the look will show what it means.
    pub(super) fn record_pushed(&mut self, pushed: Pushed) -> bool {
        let Pushed { losses, renewals } = self.pushed;
        if pushed.losses > losses {
            self.become_unchecked();
        }
        self.is_look_due |= pushed.losses > losses || pushed.renewals > renewals;
        let (losses, renewals) = (losses.max(pushed.losses), renewals.max(pushed.renewals));
        self.pushed = Pushed { losses, renewals };
        self.is_look_due
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
            self.apply(end);
        }
    }

    /// Applies a reading of the clock. A jump ends the admission. Returns whether a look is due.
    ///
    /// A look is applied before the reading that was sent with it. It shows whether this is the same server.
    pub(super) fn read_clock(&mut self, reading: ClockReading) -> bool {
        if self.clock.jump(reading, self.wait).is_none() {
            return false;
        }
        let (until, reason) = (reading.received + self.wait, QuarantineReason::ClockJumped);
        self.own_wait = (until, reason);
        self.jumped = Some(Instant::since_origin(reading.server));
        self.is_look_due = true;
        self.apply(Some((reason, until)));
        true
    }

    /// Records that the server rejects writes, like a replica.
    pub(super) fn rejected(&mut self) {
        self.become_unchecked();
    }

    fn become_unchecked(&mut self) {
        self.state = State::Unchecked;
        self.changes += 1;
    }

    fn apply(&mut self, end: Option<(QuarantineReason, Instant)>) {
        self.state = match (self.state, end) {
            // Nothing was lost, so the admission goes on.
            (State::Admitted, None) => return,
            (_, Some((reason, until))) => State::Out { reason, until },
            (_, None) => State::Admitted,
        };
        self.changes += 1;
    }

    /// Returns the end of the quarantine, and the reason; `None` if the server counts.
    fn end(&mut self, look: Look, now: Instant) -> Option<(QuarantineReason, Instant)> {
        let Look::Intact(Intact { identity, age, .. }) = look else {
            return Some((QuarantineReason::Replica, now + REPLICA));
        };
        if self.known.replace(identity).is_some_and(|known| known != identity) {
            self.own_wait = (now + self.wait, QuarantineReason::Restarted);
            self.clock.restart();
        }
        let (own, noticed) = self.own_wait;
        let until = now + self.wait.saturating_sub(age);
        // A stamp that is younger than the loss that was noticed has another reason.
        let reason = if until > own + SAME_TIME { QuarantineReason::Restarted } else { noticed };
        let until = until.max(own);
        (until > now).then_some((reason, until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ClockShown;

    const FIRST: Option<ConnectionId> = Some(ConnectionId(1));

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    fn look(identity: Identity, age: u64) -> Look {
        Look::Intact(Intact { identity, since: at(1_000), age: Duration::from_secs(age), is_renewed: false })
    }

    fn pushed(losses: u64) -> Pushed {
        Pushed { losses, renewals: 0 }
    }

    fn intact(age: u64, losses: u64) -> Looked {
        let (look, clock) = (look(Identity::default(), age), ClockShown::default());
        Looked { look, pushed: pushed(losses), clock }
    }

    /// A reading at a time of the client, with the clock of the server ahead by so much.
    fn reading(seconds: u64, ahead: u64) -> ClockReading {
        let server = Duration::from_secs(1_000_000 + seconds) + Duration::from_millis(ahead);
        ClockReading { sent: Some(at(seconds)), server, received: at(seconds) }
    }

    /// Returns a gate with a wait of six seconds, which has read a look at 10 s.
    fn gate(age: u64) -> Gate {
        let mut gate = Gate::new(Duration::from_secs(4));
        gate.read(FIRST, at(10));
        let ticket = gate.begin();
        gate.looked(ticket, intact(age, 0), at(10));
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
        let ticket = early.begin();
        early.looked(ticket, intact(6, 0), at(11));
        assert!(is_admitted(&mut early, 11));
    }

    #[test]
    fn a_look_that_finds_no_loss_does_not_change_the_admission() {
        let mut same = gate(9);
        let before = same.read(FIRST, at(10));
        let ticket = same.begin();
        same.looked(ticket, intact(10, 0), at(11));
        assert_eq!(before, same.read(FIRST, at(11)));
    }

    #[test]
    fn another_connection_and_a_loss_need_another_look() {
        let mut other = gate(9);
        let before = other.read(FIRST, at(10));
        other.read(Some(ConnectionId(2)), at(10));
        assert!(is_unchecked(&mut other, 10));
        let ticket = other.begin();
        other.looked(ticket, intact(9, 0), at(10));
        assert!(is_admitted(&mut other, 10));
        assert_ne!(before, other.read(FIRST, at(10)), "the admission has changed");
        let mut flushed = gate(9);
        let stale = flushed.begin();
        flushed.record_pushed(pushed(1));
        assert!(is_unchecked(&mut flushed, 10));
        flushed.looked(stale, intact(9, 1), at(10));
        assert!(is_unchecked(&mut flushed, 10), "the look began before the loss");
        let ticket = flushed.begin();
        flushed.looked(ticket, intact(9, 0), at(10));
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
        let looked = Looked { look: look(other, 99), ..intact(0, 0) };
        let ticket = restarted.begin();
        restarted.looked(ticket, looked, at(10));
        let is_out = |gate: &mut Gate, seconds| {
            !matches!(gate.read(Some(ConnectionId(2)), at(seconds)), Admission::Admitted(_))
        };
        assert!(is_out(&mut restarted, 15));
        let ticket = restarted.begin();
        restarted.looked(ticket, looked, at(16));
        assert!(!is_out(&mut restarted, 16));
    }

    #[test]
    fn a_jump_of_the_clock_begins_a_quarantine_by_the_clock_of_the_client() {
        let mut jumped = gate(9);
        let stale = jumped.begin();
        assert!(!jumped.read_clock(reading(10, 0)) && is_admitted(&mut jumped, 10));
        assert!(jumped.read_clock(reading(11, 500)) && !is_admitted(&mut jumped, 11));
        assert_eq!(Duration::ZERO, jumped.next_look(Duration::from_secs(1), at(11)));
        jumped.looked(stale, intact(9, 0), at(11));
        let ticket = jumped.begin();
        assert!(ticket.jumped.is_some(), "the look renews the stamp");
        jumped.looked(ticket, intact(99, 0), at(11));
        let Admission::Quarantined(quarantine) = jumped.read(FIRST, at(12)) else { panic!() };
        let expected = Quarantine::new(QuarantineReason::ClockJumped).ending_in(Duration::from_secs(5));
        assert_eq!(expected, quarantine);
        assert!(!jumped.read_clock(reading(16, 500)));
        let ticket = jumped.begin();
        jumped.looked(ticket, intact(99, 0), at(17));
        assert!(is_admitted(&mut jumped, 17));
    }

    #[test]
    fn a_renewed_stamp_makes_a_look_due_and_ends_nothing() {
        let mut touched = gate(9);
        assert!(touched.record_pushed(Pushed { losses: 0, renewals: 1 }));
        assert!(is_admitted(&mut touched, 10));
        let ticket = touched.begin();
        touched.looked(ticket, intact(0, 0), at(10));
        assert!(!is_admitted(&mut touched, 10));
    }
}
