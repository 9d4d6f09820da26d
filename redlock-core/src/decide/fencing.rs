//! Which fencing token a claim has, and which nodes count for it.
//!
//! Every node keeps a counter for each resource. An acquire raises the counter of the node that grants it and answers it;
//! the claim's token `m` is the greatest answer at the moment when a quorum had granted. From then on a node *counts* for
//! the claim only if, in one step, it still has the claim and its counter is no greater than `m`, and its counter becomes
//! `m` with that. A grant wants a quorum that counts, and so does every extension.
//!
//! Why tokens grow: when a grant is told, a quorum of counters stands at `m` or above, and no counter ever falls. Whoever
//! begins afterwards asks a quorum too. One node is in both: it has dropped the older claim to grant the newer one, and has
//! answered `m + 1` at least. For two claims under way at once: the node that counts for both counted for the older one
//! before it granted the newer one; had it granted the newer one first, its counter would be greater than the older one's
//! token, if that is the smaller, and it would not count. So two tokens are never the same. In the same way no extension
//! succeeds that begins after a newer token has been told; one that is under way then may, by nodes that counted for it
//! before. And a node that has lost the claim is given it back only by an extension, when a quorum has counted: one that
//! could count while the token is being confirmed would count for two.
//!
//! All this holds as long as no counter is lost; no clock has a part in it. Where nothing fails the counters are the same
//! on all nodes, all answer `m`, and no node has to be told: one round trip.

use crate::fencing::FencingToken;

/// The token of a claim, by the counters that the nodes answered which had granted it when they were a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    pub(crate) token: FencingToken,
    /// Whether a quorum counts already: its counters are at the token.
    pub(crate) settled: bool,
}

/// `None` where nobody has answered.
pub(crate) fn number(
    counters: impl Iterator<Item = FencingToken> + Clone,
    quorum: usize,
) -> Option<Numbering> {
    let token = counters.clone().max()?;
    let settled = counters.filter(|counter| *counter == token).count() >= quorum;
    Some(Numbering { token, settled })
}

/// The token of one lease.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    token: FencingToken,
    /// By node: whether a newer claim has counted there.
    superseded: Vec<bool>,
}

impl Fence {
    pub(crate) fn new(token: FencingToken, nodes: usize) -> Self {
        Self { token, superseded: vec![false; nodes] }
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// A node's counter is at this. Answers whether the node is to be told the token, in order to count.
    pub(crate) fn counted(&mut self, node: usize, counter: FencingToken) -> bool {
        self.superseded[node] |= counter > self.token;
        counter < self.token
    }

    /// On how many nodes the lease may still count. Counters never fall, so it does not grow again.
    pub(crate) fn may_count(&self) -> usize {
        self.superseded.iter().filter(|superseded| !**superseded).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).unwrap()
    }

    fn numbered(counters: &[u64], quorum: usize) -> Option<(u64, bool)> {
        let numbering = number(counters.iter().map(|counter| token(*counter)), quorum)?;
        Some((numbering.token.as_u64(), numbering.settled))
    }

    #[test]
    fn equal_counters_need_no_second_round() {
        assert_eq!(Some((7, true)), numbered(&[7, 7, 7], 3));
        assert_eq!(Some((7, true)), numbered(&[7], 1));
        assert_eq!(Some((8, false)), numbered(&[7, 8, 7], 3));
        assert_eq!(Some((8, true)), numbered(&[7, 8, 8], 2), "one server that is two nodes");
        assert_eq!(None, numbered(&[], 1));
    }

    #[test]
    fn a_node_that_has_counted_beyond_the_token_never_counts_again() {
        let mut fence = Fence::new(token(7), 3);
        assert!(fence.counted(0, token(6)), "to be told");
        assert!(!fence.counted(1, token(7)), "counts already");
        assert_eq!(3, fence.may_count());
        assert!(!fence.counted(2, token(8)), "lost for this lease");
        assert_eq!(2, fence.may_count());
        assert!(fence.counted(2, token(1)));
        assert_eq!(2, fence.may_count(), "a counter that fell is one that was lost");
    }

    proptest! {
        #[test]
        fn the_token_is_the_greatest_and_settled_only_by_a_quorum_of_it(
            counters in prop::collection::vec(1_u64..5, 1..9), quorum in 1_usize..6,
        ) {
            let (token, settled) = numbered(&counters, quorum).unwrap();
            prop_assert!(counters.iter().all(|counter| *counter <= token) && counters.contains(&token));
            prop_assert_eq!(counters.iter().filter(|counter| **counter == token).count() >= quorum, settled);
        }
    }
}
