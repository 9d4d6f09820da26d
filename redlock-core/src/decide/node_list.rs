//! Node lists of programs, as far as they are known, and their comparison.
//!
//! A list is known by the identities of its servers. A program that is not connected to all of its nodes knows only a
//! part of its list. Two lists differ if no knowledge of the missing parts could make them equal.
//!
//! A program has one list, or two during a change of the nodes. Two programs exclude each other if they have a list in
//! common: both need a quorum of it. Thus the lists alone decide whether two programs may run at the same time. No number
//! of a step is necessary, because the programs of neighbouring steps have a list in common, and those that are two steps
//! apart have none, unless the change goes back.
//!
//! If lists must agree, an announcement also *carries* servers that its program does not reach, and that another program
//! with the same list has announced before. Each further announcement makes them older, and [too old](MAX_AGE) ones are
//! left out.

use std::iter;
use std::num::NonZeroU64;

use crate::types::identity::ServerId;
use crate::types::node_list::NodeListDifference;
use crate::types::token::Token;

/// The nodes of one list, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeList {
    size: usize,
    /// Sorted.
    known: Vec<Known>,
}

/// A server of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    id: u64,
    /// Zero for a server that the announcing program has reached. Otherwise the server is carried, and this is the number
    /// of announcements since then.
    age: usize,
}

/// The greatest age of a server that is carried.
const MAX_AGE: usize = 2;

/// The mark of a server that is carried, once for each announcement.
const CARRIED: char = '?';

/// The lists of one program: one, or two during a change of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    one: NodeList,
    /// Not before the first list in their order, which is thus the same on the way there and on the way back.
    two: Option<NodeList>,
}

/// The first word of an announcement.
const TITLE: &str = "nodes";

/// The first words of an announcement on which votes rely.
const RELIED_ON: &str = "agreed nodes";

/// The first words of a copy of an announcement.
const COPIED: &str = "copied nodes";

/// The text between two lists of an announcement.
const AND: &str = " and ";

/// The text before the owner label of an announcement.
const BY: &str = " by ";

impl NodeList {
    pub(crate) fn new(size: usize, known: impl IntoIterator<Item = ServerId>) -> Self {
        Self::of(size, known.into_iter().map(|server| Known { id: server.get().get(), age: 0 }).collect())
    }

    /// A server that is there twice has the lesser age.
    fn of(size: usize, mut known: Vec<Known>) -> Self {
        known.sort_unstable();
        known.dedup_by_key(|server| server.id);
        known.truncate(size);
        Self { size, known }
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = ServerId> {
        self.known.iter().filter_map(|server| NonZeroU64::new(server.id).map(ServerId::from))
    }

    /// Returns the same list with other servers in the place of these.
    pub(crate) fn map(&self, change: impl Fn(ServerId) -> Option<ServerId>) -> Self {
        let changed = |(server, known): (ServerId, &Known)| {
            Some(Known { id: change(server)?.get().get(), age: known.age })
        };
        Self::of(self.size, self.known().zip(&self.known).filter_map(changed).collect())
    }

    /// Returns whether the program of this announcement, or another one, has reached all known servers of a list.
    fn has_reached(&self, own: &Self) -> bool {
        own.known.iter().all(|server| self.known.contains(server))
    }

    /// Returns the announcement of `own`, which may be the same list, after this one. `is_aged` if this one has stood so
    /// long that every program which runs has announced its servers again.
    fn followed_by(&self, own: &Self, is_aged: bool) -> Self {
        let carried = self.known.iter().filter_map(|server| {
            let age = (server.age + usize::from(is_aged)).max(1);
            (age <= MAX_AGE).then_some(Known { age, ..*server })
        });
        Self::of(own.size, own.known.iter().copied().chain(carried).collect())
    }

    /// Returns the number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn text(&self) -> String {
        let word = |server: &Known| format!(" {:016x}{}", server.id, CARRIED.to_string().repeat(server.age));
        format!("{}{}", self.size, self.known.iter().map(word).collect::<String>())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let size = words.next()?.parse().ok()?;
        let server = |word: &str| {
            let id = word.trim_end_matches(CARRIED);
            let (age, id) = (word.len() - id.len(), NonZeroU64::new(u64::from_str_radix(id, 16).ok()?)?);
            (age <= MAX_AGE).then_some(Known { id: id.get(), age })
        };
        let known = words.map(server).collect::<Option<Vec<_>>>()?;
        (known.len() <= size).then(|| Self::of(size, known))
    }

    /// Returns how the lists differ, if they do for certain.
    pub(crate) fn difference(&self, other: &Self) -> Option<NodeListDifference> {
        let is_common = |server: &&Known| other.known.iter().any(|known| known.id == server.id);
        let common = self.known.iter().filter(is_common).count();
        let fits = |one: &Self, two: &Self| one.known.len() - common <= two.size - two.known.len();
        let is_equal = self.size == other.size && fits(self, other) && fits(other, self);
        (!is_equal).then(|| NodeListDifference::new(self.size, other.size, common))
    }

    /// Returns whether the lists may be equal.
    fn may_equal(&self, other: &Self) -> bool {
        self.difference(other).is_none()
    }
}

impl Lists {
    pub(crate) fn new(current: NodeList, previous: Option<NodeList>) -> Self {
        match previous {
            Some(previous) if previous < current => Self { one: previous, two: Some(current) },
            two => Self { one: current, two },
        }
    }

    /// Returns the value of a key: `nodes 3 0a9d4c77f1b5e0c2 ...`, or `nodes 3 ... and 5 ...`.
    pub(crate) fn token(&self) -> Token {
        self.titled(TITLE)
    }

    /// Returns the value of a key on which votes rely: `agreed nodes 3 0a9d4c77f1b5e0c2 ...`.
    ///
    /// Only programs whose lists must agree announce it, and none deletes that of others.
    pub(crate) fn relied_on_token(&self) -> Token {
        self.titled(RELIED_ON)
    }

    /// Returns the value of a key with a [copy](super::announcements::copies): `copied nodes 3 0a9d4c77f1b5e0c2 ...`.
    pub(crate) fn copied_token(&self) -> Token {
        self.titled(COPIED)
    }

    fn titled(&self, title: &str) -> Token {
        let lists: Vec<_> = self.iter().map(NodeList::text).collect();
        Token::from_bytes(format!("{title} {}", lists.join(AND)))
    }

    /// Returns whether votes may rely on an announcement.
    pub(crate) fn is_relied_on(token: &Token) -> bool {
        token.as_bytes().starts_with(RELIED_ON.as_bytes())
    }

    /// Returns whether an announcement is a copy, which is on a server that its list does not contain.
    pub(crate) fn is_copy(token: &Token) -> bool {
        token.as_bytes().starts_with(COPIED.as_bytes())
    }

    /// Returns the value of a key with the owner label of the program at its end.
    pub(crate) fn token_by(&self, owner: Option<&str>) -> Token {
        let token = self.token();
        match owner {
            Some(owner) => Token::from_bytes([token.as_bytes(), BY.as_bytes(), owner.as_bytes()].concat()),
            None => token,
        }
    }

    /// Returns the owner label of an announcement.
    pub(crate) fn owner(token: &Token) -> Option<&str> {
        Some(std::str::from_utf8(token.as_bytes()).ok()?.split_once(BY)?.1)
    }

    /// Reads an announcement; `None` if it is none.
    pub(crate) fn parse(token: &Token) -> Option<Self> {
        let text = std::str::from_utf8(token.as_bytes()).ok()?;
        let text = [RELIED_ON, COPIED, TITLE]
            .iter()
            .find_map(|title| text.strip_prefix(title))?
            .strip_prefix(' ')?;
        let text = text.split_once(BY).map_or(text, |(lists, _)| lists);
        let (one, two) = text.split_once(AND).map_or((text, None), |(one, two)| (one, Some(two)));
        let two = match two {
            Some(two) => Some(NodeList::parse(two)?),
            None => None,
        };
        Some(Self::new(NodeList::parse(one)?, two))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &NodeList> {
        iter::once(&self.one).chain(&self.two)
    }

    /// Returns the only list; `None` during a change of the nodes.
    pub(crate) fn single(&self) -> Option<&NodeList> {
        self.two.is_none().then_some(&self.one)
    }

    /// Returns the same lists with other knowledge of each.
    pub(crate) fn map(&self, change: impl Fn(&NodeList) -> NodeList) -> Self {
        Self::new(change(&self.one), self.two.as_ref().map(change))
    }

    /// Returns the lists without the servers that are carried: these may have been restarted since.
    pub(crate) fn reached(&self) -> Self {
        let reached = |list: &NodeList| {
            let known = list.known.iter().filter(|server| server.age == 0).copied();
            NodeList::of(list.size, known.collect())
        };
        self.map(reached)
    }

    /// Returns whether programs with these lists exclude each other, unless the unknown parts differ.
    pub(crate) fn may_exclude(&self, other: &Self) -> bool {
        self.iter().any(|own| other.iter().any(|list| own.may_equal(list)))
    }

    /// Returns whether all lists may be equal.
    pub(crate) fn may_equal(&self, other: &Self) -> bool {
        self.in_order_of(other).is_some()
    }

    /// Returns these lists in the order of the other ones, if all of them may be equal.
    fn in_order_of(&self, other: &Self) -> Option<Self> {
        let may_equal = |lists: &Self| {
            let twos = lists.two.iter().zip(&other.two);
            lists.two.is_some() == other.two.is_some()
                && lists.one.may_equal(&other.one)
                && twos.into_iter().all(|(two, other)| two.may_equal(other))
        };
        let swapped = self.two.clone().map(|two| Self { one: two, two: Some(self.one.clone()) });
        iter::once(self.clone()).chain(swapped).find(may_equal)
    }

    /// Returns whether programs that have announced these lists have reached all known servers of `own`, which may be the
    /// same lists.
    pub(crate) fn have_reached(&self, own: &Self) -> bool {
        let Some(own) = own.in_order_of(self) else { return false };
        self.iter().zip(own.iter()).all(|(list, own)| list.has_reached(own))
    }

    /// Returns the announcement of `own`, which may be the same lists, after this one: it carries the servers that the
    /// program does not reach. `is_aged` if this one has stood so long that every program which runs has announced its
    /// servers again.
    pub(crate) fn followed_by(&self, own: &Self, is_aged: bool) -> Self {
        let Some(own) = own.in_order_of(self) else { return own.clone() };
        let mut followed = self.iter().zip(own.iter()).map(|(list, own)| list.followed_by(own, is_aged));
        let one = followed.next().unwrap_or_else(|| own.one.clone());
        Self::new(one, followed.next())
    }

    /// Returns how many servers are known.
    pub(crate) fn known(&self) -> usize {
        self.iter().map(|list| list.known.len()).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::quorums::Quorums;

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

    /// Two programs reach one server each, and neither reaches the third one.
    #[test]
    fn an_announcement_carries_the_servers_of_others_twice() {
        let (own, other) = (list(3, &[1, 2]), list(3, &[1, 3]));
        let first = own.followed_by(&other, false);
        assert_eq!("3 0000000000000001 0000000000000002? 0000000000000003", first.text());
        assert!(
            first.has_reached(&other) && !first.has_reached(&own),
            "the other program must announce it again"
        );
        let again = first.followed_by(&own, false);
        assert!(again.has_reached(&own) && !again.has_reached(&other));
        // A program that reaches all of them carries none.
        assert_eq!(list(3, &[1, 2, 3]), again.followed_by(&list(3, &[1, 2, 3]), true));
        // The program that has reached server 2 has ended. Announcements in between make it no older.
        let carried = first.followed_by(&other, false).followed_by(&other, true);
        assert_eq!("3 0000000000000001 0000000000000002?? 0000000000000003", carried.text());
        assert_eq!(other, carried.followed_by(&other, true));
        assert!(!differ(&carried, &own) && differ(&carried, &list(3, &[1, 4])));
        assert_eq!(carried, NodeList::parse(&carried.text()).unwrap());
    }

    #[test]
    fn both_lists_of_a_change_are_carried() {
        let lists = |one: &[u64], two: &[u64]| Lists::new(list(3, one), Some(list(3, two)));
        let (announced, own) = (lists(&[1, 2], &[4, 5]), lists(&[6], &[1, 3]));
        let followed = announced.followed_by(&own, false);
        assert!(followed.have_reached(&own) && !followed.have_reached(&announced));
        assert!(followed.may_equal(&lists(&[1, 2, 3], &[4, 5, 6])));
        assert!(!followed.may_equal(&lists(&[1, 2, 7], &[4, 5, 6])));
        assert!(!followed.may_equal(&lists(&[1, 2, 3], &[4, 5, 7])));
        assert!(!Lists::new(list(3, &[1]), None).have_reached(&own));
    }

    #[test]
    fn other_values_are_no_lists() {
        let not_one = [
            "",
            "nodes",
            "nodes x",
            "nodes 1 1 2",
            "nodes 2 0",
            "nodes 2 z",
            "nod 1 1",
            "nodes -1",
            "nodes 1 and",
            "nodes 1 and 2 and 3",
            "nodes 1 ?",
            "nodes 1 1???",
            "agreed nodes",
            "agreed 1 1",
        ];
        for text in not_one {
            assert_eq!(None, Lists::parse(&Token::from_bytes(text)), "{text:?}");
        }
        assert_eq!(None, Lists::parse(&Token::from_bytes([0xff, 0xfe])));
    }

    /// Programs as the nodes of their lists in bits, out of five nodes.
    type Program = (u8, Option<u8>);

    const UNIVERSE: u8 = 1 << 5;

    fn programs() -> impl Iterator<Item = Program> + Clone {
        let previous = || iter::once(None).chain((1..UNIVERSE).map(Some));
        (1..UNIVERSE).flat_map(move |current| previous().map(move |previous| (current, previous)))
    }

    fn nodes(set: u8) -> impl Iterator<Item = u64> {
        (1..=5).filter(move |node| set >> (node - 1) & 1 == 1)
    }

    fn announced((current, previous): Program) -> Lists {
        let list = |set: u8| list(set.count_ones() as usize, &nodes(set).collect::<Vec<_>>());
        Lists::new(list(current), previous.map(list))
    }

    /// Returns the sets of nodes that grant a lock to a program, as bits.
    fn quorums((current, previous): Program) -> u32 {
        let is_quorum = |set: u8, list: u8| {
            let rule = Quorums::of(list.count_ones() as usize);
            let members: Vec<_> = nodes(list).collect();
            rule.are_met_by(|position| set >> (members[position] - 1) & 1 == 1)
        };
        let grants = |set: &u8| is_quorum(*set, current) && previous.is_none_or(|list| is_quorum(*set, list));
        (0..UNIVERSE).filter(grants).fold(0, |sets, set| sets | 1 << set)
    }

    /// The announcements alone decide: two programs that have a list in common exclude each other.
    #[test]
    fn programs_with_a_list_in_common_exclude_each_other_for_all_lists_of_up_to_five_nodes() {
        let all: Vec<_> = programs().map(|program| (program, announced(program), quorums(program))).collect();
        let mut excluded = 0;
        for (one, lists, quorums) in &all {
            for (other, other_lists, other_quorums) in &all {
                let both_grant =
                    |set: u8| quorums >> set & 1 == 1 && other_quorums >> (UNIVERSE - 1 - set) & 1 == 1;
                let can_overlap = (0..UNIVERSE).any(both_grant);
                let is_excluded = lists.may_exclude(other_lists);
                assert!(!(is_excluded && can_overlap), "{one:?} and {other:?}");
                excluded += usize::from(is_excluded);
            }
        }
        assert!(excluded > 50_000, "{excluded}");
    }

    /// Programs of neighbouring steps run at the same time. Those that are two steps apart do not, unless the change goes
    /// back to the list of before.
    #[test]
    fn only_neighbouring_steps_of_two_changes_have_a_list_in_common() {
        let lists = [0b00111, 0b11100, 0b01110, 0b00001];
        for (a, b) in lists.into_iter().flat_map(|a| lists.map(|b| (a, b))).filter(|(a, b)| a != b) {
            for c in lists.into_iter().filter(|c| *c != b) {
                let steps = [(a, None), (b, Some(a)), (b, None), (c, Some(b)), (c, None)].map(announced);
                for (number, step) in steps.iter().enumerate() {
                    for (other_number, other) in steps.iter().enumerate() {
                        let is_near = number.abs_diff(other_number) < 2;
                        // The middle steps have the list between them.
                        let is_between = [number, other_number].iter().all(|step| (1..4).contains(step));
                        let goes_back = a == c;
                        let excluded = step.may_exclude(other);
                        assert_eq!(
                            is_near || is_between || goes_back && excluded,
                            excluded,
                            "{a:b} {b:b} {c:b}"
                        );
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn an_announcement_is_read_as_it_was_written(
            size in 0_usize..9,
            known in prop::collection::vec(1_u64.., 0..9),
            other in prop::option::of((0_usize..9, prop::collection::vec(1_u64.., 0..9))),
        ) {
            let other = other.map(|(size, known)| list(size, &known));
            let lists = Lists::new(list(size, &known), other.clone());
            let token = lists.token_by(Some("host-1:42"));
            prop_assert!(Lists::is_relied_on(&lists.relied_on_token()) && !Lists::is_relied_on(&token));
            for token in [lists.token(), lists.token_by(None), lists.relied_on_token(), token.clone()] {
                prop_assert_eq!(Some(lists.clone()), Lists::parse(&token));
            }
            prop_assert_eq!(Some("host-1:42"), Lists::owner(&token));
            let unnamed = lists.token();
            prop_assert_eq!(None, Lists::owner(&unnamed));
            if let Some(other) = other {
                prop_assert_eq!(lists, Lists::new(other, Some(list(size, &known))));
            }
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
