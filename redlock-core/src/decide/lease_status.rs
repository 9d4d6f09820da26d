//! The state of a lease.
//!
//! The state is never stored. Each call derives it from the deadline, the outcomes of extensions, and the clock. Thus it
//! is correct even after a pause in which nothing could run. Two rules make it reliable:
//!
//! - A loss is final. The deadline moves only while the lease is not lost, so a reported loss stays correct.
//! - A loss is reported a margin before the deadline, so that work can stop while other clients are still excluded.

use std::time::Duration;

use crate::decide::grace;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::ttl::Ttl;

/// The reason why a lease is at risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Degraded {
    /// Too few nodes replied to the last extension.
    Unreachable,
    /// The task that renews the lease has ended.
    RenewalEnded,
    /// The lease can never be extended again.
    Superseded,
}

/// The facts from which the state of one lease is derived.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct LeaseStatus {
    /// The moment at which the lease is no longer valid. It is the origin of time until a quorum has granted.
    deadline: Instant,
    /// The TTL of the round that set the deadline, which is also the TTL of its keys.
    ttl: Option<Ttl>,
    degraded: Option<Degraded>,
    ended: Option<Loss>,
    /// How long before a loss the work is told to stop.
    grace: Duration,
}

/// The shortest time between the report of a loss and the deadline: timers fire a millisecond or two late.
pub(crate) const LEAST_MARGIN: Duration = Duration::from_millis(1);

impl LeaseStatus {
    /// Creates the status of a lease that no node has granted yet.
    pub(crate) fn none() -> Self {
        Self { deadline: Instant::ORIGIN, ttl: None, degraded: None, ended: None, grace: Duration::ZERO }
    }

    pub(crate) fn state(&self, now: Instant) -> LeaseState {
        match (&self.ended, self.degraded) {
            (Some(loss), _) => LeaseState::Lost(loss.clone()),
            (None, Some(Degraded::Unreachable)) if now >= self.ends() => LeaseState::Lost(Loss::Unreachable),
            (None, Some(Degraded::Superseded)) if now >= self.ends() => LeaseState::Lost(Loss::Superseded),
            (None, _) if now >= self.ends() => LeaseState::Lost(Loss::Expired),
            (None, Some(_)) => LeaseState::AtRisk,
            (None, None) => LeaseState::Held,
        }
    }

    /// Returns how much longer other clients are excluded.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        match self.ended {
            Some(_) => Duration::ZERO,
            None => self.deadline.saturating_duration_since(now),
        }
    }

    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.ended.is_some() || now >= self.ends()
    }

    /// Returns why the lease has ended, if time is not the reason.
    pub(crate) fn ended(&self) -> Option<&Loss> {
        self.ended.as_ref()
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the TTL of the keys, once a quorum has granted.
    pub(crate) fn ttl(&self) -> Option<Ttl> {
        self.ttl
    }

    /// Returns when the lease is lost unless it is extended.
    pub(crate) fn ends(&self) -> Instant {
        self.deadline - self.margin()
    }

    /// Returns how long before the deadline the loss is reported.
    pub(crate) fn margin(&self) -> Duration {
        self.ttl.map_or(LEAST_MARGIN, |ttl| grace::margin(ttl.as_duration(), LEAST_MARGIN))
    }

    /// Sets how long before a loss the work is told to stop.
    pub(crate) fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Returns when the work is told to stop, and renewals end, unless the lease is extended.
    pub(crate) fn ending_at(&self) -> Instant {
        self.ends() - self.grace
    }

    /// Returns whether the work is to stop: the lease has ended, or does within the grace period.
    pub(crate) fn is_ending(&self, now: Instant) -> bool {
        self.ended.is_some() || now >= self.ending_at()
    }

    /// Records that a quorum granted until `deadline`.
    ///
    /// The lease is then valid until the later of the old and the new deadline. Returns `false` if it was lost before.
    pub(crate) fn grant(&mut self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        if self.ttl.is_some() && self.is_lost(now) {
            return false;
        }
        self.degraded = None;
        if deadline > self.deadline {
            (self.deadline, self.ttl) = (deadline, Some(ttl));
        }
        true
    }

    pub(crate) fn degrade(&mut self, degraded: Degraded, now: Instant) {
        if !self.is_lost(now) {
            self.degraded = Some(degraded);
        }
    }

    /// Ends the lease for a reason other than time, and returns the status before. The first reason stays.
    pub(crate) fn end(&mut self, loss: Loss, now: Instant) -> Self {
        let before = self.clone();
        if self.ended.is_none() {
            self.ended = Some(match self.state(now) {
                LeaseState::Lost(earlier) if self.ttl.is_some() => earlier,
                _ => loss,
            });
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn held(deadline: u64) -> LeaseStatus {
        let mut status = LeaseStatus::none();
        assert!(status.grant(at(deadline), ttl(10_000), at(0)));
        status
    }

    #[test]
    fn a_loss_is_reported_a_margin_before_the_deadline() {
        let status = held(9_898);
        assert_eq!(LeaseState::Held, status.state(at(9_697)));
        assert_eq!(LeaseState::Lost(Loss::Expired), status.state(at(9_698)));
        assert_eq!(Duration::from_millis(200), status.remaining(at(9_698)));
        assert_eq!(Duration::ZERO, status.remaining(at(9_898)));
    }

    #[test]
    fn margins_are_between_a_millisecond_and_half_a_second() {
        let margin = |millis| {
            let mut status = LeaseStatus::none();
            status.grant(at(1_000_000_000), ttl(millis), at(0));
            status.margin()
        };
        let expected = [(10, 1), (50, 1), (5_000, 100), (25_000, 500), (1_000_000, 500)];
        for (ttl, millis) in expected {
            assert_eq!(Duration::from_millis(millis), margin(ttl), "of {ttl} ms");
        }
    }

    #[test]
    fn a_failed_renewal_is_the_reason_of_the_loss_unless_an_extension_succeeds() {
        let mut status = held(9_898);
        status.degrade(Degraded::Unreachable, at(4_000));
        assert_eq!(LeaseState::AtRisk, status.state(at(5_000)));
        assert_eq!(LeaseState::Lost(Loss::Unreachable), status.state(at(9_698)));
        let mut again = status.clone();
        assert!(again.grant(at(19_898), ttl(10_000), at(9_697)));
        assert_eq!(LeaseState::Held, again.state(at(9_698)));

        for (doubt, loss) in
            [(Degraded::Superseded, Loss::Superseded), (Degraded::RenewalEnded, Loss::Expired)]
        {
            status.degrade(doubt, at(4_000));
            assert_eq!(LeaseState::AtRisk, status.state(at(9_697)));
            assert_eq!(LeaseState::Lost(loss), status.state(at(9_698)));
        }
    }

    #[test]
    fn the_first_reason_of_a_loss_is_kept() {
        let mut status = held(9_898);
        status.end(Loss::Revoked { holder: None }, at(1));
        status.end(Loss::Released, at(2));
        assert_eq!(LeaseState::Lost(Loss::Revoked { holder: None }), status.state(at(3)));
        assert_eq!(Duration::ZERO, status.remaining(at(3)));

        let mut status = held(9_898);
        status.end(Loss::Released, at(9_700));
        assert_eq!(
            LeaseState::Lost(Loss::Expired),
            status.state(at(9_700)),
            "the lease expired before the release"
        );
    }

    #[test]
    fn the_ttl_belongs_to_the_round_that_set_the_deadline() {
        let mut status = held(9_898);
        assert!(status.grant(at(9_898), ttl(5_000), at(1)));
        assert_eq!(Some(ttl(10_000)), status.ttl(), "the deadline is unchanged");
        assert!(status.grant(at(9_899), ttl(5_000), at(1)));
        assert_eq!(Some(ttl(5_000)), status.ttl());
    }

    #[test]
    fn a_lease_that_was_never_granted_cannot_expire() {
        let mut status = LeaseStatus::none();
        assert_eq!(None, status.ended());
        status.end(Loss::Released, at(5));
        assert_eq!(Some(&Loss::Released), status.ended());
        assert_eq!(LeaseState::Lost(Loss::Released), status.state(at(5)));
    }

    #[test]
    fn a_loss_displays_its_reason() {
        assert_eq!("lease expired", Loss::Expired.to_string());
        assert_eq!("lock released", Loss::Released.to_string());
        let gone = Loss::Revoked { holder: None }.to_string();
        assert_eq!("keys gone on a quorum of nodes", gone);
    }

    #[derive(Clone, Debug)]
    enum Event {
        Grant(u64),
        Doubt(Degraded),
        End,
    }

    proptest! {
        /// In any order of events, a reported loss is never contradicted later.
        #[test]
        fn loss_is_final_and_the_deadline_never_moves_back(
            events in prop::collection::vec((0_u64..5_000, prop_oneof![
                4 => (0_u64..12_000).prop_map(Event::Grant),
                2 => prop_oneof![Just(Degraded::Unreachable), Just(Degraded::RenewalEnded)].prop_map(Event::Doubt),
                1 => Just(Event::End),
            ]), 1..40),
        ) {
            let (mut status, mut now) = (held(9_898), 0);
            let (mut lost, mut deadline) = (None, status.deadline());
            for (later, event) in events {
                now += later;
                if let LeaseState::Lost(loss) = status.state(at(now)) {
                    lost.get_or_insert(loss);
                }
                match event {
                    Event::Grant(later) => {
                        let granted = status.grant(at(now + later), ttl(10_000), at(now));
                        prop_assert_eq!(lost.is_none(), granted);
                    }
                    Event::Doubt(doubt) => status.degrade(doubt, at(now)),
                    Event::End => drop(status.end(Loss::Released, at(now))),
                }
                prop_assert!(status.deadline() >= deadline);
                deadline = status.deadline();
                if let Some(loss) = &lost {
                    prop_assert_eq!(&LeaseState::Lost(loss.clone()), &status.state(at(now)));
                }
            }
        }
    }
}
