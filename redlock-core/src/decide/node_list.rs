//! The difference between the node lists of two programs.
//!
//! A list is known by the identities of its servers. A program that is not connected to all of its nodes knows only a
//! part of its list. Two lists differ if no knowledge of the missing parts could make them equal.
//!
//! Each program announces its list on each of its nodes, in one of two places. The first list keeps the place
//! [`First`](Place::First), and any other list takes the place [`Other`](Place::Other). So the programs with either
//! list see a difference on the first node that they have in common.

use std::collections::VecDeque;
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

/// The servers of the nodes of this program.
///
/// A server that was restarted is another one. Until all programs have noticed it, the former server is in
/// announcements of the same list.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// The servers of the nodes that have replied in this comparison.
    present: Vec<Option<ServerId>>,
    /// The last known servers.
    last: Vec<Option<ServerId>>,
    /// Servers that others have replaced, with their nodes, the latest last.
    former: VecDeque<(ServerId, usize)>,
}

/// The maximum number of former servers that are remembered. An announcement of an earlier one has expired.
const MAX_FORMER: usize = 64;

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
    /// Both places have other lists.
    Nothing,
    /// The place is free.
    Announce(Place),
    /// The place has this list, or one that may be the same.
    Renew(Place),
    /// The first place has a list that may be this one, and that knows less of it, or a server that was restarted.
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

    /// Returns whether this list may be the other one, and knows more of it.
    fn completes(&self, other: &Self) -> bool {
        self.difference(other).is_none() && self.known.len() > other.known.len()
    }
}

impl Servers {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { present: vec![None; nodes], last: vec![None; nodes], former: VecDeque::new() }
    }

    /// Begins a comparison, in which no node has replied yet.
    pub(crate) fn begin(&mut self) {
        self.present.fill(None);
    }

    /// Records the server of a node that has replied.
    pub(crate) fn note(&mut self, node: usize, server: Option<ServerId>) {
        self.present[node] = server;
        let Some(server) = server else { return };
        match self.last[node].replace(server) {
            Some(before) if before != server => {
                if self.former.len() == MAX_FORMER {
                    self.former.pop_front();
                }
                self.former.push_back((before, node));
            }
            _ => {}
        }
    }

    /// Returns the list of this program.
    pub(crate) fn list(&self) -> NodeList {
        NodeList::new(self.present.len(), self.present.iter().copied().flatten())
    }

    /// Returns an announced list with the present servers in the place of former ones, and whether there were any.
    fn updated(&self, announced: &NodeList) -> (NodeList, bool) {
        let node_of =
            |id: &ServerId| self.former.iter().rev().find(|(former, _)| former == id).map(|(_, node)| *node);
        let is_stale = announced.known.iter().any(|id| node_of(id).is_some());
        let present = |id: &ServerId| node_of(id).map_or(Some(*id), |node| self.present[node]);
        (NodeList::new(announced.size, announced.known.iter().filter_map(present)), is_stale)
    }

    /// Returns how the list differs from those that are announced on a node.
    pub(crate) fn difference_on(&self, announced: &Announced) -> Option<NodeListDifference> {
        let list = self.list();
        let others = announced.first.iter().chain(&announced.other).filter_map(NodeList::parse);
        others.map(|other| self.updated(&other).0).find_map(|other| list.difference(&other))
    }

    /// Returns the action on a node.
    pub(crate) fn announcement(&self, announced: &Announced) -> Announcement {
        let own = self.list();
        let is_own = |token: &Token| *token == own.token();
        match &announced.first {
            None => return Announcement::Announce(Place::First),
            Some(first) if is_own(first) => return Announcement::Renew(Place::First),
            Some(first) => {
                if let Some(first) = NodeList::parse(first) {
                    let (first, is_stale) = self.updated(&first);
                    if own.difference(&first).is_none() {
                        let replace = is_stale || own.completes(&first);
                        return if replace {
                            Announcement::Replace
                        } else {
                            Announcement::Renew(Place::First)
                        };
                    }
                }
            }
        }
        match &announced.other {
            None => Announcement::Announce(Place::Other),
            Some(other) if is_own(other) => Announcement::Renew(Place::Other),
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

    /// Returns the servers of a program whose nodes have these, and 0 for a node that has not replied.
    fn servers(known: &[u64]) -> Servers {
        let mut servers = Servers::new(known.len());
        reply(&mut servers, known);
        servers
    }

    fn reply(servers: &mut Servers, known: &[u64]) {
        servers.begin();
        for (node, id) in known.iter().enumerate() {
            servers.note(node, NonZeroU64::new(*id).map(ServerId::from));
        }
    }

    fn on(first: Option<&NodeList>, other: Option<&NodeList>) -> Announced {
        Announced { first: first.map(NodeList::token), other: other.map(NodeList::token) }
    }

    #[test]
    fn the_first_list_keeps_its_place_and_another_list_takes_the_other() {
        let (one, two) = (servers(&[1, 2, 3]), servers(&[3, 4, 5]));
        let (list, other_list) = (one.list(), two.list());
        let (first, other) = (Place::First, Place::Other);
        assert_eq!(Announcement::Announce(first), one.announcement(&on(None, None)));
        assert_eq!(Announcement::Renew(first), one.announcement(&on(Some(&list), None)));
        assert_eq!(Announcement::Announce(other), two.announcement(&on(Some(&list), None)));
        assert_eq!(Announcement::Renew(other), two.announcement(&on(Some(&list), Some(&other_list))));
        assert_eq!(Announcement::Nothing, servers(&[3]).announcement(&on(Some(&list), Some(&other_list))));
        for (place, another) in
            [(Some(&list), Some(&other_list)), (Some(&other_list), None), (None, Some(&other_list))]
        {
            assert!(one.difference_on(&on(place, another)).is_some(), "{place:?} {another:?}");
        }
    }

    #[test]
    fn a_list_that_knows_more_replaces_one_that_may_be_the_same() {
        let (whole, part) = (servers(&[1, 2, 3]), servers(&[1, 0, 0]));
        let renewed = Announcement::Renew(Place::First);
        assert_eq!(renewed, part.announcement(&on(Some(&whole.list()), None)));
        assert_eq!(Announcement::Replace, whole.announcement(&on(Some(&part.list()), None)));
        let another_part = servers(&[0, 2, 0]);
        assert_eq!(renewed, another_part.announcement(&on(Some(&part.list()), None)));
    }

    /// One program notices the restart of server 1 earlier than the other.
    #[test]
    fn a_list_with_a_former_server_is_the_same_list() {
        let before = servers(&[1, 2, 3]);
        let (mut early, mut in_part) = (before.clone(), before.clone());
        reply(&mut early, &[7, 2, 3]);
        assert_eq!(None, early.difference_on(&on(Some(&before.list()), None)));
        assert_eq!(Announcement::Replace, early.announcement(&on(Some(&before.list()), None)));
        // Server 2 is restarted, too. This program knows of both restarts, and has never announced the list between them.
        reply(&mut in_part, &[0, 2, 3]);
        reply(&mut in_part, &[7, 8, 3]);
        let between = early.list();
        assert_eq!(None, in_part.difference_on(&on(Some(&between), None)));
        assert_eq!(Announcement::Replace, in_part.announcement(&on(Some(&between), None)));
        // A node that has not replied after its restart is unknown.
        let mut unknown = early.clone();
        reply(&mut unknown, &[0, 2, 3]);
        assert_eq!(None, unknown.difference_on(&on(Some(&before.list()), None)));
        // Another list differs even if it has a former server.
        assert!(early.difference_on(&on(Some(&list(3, &[1, 4, 5])), None)).is_some());
        // A program that starts does not know the former server.
        assert!(servers(&[7, 2, 3]).difference_on(&on(Some(&before.list()), None)).is_some());
    }

    #[test]
    fn a_bounded_number_of_former_servers_is_remembered() {
        let mut servers = servers(&[1]);
        for id in 2..1_000 {
            reply(&mut servers, &[id]);
        }
        assert_eq!(MAX_FORMER, servers.former.len());
        assert_eq!(None, servers.difference_on(&on(Some(&list(1, &[998])), None)));
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
