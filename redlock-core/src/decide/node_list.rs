//! The difference between the node lists of two programs.
//!
//! A list is known by the identities of its servers. A program that is not connected to all of its nodes knows only a
//! part of its list. Two lists differ if no knowledge of the missing parts could make them equal.
//!
//! Each program announces its list on each of its nodes, in one of two places. The first list keeps the place
//! [`First`](Place::First), and any other list takes the place [`Other`](Place::Other). So the programs with either
//! list see a difference on the first node that they have in common.
//!
//! A program with two lists, during a change of the nodes, excludes every program that has one of them. So its lists
//! differ from another one only if both do. It announces nothing, and leaves the two places to the programs before and
//! after the change. If it sees both of these, they do not exclude each other: that is a difference, too.
//!
//! A server that was restarted has another identity, and a program that has ended does not notice it. So an announcement
//! is compared with those servers only that this program had already seen when the other program read its own.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::decide::quorums::{Members, Quorums};
use crate::types::entry::LockEntry;
use crate::types::identity::ServerId;
use crate::types::instant::Instant;
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
    quorums: Quorums,
    /// The servers of the nodes that have replied in this comparison.
    present: Vec<Option<ServerId>>,
    /// The last known servers, and when this program first saw them.
    last: Vec<Option<(ServerId, Instant)>>,
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

/// An announcement that was read from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) token: Token,
    /// Its program read these servers at this time or later, on the clock of this program.
    as_of: Instant,
}

/// The announcements on one node, as far as it replied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) first: Option<Listed>,
    pub(crate) other: Option<Listed>,
}

/// The result of a comparison with announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// No list differs for certain.
    Equal,
    /// A list differs unless servers were restarted since it was announced. If its program still runs, its next
    /// announcement decides.
    Unconfirmed,
    Differs(NodeListDifference),
}

/// The action of a program on one node after a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// Both places have other lists, or the first one has a list that may be this one.
    Nothing,
    /// The place is free.
    Announce(Place),
    /// The place has this list.
    ///
    /// A program renews only the list that it has read just now. A list that is renewed thus has no former server.
    Renew(Place),
    /// The first place has a list that may be this one, and that knows less of it, or a server that was restarted.
    Replace,
}

/// The duration of an announcement. After this time, the list of a program that has ended is not compared any more.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Returns the longest time between the first request of a comparison and its announcements. A comparison that takes
/// longer, because its process was paused, announces and finds nothing.
pub(crate) fn max_reading(node_timeout: Duration) -> Duration {
    2 * node_timeout
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

impl Listed {
    /// Creates the record of an announcement. `sent` is the time of the request that returned it.
    ///
    /// A key that never expires is no announcement of a program that runs.
    pub(crate) fn new(entry: LockEntry, sent: Instant, node_timeout: Duration) -> Self {
        // On a server whose clock runs slowly, an announcement is older than its remaining time suggests.
        let age = entry.remaining.map_or(Duration::MAX, |remaining| TTL.saturating_sub(remaining) * 9 / 8);
        Self { token: entry.token, as_of: sent - age - max_reading(node_timeout) }
    }
}

impl Finding {
    /// Returns the finding of two comparisons.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differs(_), _) | (_, Self::Equal) => self,
            _ => other,
        }
    }
}

impl Servers {
    pub(crate) fn new(quorums: Quorums) -> Self {
        let nodes = quorums.nodes();
        Self { quorums, present: vec![None; nodes], last: vec![None; nodes], former: VecDeque::new() }
    }

    /// Begins a comparison, in which no node has replied yet.
    pub(crate) fn begin(&mut self) {
        self.present.fill(None);
    }

    /// Records the server of a node that has replied at this time.
    pub(crate) fn note(&mut self, node: usize, server: Option<ServerId>, at: Instant) {
        self.present[node] = server;
        let Some(server) = server else { return };
        match self.last[node].replace((server, at)) {
            Some((before, since)) if before == server => self.last[node] = Some((server, since)),
            Some((before, _)) => {
                if self.former.len() == MAX_FORMER {
                    self.former.pop_front();
                }
                self.former.push_back((before, node));
            }
            None => {}
        }
    }

    /// Returns the list of the current nodes of this program.
    pub(crate) fn list(&self) -> NodeList {
        self.list_of(self.quorums.current())
    }

    fn list_of(&self, list: Members) -> NodeList {
        NodeList::new(list.len(), list.nodes().filter_map(|node| self.present[node]))
    }

    /// Returns the part of a list that this program had seen before this time.
    fn list_before(&self, list: Members, time: Instant) -> NodeList {
        let seen = list.nodes().filter_map(|node| {
            let (server, since) = self.last[node]?;
            (self.present[node] == Some(server) && since < time).then_some(server)
        });
        NodeList::new(list.len(), seen)
    }

    /// Returns an announced list with the present servers in the place of former ones, and whether there were any.
    fn updated(&self, announced: &NodeList) -> (NodeList, bool) {
        let node_of =
            |id: &ServerId| self.former.iter().rev().find(|(former, _)| former == id).map(|(_, node)| *node);
        let is_stale = announced.known.iter().any(|id| node_of(id).is_some());
        let present = |id: &ServerId| node_of(id).map_or(Some(*id), |node| self.present[node]);
        (NodeList::new(announced.size, announced.known.iter().filter_map(present)), is_stale)
    }

    /// Compares the list with those that are announced on a node.
    pub(crate) fn compare_on(&self, announced: &Announced) -> Finding {
        let others = announced.first.iter().chain(&announced.other);
        others.map(|other| self.compare(other)).fold(Finding::Equal, Finding::and)
    }

    fn compare(&self, announced: &Listed) -> Finding {
        let Some(list) = NodeList::parse(&announced.token) else { return Finding::Equal };
        let list = self.updated(&list).0;
        let mut lists = self.quorums.lists();
        let Some(difference) = self.list().difference(&list) else { return Finding::Equal };
        if lists.clone().any(|own| self.list_of(own).difference(&list).is_none()) {
            return Finding::Equal;
        }
        let differs = |own: Members| self.list_before(own, announced.as_of).difference(&list).is_some();
        if lists.all(differs) { Finding::Differs(difference) } else { Finding::Unconfirmed }
    }

    /// Compares the lists that are announced with each other, during a change of the nodes: one program may have only the
    /// previous nodes, and another one only the current nodes.
    pub(crate) fn compare_others<'a>(
        &self,
        announced: &(impl Iterator<Item = &'a Announced> + Clone),
    ) -> Finding {
        let Some(previous) = self.quorums.previous() else { return Finding::Equal };
        let (current, previous) = (self.list(), self.list_of(previous));
        let lists = || {
            let listed =
                announced.clone().flat_map(|announced| announced.first.iter().chain(&announced.other));
            listed.filter_map(|listed| Some(self.updated(&NodeList::parse(&listed.token)?).0))
        };
        let has = |one: &NodeList, other: &NodeList| {
            lists().any(|list| list.difference(one).is_none() && list.difference(other).is_some())
        };
        match current.difference(&previous) {
            Some(difference) if has(&current, &previous) && has(&previous, &current) => {
                Finding::Differs(difference.between_others())
            }
            _ => Finding::Equal,
        }
    }

    /// Returns the action on a node.
    pub(crate) fn announcement(&self, announced: &Announced) -> Announcement {
        if self.quorums.previous().is_some() {
            return Announcement::Nothing;
        }
        let own = self.list();
        let is_own = |listed: &Listed| listed.token == own.token();
        match &announced.first {
            None => return Announcement::Announce(Place::First),
            Some(first) if is_own(first) => return Announcement::Renew(Place::First),
            Some(first) => {
                if let Some(first) = NodeList::parse(&first.token) {
                    let (first, is_stale) = self.updated(&first);
                    if own.difference(&first).is_none() {
                        let replace = is_stale || own.completes(&first);
                        return if replace { Announcement::Replace } else { Announcement::Nothing };
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

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    /// Returns the servers of a program whose nodes have these since 10 s, and 0 for a node that has not replied.
    fn servers(known: &[u64]) -> Servers {
        let mut servers = Servers::new(Quorums::of(known.len()));
        reply(&mut servers, known, 10);
        servers
    }

    fn reply(servers: &mut Servers, known: &[u64], seconds: u64) {
        servers.begin();
        for (node, id) in known.iter().enumerate() {
            servers.note(node, NonZeroU64::new(*id).map(ServerId::from), at(seconds));
        }
    }

    /// Returns announcements of servers that their programs read at 20 s.
    fn on(first: Option<&NodeList>, other: Option<&NodeList>) -> Announced {
        let listed = |list: &NodeList| Listed { token: list.token(), as_of: at(20) };
        Announced { first: first.map(listed), other: other.map(listed) }
    }

    fn differs(finding: Finding) -> bool {
        matches!(finding, Finding::Differs(_))
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
            assert!(differs(one.compare_on(&on(place, another))), "{place:?} {another:?}");
        }
    }

    /// A program that knows less does not renew the list: it cannot know whether the other servers are still the same.
    #[test]
    fn a_list_that_knows_more_replaces_one_that_may_be_the_same() {
        let (whole, part) = (servers(&[1, 2, 3]), servers(&[1, 0, 0]));
        assert_eq!(Announcement::Nothing, part.announcement(&on(Some(&whole.list()), None)));
        assert_eq!(Announcement::Replace, whole.announcement(&on(Some(&part.list()), None)));
        let another_part = servers(&[0, 2, 0]);
        assert_eq!(Announcement::Nothing, another_part.announcement(&on(Some(&part.list()), None)));
    }

    /// One program notices the restart of server 1 earlier than the other.
    #[test]
    fn a_list_with_a_former_server_is_the_same_list() {
        let before = servers(&[1, 2, 3]);
        let (mut early, mut in_part) = (before.clone(), before.clone());
        reply(&mut early, &[7, 2, 3], 15);
        assert_eq!(Finding::Equal, early.compare_on(&on(Some(&before.list()), None)));
        assert_eq!(Announcement::Replace, early.announcement(&on(Some(&before.list()), None)));
        // Server 2 is restarted, too. This program knows of both restarts, and has never announced the list between them.
        reply(&mut in_part, &[0, 2, 3], 15);
        reply(&mut in_part, &[7, 8, 3], 16);
        let between = early.list();
        assert_eq!(Finding::Equal, in_part.compare_on(&on(Some(&between), None)));
        assert_eq!(Announcement::Replace, in_part.announcement(&on(Some(&between), None)));
        // A node that has not replied after its restart is unknown.
        let mut unknown = early.clone();
        reply(&mut unknown, &[0, 2, 3], 16);
        assert_eq!(Finding::Equal, unknown.compare_on(&on(Some(&before.list()), None)));
        // Another list differs even if it has a former server.
        assert!(differs(early.compare_on(&on(Some(&list(3, &[1, 4, 5])), None))));
    }

    /// Its program may have ended before servers were restarted.
    #[test]
    fn an_announcement_from_before_this_program_saw_its_servers_is_unconfirmed() {
        let other = list(3, &[1, 4, 5]);
        let mut servers = Servers::new(Quorums::of(3));
        reply(&mut servers, &[1, 2, 3], 20);
        assert_eq!(Finding::Unconfirmed, servers.compare_on(&on(Some(&other), None)));
        assert_eq!(Finding::Unconfirmed, servers.compare_on(&on(None, Some(&other))));
        assert_eq!(Announcement::Announce(Place::Other), servers.announcement(&on(Some(&other), None)));
        // Servers that are seen again are the same.
        let mut servers = Servers::new(Quorums::of(3));
        reply(&mut servers, &[1, 2, 3], 19);
        reply(&mut servers, &[0, 2, 3], 20);
        reply(&mut servers, &[1, 2, 3], 25);
        let difference = NodeListDifference::new(3, 3, 1);
        assert_eq!(Finding::Differs(difference), servers.compare_on(&on(Some(&other), None)));
        // One server restarts, then another. Two servers that are the same suffice for a difference, one does not.
        let other = list(3, &[6, 4, 5]);
        reply(&mut servers, &[7, 2, 3], 26);
        assert!(differs(servers.compare_on(&on(Some(&list(3, &[2, 4, 5])), None))));
        reply(&mut servers, &[7, 8, 9], 26);
        assert_eq!(Finding::Unconfirmed, servers.compare_on(&on(Some(&other), None)));
        // No restart changes the number of nodes.
        assert!(differs(servers.compare_on(&on(Some(&list(5, &[])), None))));
    }

    #[test]
    fn a_difference_outweighs_a_doubt() {
        let differs = Finding::Differs(NodeListDifference::new(3, 3, 1));
        let all = [Finding::Equal, Finding::Unconfirmed, differs];
        for (one, first) in all.iter().enumerate() {
            for (two, second) in all.iter().enumerate() {
                assert_eq!(all[one.max(two)], first.and(*second));
            }
        }
    }

    #[test]
    fn the_time_of_an_announcement_follows_from_its_remaining_time() {
        let as_of = |remaining| {
            let mut entry = LockEntry::of(Token::from_bytes("nodes 1"));
            entry.remaining = remaining;
            Listed::new(entry, at(100), Duration::from_secs(1)).as_of
        };
        assert_eq!(at(98), as_of(Some(TTL)));
        assert_eq!(at(98 - 9), as_of(Some(Duration::from_secs(22))));
        assert_eq!(at(98), as_of(Some(2 * TTL)), "the clock of the server was set back");
        assert_eq!(Instant::ORIGIN, as_of(None));
    }

    #[test]
    fn a_bounded_number_of_former_servers_is_remembered() {
        let mut servers = servers(&[1]);
        for id in 2..1_000 {
            reply(&mut servers, &[id], 15);
        }
        assert_eq!(MAX_FORMER, servers.former.len());
        assert_eq!(Finding::Equal, servers.compare_on(&on(Some(&list(1, &[998])), None)));
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
