//! The number of waiters, and the position of a request among them, according to several nodes.
//!
//! Each node counts the places that it has. A place arrives at the nodes one after the other, a node that was unreachable
//! may lack it, and a node that was not notified of the end of a wait keeps it for some seconds. So nodes may differ, and
//! single nodes may state far too few waiters or too many.
//!
//! The result is the median of the numbers: fewer than half of the nodes that state one cannot move it out of the range of
//! the others. Of an even count, it is the lower of the two in the middle. If fewer than a quorum state a number, the result
//! is unknown, because the others may have no places at all.

use crate::types::position::Position;

/// Returns the number of waiters. `stated` has the number of each node that states one.
pub(crate) fn waiters(stated: impl Iterator<Item = u32>, quorum: usize) -> Option<u32> {
    let mut stated: Vec<_> = stated.collect();
    if stated.len() < quorum {
        return None;
    }
    stated.sort_unstable();
    let middle = stated.len().checked_sub(1)? / 2;
    stated.get(middle).copied()
}

/// Returns the position of a request. Its rank is never greater than the number of waiters, because none of `stated` is.
pub(crate) fn position(stated: &(impl Iterator<Item = Position> + Clone), quorum: usize) -> Option<Position> {
    let ranks = stated.clone().map(|position| position.rank);
    let counts = stated.clone().map(|position| position.waiters);
    Some(Position { rank: waiters(ranks, quorum)?, waiters: waiters(counts, quorum)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::quorums::quorum;

    #[test]
    fn the_median_counts() {
        let of = |stated: &[u32], quorum| waiters(stated.iter().copied(), quorum);
        assert_eq!(Some(3), of(&[3, 9, 0], 2));
        assert_eq!(Some(3), of(&[3, 9, 0, 4, 3], 3));
        assert_eq!(Some(3), of(&[4, 3], 2), "the lower one");
        assert_eq!(Some(0), of(&[0], 1));
        assert_eq!(None, of(&[3, 3], 3), "too few nodes state it");
        assert_eq!(None, of(&[], 0));
    }

    #[test]
    fn a_position_has_the_median_of_the_ranks_and_of_the_counts() {
        let stated = [(1, 2), (3, 7), (2, 9)].map(|(rank, waiters)| Position::new(rank, waiters));
        assert_eq!(Some(Position::new(2, 7)), position(&stated.into_iter(), 2));
        assert_eq!(None, position(&stated.into_iter().take(1), 2));
    }

    proptest! {
        /// Fewer than half of the nodes state anything. The others are within a range.
        #[test]
        fn a_minority_does_not_determine_the_number(
            nodes in 1_usize..8,
            correct in proptest::collection::vec(10_u32..20, 8),
            wrong in proptest::collection::vec(any::<u32>(), 8),
        ) {
            let minority = (nodes - 1) / 2;
            let stated = wrong.into_iter().take(minority).chain(correct.into_iter().take(nodes - minority));
            let result = waiters(stated, quorum(nodes)).unwrap();
            prop_assert!((10..20).contains(&result), "{}", result);
        }

        #[test]
        fn a_rank_is_at_most_the_number_of_waiters(
            stated in proptest::collection::vec((1_u32..9, 0_u32..9), 1..8),
        ) {
            let stated = stated.into_iter().map(|(rank, behind)| Position::new(rank, rank + behind));
            let result = position(&stated, 1).unwrap();
            prop_assert!(1 <= result.rank && result.rank <= result.waiters, "{}", result);
        }
    }
}
