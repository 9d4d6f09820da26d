//! The admission of one connection, shared by requests, the keeper and the receiver of pushes.

#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod rule;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use event_listener::{Event, EventListener};
use redlock_core::node::{Admission, AdmissionId, Quarantine, QuarantineReason};
use redlock_core::runtime::Instant;

use self::rule::{ConnectionFacts, Finding, Stamp, Standing, difference};
use crate::message::Reply;
use crate::sync::{Mutex, MutexGuard, locked};

/// The admission of one connection. It begins in quarantine.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// Notified when there is a reason to look again.
    changed: Event,
}

#[derive(Debug)]
struct State {
    admitted: Option<AdmissionId>,
    /// If sentinels choose the server: the time at which their last confirmation expires.
    confirmed_until: Option<Instant>,
    standing: Standing,
    /// The stamp that the last look has found; `None` if it found none.
    stamp: Option<Arc<[u8]>>,
    /// The number of losses that were reported.
    losses: u64,
    /// The time of the first look after the last loss.
    intact_since: Option<Instant>,
    /// True if a loss, or a change of the stamp, was reported since the last look began.
    is_look_due: bool,
    /// The numbers of the last look that was begun, and of the last one that was applied.
    begun: u64,
    applied: u64,
}

/// One look. It must be begun before it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    number: u64,
    losses: u64,
    pub(crate) facts: ConnectionFacts,
}

impl Default for Gate {
    fn default() -> Self {
        let standing = Standing::Out(QuarantineReason::NotChecked);
        let state = State {
            admitted: None,
            confirmed_until: None,
            standing,
            stamp: None,
            losses: 0,
            intact_since: None,
            is_look_due: false,
            begun: 0,
            applied: 0,
        };
        Self { state: Mutex::new(state), changed: Event::new() }
    }
}

/// Returns an identifier that no connection of this process has used.
fn next_id() -> AdmissionId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    AdmissionId(NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Gate {
    /// Returns the admission. `now` and `wait` are needed only for the time left of a quarantine.
    pub(crate) fn admission(&self, wait: impl FnOnce() -> Duration, now: impl Fn() -> Instant) -> Admission {
        let state = self.state();
        let (standing, admitted, until) = (state.standing, state.admitted, state.confirmed_until);
        drop(state);
        match (admitted, until) {
            (Some(id), None) => return Admission::Admitted(id),
            (Some(id), Some(until)) if now() < until => return Admission::Admitted(id),
            (Some(_), Some(_)) => {
                return Admission::Quarantined(Quarantine::new(QuarantineReason::NotChecked));
            }
            (None, _) => {}
        }
        let over = || Quarantine::new(standing.reason()).ending_in(Duration::ZERO);
        Admission::Quarantined(standing.quarantine(wait(), now()).unwrap_or_else(over))
    }

    /// Records that the sentinels have confirmed the server. Its votes count until this time.
    pub(crate) fn confirmed(&self, until: Instant) {
        self.state().confirmed_until = Some(until);
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.state().admitted.is_some()
    }

    /// Returns whether the last look has found a stamp.
    pub(crate) fn knows_stamp(&self) -> bool {
        self.state().stamp.is_some()
    }

    /// Returns whether there is a reason to look again.
    pub(crate) fn is_look_due(&self) -> bool {
        self.state().is_look_due
    }

    /// Returns the quarantine, and ends an admission that a longer wait does not permit any more.
    pub(crate) fn recheck(&self, wait: Duration, now: Instant) -> Option<Quarantine> {
        let mut state = self.state();
        let quarantine = state.standing.quarantine(wait, now);
        if quarantine.is_some() {
            state.admitted = None;
        }
        quarantine
    }

    /// Ends the admission: the server may have lost locks before the next reply.
    pub(crate) fn lose(&self, reason: QuarantineReason) {
        let mut state = self.state();
        state.losses += 1;
        state.intact_since = None;
        state.is_look_due = true;
        state.admitted = None;
        state.standing = Standing::Out(reason);
        state.stamp = None;
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Records that the stamp was written, or that its change is not reported any more. Nothing is lost by that.
    ///
    /// Votes count until the next look. A client that has connected just after a jump of the clock thus learns one look late
    /// that another client has noticed the jump. If this ended the admission instead, a program with a longer TTL would deny
    /// the others their votes in flight, on all servers at once, whenever it connects.
    pub(crate) fn touch(&self) {
        self.state().is_look_due = true;
        self.changed.notify(usize::MAX);
    }

    /// Applies the reply to a comparison. A [difference](difference) ends the admission.
    ///
    /// Does nothing if the last look has found no stamp.
    pub(crate) fn compare(&self, compared: &Reply) {
        let reason = self.state().stamp.as_deref().and_then(|known| difference(known, compared));
        if let Some(reason) = reason {
            self.lose(reason);
        }
    }

    /// Compares the stamp that a look behind a request has found; `None` if the look is not permitted.
    ///
    /// Such a look can end an admission, and begins none.
    pub(crate) fn compare_found(&self, finding: Option<&Finding>) {
        match finding {
            Some(Finding::Stamp(Stamp { renewed: Some(reason), .. })) => self.lose(*reason),
            Some(Finding::Stamp(stamp)) => {
                let is_other = self.state().stamp.as_ref().is_some_and(|known| *known != stamp.text);
                if is_other {
                    self.lose(QuarantineReason::Recent);
                }
            }
            // Without a stamp, the connection was admitted without this right.
            None if !self.knows_stamp() => {}
            Some(_) | None => self.lose(QuarantineReason::NotChecked),
        }
    }

    /// Listens for the next reason to look. Listen first, then look.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Begins a look.
    pub(crate) fn begin(&self, now: Instant) -> Ticket {
        let mut state = self.state();
        state.begun += 1;
        state.is_look_due = false;
        let intact_since = *state.intact_since.get_or_insert(now);
        let facts =
            ConnectionFacts { intact_since, was_lost: state.losses > 0, reason: state.standing.reason() };
        Ticket { number: state.begun, losses: state.losses, facts }
    }

    /// Applies the result of a look. It has no effect after a later look.
    ///
    /// A loss since the look began prevents the admission: it may have followed the look on the server. Returns whether
    /// there was one.
    pub(crate) fn apply(
        &self,
        ticket: Ticket,
        standing: Standing,
        stamp: Option<Arc<[u8]>>,
        wait: Duration,
        now: Instant,
    ) -> bool {
        let mut state = self.state();
        if ticket.losses != state.losses {
            return true;
        }
        if ticket.number > state.applied {
            state.applied = ticket.number;
            state.standing = standing;
            state.stamp = stamp;
            let admitted = standing.quarantine(wait, now).is_none();
            state.admitted = if admitted { state.admitted.or_else(|| Some(next_id())) } else { None };
        }
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);
    const NOW: Instant = Instant::ORIGIN;

    fn intact(age: Duration) -> Standing {
        Standing::Intact { age, at: NOW, reason: QuarantineReason::Recent }
    }

    fn apply(gate: &Gate, ticket: Ticket, age: Duration) -> bool {
        gate.apply(ticket, intact(age), Some(b"one".as_slice().into()), WAIT, NOW)
    }

    fn id(gate: &Gate) -> Option<AdmissionId> {
        match gate.admission(|| WAIT, || NOW) {
            Admission::Admitted(id) => Some(id),
            _ => None,
        }
    }

    fn admitted() -> Gate {
        let gate = Gate::default();
        assert_eq!(None, id(&gate), "nothing counts before the first look");
        assert!(!apply(&gate, gate.begin(NOW), WAIT));
        assert!(gate.is_admitted());
        gate
    }

    #[test]
    fn every_admission_has_its_own_identifier() {
        let (gate, other) = (admitted(), admitted());
        let first = id(&gate);
        assert_ne!(first, id(&other));
        apply(&gate, gate.begin(NOW), 2 * WAIT);
        assert_eq!(first, id(&gate), "nothing was lost");
        gate.lose(QuarantineReason::DataLost);
        assert_eq!(None, id(&gate));
        apply(&gate, gate.begin(NOW), WAIT);
        assert!(id(&gate).is_some() && id(&gate) != first);
    }

    #[test]
    fn a_look_that_a_loss_may_have_followed_admits_nothing() {
        let gate = admitted();
        let before = gate.begin(NOW);
        gate.lose(QuarantineReason::DataLost);
        assert!(apply(&gate, before, WAIT), "another look is necessary");
        assert_eq!(None, id(&gate));
    }

    #[test]
    fn an_earlier_look_does_not_replace_a_later_one() {
        let gate = Gate::default();
        let (earlier, later) = (gate.begin(NOW), gate.begin(NOW));
        apply(&gate, later, Duration::ZERO);
        apply(&gate, earlier, WAIT);
        assert_eq!(None, id(&gate));
    }

    #[test]
    fn a_look_that_finds_a_loss_ends_the_admission() {
        let gate = admitted();
        apply(&gate, gate.begin(NOW), Duration::ZERO);
        assert_eq!(None, id(&gate));
        let Admission::Quarantined(quarantine) = gate.admission(|| WAIT, || NOW) else { panic!() };
        assert_eq!(Some(WAIT), quarantine.remaining);
    }

    #[test]
    fn an_admission_lasts_as_long_as_the_sentinels_confirm_the_server() {
        let (gate, soon) = (admitted(), NOW + Duration::from_secs(1));
        let id_at = |now| match gate.admission(|| WAIT, || now) {
            Admission::Admitted(id) => Some(id),
            _ => None,
        };
        assert!(id_at(NOW + WAIT).is_some(), "no sentinels choose this server");
        gate.confirmed(soon);
        let first = id_at(NOW);
        assert_eq!((true, None), (first.is_some(), id_at(soon)));
        gate.confirmed(soon + WAIT);
        assert_eq!(first, id_at(soon), "nothing was lost meanwhile");
    }

    #[test]
    fn a_look_behind_a_request_only_ends_admissions() {
        let stamp = |text: &[u8], renewed| {
            let (age, longest, text) = (2 * WAIT, Duration::ZERO, text.into());
            Finding::Stamp(Stamp { renewed, age, longest, text })
        };
        let is_admitted_after = |finding: Option<Finding>| {
            let gate = admitted();
            gate.compare_found(finding.as_ref());
            gate.is_admitted()
        };
        assert!(is_admitted_after(Some(stamp(b"one", None))));
        assert!(!is_admitted_after(None), "the right was taken away");
        let without_stamp = Gate::default();
        without_stamp.apply(without_stamp.begin(NOW), intact(WAIT), None, WAIT, NOW);
        without_stamp.compare_found(None);
        assert!(without_stamp.is_admitted());
        assert!(!is_admitted_after(Some(stamp(b"one", Some(QuarantineReason::DataLost)))));
        assert!(!is_admitted_after(Some(stamp(b"two", None))));
        assert!(!is_admitted_after(Some(Finding::Replica)));
        let gate = Gate::default();
        gate.compare_found(Some(&stamp(b"one", None)));
        assert!(!gate.is_admitted());
    }

    #[test]
    fn a_difference_ends_the_admission() {
        let reason_after = |stamp: Reply| {
            let gate = admitted();
            let [role, replid2] = ["master", "0"].map(|text| Reply::Bytes(text.into()));
            gate.compare(&Reply::Array(vec![stamp, role, replid2, Reply::Nil]));
            match gate.admission(|| WAIT, || NOW) {
                Admission::Quarantined(quarantine) => Some(quarantine.reason),
                _ => None,
            }
        };
        assert_eq!(None, reason_after(Reply::Bytes(b"one".to_vec())));
        assert_eq!(Some(QuarantineReason::DataLost), reason_after(Reply::Nil));
    }
}
