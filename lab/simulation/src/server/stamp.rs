//! The stamp of a simulated server, by which clients recognize that it may have lost locks.
//!
//! As with real servers, the stamp is data: it is lost with all other data, and an older copy contains an older stamp.
//! The identity of the server is not data.

use std::time::Duration;

use redlock_core::runtime::Instant;

/// The identity of a server, from its last start and its last promotion on. It is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    starts: u64,
    promotions: u64,
}

/// The time since which the server of an identity has lost nothing, by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    identity: Identity,
    since: Instant,
}

/// The result of a look at the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Intact(Intact),
    /// The server is a replica.
    Replica,
}

/// A server that has lost nothing for a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intact {
    pub(crate) identity: Identity,
    /// The time in the stamp, by the clock of the server.
    pub(crate) since: Instant,
    pub(crate) age: Duration,
    /// True if the look has renewed the stamp.
    pub(crate) is_renewed: bool,
}

impl Identity {
    pub(crate) fn start(&mut self) {
        self.starts += 1;
    }

    pub(super) fn promote(&mut self) {
        self.promotions += 1;
    }
}

impl Stamp {
    /// Returns the stamp of a server that has never lost anything.
    pub(super) fn vouched(identity: Identity) -> Self {
        Self { identity, since: Instant::ORIGIN }
    }

    /// Looks at a stamp at a time. The stamp of another identity, a missing one, or one from before `jumped` is renewed.
    pub(super) fn look(
        stamp: &mut Option<Self>,
        identity: Identity,
        jumped: Option<Instant>,
        now: Instant,
    ) -> Intact {
        let is_younger = |stamp: &Self| jumped.is_none_or(|jumped| stamp.since >= jumped);
        let fits = |stamp: &Self| stamp.identity == identity && stamp.since <= now && is_younger(stamp);
        let present = stamp.filter(fits);
        let Self { since, .. } = *stamp.insert(present.unwrap_or(Self { identity, since: now }));
        let age = now.saturating_duration_since(since);
        Intact { identity, since, age, is_renewed: present.is_none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    fn age(stamp: &mut Option<Stamp>, identity: Identity, seconds: u64) -> u64 {
        Stamp::look(stamp, identity, None, at(seconds)).age.as_secs()
    }

    #[test]
    fn the_first_look_after_a_jump_renews_the_stamp() {
        let (mut stamp, identity) = (None, Identity::default());
        let mut since = |jumped, now| Stamp::look(&mut stamp, identity, jumped, at(now)).since;
        assert_eq!(at(9), since(None, 9));
        assert_eq!(at(20), since(Some(at(19)), 20));
        assert_eq!(at(20), since(Some(at(18)), 21), "another client has renewed it since");
        assert_eq!(at(22), since(Some(at(21)), 22), "another jump");
    }

    #[test]
    fn a_look_renews_the_stamp_of_another_identity() {
        let (first, mut restarted, mut promoted) =
            (Identity::default(), Identity::default(), Identity::default());
        restarted.start();
        promoted.promote();
        for other in [restarted, promoted] {
            let mut stamp = Some(Stamp::vouched(first));
            assert_eq!(9, age(&mut stamp, first, 9));
            assert_eq!(0, age(&mut stamp, other, 10));
            assert_eq!(5, age(&mut stamp, other, 15));
            assert_eq!(0, age(&mut stamp, first, 16), "an identity is never reused");
        }
    }

    #[test]
    fn a_look_sets_a_missing_stamp_and_one_of_the_future() {
        let (mut stamp, identity) = (None, Identity::default());
        assert_eq!(0, age(&mut stamp, identity, 9));
        assert_eq!(1, age(&mut stamp, identity, 10));
        assert_eq!(0, age(&mut stamp, identity, 8), "the clock was set back");
    }
}
