//! When an observer looks at a resource again, and what is news.
//!
//! A look is an inspection, which asks all nodes. Between two looks, the nodes are watched: a node that reports another
//! holder than the last look causes the next one. A node reports the same holder after an extension, which thus causes
//! none.

use std::time::Duration;

use crate::decide::readiness::Readiness;
use crate::types::instant::Instant;
use crate::types::token::Token;

/// The interval between two looks while too few nodes can be watched, or too few reply.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest interval between two looks. Nodes may fail to send notifications.
const SAFETY: Duration = Duration::from_secs(30);

/// The holder of a resource, according to one watched node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Free,
    Held(Token),
    /// The node has not named the holder. This is the time of its report: each report may be about another holder.
    HeldUnnamed(Instant),
}

/// The result of one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Free,
    Held(Token),
    /// No quorum agrees.
    Undecided,
    /// Too few nodes replied, or another error.
    Failed,
}

impl Found {
    /// Returns whether a node confirms this result.
    fn agrees(&self, seen: &Seen) -> bool {
        match (self, seen) {
            (Self::Free, Seen::Free) => true,
            (Self::Held(token), Seen::Held(holder)) => token == holder,
            _ => false,
        }
    }
}

/// What an observer has reported, and what it knows of the nodes.
#[derive(Debug)]
pub(crate) struct Observation {
    /// `true` if a quorum of the nodes sends notifications, once they are watched.
    can_watch: bool,
    /// The result that was reported last.
    reported: Option<Found>,
    /// The result of the last look, and its time.
    last: Option<(Found, Instant)>,
    /// What each node reported before the last look.
    seen: Vec<Option<Seen>>,
}

impl Observation {
    pub(crate) fn new(nodes: usize, can_watch: bool) -> Self {
        Self { can_watch, reported: None, last: None, seen: vec![None; nodes] }
    }

    /// Returns whether nodes that seem free are to be queried again.
    pub(crate) fn doubts_free(&self) -> bool {
        self.last.as_ref().is_some_and(|(found, _)| *found != Found::Free)
    }

    /// Returns when to look next.
    ///
    /// `began` is the beginning of the wait, `seen` is what each node reports now, and `readiness` is that of all nodes.
    pub(crate) fn look_at(
        &self,
        began: Instant,
        seen: &[Option<Seen>],
        readiness: Readiness,
        node_timeout: Duration,
    ) -> Instant {
        let Some((found, at)) = &self.last else {
            // The watches are in place before the first look, so that no change after it is missed.
            let is_awaited = self.can_watch && matches!(readiness, Readiness::Blind);
            return if is_awaited { began + node_timeout } else { began };
        };
        let is_changed = |(now, before): (&Option<Seen>, &Option<Seen>)| {
            now.as_ref().is_some_and(|seen| Some(seen) != before.as_ref() && !found.agrees(seen))
        };
        if seen.iter().zip(&self.seen).any(is_changed) {
            return *at;
        }
        let soon = *at + node_timeout.min(POLL_INTERVAL);
        match (found, readiness) {
            // An attempt or its cleanup is in progress, which usually ends soon.
            (Found::Undecided, _) if self.reported.as_ref() != Some(found) => soon,
            (Found::Undecided | Found::Failed, _) | (_, Readiness::Blind) => *at + POLL_INTERVAL,
            // The reported expiry has passed without a notification.
            (Found::Held(_), Readiness::Free) => soon,
            (Found::Held(_), Readiness::Watched(Some(expiry))) => (*at + SAFETY).min(expiry.max(soon)),
            (Found::Free, Readiness::Free) | (_, Readiness::Watched(_)) => *at + SAFETY,
        }
    }

    /// Records a look. `seen` is what each node reported before it. Returns whether the result is to be reported.
    pub(crate) fn looked(&mut self, found: Found, seen: Vec<Option<Seen>>, at: Instant) -> bool {
        let again = self.last.as_ref().is_some_and(|(last, _)| *last == found);
        let is_news = self.reported.as_ref() != Some(&found) && (found != Found::Undecided || again);
        if is_news {
            self.reported = Some(found.clone());
        }
        (self.last, self.seen) = (Some((found, at)), seen);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    fn token(number: u8) -> Token {
        Token::from_bytes([number])
    }

    fn held(number: u8) -> Seen {
        Seen::Held(token(number))
    }

    fn all(seen: Seen) -> [Option<Seen>; 3] {
        [Some(seen.clone()), Some(seen.clone()), Some(seen)]
    }

    /// An observation that looked at 1 s, when all three nodes reported `seen`.
    fn after(found: Found, seen: Seen) -> Observation {
        let mut observation = Observation::new(3, true);
        observation.looked(found, vec![Some(seen); 3], at(1_000));
        observation
    }

    fn next(observation: &Observation, seen: &[Option<Seen>], readiness: Readiness) -> Instant {
        observation.look_at(at(5_000), seen, readiness, TIMEOUT)
    }

    #[test]
    fn the_first_look_waits_for_the_watches_if_the_nodes_can_be_watched() {
        let none = [const { None }; 3];
        let observation = Observation::new(3, true);
        assert_eq!(at(5_200), next(&observation, &none, Readiness::Blind));
        assert_eq!(at(5_000), next(&observation, &none, Readiness::Watched(None)));
        assert_eq!(at(5_000), next(&Observation::new(3, false), &none, Readiness::Blind));
    }

    #[test]
    fn another_holder_on_one_node_is_looked_at_once() {
        let mut observation = after(Found::Held(token(1)), held(1));
        let watched = Readiness::Watched(None);
        assert_eq!(at(31_000), next(&observation, &all(held(1)), watched));
        assert_eq!(
            at(31_000),
            next(&observation, &[Some(held(1)), None, Some(held(1))], watched),
            "it is being queried"
        );
        for other in [held(2), Seen::Free, Seen::HeldUnnamed(at(4_999))] {
            let seen = [held(1), other, held(1)].map(Some).to_vec();
            assert_eq!(at(1_000), next(&observation, &seen, watched));
            observation.looked(Found::Held(token(1)), seen.clone(), at(1_000));
            assert_eq!(at(31_000), next(&observation, &seen, watched), "it was seen at the look");
        }
        let unnamed = [held(1), Seen::HeldUnnamed(at(5_001)), held(1)].map(Some);
        assert_eq!(at(1_000), next(&observation, &unnamed, watched), "another report");
    }

    #[test]
    fn a_reported_expiry_is_looked_at_but_not_again_and_again() {
        let (observation, seen) = (after(Found::Held(token(1)), held(1)), all(held(1)));
        assert_eq!(at(9_000), next(&observation, &seen, Readiness::Watched(Some(at(9_000)))));
        assert_eq!(at(1_200), next(&observation, &seen, Readiness::Watched(Some(at(900)))));
        assert_eq!(at(1_200), next(&observation, &seen, Readiness::Free));
        assert_eq!(at(2_000), next(&observation, &seen, Readiness::Blind));
    }

    #[test]
    fn a_vote_that_stays_split_is_reported_after_a_second_look() {
        let mut observation = after(Found::Free, Seen::Free);
        let split = [held(1), held(2), Seen::Free].map(Some).to_vec();
        assert!(!observation.looked(Found::Undecided, split.clone(), at(2_000)));
        assert_eq!(at(2_200), next(&observation, &split, Readiness::Watched(None)));
        assert!(observation.looked(Found::Undecided, split.clone(), at(2_200)));
        assert_eq!(at(3_200), next(&observation, &split, Readiness::Watched(None)));
        assert!(!observation.looked(Found::Undecided, split, at(3_200)), "it was reported");
    }

    fn found() -> impl Strategy<Value = Found> {
        prop_oneof![
            Just(Found::Free),
            (0_u8..3).prop_map(|number| Found::Held(token(number))),
            Just(Found::Undecided),
            Just(Found::Failed),
        ]
    }

    proptest! {
        #[test]
        fn only_a_different_result_is_reported(results in prop::collection::vec(found(), 1..40)) {
            let (mut observation, mut reported, mut last) = (Observation::new(3, true), None, None);
            for found in results {
                let is_news = observation.looked(found.clone(), vec![None; 3], at(0));
                if is_news {
                    prop_assert_ne!(reported.as_ref(), Some(&found));
                    reported = Some(found.clone());
                } else {
                    let is_first_split = found == Found::Undecided && last.as_ref() != Some(&found);
                    prop_assert!(reported.as_ref() == Some(&found) || is_first_split);
                }
                last = Some(found);
            }
        }
    }
}
