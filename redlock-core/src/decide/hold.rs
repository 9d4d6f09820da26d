//! Whether a lease is held.
//!
//! Never stored, always derived: from the deadline, from what extensions have shown, and from the clock, at each look.
//! So the answer is right also after a pause in which nothing could run. Two rules make it one to build on:
//!
//! - Loss is final. The deadline moves only while the lease is not lost, so whoever was told of a loss stays right.
//! - Loss is told a margin before the deadline, so that work can stop while others are still kept out.

use std::fmt;
use std::time::Duration;

use crate::broken::{Variant, broken};
use crate::clock::Instant;
use crate::token::Fingerprint;
use crate::ttl::Ttl;

/// How a lease stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lock is held.
    Held,
    /// The lock is held, and the last extension failed, or nobody is left to renew it. A later extension that succeeds
    /// makes it [`Held`](LeaseState::Held) again; otherwise it will be lost. After one that was
    /// [superseded](crate::ErrorKind::Superseded) none succeeds.
    Uncertain,
    /// The lock is not held any more, or will not be in a moment. Final.
    Lost(Loss),
}

/// Why a lock is not held any more. A loss with time is told a margin before the validity has passed: see
/// [`Lease::state`](crate::Lease::state).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The validity has passed, and nobody extended it: there was no keep-alive, it had reached a limit, or its task was gone.
    Expired,
    /// The validity has passed, and too few nodes answered when it was to be extended.
    Unreachable,
    /// The validity has passed, and it could not be extended: nodes that have the lock count for newer claims.
    Superseded,
    /// A quorum of nodes says that the lock is not ours: they have lost it, or someone deleted it.
    NotOurs {
        /// Whose it is, where the nodes could tell.
        holder: Option<Fingerprint>,
    },
    /// The guard released it, or was dropped.
    Released,
    /// The guard was detached: the lock is for whoever resumes it.
    Detached,
}

/// The loss as the end of a sentence: `cannot extend the lock on "a": lease expired`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("lease expired"),
            Self::Unreachable => {
                f.write_str("lease expired before it could be renewed: too few nodes responded")
            }
            Self::Superseded => f.write_str("lease expired: a newer claim advanced the fencing counters"),
            Self::NotOurs { holder: None } => f.write_str("keys gone on a quorum of nodes"),
            Self::NotOurs { holder: Some(holder) } => {
                write!(f, "keys gone on a quorum of nodes, {holder} holds the lock")
            }
            Self::Released => f.write_str("lock released"),
            Self::Detached => f.write_str("lock detached"),
        }
    }
}

/// What makes a lease uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Too few nodes answered the last extension.
    Unreachable,
    /// Who was to renew it has ended.
    Abandoned,
    /// It can never be extended again.
    Superseded,
}

/// What is known of one lease.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// At this moment the lease is no longer valid. The origin of time as long as no quorum has granted.
    deadline: Instant,
    /// The TTL of the round that the deadline comes from: so long do its keys live.
    ttl: Option<Ttl>,
    doubt: Option<Doubt>,
    over: Option<Loss>,
}

/// The margin: a fiftieth of the TTL, which is enough to be woken and stop, and little of the validity.
const MARGIN: u32 = 50;

/// Timers are late by a millisecond or two; and nobody needs longer to hear of a loss.
const MARGIN_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(500));

impl Hold {
    /// Of a lease that no node has granted yet.
    pub(crate) fn none() -> Self {
        Self { deadline: Instant::ORIGIN, ttl: None, doubt: None, over: None }
    }

    pub(crate) fn state(&self, now: Instant) -> LeaseState {
        match (&self.over, self.doubt) {
            (Some(loss), _) => LeaseState::Lost(loss.clone()),
            (None, Some(Doubt::Unreachable)) if now >= self.ends() => LeaseState::Lost(Loss::Unreachable),
            (None, Some(Doubt::Superseded)) if now >= self.ends() => LeaseState::Lost(Loss::Superseded),
            (None, _) if now >= self.ends() => LeaseState::Lost(Loss::Expired),
            (None, Some(_)) => LeaseState::Uncertain,
            (None, None) => LeaseState::Held,
        }
    }

    /// How much longer others are kept out.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        match self.over {
            Some(_) => Duration::ZERO,
            None => self.deadline.saturating_duration_since(now),
        }
    }

    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.over.is_some() || now >= self.ends()
    }

    /// Why it is over for another reason than the time.
    pub(crate) fn over(&self) -> Option<&Loss> {
        self.over.as_ref()
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The TTL that the keys have, once a quorum has granted.
    pub(crate) fn ttl(&self) -> Option<Ttl> {
        self.ttl
    }

    /// When the lease is lost unless it is extended.
    pub(crate) fn ends(&self) -> Instant {
        self.deadline - self.margin()
    }

    /// How long before the deadline the loss is told.
    pub(crate) fn margin(&self) -> Duration {
        let (least, most) = MARGIN_BOUNDS;
        self.ttl.map_or(least, |ttl| (ttl.as_duration() / MARGIN).clamp(least, most))
    }

    /// A quorum granted until `deadline`. It is valid until then, or until its old deadline, whichever is later; unless
    /// it was lost before: `false`.
    pub(crate) fn grant(&mut self, deadline: Instant, ttl: Ttl, now: Instant) -> bool {
        if self.ttl.is_some() && self.is_lost(now) && !broken(Variant::ExpiredRevived) {
            return false;
        }
        self.doubt = None;
        if deadline > self.deadline {
            (self.deadline, self.ttl) = (deadline, Some(ttl));
        }
        true
    }

    pub(crate) fn doubt(&mut self, doubt: Doubt, now: Instant) {
        if !self.is_lost(now) {
            self.doubt = Some(doubt);
        }
    }

    /// Ends it for another reason than the time. The first reason stays.
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

    fn held(deadline: u64) -> Hold {
        let mut hold = Hold::none();
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
            let mut hold = Hold::none();
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
        hold.doubt(Doubt::Unreachable, at(4_000));
        assert_eq!(LeaseState::Uncertain, hold.state(at(5_000)));
        assert_eq!(LeaseState::Lost(Loss::Unreachable), hold.state(at(9_698)));
        let mut again = hold.clone();
        assert!(again.grant(at(19_898), ttl(10_000), at(9_697)));
        assert_eq!(LeaseState::Held, again.state(at(9_698)));

        for (doubt, loss) in [(Doubt::Superseded, Loss::Superseded), (Doubt::Abandoned, Loss::Expired)] {
            hold.doubt(doubt, at(4_000));
            assert_eq!(LeaseState::Uncertain, hold.state(at(9_697)));
            assert_eq!(LeaseState::Lost(loss), hold.state(at(9_698)));
        }
    }

    #[test]
    fn the_first_reason_of_a_loss_stays() {
        let mut hold = held(9_898);
        hold.end(Loss::NotOurs { holder: None }, at(1));
        hold.end(Loss::Released, at(2));
        assert_eq!(LeaseState::Lost(Loss::NotOurs { holder: None }), hold.state(at(3)));
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
        let mut hold = Hold::none();
        assert_eq!(None, hold.over());
        hold.end(Loss::Released, at(5));
        assert_eq!(Some(&Loss::Released), hold.over());
        assert_eq!(LeaseState::Lost(Loss::Released), hold.state(at(5)));
    }

    #[test]
    fn a_loss_says_why() {
        assert_eq!("lease expired", Loss::Expired.to_string());
        assert_eq!("lock released", Loss::Released.to_string());
        let gone = Loss::NotOurs { holder: None }.to_string();
        assert_eq!("keys gone on a quorum of nodes", gone);
    }

    #[derive(Clone, Debug)]
    enum Event {
        Grant(u64),
        Doubt(Doubt),
        End,
    }

    proptest! {
        /// Whatever happens in whatever order, nobody who was told of a loss is contradicted later.
        #[test]
        fn loss_is_final_and_the_deadline_never_moves_back(
            events in prop::collection::vec((0_u64..5_000, prop_oneof![
                4 => (0_u64..12_000).prop_map(Event::Grant),
                2 => prop_oneof![Just(Doubt::Unreachable), Just(Doubt::Abandoned)].prop_map(Event::Doubt),
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
