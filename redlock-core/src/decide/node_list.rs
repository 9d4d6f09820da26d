//! The difference between the node lists of two programs.
//!
//! A list is known by the identities of its servers. A program that is not connected to all of its nodes knows only a
//! part of its list. Two lists differ if no knowledge of the missing parts could make them equal.
//!
//! Each program announces its list on each of its nodes, in one of two places. The first list keeps the place
//! [`First`](Place::First), and any other list takes the place [`Other`](Place::Other). So the programs with either
//! list see a difference on the first node that they have in common.

use std::num::NonZeroU64;

use crate::types::identity::ServerId;
use crate::types::node_list::NodeListDifference;
use crate::types::token::Token;

/// The nodes that a program lists, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeList {
    size: usize,
    /// Sorted.
    known: Vec<ServerId>,
}

/// The place of an announcement on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    Other,
}

/// The announcements on one node, as far as it replied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) first: Option<Token>,
    pub(crate) other: Option<Token>,
}

/// The action of a program on one node after a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// A compatible list is announced, or both places are taken by others.
    Nothing,
    /// The place is free.
    Announce(Place),
    /// The place has this list already.
    Renew(Place),
    /// The first place has an earlier list of this program.
    Replace,
}

/// The first word of an announcement.
const TITLE: &str = "nodes";

impl NodeList {
    pub(crate) fn new(size: usize, known: impl IntoIterator<Item = ServerId>) -> Self {
        let mut known: Vec<_> = known.into_iter().collect();
        known.sort_unstable_by_key(|id| id.get());
        known.dedup();
        known.truncate(size);
        Self { size, known }
    }

    /// Returns the list as the value of a key: `nodes 3 0a9d4c77f1b5e0c2 ...`.
    pub(crate) fn token(&self) -> Token {
        let ids = self.known.iter().map(|id| format!(" {:016x}", id.get()));
        Token::from_bytes(format!("{TITLE} {}{}", self.size, ids.collect::<String>()))
    }

    /// Reads an announcement; `None` if it is none.
    pub(crate) fn parse(token: &Token) -> Option<Self> {
        let mut words = std::str::from_utf8(token.as_bytes()).ok()?.split(' ');
        if words.next() != Some(TITLE) {
            return None;
        }
        let size = words.next()?.parse().ok()?;
        let id = |word| NonZeroU64::new(u64::from_str_radix(word, 16).ok()?).map(ServerId::from);
        let known = words.map(id).collect::<Option<Vec<_>>>()?;
        (known.len() <= size).then(|| Self::new(size, known))
    }

    /// Returns how the lists differ, if they do for certain.
    pub(crate) fn difference(&self, other: &Self) -> Option<NodeListDifference> {
        let common = self.known.iter().filter(|id| other.known.contains(id)).count();
        let fits = |one: &Self, two: &Self| one.known.len() - common <= two.size - two.known.len();
        let is_equal = self.size == other.size && fits(self, other) && fits(other, self);
        (!is_equal).then(|| NodeListDifference::new(self.size, other.size, common))
    }

    /// Returns how this list differs from those that are announced on a node.
    ///
    /// `earlier` is the previous announcement of this program, which is no other list.
    pub(crate) fn difference_on(
        &self,
        announced: &Announced,
        earlier: Option<&Token>,
    ) -> Option<NodeListDifference> {
        let others = announced.first.iter().chain(&announced.other).filter(|token| Some(*token) != earlier);
        others.filter_map(Self::parse).find_map(|other| self.difference(&other))
    }

    /// Returns the action on a node.
    pub(crate) fn announcement(&self, announced: &Announced, earlier: Option<&Token>) -> Announcement {
        let own = self.token();
        match &announced.first {
            None => return Announcement::Announce(Place::First),
            Some(first) if *first == own => return Announcement::Renew(Place::First),
            Some(first) if Some(first) == earlier => return Announcement::Replace,
            Some(first) => match Self::parse(first) {
                Some(first) if self.difference(&first).is_none() => return Announcement::Nothing,
                _ => {}
            },
        }
        match &announced.other {
            None => Announcement::Announce(Place::Other),
            Some(other) if *other == own => Announcement::Renew(Place::Other),
            Some(_) => Announcement::Nothing,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(size: usize, known: &[u64]) -> NodeList {
        NodeList::new(size, known.iter().map(|id| ServerId::from(NonZeroU64::new(*id).expect("not zero"))))
    }

    fn differ(one: &NodeList, two: &NodeList) -> bool {
        one.difference(two).is_some()
    }

    #[test]
    fn complete_lists_differ_unless_they_are_equal() {
        let one = list(3, &[1, 2, 3]);
        assert!(!differ(&one, &list(3, &[3, 1, 2])), "the order does not matter");
        for other in [list(3, &[3, 4, 5]), list(5, &[1, 2, 3, 4, 5]), list(2, &[1, 2]), list(1, &[1])] {
            assert!(differ(&one, &other) && differ(&other, &one), "{other:?}");
        }
        let difference = one.difference(&list(5, &[3, 4, 5, 6, 7])).unwrap();
        assert_eq!("this program lists 3 nodes, another lists 5, 1 in common", difference.to_string());
    }

    #[test]
    fn a_list_in_part_differs_only_for_certain() {
        let whole = list(3, &[1, 2, 3]);
        for part in [list(3, &[]), list(3, &[2]), list(3, &[1, 3])] {
            assert!(!differ(&whole, &part) && !differ(&part, &whole), "{part:?}");
        }
        assert!(!differ(&list(3, &[1, 2]), &list(3, &[2, 3])), "1, 2, 3 is possible");
        assert!(differ(&list(3, &[1, 2]), &list(3, &[3, 4])), "four servers");
        assert!(differ(&whole, &list(5, &[])), "another number");
    }

    #[test]
    fn the_first_list_keeps_its_place_and_another_list_takes_the_other() {
        let (one, two) = (list(3, &[1, 2, 3]), list(3, &[3, 4, 5]));
        let on = |first: Option<&NodeList>, other: Option<&NodeList>| Announced {
            first: first.map(NodeList::token),
            other: other.map(NodeList::token),
        };
        let (first, other) = (Place::First, Place::Other);
        assert_eq!(Announcement::Announce(first), one.announcement(&on(None, None), None));
        assert_eq!(Announcement::Renew(first), one.announcement(&on(Some(&one), None), None));
        assert_eq!(Announcement::Announce(other), two.announcement(&on(Some(&one), None), None));
        assert_eq!(Announcement::Renew(other), two.announcement(&on(Some(&one), Some(&two)), None));
        assert_eq!(Announcement::Nothing, list(2, &[3]).announcement(&on(Some(&one), Some(&two)), None));
        assert_eq!(Announcement::Nothing, list(3, &[1]).announcement(&on(Some(&one), None), None));
        let earlier = two.token();
        assert_eq!(Announcement::Replace, one.announcement(&on(Some(&two), None), Some(&earlier)));
        assert_eq!(None, one.difference_on(&on(Some(&two), None), Some(&earlier)));
        for announced in [on(Some(&one), Some(&two)), on(Some(&two), None), on(Some(&two), Some(&one))] {
            assert!(one.difference_on(&announced, None).is_some(), "{announced:?}");
        }
    }

    #[test]
    fn other_values_are_no_lists() {
        let not_one =
            ["", "nodes", "nodes x", "nodes 1 1 2", "nodes 2 0", "nodes 2 z", "nod 1 1", "nodes -1"];
        for text in not_one {
            assert_eq!(None, NodeList::parse(&Token::from_bytes(text)), "{text:?}");
        }
        assert_eq!(None, NodeList::parse(&Token::from_bytes([0xff, 0xfe])));
    }

    proptest! {
        #[test]
        fn an_announcement_is_read_as_it_was_written(size in 0_usize..9, known in prop::collection::vec(1_u64.., 0..9)) {
            let list = list(size, &known);
            prop_assert_eq!(Some(list.clone()), NodeList::parse(&list.token()));
        }

        /// Lists in part come from whole lists. Lists of the same nodes never seem to differ, and a difference that is
        /// reported is real.
        #[test]
        fn a_reported_difference_is_real(
            one in prop::collection::btree_set(1_u64..7, 1..6),
            two in prop::collection::btree_set(1_u64..7, 1..6),
            hidden: (u8, u8),
        ) {
            let part = |nodes: &std::collections::BTreeSet<u64>, hidden: u8| {
                let known: Vec<_> = nodes.iter().copied().filter(|id| hidden >> id & 1 == 0).collect();
                list(nodes.len(), &known)
            };
            let (a, b) = (part(&one, hidden.0), part(&two, hidden.1));
            prop_assert_eq!(a.difference(&b).is_some(), b.difference(&a).is_some());
            prop_assert!(one != two || a.difference(&b).is_none());
            let (whole, other) = (part(&one, 0), part(&two, 0));
            prop_assert_eq!(one != two, whole.difference(&other).is_some());
        }
    }
}
