//! The decision to attempt a contended lock again.
//!
//! An attempt is justified when a quorum of nodes is free *now*, because fewer nodes cannot grant the lock. Nodes on
//! which the lock was never held count as free. A node is free if its last reply says so and no notification has
//! followed, or if the reported expiry of the key has passed. Notifications may be late or lost, so every wait is
//! bounded.

use std::time::Duration;

use crate::decide::quorums::{Members, Quorums};
use crate::types::instant::Instant;
use crate::types::quarantine::Quarantine;
use crate::types::ttl::EXPIRY_GRANULE;

/// The knowledge about one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeView {
    /// Nothing is known: the node is not watched, or does not reply.
    Unknown,
    /// The watched node has sent a notification and is being queried.
    Queried,
    Free,
    /// The lock is held until then, unless it is extended; `None` without an expiry.
    Taken(Option<Instant>),
}

/// The knowledge about all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A quorum is free.
    Free,
    /// A quorum sends notifications.
    ///
    /// At this time a quorum is free according to the reported expiries, if there are enough of them.
    Watched(Option<Instant>),
    /// Too few nodes send notifications, so the others must be queried.
    Blind,
}

impl NodeView {
    /// Returns the view that follows from the quarantine alone.
    ///
    /// A node in quarantine grants nothing before the end of the quarantine.
    pub(crate) fn of_quarantine(quarantine: Option<Quarantine>, now: Instant) -> Self {
        match quarantine {
            None => Self::Free,
            Some(quarantine) => {
                quarantine.remaining.map_or(Self::Unknown, |remaining| Self::Taken(Some(now + remaining)))
            }
        }
    }

    /// Combines two views, for example of two resources that a claim needs.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Queried, _) | (_, Self::Queried) => Self::Queried,
            (Self::Free, view) | (view, Self::Free) => view,
            (Self::Taken(one), Self::Taken(other)) => {
                Self::Taken(one.zip(other).map(|(one, other)| one.max(other)))
            }
        }
    }

    /// Returns whether nothing has happened between two views. Then the reported expiry has moved by less than `by`.
    pub(crate) fn resembles(self, other: Self, by: Duration) -> bool {
        match (self, other) {
            (Self::Taken(Some(one)), Self::Taken(Some(other))) => {
                one.max(other).saturating_duration_since(one.min(other)) < by
            }
            _ => self == other,
        }
    }

    /// Returns when the node is free, as far as known.
    fn free_at(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Free => Some(now),
            Self::Taken(until) => until.map(|until| until + EXPIRY_GRANULE),
            Self::Queried | Self::Unknown => None,
        }
    }
}

impl Readiness {
    /// Combines the readiness of two lists, of which both must be free.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Blind, _) | (_, Self::Blind) => Self::Blind,
            (Self::Free, other) | (other, Self::Free) => other,
            (Self::Watched(one), Self::Watched(other)) => {
                Self::Watched(one.zip(other).map(|(one, other)| one.max(other)))
            }
        }
    }
}

/// Returns the readiness of all nodes, in whose order the views are.
pub(crate) fn readiness(
    views: &(impl Iterator<Item = NodeView> + Clone),
    quorums: Quorums,
    now: Instant,
) -> Readiness {
    let members = |list: Members| {
        let members = views.clone().enumerate().filter(move |(node, _)| list.contains(*node));
        members.map(|(_, view)| view)
    };
    let of = |list: Members| readiness_of(members(list), list.quorum(), now);
    quorums.lists().map(of).reduce(Readiness::and).unwrap_or(Readiness::Blind)
}

fn readiness_of(views: impl Iterator<Item = NodeView>, quorum: usize, now: Instant) -> Readiness {
    let (mut watched, mut free_at) = (0, Vec::new());
    for view in views {
        watched += usize::from(view != NodeView::Unknown);
        free_at.extend(view.free_at(now));
    }
    free_at.sort_unstable();
    match free_at.get(quorum - 1) {
        Some(at) if *at <= now => Readiness::Free,
        at if watched >= quorum => Readiness::Watched(at.copied()),
        _ => Readiness::Blind,
    }
}

/// The rule when a notification causes an attempt without a query before it.
///
/// Usually the node is queried first, because the change may be an extension by the holder. But a waiter that queries
/// first is always later than a holder that releases and acquires at once. It would wait forever. Thus a waiter makes an
/// attempt at every fourth change, with the same chance as all other clients.
#[derive(Debug, Default)]
pub(crate) struct ProbeBudget {
    /// True while a quorum may be free, from its notifications to its replies.
    open: bool,
    changes: u32,
}

/// The number of changes until an attempt is made without a query.
///
/// It is small enough to prevent starvation. If a holder renews when a third of its TTL has passed, a waiter makes such
/// an attempt less than once per TTL.
const EVERY: u32 = 4;

impl ProbeBudget {
    /// Records whether a quorum may be free; returns whether to make an attempt now.
    ///
    /// Nodes may be free if they are free, or have sent a notification.
    pub(crate) fn see(&mut self, may_be_free: bool) -> bool {
        let opens = may_be_free && !self.open;
        self.open = may_be_free;
        self.changes += u32::from(opens);
        let take = self.changes == EVERY;
        if take {
            self.changes = 0;
        }
        take
    }

    /// Records an attempt that is made for another reason.
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

    fn locked(millis: u64) -> NodeView {
        NodeView::Taken(Some(at(millis)))
    }

    #[test]
    fn a_quorum_must_be_free_now() {
        use NodeView::{Free, Queried, Unknown};
        let forever = NodeView::Taken(None);
        let cases = [
            // Nodes that never granted count as free.
            (vec![Free, Free, Free, locked(900), locked(900)], Readiness::Free),
            (vec![Free, Free, locked(500), locked(900), locked(700)], Readiness::Watched(Some(at(502)))),
            // The third expiry decides.
            (
                vec![locked(700), locked(500), locked(900), locked(800), locked(600)],
                Readiness::Watched(Some(at(702))),
            ),
            // The expiry has passed, although no node has sent a notification.
            (vec![locked(90), locked(95), locked(98), locked(900), locked(900)], Readiness::Free),
            (
                vec![locked(90), locked(95), locked(99), locked(900), locked(900)],
                Readiness::Watched(Some(at(101))),
            ),
            (vec![forever, forever, forever, Free, Free], Readiness::Watched(None)),
            (
                vec![locked(500), locked(500), locked(500), Unknown, Unknown],
                Readiness::Watched(Some(at(502))),
            ),
            (vec![locked(500), locked(500), Unknown, Unknown, Unknown], Readiness::Blind),
            (vec![Free, Free, Unknown, Unknown, Unknown], Readiness::Blind),
            // An extension causes notifications of all nodes at once. While the nodes are queried, the view is not
            // blind.
            (vec![Queried; 5], Readiness::Watched(None)),
            (vec![Free, Free, Queried, Unknown, Unknown], Readiness::Watched(None)),
            (vec![Free, Queried, Unknown, Unknown, Unknown], Readiness::Blind),
        ];
        for (views, expected) in cases {
            assert_eq!(expected, readiness(&views.iter().copied(), Quorums::of(5), at(100)), "{views:?}");
        }
    }

    #[test]
    fn nearly_equal_expiries_resemble_each_other() {
        use NodeView::{Free, Unknown};
        let by = Duration::from_millis(10);
        assert!(locked(500).resembles(locked(509), by) && locked(509).resembles(locked(500), by));
        assert!(!locked(500).resembles(locked(510), by) && !locked(510).resembles(locked(500), by));
        assert!(NodeView::Taken(None).resembles(NodeView::Taken(None), by) && Free.resembles(Free, by));
        assert!(!NodeView::Taken(None).resembles(locked(1), by) && !Free.resembles(locked(1), by));
        assert!(!Free.resembles(Unknown, by));
    }

    #[test]
    fn every_fourth_chance_is_used_without_querying_the_nodes() {
        let mut probes = ProbeBudget::default();
        let mut locked = Vec::new();
        for change in 1..=24 {
            assert!(!probes.see(false), "too few nodes");
            if probes.see(true) {
                locked.push(change);
            }
            assert!(!probes.see(true), "the same chance counts once");
        }
        assert_eq!(vec![4, 8, 12, 16, 20, 24], locked);
        (0..3).for_each(|_| assert!(!probes.see(false) && !probes.see(true)));
        probes.tried();
        assert!((0..3).all(|_| !probes.see(false) && !probes.see(true)), "an attempt resets the count");
        assert!(!probes.see(false) && probes.see(true));
    }

    #[test]
    fn both_lists_must_be_free() {
        use NodeView::{Free, Unknown};
        // Three current nodes, of which the last is also the first of three previous nodes.
        let quorums = Quorums::of_change(3, &[2, 3, 4]);
        let cases = [
            ([Free, Free, locked(500), Free, Free], Readiness::Free),
            ([Free, Free, Free, locked(500), locked(700)], Readiness::Watched(Some(at(502)))),
            ([locked(900), locked(900), locked(500), Free, locked(700)], Readiness::Watched(Some(at(902)))),
            (
                [locked(900), locked(900), locked(500), Free, NodeView::Taken(None)],
                Readiness::Watched(Some(at(902))),
            ),
            ([Free, Free, Free, NodeView::Taken(None), NodeView::Taken(None)], Readiness::Watched(None)),
            ([Free, Free, Free, Unknown, Unknown], Readiness::Blind),
            ([Unknown, Unknown, Free, Free, Free], Readiness::Blind),
        ];
        for (views, expected) in cases {
            assert_eq!(expected, readiness(&views.iter().copied(), quorums, at(100)), "{views:?}");
        }
    }

    #[test]
    fn several_resources_are_free_on_a_node_if_all_of_them_are() {
        use NodeView::{Free, Queried, Unknown};
        assert_eq!(Free, Free.and(Free));
        assert_eq!(locked(5), Free.and(locked(5)));
        assert_eq!(locked(7), locked(5).and(locked(7)));
        assert_eq!(NodeView::Taken(None), locked(5).and(NodeView::Taken(None)));
        assert_eq!(Unknown, Unknown.and(locked(5)));
        assert_eq!((Queried, Unknown), (Free.and(Queried), Queried.and(Unknown)));
    }
}
