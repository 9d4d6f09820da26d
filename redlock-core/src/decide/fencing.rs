//! The fencing token of a claim, and the nodes that count for it.
//!
//! Every node keeps a counter for each resource. A node that grants an acquire raises its counter and returns it.
//! Counters are *together* if no two of them differ by more than the bound, which is the retention time of counters.
//! The token `m` of a claim is the greatest of a quorum of counters that are together. It is set at the first moment
//! when there is such a quorum. A counter outside of this group is an *outlier*, and has no vote. Its node has a
//! damaged counter, or a clock that is wrong by more than the bound.
//!
//! From then on, a node *counts* for the claim only by one atomic step. In this step it still has the claim, its
//! counter is at most `m`, and the counter becomes `m`. A grant needs a quorum that counts, and so does every
//! extension.
//!
//! Why tokens increase: when a grant is returned, a quorum of counters is at `m` or above, and no counter ever
//! decreases. A claim that begins later needs a quorum too, and one node is in both. This node has dropped the older
//! claim to grant the newer one, and has returned at least `m + 1`.
//!
//! Two claims may be in progress at once. The node that counts for both counted for the older one before it granted the
//! newer one. If it had granted the newer one first, its counter would exceed the token of the older one, provided that
//! this token is smaller. Then it would not count. Thus two tokens are never equal.
//!
//! For the same reason, no extension succeeds that begins after a newer token has been returned. An extension that is
//! in progress then may succeed, by nodes that counted for it before. A node that has lost the claim gets it back only
//! from an extension, after a quorum has counted. If such a node could count while the token is being confirmed, it
//! would count for two claims.
//!
//! Outliers can be left out, because the argument needs only two quorums. In one of them, no counter is greater than
//! `m`; the other one counts. Any quorum of counters shares a node with the quorum that counted for the older claim,
//! whichever counters are left out. The node of an outlier may still count later, by the same rule as any other: it has
//! the claim, and its counter becomes `m`. Thus leaving counters out costs an attempt some votes, but never changes the
//! order of tokens.
//!
//! Two groups of counters that do not overlap cannot both be a quorum. If two overlap, the one with the smaller
//! numbers is used. Either would be correct, and this one gives the greatest counter the least influence.
//!
//! During a change of the nodes, a quorum is one of each [list](super::quorums), and the counters of both lists are one
//! group. The argument needs nothing else: the quorums of an older and a newer claim share a node, whichever step of the
//! change their programs are in.
//!
//! The bound limits the influence of a single node. Nodes reject numbers that are further ahead of their own clocks
//! than the retention time. Thus the other nodes could never confirm a token from one wrong reply. Without the wrong
//! reply, there is another token, or the attempt waits for more replies.
//!
//! All this holds as long as no counter is lost, and depends on no clock. If nothing fails, the counters of all nodes
//! are equal and all replies contain `m`. Then no node needs a second request: one round trip.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::types::fencing_token::FencingToken;

/// The maximum difference of counters that are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound(u64);

impl Bound {
    pub(crate) const NONE: Self = Self(0);

    /// Returns the bound for the retention time of counters. The counters derive from the time in microseconds.
    pub(crate) fn of(retention: Duration) -> Self {
        Self(u64::try_from(retention.as_micros()).unwrap_or(u64::MAX))
    }

    /// Returns the least and the greatest of the largest group that is together.
    ///
    /// `preference` takes the least counter of a group. A group with a higher preference takes precedence over a larger
    /// one. Among groups that are equal in both, the lowest one takes precedence. Returns `None` if there is no
    /// counter.
    pub(crate) fn together<P: Ord>(
        self,
        counters: &(impl Iterator<Item = FencingToken> + Clone),
        preference: impl Fn(FencingToken) -> P,
    ) -> Option<RangeInclusive<FencingToken>> {
        let group =
            |least: FencingToken| counters.clone().filter(move |other| self.is_in_group(least, *other));
        let rank = |least: &FencingToken| (preference(*least), group(*least).count(), Reverse(*least));
        let least = counters.clone().max_by_key(rank)?;
        Some(least..=group(least).max()?)
    }

    /// Returns whether a counter is in the group that begins with `least`.
    pub(crate) fn is_in_group(self, least: FencingToken, counter: FencingToken) -> bool {
        counter.as_u64().checked_sub(least.as_u64()).is_some_and(|by| by <= self.0)
    }
}

/// The token of a claim, from the counters of the first quorum that granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    pub(crate) token: FencingToken,
    /// True if a quorum counts already, because its counters equal the token.
    pub(crate) settled: bool,
}

/// Returns the token of a claim whose counters are in `group`; `None` if fewer than a quorum of a list are.
///
/// `lists` contains the counters of each list, and its quorum.
pub(crate) fn number<C: Iterator<Item = FencingToken> + Clone>(
    group: &RangeInclusive<FencingToken>,
    lists: impl Iterator<Item = (C, usize)>,
) -> Option<Numbering> {
    let (token, mut settled) = (*group.end(), true);
    for (counters, quorum) in lists {
        if counters.clone().filter(|counter| group.contains(counter)).count() < quorum {
            return None;
        }
        settled &= counters.filter(|counter| *counter == token).count() >= quorum;
    }
    Some(Numbering { token, settled })
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::prelude::*;

    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).unwrap()
    }

    const BOUND: u64 = 100;

    fn bound() -> Bound {
        Bound::of(Duration::from_micros(BOUND))
    }

    fn tokens(counters: &[u64]) -> impl Iterator<Item = FencingToken> + Clone {
        counters.iter().map(|counter| token(*counter))
    }

    fn of_one_list(counters: &[u64], quorum: usize, bound: Bound) -> Option<Numbering> {
        let group = bound.together(&tokens(counters), |_| ())?;
        number(&group, iter::once((tokens(counters), quorum)))
    }

    fn numbered(counters: &[u64], quorum: usize) -> Option<(u64, bool)> {
        let numbering = of_one_list(counters, quorum, bound())?;
        Some((numbering.token.as_u64(), numbering.settled))
    }

    #[test]
    fn equal_counters_need_no_second_round() {
        assert_eq!(Some((7, true)), numbered(&[7, 7, 7], 3));
        assert_eq!(Some((7, true)), numbered(&[7], 1));
        assert_eq!(Some((8, false)), numbered(&[7, 8, 7], 3));
        assert_eq!(Some((8, true)), numbered(&[7, 8, 8], 2), "two nodes on one server");
        assert_eq!(None, numbered(&[], 1));
    }

    #[test]
    fn a_counter_far_from_the_others_is_not_counted() {
        let far = FencingToken::MAX.as_u64();
        assert_eq!(None, numbered(&[far, 7, 7], 3), "more replies are needed");
        assert_eq!(Some((7, true)), numbered(&[far, 7, 7, 7], 3));
        assert_eq!(Some((8, false)), numbered(&[7, far, 8, 7], 3));
        assert_eq!(
            Some((1_007, true)),
            numbered(&[1_007, 1, 1_007, 1_007], 3),
            "a counter far behind is not counted either"
        );
        assert_eq!(None, numbered(&[far, 1_000, 1], 2), "no two counters are close");
    }

    #[test]
    fn counters_are_close_up_to_the_bound() {
        assert_eq!(Some((1 + BOUND, false)), numbered(&[1, 1 + BOUND], 2));
        assert_eq!(None, numbered(&[1, 2 + BOUND], 2));
        assert_eq!(Some((101, false)), numbered(&[1, 101, 60, 161], 3), "the lowest of several groups");
    }

    #[test]
    fn an_unlimited_bound_excludes_no_counter() {
        let all = Bound::of(Duration::MAX);
        let numbering = of_one_list(&[1, FencingToken::MAX.as_u64()], 2, all).unwrap();
        assert_eq!(FencingToken::MAX, numbering.token);
    }

    /// Returns counters of nodes, some of them far from the others.
    fn counters() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![1_u64..400, 1_u64..1 << 53], 0..9)
    }

    /// Returns the size of the largest group, found by checking every set.
    fn largest_group(counters: &[u64]) -> usize {
        let sets = (0_u32..1 << counters.len()).map(|set| {
            let chosen = (0..counters.len()).filter(move |index| set & 1 << index != 0);
            chosen.map(|index| counters[index]).collect::<Vec<_>>()
        });
        let together =
            sets.filter(|set| set.iter().all(|one| set.iter().all(|other| one.abs_diff(*other) <= BOUND)));
        together.map(|set| set.len()).max().unwrap_or_default()
    }

    proptest! {
        #[test]
        fn a_token_is_chosen_as_soon_as_a_quorum_of_counters_is_close(counters in counters(), quorum in 1_usize..6) {
            prop_assert_eq!(largest_group(&counters) >= quorum, numbered(&counters, quorum).is_some());
        }

        /// The order of tokens depends on this, which also limits the effect of one reply.
        #[test]
        fn the_token_is_the_greatest_counter_of_a_close_quorum(counters in counters(), quorum in 1_usize..6) {
            let Some((token, settled)) = numbered(&counters, quorum) else { return Ok(()) };
            prop_assert!(counters.contains(&token));
            let below = counters.iter().filter(|counter| **counter <= token && token - **counter <= BOUND);
            prop_assert!(below.count() >= quorum);
            prop_assert_eq!(counters.iter().filter(|counter| **counter == token).count() >= quorum, settled);
        }

        /// The quorum of the older claim shares a node with every quorum of replies.
        ///
        /// The counter of this node is above the older token.
        #[test]
        fn a_token_is_above_every_older_one_for_any_quorum_of_replies(
            older in 1_u64..400,
            replies in prop::collection::vec((any::<bool>(), prop_oneof![1_u64..400, 1_u64..1 << 53]), 1..8),
        ) {
            // Nodes that counted for the older claim reply with a counter above its token.
            let raise = |(counted, reply): &(bool, u64)| if *counted { (older + 1).max(*reply) } else { *reply };
            let (nodes, quorum) = (replies.len(), replies.len() / 2 + 1);
            prop_assume!(replies.iter().filter(|(counted, _)| *counted).count() >= quorum);
            let counters: Vec<_> = replies.iter().map(raise).collect();
            for received in 1..=nodes {
                if let Some((token, _)) = numbered(&counters[..received], quorum) {
                    prop_assert!(token > older);
                }
            }
        }

        /// One arbitrary reply moves the token by at most the bound.
        #[test]
        fn one_reply_moves_the_token_by_at_most_the_bound(
            others in prop::collection::vec(1_u64..50, 2..7), liar in 1_u64..1 << 53, place in 0_usize..7,
        ) {
            let nodes = others.len() + 1;
            let quorum = nodes / 2 + 1;
            let mut counters = others.clone();
            counters.insert(place.min(others.len()), liar);
            let greatest = others.iter().max().unwrap();
            if let Some((token, _)) = numbered(&counters, quorum) {
                prop_assert!(token <= greatest + BOUND);
            }
            if others.len() >= quorum {
                prop_assert!(numbered(&counters, quorum).is_some(), "the reply costs its vote and not the grant");
            }
        }

        #[test]
        fn the_token_does_not_depend_on_the_order_of_replies(counters in counters(), quorum in 1_usize..6) {
            let mut reversed = counters.clone();
            reversed.reverse();
            prop_assert_eq!(numbered(&counters, quorum), numbered(&reversed, quorum));
        }

        /// A group never shrinks when replies arrive, so a decision is final.
        #[test]
        fn more_replies_never_remove_votes(counters in counters()) {
            let votes: Vec<_> = (0..=counters.len()).map(|received| largest_group(&counters[..received])).collect();
            prop_assert!(votes.is_sorted());
        }
    }
}
