//! When a lock that someone else has is worth another attempt.
//!
//! When a quorum of nodes is free *now*, those included that nobody took: fewer cannot be won. A node is free when it said
//! so and has told of no change since, or when the time has passed that it gave the key. What nodes tell may be late or
//! lost, so a wait is bounded whatever they say.

use std::time::Duration;

use crate::broken::{Variant, broken};
use crate::clock::Instant;

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Nothing: it is not watched, or does not answer.
    Unknown,
    /// It was watched, has told of a change, and is being asked what it was: it will tell.
    Asked,
    Free,
    /// Somebody has it, until then if it is not extended; `None` where that has no end.
    Taken(Option<Instant>),
}

/// What is known of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// A quorum is free.
    Free,
    /// A quorum will tell of changes. At this time it will be free by the times that the nodes gave, if they gave any.
    Watched(Option<Instant>),
    /// Too few will: at this time the watched ones may be free, but others have to be asked.
    Blind,
}

/// Servers expire keys by a clock that counts whole milliseconds, and look at it after they have told the time.
const GRANULE: Duration = Duration::from_millis(2);

impl View {
    /// Of a claim that needs both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Asked, _) | (_, Self::Asked) => Self::Asked,
            (Self::Free, view) | (view, Self::Free) => view,
            (Self::Taken(one), Self::Taken(other)) => {
                Self::Taken(one.zip(other).map(|(one, other)| one.max(other)))
            }
        }
    }

    /// Whether nothing has happened from one to the other: the time that it gives has moved by less than `by`.
    pub(crate) fn resembles(self, other: Self, by: Duration) -> bool {
        match (self, other) {
            (Self::Taken(Some(one)), Self::Taken(Some(other))) => {
                one.max(other).saturating_duration_since(one.min(other)) < by
            }
            _ => self == other,
        }
    }

    /// When it is free, as far as is known.
    fn free_at(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Free => Some(now),
            Self::Taken(_) if broken(Variant::ExpiryLeftToNodes) => None,
            Self::Taken(until) => until.map(|until| until + GRANULE),
            Self::Asked | Self::Unknown => None,
        }
    }
}

pub(crate) fn outlook(views: impl IntoIterator<Item = View>, quorum: usize, now: Instant) -> Outlook {
    let (mut watched, mut free_at) = (0, Vec::new());
    for view in views {
        watched += usize::from(view != View::Unknown);
        free_at.extend(view.free_at(now));
    }
    free_at.sort_unstable();
    match free_at.get(quorum - 1) {
        Some(at) if *at <= now => Outlook::Free,
        at if watched >= quorum => Outlook::Watched(at.copied()),
        _ => Outlook::Blind,
    }
}

/// Whether to try at once when nodes tell of a change, instead of asking first whether it has made them free.
///
/// Mostly not: a change may be the holder's extension. But whoever asks first is always later than a holder that lets go
/// and locks again at once, and would wait for ever behind it. So a waiter tries at every fourth change, with the same
/// chance as everybody else.
#[derive(Debug, Default)]
pub(crate) struct Chances {
    /// A quorum has told of a change, and has not said yet what it was.
    open: bool,
    changes: u32,
}

/// Often enough that nobody starves, and so rare that a holder that renews when a third of its TTL has passed makes whoever
/// waits try once in more than a TTL.
const EVERY: u32 = 4;

impl Chances {
    /// So many nodes may be free: they are, or have told of a change. Answers whether to try now.
    pub(crate) fn see(&mut self, may_be_free: usize, quorum: usize) -> bool {
        let opens = may_be_free >= quorum && !self.open;
        self.open = may_be_free >= quorum;
        self.changes += u32::from(opens);
        let take = self.changes == EVERY || (opens && broken(Variant::TriesAtEveryChange));
        if take {
            self.changes = 0;
        }
        take
    }

    /// An attempt is made, for another reason.
    pub(crate) fn tried(&mut self) {
        self.changes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn taken(millis: u64) -> View {
        View::Taken(Some(at(millis)))
    }

    #[test]
    fn a_quorum_must_be_free_now() {
        use View::{Asked, Free, Unknown};
        let forever = View::Taken(None);
        let cases = [
            // Never taken counts as free: two nodes more suffice.
            (vec![Free, Free, Free, taken(900), taken(900)], Outlook::Free),
            (vec![Free, Free, taken(500), taken(900), taken(700)], Outlook::Watched(Some(at(502)))),
            // The third to expire decides.
            (
                vec![taken(700), taken(500), taken(900), taken(800), taken(600)],
                Outlook::Watched(Some(at(702))),
            ),
            // Its time has passed, though nobody told of it.
            (vec![taken(90), taken(95), taken(98), taken(900), taken(900)], Outlook::Free),
            (vec![taken(90), taken(95), taken(99), taken(900), taken(900)], Outlook::Watched(Some(at(101)))),
            (vec![forever, forever, forever, Free, Free], Outlook::Watched(None)),
            (vec![taken(500), taken(500), taken(500), Unknown, Unknown], Outlook::Watched(Some(at(502)))),
            (vec![taken(500), taken(500), Unknown, Unknown, Unknown], Outlook::Blind),
            (vec![Free, Free, Unknown, Unknown, Unknown], Outlook::Blind),
            // Whoever extends is heard of by all nodes at once: while they are asked, nobody is blind.
            (vec![Asked; 5], Outlook::Watched(None)),
            (vec![Free, Free, Asked, Unknown, Unknown], Outlook::Watched(None)),
            (vec![Free, Asked, Unknown, Unknown, Unknown], Outlook::Blind),
        ];
        for (views, expected) in cases {
            assert_eq!(expected, outlook(views.clone(), 3, at(100)), "{views:?}");
        }
    }

    #[test]
    fn a_change_that_was_none_leaves_the_time_as_it_was() {
        use View::{Free, Unknown};
        let by = Duration::from_millis(10);
        assert!(taken(500).resembles(taken(509), by) && taken(509).resembles(taken(500), by));
        assert!(!taken(500).resembles(taken(510), by) && !taken(510).resembles(taken(500), by));
        assert!(View::Taken(None).resembles(View::Taken(None), by) && Free.resembles(Free, by));
        assert!(!View::Taken(None).resembles(taken(1), by) && !Free.resembles(taken(1), by));
        assert!(!Free.resembles(Unknown, by));
    }

    #[test]
    fn every_fourth_chance_is_taken_without_asking() {
        let mut chances = Chances::default();
        let mut taken = Vec::new();
        for change in 1..=24 {
            assert!(!chances.see(2, 3), "too few");
            if chances.see(3, 3) {
                taken.push(change);
            }
            assert!(!chances.see(4, 3), "it is the same one");
        }
        assert_eq!(vec![4, 8, 12, 16, 20, 24], taken);
        (0..3).for_each(|_| assert!(!chances.see(0, 3) && !chances.see(3, 3)));
        chances.tried();
        assert!((0..3).all(|_| !chances.see(0, 3) && !chances.see(3, 3)), "it was tried meanwhile");
        assert!(!chances.see(0, 3) && chances.see(3, 3));
    }

    #[test]
    fn a_claim_is_free_where_all_of_it_is() {
        use View::{Asked, Free, Unknown};
        assert_eq!(Free, Free.and(Free));
        assert_eq!(taken(5), Free.and(taken(5)));
        assert_eq!(taken(7), taken(5).and(taken(7)));
        assert_eq!(View::Taken(None), taken(5).and(View::Taken(None)));
        assert_eq!(Unknown, Unknown.and(taken(5)));
        assert_eq!((Asked, Unknown), (Free.and(Asked), Asked.and(Unknown)));
    }
}
