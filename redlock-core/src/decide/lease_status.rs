//! The state of a lease.
//!
//! The state is never stored. Each call derives it from the deadline, the outcomes of extensions, and the clock. So it
//! is correct even after a pause in which nothing could run. Two rules make it reliable:
//!
//! - A loss is final. The deadline moves only while the lease is not lost, so a reported loss stays correct.
//! - A loss is reported a margin before the deadline, so that work can stop while other clients are still excluded.

use std::fmt;
use std::time::Duration;

use crate::types::instant::Instant;
use crate::types::token::Fingerprint;
use crate::types::ttl::Ttl;

/// The state of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, but its renewal is at risk.
    ///
    /// The last extension failed, or the keep-alive has ended. A later extension that succeeds makes the state
    /// [`Held`](LeaseState::Held) again. Otherwise the lock will be lost. After a
    /// [superseded](crate::ErrorKind::Superseded) extension, no later one succeeds.
    AtRisk,
    /// The lock is no longer held, or will not be in a moment. This state is final.
    Lost(Loss),
}

/// The reason why a lock is no longer held.
///
/// A loss that time causes is reported a margin before the validity ends; see [`Lease::state`](crate::Lease::state).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The validity ended without an extension.
    ///
    /// There was no keep-alive, it had reached a limit, or its task had ended.
    Expired,
    /// The validity ended, and too few nodes replied to its extension.
    Unreachable,
    /// The validity ended, and newer claims prevented its extension.
    ///
    /// The nodes that have the lock count for newer claims.
    Superseded,
    /// A quorum of nodes reports that this client no longer holds the lock.
    ///
    /// The nodes have lost the lock, or another client deleted it.
    Revoked {
        /// The current holder, if the nodes reported it.
        holder: Option<Fingerprint>,
    },
    /// The guard was released or dropped.
    Released,
    /// The guard was detached, so that another owner can resume the lock.
    Detached,
}

/// The loss as the end of a sentence. Example: `cannot extend the lock on "a": lease expired`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("lease expired"),
            Self::Unreachable => {
                f.write_str("lease expired before it could be renewed: too few nodes responded")
            }
            Self::Superseded => f.write_str("lease expired: a newer claim advanced the fencing counters"),
            Self::Revoked { holder: None } => f.write_str("keys gone on a quorum of nodes"),
            Self::Revoked { holder: Some(holder) } => {
                write!(f, "keys gone on a quorum of nodes, {holder} holds the lock")
            }
            Self::Released => f.write_str("lock released"),
            Self::Detached => f.write_str("lock detached"),
        }
    }
}

/// The reason why a lease is at risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Degraded {
    /// Too few nodes replied to the last extension.
    Unreachable,
    /// The task that renews the lease has ended.
    Abandoned,
    /// The lease can never be extended again.
    Superseded,
}

/// The facts from which the state of one lease is derived.
#[derive(Clone, Debug)]
pub(crate) struct LeaseStatus {
    /// The moment at which the lease is no longer valid. It is the origin of time until a quorum has granted.
    deadline: Instant,
    /// The TTL of the round that set the deadline, and so of its keys.
    ttl: Option<Ttl>,
    doubt: Option<Degraded>,
    over: Option<Loss>,
}

/// The divisor of the TTL that results in the margin.
///
/// A fiftieth is enough for a task to wake up and stop, and little of the validity.
const MARGIN: u32 = 50;

/// The bounds of the margin.
///
/// Timers fire a millisecond or two late, and no task needs longer than this to learn of a loss.
const MARGIN_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(500));

impl LeaseStatus {
    /// Creates the status of a lease that no node has granted yet.
    pub(crate) fn none() -> Self {
        Self { deadline: Instant::ORIGIN, ttl: None, doubt: None, over: None }
    }

    pub(crate) fn state(&self, now: Instant) -> LeaseState {
        match (&self.over, self.doubt) {
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
        match self.over {
            Some(_) => Duration::ZERO,
            None => self.deadline.saturating_duration_since(now),
        }
    }

    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.over.is_some() || now >= self.ends()
    }

    /// Returns why the lease has ended, if time is not the reason.
    pub(crate) fn ended(&self) -> Option<&Loss> {
        self.over.as_ref()
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
        let (least, most) = MARGIN_BOUNDS;
        self.ttl.map_or(least, |ttl| (ttl.as_duration() / MARGIN).clamp(least, most))
    }

    /// Records that a quorum granted until `deadline`.
    ///
    /// The lease is then valid until the later of the old and the new deadline. Returns `false` if it was lost before.
    pub(crate) fn grant(&mut self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        if self.ttl.is_some() && self.is_lost(now) {
            return false;
        }
        self.doubt = None;
        if deadline > self.deadline {
            (self.deadline, self.ttl) = (deadline, Some(ttl));
        }
        true
    }

    pub(crate) fn doubt(&mut self, doubt: Degraded, now: Instant) {
        if !self.is_lost(now) {
            self.doubt = Some(doubt);
        }
    }

    /// Ends the lease for a reason other than time. The first reason stays.
    pub(crate) fn end(&mut self, loss: Loss, now: Instant) {
        if self.over.is_none() {
            self.over = Some(match self.state(now) {
                LeaseState::Lost(earlier) if self.ttl.is_some() => earlier,
                _ => loss,
            });
        }
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
        let mut hold = LeaseStatus::none();
        assert!(hold.grant(at(deadline), ttl(10_000), at(0)));
        hold
    }

    #[test]
    fn loss_is_told_a_margin_before_the_deadline() {
        let hold = held(9_898);
        assert_eq!(LeaseState::Held, hold.state(at(9_697)));
        assert_eq!(LeaseState::Lost(Loss::Expired), hold.state(at(9_698)));
        assert_eq!(Duration::from_millis(200), hold.remaining(at(9_698)));
        assert_eq!(Duration::ZERO, hold.remaining(at(9_898)));
    }

    #[test]
    fn margins_lie_between_a_millisecond_and_half_a_second() {
        let margin = |millis| {
            let mut hold = LeaseStatus::none();
            hold.grant(at(1_000_000_000), ttl(millis), at(0));
            hold.margin()
        };
        let expected = [(10, 1), (50, 1), (5_000, 100), (25_000, 500), (1_000_000, 500)];
        for (ttl, millis) in expected {
            assert_eq!(Duration::from_millis(millis), margin(ttl), "of {ttl} ms");
        }
    }

    #[test]
    fn a_doubt_passes_with_the_next_extension_and_names_the_loss_otherwise() {
        let mut hold = held(9_898);
        hold.doubt(Degraded::Unreachable, at(4_000));
        assert_eq!(LeaseState::AtRisk, hold.state(at(5_000)));
        assert_eq!(LeaseState::Lost(Loss::Unreachable), hold.state(at(9_698)));
        let mut again = hold.clone();
        assert!(again.grant(at(19_898), ttl(10_000), at(9_697)));
        assert_eq!(LeaseState::Held, again.state(at(9_698)));

        for (doubt, loss) in [(Degraded::Superseded, Loss::Superseded), (Degraded::Abandoned, Loss::Expired)]
        {
            hold.doubt(doubt, at(4_000));
            assert_eq!(LeaseState::AtRisk, hold.state(at(9_697)));
            assert_eq!(LeaseState::Lost(loss), hold.state(at(9_698)));
        }
    }

    #[test]
    fn the_first_reason_of_a_loss_stays() {
        let mut hold = held(9_898);
        hold.end(Loss::Revoked { holder: None }, at(1));
        hold.end(Loss::Released, at(2));
        assert_eq!(LeaseState::Lost(Loss::Revoked { holder: None }), hold.state(at(3)));
        assert_eq!(Duration::ZERO, hold.remaining(at(3)));

        let mut hold = held(9_898);
        hold.end(Loss::Released, at(9_700));
        assert_eq!(LeaseState::Lost(Loss::Expired), hold.state(at(9_700)), "it had expired before");
    }

    #[test]
    fn the_ttl_is_that_of_the_round_that_the_deadline_comes_from() {
        let mut hold = held(9_898);
        assert!(hold.grant(at(9_898), ttl(5_000), at(1)));
        assert_eq!(Some(ttl(10_000)), hold.ttl(), "the deadline has not moved");
        assert!(hold.grant(at(9_899), ttl(5_000), at(1)));
        assert_eq!(Some(ttl(5_000)), hold.ttl());
    }

    #[test]
    fn what_was_never_granted_cannot_have_expired() {
        let mut hold = LeaseStatus::none();
        assert_eq!(None, hold.ended());
        hold.end(Loss::Released, at(5));
        assert_eq!(Some(&Loss::Released), hold.ended());
        assert_eq!(LeaseState::Lost(Loss::Released), hold.state(at(5)));
    }

    #[test]
    fn a_loss_says_why() {
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
                2 => prop_oneof![Just(Degraded::Unreachable), Just(Degraded::Abandoned)].prop_map(Event::Doubt),
                1 => Just(Event::End),
            ]), 1..40),
        ) {
            let (mut hold, mut now) = (held(9_898), 0);
            let (mut lost, mut deadline) = (None, hold.deadline());
            for (later, event) in events {
                now += later;
                if let LeaseState::Lost(loss) = hold.state(at(now)) {
                    lost.get_or_insert(loss);
                }
                match event {
                    Event::Grant(later) => {
                        let granted = hold.grant(at(now + later), ttl(10_000), at(now));
                        prop_assert_eq!(lost.is_none(), granted);
                    }
                    Event::Doubt(doubt) => hold.doubt(doubt, at(now)),
                    Event::End => hold.end(Loss::Released, at(now)),
                }
                prop_assert!(hold.deadline() >= deadline);
                deadline = hold.deadline();
                if let Some(loss) = &lost {
                    prop_assert_eq!(&LeaseState::Lost(loss.clone()), &hold.state(at(now)));
                }
            }
        }
    }
}
