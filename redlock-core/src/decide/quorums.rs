//! Quorums: which sets of nodes decide.
//!
//! A quorum of a list is more than half of its nodes, so any two quorums of one list share a node.
//!
//! A program has one list of nodes. While the nodes are changed, it has two: the *current* nodes, and the *previous*
//! nodes. Then a decision needs a quorum of each. Such a set meets every quorum of either list. So a program with both
//! lists, one with only the previous list, and another one with both exclude each other; and likewise with the current
//! list. Two programs with one list each, and different ones, do not.

use std::iter;

/// Returns how many of `nodes` must agree, so that any two such sets share a node.
pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The node lists of one program, as positions in the list of all its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorums {
    /// The number of nodes of all lists.
    nodes: usize,
    /// The two lists, during a change of the nodes.
    change: Option<Change>,
}

/// The nodes of the two lists, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    current: u64,
    previous: u64,
}

/// The maximum number of nodes of two lists together.
pub(crate) const MAX_NODES_OF_TWO_LISTS: usize = u64::BITS as usize;

/// One node list of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// All members are below this position.
    end: usize,
    /// The members as bits; `None` if all nodes are.
    bits: Option<u64>,
    /// True for the previous nodes during a change.
    pub(crate) is_previous: bool,
}

/// How many nodes of each list have some property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([usize; 2]);

impl Quorums {
    /// Creates the rule for one list of this many nodes.
    pub(crate) fn of(nodes: usize) -> Self {
        Self { nodes, change: None }
    }

    /// Creates the rule for two lists.
    ///
    /// The first nodes are current, and `previous` contains the positions of the previous ones. The lists together have
    /// at most [`MAX_NODES_OF_TWO_LISTS`] nodes, and each has one.
    pub(crate) fn of_change(current: usize, previous: &[usize]) -> Self {
        let nodes = previous.iter().map(|node| node + 1).max().unwrap_or(0).max(current);
        let bits = |nodes: &mut dyn Iterator<Item = usize>| nodes.fold(0, |bits, node| bits | 1 << node);
        let previous = bits(&mut previous.iter().copied());
        Self { nodes, change: Some(Change { current: bits(&mut (0..current)), previous }) }
    }

    /// Returns the number of nodes of all lists.
    pub(crate) fn nodes(self) -> usize {
        self.nodes
    }

    /// Returns the current nodes.
    pub(crate) fn current(self) -> Members {
        let bits = self.change.map(|change| change.current);
        Members { end: self.nodes, bits, is_previous: false }
    }

    /// Returns the previous nodes during a change.
    pub(crate) fn previous(self) -> Option<Members> {
        let bits = Some(self.change?.previous);
        Some(Members { end: self.nodes, bits, is_previous: true })
    }

    /// Returns the lists: one, or two during a change.
    pub(crate) fn lists(self) -> impl Iterator<Item = Members> + Clone {
        iter::once(self.current()).chain(self.previous())
    }

    /// Returns whether the nodes with a property contain a quorum of each list.
    pub(crate) fn are_met_by(self, is_in: impl Fn(usize) -> bool) -> bool {
        self.lists().all(|list| list.nodes().filter(|node| is_in(*node)).count() >= list.quorum())
    }

    /// Returns whether these counts are a quorum of each list.
    pub(crate) fn are_met_by_counts(self, counts: Counts) -> bool {
        self.lists().zip(counts.0).all(|(list, count)| count >= list.quorum())
    }

    /// Returns whether a list has no quorum without these nodes.
    pub(crate) fn are_lost_without_counts(self, counts: Counts) -> bool {
        self.lists().zip(counts.0).any(|(list, count)| count > list.max_missing())
    }

    /// Returns the least number of nodes that can be a quorum of a list, or leave a list without one.
    pub(crate) fn least_decisive(self) -> usize {
        let least = |list: Members| list.quorum().min(list.max_missing() + 1);
        self.lists().map(least).min().unwrap_or(1)
    }

    /// Adds a node to the counts.
    pub(crate) fn add(self, node: usize, counts: &mut Counts) {
        let lists = self.lists().zip(&mut counts.0);
        lists.for_each(|(list, count)| *count += usize::from(list.contains(node)));
    }

    /// Removes a node from the counts.
    pub(crate) fn remove(self, node: usize, counts: &mut Counts) {
        let lists = self.lists().zip(&mut counts.0);
        lists.for_each(|(list, count)| *count -= usize::from(list.contains(node)));
    }
}

impl Members {
    /// Returns the members in order.
    pub(crate) fn nodes(self) -> impl Iterator<Item = usize> + Clone {
        (0..self.end).filter(move |node| self.contains(*node))
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.bits.is_none_or(|bits| bits >> node & 1 == 1)
    }

    /// Returns the number of members.
    pub(crate) fn len(self) -> usize {
        self.bits.map_or(self.end, |bits| bits.count_ones() as usize)
    }

    /// Returns how many members must agree.
    pub(crate) fn quorum(self) -> usize {
        quorum(self.len())
    }

    /// Returns how many members may be missing, so that the others are a quorum.
    pub(crate) fn max_missing(self) -> usize {
        self.len() - self.quorum()
    }

    /// Returns the name of the members, for messages.
    pub(crate) fn name(self) -> &'static str {
        if self.is_previous { "previous nodes" } else { "nodes" }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nodes as bits, from a universe of five.
    type Set = u8;

    const UNIVERSE: Set = 1 << 5;

    /// Returns the rule of a program with these lists, and the nodes in its order.
    fn program(current: Set, previous: Option<Set>) -> (Quorums, Vec<usize>) {
        let nodes = |set: Set| (0..8).filter(move |node| set >> node & 1 == 1);
        let mut order: Vec<usize> = nodes(current).collect();
        let Some(previous) = previous else { return (Quorums::of(order.len()), order) };
        let current_nodes = order.len();
        order.extend(nodes(previous & !current));
        let position = |node: usize| order.iter().position(|other| *other == node).expect("listed");
        let previous: Vec<_> = nodes(previous).map(position).collect();
        (Quorums::of_change(current_nodes, &previous), order)
    }

    /// Returns all sets of nodes that satisfy a program.
    fn quorums(current: Set, previous: Option<Set>) -> Vec<Set> {
        let (rule, order) = program(current, previous);
        let is_met = |set: &Set| rule.are_met_by(|position| set >> order[position] & 1 == 1);
        (0..UNIVERSE).filter(is_met).collect()
    }

    fn meet(one: &[Set], other: &[Set]) -> bool {
        one.iter().all(|one| other.iter().all(|other| one & other != 0))
    }

    #[test]
    fn quorums_of_neighbouring_steps_meet_for_all_lists_of_up_to_five_nodes() {
        for previous in 1..UNIVERSE {
            let before = quorums(previous, None);
            for current in 1..UNIVERSE {
                let (during, after) = (quorums(current, Some(previous)), quorums(current, None));
                assert!(meet(&before, &during), "{previous:05b}, then {current:05b}: steps 1 and 2");
                assert!(meet(&during, &during), "{previous:05b}, then {current:05b}: step 2");
                assert!(meet(&during, &after), "{previous:05b}, then {current:05b}: steps 2 and 3");
                let back = quorums(previous, Some(current));
                assert_eq!(during, back, "the way back has the same quorums");
            }
        }
    }

    /// Without the middle step, or with a quorum of either list, two quorums need not share a node.
    #[test]
    fn one_quorum_instead_of_both_does_not_meet() {
        let (previous, current) = (0b00111, 0b11111);
        assert!(!meet(&quorums(previous, None), &quorums(current, None)), "no middle step");
        let either: Vec<_> = [quorums(previous, None), quorums(current, None)].concat();
        assert!(!meet(&either, &quorums(previous, None)), "a quorum of either list");
        let all = quorums(previous | current, None);
        assert!(!meet(&all, &quorums(previous, None)), "a quorum of all nodes");
    }

    #[test]
    fn both_lists_must_agree() {
        // 1, 2, 3 are current, and 3, 4, 5, 6, 7 are previous.
        let rule = Quorums::of_change(3, &[2, 3, 4, 5, 6]);
        assert_eq!(7, rule.nodes());
        let lens: Vec<_> = rule.lists().map(|list| (list.len(), list.quorum(), list.name())).collect();
        assert_eq!(vec![(3, 2, "nodes"), (5, 3, "previous nodes")], lens);
        let is_met = |nodes: &[usize]| rule.are_met_by(|node| nodes.contains(&node));
        assert!(is_met(&[0, 2, 3, 4]), "the common node counts in both");
        assert!(!is_met(&[0, 1, 3, 4]) && !is_met(&[2, 3, 4, 5, 6]));
        assert_eq!(2, rule.least_decisive(), "two of three are missing");
    }

    #[test]
    fn one_list_has_the_quorums_of_its_number() {
        for nodes in 1..9 {
            let rule = Quorums::of(nodes);
            assert_eq!((nodes, None), (rule.nodes(), rule.previous()));
            for count in 0..=nodes {
                assert_eq!(2 * count > nodes, rule.are_met_by(|node| node < count));
            }
        }
    }

    fn rule() -> impl Strategy<Value = Quorums> {
        prop_oneof![
            (1_usize..10).prop_map(Quorums::of),
            (1_usize..6, prop::collection::btree_set(0_usize..8, 1..6)).prop_map(|(current, previous)| {
                // No position is without a list.
                let beyond = previous.iter().filter(|node| **node >= current).count();
                let within = previous.iter().copied().filter(|node| *node < current);
                let previous: Vec<_> = within.chain(current..current + beyond).collect();
                Quorums::of_change(current, &previous)
            }),
        ]
    }

    proptest! {
        #[test]
        fn any_two_quorums_share_a_node(nodes in 1_usize..100) {
            prop_assert!(2 * quorum(nodes) > nodes);
            prop_assert!(2 * (quorum(nodes) - 1) <= nodes, "a quorum is no larger than necessary");
        }

        #[test]
        fn counts_decide_as_sets_do(rule in rule(), set in any::<u16>()) {
            let is_in = |node: usize| set >> node & 1 == 1;
            let mut counts = Counts::default();
            (0..rule.nodes()).filter(|node| is_in(*node)).for_each(|node| rule.add(node, &mut counts));
            prop_assert_eq!(rule.are_met_by(is_in), rule.are_met_by_counts(counts));
            prop_assert_eq!(!rule.are_met_by(|node| !is_in(node)), rule.are_lost_without_counts(counts));
            if rule.are_met_by_counts(counts) || rule.are_lost_without_counts(counts) {
                let nodes = (0..rule.nodes()).filter(|node| is_in(*node)).count();
                prop_assert!(nodes >= rule.least_decisive());
            }
            (0..rule.nodes()).filter(|node| is_in(*node)).for_each(|node| rule.remove(node, &mut counts));
            prop_assert_eq!(Counts::default(), counts);
        }
    }
}
