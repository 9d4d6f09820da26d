//! The announcements of node lists on nodes.
//!
//! Each program announces its lists on each of its nodes, in one of three places. A list is in the place
//! [`First`](Place::First), and the two lists of a program during a change of the nodes are in the place
//! [`Change`](Place::Change). A program that has seen a list that keeps it from [agreement](super::agreement) announces
//! its own in the place [`Other`](Place::Other). So programs with either list see a difference on the first node that they
//! have in common.
//!
//! A program with two lists excludes every program that has one of them. If it sees programs with only one of them each,
//! these do not exclude each other: that is a difference, too.
//!
//! A server that was restarted has another identity, and a program that has ended does not notice it. So a difference is
//! certain only for those servers that this program had already seen when the other program read its own.
//!
//! # Lists that must agree
//!
//! The announcement in the first two places must then contain every server whose vote a program counts. Two programs whose
//! votes rely on one announcement thus have a list of as many nodes, with a quorum in common. So these rules apply:
//!
//! - A program counts no vote before it has announced the server. It adds its servers to an announcement that may be that
//!   of its list, and carries the others, which it may not reach.
//! - A server that no program announces any more is carried twice, for at least half of [`MIN_TTL`] each time. A running
//!   program announces its servers again meanwhile, and otherwise no longer counts their votes.
//! - A server may return as another one, after a restart that this program has not seen. If an announcement has the former
//!   identity, and no room for the new one, a program whose other votes count announces its list without the server, and
//!   counts no vote of it, until no program announces the former one any more. It still announces its list on the server,
//!   and counts no other new vote before: another list may be there.
//! - A vote may count although its node does not reply. If an announcement on another node has no room for its server, it no
//!   longer counts after the comparison. So the votes that a program counts at one time are all of one list that excludes
//!   that announcement.
//! - No program deletes such an announcement when it ends. While it replaces one, the new one is in the place of
//!   neighbours. If these have announced their lists there, it is in the last place for some seconds.
//! - Programs without the setting have another announcement of the same list, on which no vote relies. The other programs
//!   replace it.

pub(crate) mod copies;

use std::collections::VecDeque;
use std::time::Duration;

use crate::decide::node_list::{Lists, NodeList};
use crate::decide::quorums::{Members, Quorums};
use crate::types::entry::LockEntry;
use crate::types::identity::ServerId;
use crate::types::instant::Instant;
use crate::types::node_list::NodeListDifference;
use crate::types::owner::Owner;
use crate::types::token::Token;

/// The servers of the nodes of this program.
///
/// A server that was restarted is another one. Until all programs have noticed it, the former server is in
/// announcements of the same list.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    quorums: Quorums,
    /// True if the lists of programs must agree, so that votes rely on announcements.
    must_agree: bool,
    /// The label of this program.
    owner: Option<Owner>,
    /// The servers of the nodes that have replied in this comparison, or whose votes count.
    present: Vec<Option<ServerId>>,
    /// The time of the last reply of each node.
    replied: Vec<Instant>,
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
    /// One list.
    First,
    /// The two lists of a program during a change of the nodes.
    Change,
    /// The last place: the lists of a program that does not agree with the others. For some seconds, an announcement that is
    /// being replaced.
    Other,
}

/// An announcement that was read from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) token: Token,
    /// The time for which it stands on its server, if it expires.
    pub(crate) remaining: Option<Duration>,
    /// Its program read these servers at this time or later, on the clock of this program.
    as_of: Instant,
    /// The time at which this program received it.
    read: Instant,
    /// The announcement stands until this time.
    pub(crate) until: Instant,
    /// True if no program has renewed it for so long that none with this list may run any more.
    is_old: bool,
    /// True if every program that runs has announced its servers meanwhile.
    is_aged: bool,
}

/// The announcements on one node, as far as it replied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    first: Option<Listed>,
    change: Option<Listed>,
    other: Option<Listed>,
}

/// The lists in the place of this program on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// None: this program may announce its own.
    Free,
    /// Those of this program, or lists that may be the same.
    Own,
    /// For a moment, those of a neighbour that replaces its announcement.
    Busy,
    /// Other lists; or a program that this one does not exclude has announced its lists in another place.
    Conflict,
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
    /// The places have other lists, or that of this program has lists that may be the same. If lists must agree, these
    /// contain all known servers of this program.
    Nothing,
    /// The place is free.
    Announce(Place),
    /// The place has the lists of this program.
    ///
    /// A program renews only the list that it has read just now, or whose votes it counts. So a list that is renewed has no
    /// former server for longer than votes count without a reply.
    Renew(Place),
    /// The place has lists that may be the same, and that know less of them, or a server that was restarted. Or no
    /// program renews them any more, or votes cannot rely on them.
    Replace(Place),
}

/// The duration of an announcement. After this time, the list of a program that has ended is not compared any more.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// The shortest TTL of an announcement.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(22_500);

/// The longest time from the request of an announcement until it is carried out, and between replies of two nodes that
/// are compared. If a request takes longer, and a server is restarted meanwhile, another program may report a difference
/// until the next announcement.
const DELAY: Duration = Duration::from_millis(250);

/// Returns the longest time between the first request of a comparison and its announcements. A comparison that takes
/// longer, because its process was paused, announces and finds nothing.
pub(crate) fn max_reading(node_timeout: Duration) -> Duration {
    2 * node_timeout
}

/// Returns the TTL of an announcement whose comparison has taken this time. The TTL counts from the beginning of the
/// comparison, so the remaining time shows when the program read its servers.
pub(crate) fn ttl_after(reading: Duration) -> Duration {
    TTL.saturating_sub(reading).max(MIN_TTL)
}

/// Returns how long before the beginning of the TTL a program may have read its servers.
fn uncertainty(node_timeout: Duration) -> Duration {
    node_timeout.min(DELAY) + max_reading(node_timeout).saturating_sub(TTL.saturating_sub(MIN_TTL))
}

/// Returns how long an announcement certainly stands that has this time left on its server, whose clock may run fast.
///
/// After [`MIN_TTL`], another program that does not reach a server may have left it out.
pub(crate) fn certain(remaining: Duration) -> Duration {
    remaining.min(MIN_TTL) * 7 / 8
}

impl Listed {
    /// Creates the record of an announcement. `sent` is the time of the request that returned it, and `read` that of the
    /// reply.
    ///
    /// A key that never expires is no announcement of a program that runs.
    pub(crate) fn new(entry: LockEntry, sent: Instant, read: Instant, node_timeout: Duration) -> Self {
        // On a server whose clock runs slowly, an announcement is older than its remaining time suggests.
        let age = entry.remaining.map_or(Duration::MAX, |remaining| TTL.saturating_sub(remaining) * 9 / 8);
        let remaining = entry.remaining.unwrap_or_default();
        Self {
            token: entry.token,
            remaining: entry.remaining,
            as_of: sent - age - uncertainty(node_timeout),
            read,
            until: sent + certain(remaining),
            is_old: remaining < TTL / 2,
            is_aged: remaining < MIN_TTL / 2,
        }
    }
}

impl Announced {
    pub(crate) fn at(&self, place: Place) -> Option<&Listed> {
        match place {
            Place::First => self.first.as_ref(),
            Place::Change => self.change.as_ref(),
            Place::Other => self.other.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, place: Place, listed: Listed) {
        *match place {
            Place::First => &mut self.first,
            Place::Change => &mut self.change,
            Place::Other => &mut self.other,
        } = Some(listed);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Listed> + Clone {
        self.first.iter().chain(&self.change).chain(&self.other)
    }
}

impl Place {
    pub(crate) const ALL: [Self; 3] = [Self::First, Self::Change, Self::Other];
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
    pub(crate) fn new(quorums: Quorums, must_agree: bool, owner: Option<Owner>) -> Self {
        let nodes = quorums.nodes();
        Self {
            quorums,
            must_agree,
            owner,
            present: vec![None; nodes],
            replied: vec![Instant::ORIGIN; nodes],
            last: vec![None; nodes],
            former: VecDeque::new(),
        }
    }

    /// Begins a comparison, in which no node has replied yet.
    pub(crate) fn begin(&mut self) {
        self.present.fill(None);
    }

    /// Records the server of a node that has replied at this time.
    pub(crate) fn note(&mut self, node: usize, server: Option<ServerId>, at: Instant) {
        (self.present[node], self.replied[node]) = (server, at);
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

    /// Has the last known servers of nodes that have not replied in the lists of this program in this comparison.
    pub(crate) fn keep(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.present[*node] = self.last[*node].map(|(server, _)| server);
        }
    }

    /// Leaves the servers of nodes out of the lists of this program in this comparison.
    pub(crate) fn leave_out(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.present[*node] = None;
        }
    }

    /// Returns which of these nodes are to be left out, so that the votes of this program can continue to rely on an
    /// announcement: it has no room for their servers.
    pub(crate) fn without_room(&self, nodes: &[usize], place: Place, announced: &Token) -> Vec<usize> {
        let is_own = place == self.place();
        let fits = |servers: &Self| {
            if is_own { servers.may_equal(announced) } else { servers.may_exclude(announced) }
        };
        let Some(lists) = self.read(announced).filter(|_| !fits(self)) else { return Vec::new() };
        let is_announced =
            |server: ServerId| lists.iter().flat_map(NodeList::known).any(|known| known == server);
        let has_no_room = |node: &usize| self.present[*node].is_some_and(|server| !is_announced(server));
        let left_out: Vec<_> = nodes.iter().copied().filter(has_no_room).collect();
        let mut others = self.clone();
        others.leave_out(&left_out);
        if fits(&others) { left_out } else { Vec::new() }
    }

    /// Returns the lists of this program.
    pub(crate) fn lists(&self) -> Lists {
        let previous = self.quorums.previous().map(|previous| self.list_of(previous));
        Lists::new(self.list_of(self.quorums.current()), previous)
    }

    fn list_of(&self, list: Members) -> NodeList {
        NodeList::new(list.len(), list.nodes().filter_map(|node| self.present[node]))
    }

    /// Returns the parts of the lists whose servers were the same when the program of an announcement read them.
    fn lists_at(&self, announced: &Listed) -> Lists {
        let seen = |list: Members| {
            let seen = list.nodes().filter_map(|node| {
                let (server, since) = self.last[node]?;
                let is_same = self.present[node] == Some(server)
                    && since < announced.as_of
                    && announced.read <= self.replied[node] + DELAY;
                is_same.then_some(server)
            });
            NodeList::new(list.len(), seen)
        };
        Lists::new(seen(self.quorums.current()), self.quorums.previous().map(seen))
    }

    /// Returns the node on which a server was before another one.
    fn node_of_former(&self, server: ServerId) -> Option<usize> {
        self.former.iter().rev().find(|(former, _)| *former == server).map(|(_, node)| *node)
    }

    /// Returns announced lists, with the present servers in the place of former ones.
    pub(crate) fn read(&self, announced: &Token) -> Option<Lists> {
        let present = |id: ServerId| self.node_of_former(id).map_or(Some(id), |node| self.present[node]);
        Some(Lists::parse(announced)?.map(|list| list.map(present)))
    }

    /// Returns whether announced lists have a former server.
    fn is_stale(&self, announced: &Listed) -> bool {
        let lists = Lists::parse(&announced.token);
        let mut servers = lists.iter().flat_map(Lists::iter).flat_map(NodeList::known);
        servers.any(|server| self.node_of_former(server).is_some())
    }

    /// Compares the lists with those that are announced on a node.
    pub(crate) fn compare_on(&self, announced: &Announced) -> Finding {
        announced.all().map(|other| self.compare(other)).fold(Finding::Equal, Finding::and)
    }

    pub(crate) fn compare(&self, announced: &Listed) -> Finding {
        let Some(other) = self.read(&announced.token) else { return Finding::Equal };
        if self.may_exclude(&announced.token) {
            return Finding::Equal;
        }
        let current = self.list_of(self.quorums.current());
        let difference = other.iter().find_map(|list| current.difference(list));
        match difference.filter(|_| !self.lists_at(announced).may_exclude(&other.reached())) {
            Some(difference) => Finding::Differs(difference),
            None => Finding::Unconfirmed,
        }
    }

    /// Compares the lists that are announced with each other, during a change of the nodes: one program may have only the
    /// previous nodes, and another one only the current nodes.
    pub(crate) fn compare_others<'a>(
        &self,
        announced: &(impl Iterator<Item = &'a Announced> + Clone),
    ) -> Finding {
        let Some(previous) = self.quorums.previous() else { return Finding::Equal };
        let current = self.quorums.current();
        let has = |one: Members, other: Members| {
            let mut listed = announced.clone().flat_map(Announced::all);
            listed.any(|listed| self.is_only(one, other, &listed.token))
        };
        match self.list_of(current).difference(&self.list_of(previous)) {
            Some(difference) if has(current, previous) && has(previous, current) => {
                Finding::Differs(difference.between_others())
            }
            _ => Finding::Equal,
        }
    }

    /// Returns whether an announcement is that of one list of this program, and certainly not that of the other one.
    fn is_only(&self, list: Members, other: Members, announced: &Token) -> bool {
        let lists = self.read(announced).map(|lists| lists.reached());
        let single = lists.as_ref().and_then(Lists::single);
        single.is_some_and(|announced| {
            announced.difference(&self.list_of(list)).is_none()
                && announced.difference(&self.list_of(other)).is_some()
        })
    }

    /// Returns the step of the programs with announced lists in the change of the nodes that this program takes part in:
    /// 1 with only the previous nodes, 2 with both lists, 3 with only the current nodes.
    pub(crate) fn step(&self, announced: &Token) -> Option<u8> {
        let (current, previous) = (self.quorums.current(), self.quorums.previous()?);
        if self.is_only(previous, current, announced) {
            Some(1)
        } else if self.is_only(current, previous, announced) {
            Some(3)
        } else {
            let has_two = self.read(announced)?.single().is_none();
            (has_two && self.may_equal(announced)).then_some(2)
        }
    }

    /// Returns the place of this program, if nothing keeps it from agreement.
    pub(crate) fn place(&self) -> Place {
        if self.quorums.previous().is_some() { Place::Change } else { Place::First }
    }

    /// Returns the place of programs with other lists than this one, which it may exclude: those of neighbouring steps.
    pub(crate) fn place_of_neighbours(&self) -> Place {
        if self.quorums.previous().is_some() { Place::First } else { Place::Change }
    }

    /// Returns the announcement of this program in a place.
    ///
    /// Programs with the same lists have the same one, except for their labels in the last place. There they show which
    /// program does not agree with the others.
    pub(crate) fn token(&self, place: Place) -> Token {
        match (place, &self.owner) {
            (Place::Other, Some(owner)) => self.lists().token_by(Some(owner.as_str())),
            (Place::First | Place::Change, _) if self.must_agree => self.lists().relied_on_token(),
            _ => self.lists().token(),
        }
    }

    /// Returns the announcement of this program in a place on one node. It carries servers of others that rely on them.
    pub(crate) fn token_on(&self, announced: &Announced, place: Place) -> Token {
        let guard = || self.guard(announced).or_else(|| self.guard_in_last(announced));
        let before = announced.at(place).or_else(guard);
        match before.filter(|before| self.relies_on(place) && Lists::is_relied_on(&before.token)) {
            Some(before) => match self.read(&before.token).filter(|lists| lists.may_equal(&self.lists())) {
                Some(lists) => lists.followed_by(&self.lists(), before.is_aged).relied_on_token(),
                None => self.token(place),
            },
            None => self.token(place),
        }
    }

    /// Returns whether the lists of programs must agree.
    pub(crate) fn must_agree(&self) -> bool {
        self.must_agree
    }

    /// Returns whether votes of this program rely on announcements in a place.
    pub(crate) fn relies_on(&self, place: Place) -> bool {
        self.must_agree && place != Place::Other
    }

    /// Returns the announcement in the place of neighbours with the lists of this program. It stands there only while it
    /// replaces the one in its own place.
    fn guard<'a>(&self, announced: &'a Announced) -> Option<&'a Listed> {
        announced.at(self.place_of_neighbours()).filter(|listed| self.may_equal(&listed.token))
    }

    /// Returns the announcement in the last place with the lists of this program. It stands there since one was replaced.
    pub(crate) fn guard_in_last<'a>(&self, announced: &'a Announced) -> Option<&'a Listed> {
        let is_guard = |last: &&Listed| Lists::is_relied_on(&last.token) && self.may_equal(&last.token);
        announced.at(Place::Other).filter(is_guard)
    }

    /// Returns whether programs with these announced lists and this one exclude each other.
    pub(crate) fn may_exclude(&self, announced: &Token) -> bool {
        !self.is_copy_of_others(announced)
            && self.read(announced).is_some_and(|other| self.lists().may_exclude(&other))
    }

    /// Returns whether an announcement is a copy that this program has read, and its list is certainly not that of this
    /// program: the only list of this program contains all servers that it reads.
    fn is_copy_of_others(&self, announced: &Token) -> bool {
        self.quorums.previous().is_none() && Lists::is_copy(announced)
    }

    /// Returns whether announced lists may be those of this program.
    pub(crate) fn may_equal(&self, announced: &Token) -> bool {
        !self.is_copy_of_others(announced)
            && self.read(announced).is_some_and(|lists| lists.may_equal(&self.lists()))
    }

    /// Returns what is in the place of this program on a node.
    pub(crate) fn claim(&self, announced: &Announced) -> Claim {
        if announced.at(self.place_of_neighbours()).is_some_and(|other| !self.may_exclude(&other.token)) {
            return Claim::Conflict;
        }
        // While an announcement is replaced, it is in the last place.
        let excludes = |last: &Listed| !Lists::is_relied_on(&last.token) || self.may_exclude(&last.token);
        match announced.at(self.place()) {
            None if !announced.at(Place::Other).is_none_or(excludes) => Claim::Conflict,
            None => Claim::Free,
            Some(listed) if self.may_equal(&listed.token) => Claim::Own,
            Some(listed) if self.is_of_neighbour(&listed.token) => Claim::Busy,
            Some(_) => Claim::Conflict,
        }
    }

    /// Returns whether announced lists are those of a neighbouring step: one list instead of two, or the reverse.
    fn is_of_neighbour(&self, announced: &Token) -> bool {
        let has_two = |lists: &Lists| lists.single().is_none();
        self.read(announced).is_some_and(|other| {
            has_two(&other) != self.quorums.previous().is_some() && self.lists().may_exclude(&other)
        })
    }

    /// Returns the action on a node. `may_claim` if nothing keeps this program from agreement.
    pub(crate) fn announcement(&self, announced: &Announced, may_claim: bool) -> Announcement {
        let (own, place) = (self.lists(), if may_claim { self.place() } else { Place::Other });
        let Some(listed) = announced.at(place) else {
            // No other program needs to be warned of a list that is in its place.
            let is_claimed = !may_claim && self.claim(announced) == Claim::Own;
            return if is_claimed { Announcement::Nothing } else { Announcement::Announce(place) };
        };
        if listed.token == self.token(place) {
            return Announcement::Renew(place);
        }
        let is_replaced = self.may_equal(&listed.token)
            && self.read(&listed.token).is_some_and(|lists| {
                match (self.relies_on(place), Lists::is_relied_on(&listed.token)) {
                    (true, true) => self.is_stale(listed) || listed.is_aged || !lists.have_reached(&own),
                    (true, false) => true,
                    (false, true) => false,
                    (false, false) => self.is_stale(listed) || own.known() > lists.known() || listed.is_old,
                }
            });
        if is_replaced { Announcement::Replace(place) } else { Announcement::Nothing }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn list(size: usize, known: &[u64]) -> NodeList {
        NodeList::new(size, known.iter().map(|id| ServerId::from(NonZeroU64::new(*id).expect("not zero"))))
    }

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    /// Returns the servers of a program whose nodes have these since 10 s, and 0 for a node that has not replied.
    fn servers(known: &[u64]) -> Servers {
        let mut servers = Servers::new(Quorums::of(known.len()), false, None);
        reply(&mut servers, known, 10);
        servers
    }

    fn reply(servers: &mut Servers, known: &[u64], seconds: u64) {
        servers.begin();
        for (node, id) in known.iter().enumerate() {
            servers.note(node, NonZeroU64::new(*id).map(ServerId::from), at(seconds));
        }
    }

    /// Returns an announcement of servers that their program read at 20 s.
    fn of(lists: &Lists) -> Listed {
        Listed {
            token: lists.token(),
            remaining: None,
            as_of: at(20),
            read: at(0),
            until: at(40),
            is_old: false,
            is_aged: false,
        }
    }

    /// Returns announcements of single lists.
    fn on(first: Option<&NodeList>, other: Option<&NodeList>) -> Announced {
        let listed = |list: &NodeList| of(&Lists::new(list.clone(), None));
        Announced { first: first.map(listed), other: other.map(listed), ..Announced::default() }
    }

    /// Returns the only list of a program.
    fn only(servers: &Servers) -> NodeList {
        servers.lists().single().expect("one list").clone()
    }

    fn differs(finding: Finding) -> bool {
        matches!(finding, Finding::Differs(_))
    }

    #[test]
    fn the_first_list_keeps_its_place_and_another_list_takes_the_other() {
        let (one, two) = (servers(&[1, 2, 3]), servers(&[3, 4, 5]));
        let (list, other_list) = (only(&one), only(&two));
        let (first, other) = (Place::First, Place::Other);
        let (is_first, are_both) = (on(Some(&list), None), on(Some(&list), Some(&other_list)));
        assert_eq!((Claim::Free, Claim::Own), (one.claim(&on(None, None)), one.claim(&is_first)));
        assert_eq!((Claim::Own, Claim::Conflict), (one.claim(&are_both), two.claim(&are_both)));
        assert_eq!(Announcement::Announce(first), one.announcement(&on(None, None), true));
        assert_eq!(Announcement::Renew(first), one.announcement(&is_first, true));
        assert_eq!(Announcement::Announce(other), two.announcement(&is_first, false));
        assert_eq!(
            Announcement::Announce(other),
            two.announcement(&on(None, None), false),
            "on its other nodes"
        );
        assert_eq!(Announcement::Renew(other), two.announcement(&are_both, false));
        assert_eq!(Announcement::Nothing, servers(&[3]).announcement(&are_both, false));
        assert_eq!(Announcement::Nothing, one.announcement(&is_first, false), "its list is claimed already");
        for (place, another) in
            [(Some(&list), Some(&other_list)), (Some(&other_list), None), (None, Some(&other_list))]
        {
            assert!(differs(one.compare_on(&on(place, another))), "{place:?} {another:?}");
        }
    }

    /// The steps of a change from 1, 2, 3 to 3, 4, 5.
    #[test]
    fn programs_of_neighbouring_steps_claim_two_places() {
        let (old, new) = (servers(&[1, 2, 3]), servers(&[3, 4, 5]));
        let mut both = Servers::new(Quorums::of_change(3, &[3, 4, 0]), false, None);
        reply(&mut both, &[3, 4, 5, 1, 2], 10);
        let on = |first: Option<&Servers>, change: Option<&Servers>| Announced {
            first: first.map(|servers| of(&servers.lists())),
            change: change.map(|servers| of(&servers.lists())),
            other: None,
        };
        assert_eq!([Place::First, Place::Change], [old.place(), both.place()]);
        for single in [&old, &new] {
            assert_eq!(Claim::Free, single.claim(&on(None, Some(&both))));
            assert_eq!(Claim::Free, both.claim(&on(Some(single), None)));
            assert_eq!(Claim::Own, single.claim(&on(Some(single), Some(&both))));
            assert_eq!(Claim::Own, both.claim(&on(Some(single), Some(&both))));
        }
        assert_eq!(Claim::Conflict, new.claim(&on(Some(&old), Some(&both))), "step 3 begins too early");
        let other = servers(&[4, 5, 6]);
        assert_eq!(Claim::Conflict, other.claim(&on(None, Some(&both))));
        assert_eq!(Claim::Conflict, both.claim(&on(Some(&other), None)));
        // A program of step 1 that has reached one server, and one of step 3 that reaches two: their lists could be one.
        let part = servers(&[0, 4, 5]);
        let announced = Lists::new(list(3, &[1]), None);
        let copied = Listed { token: announced.copied_token(), ..of(&announced) };
        let copied = Announced { first: Some(copied), ..Announced::default() };
        assert_eq!(
            Claim::Own,
            part.claim(&Announced { first: Some(of(&announced)), ..Announced::default() })
        );
        assert_eq!(Claim::Conflict, part.claim(&copied));
        assert_eq!(Finding::Unconfirmed, part.compare_on(&copied));
        assert_eq!((Claim::Free, Finding::Equal), (both.claim(&copied), both.compare_on(&copied)));
        assert_eq!(Some(1), both.step(&copied.first.as_ref().unwrap().token));
        let mut next = Servers::new(Quorums::of_change(1, &[1, 2, 3]), false, None);
        reply(&mut next, &[9, 3, 4, 5], 10);
        let steps = [&old, &both, &new, &other].map(|program| both.step(&program.token(Place::First)));
        assert_eq!([Some(1), Some(2), Some(3), None], steps);
        assert_eq!(None, old.step(&both.token(Place::Change)), "this program takes part in no change");
        assert_eq!(None, both.step(&servers(&[3, 0, 0]).token(Place::First)), "it may be either list");
        assert_eq!(Claim::Conflict, next.claim(&on(None, Some(&both))), "the next change begins too early");
        assert_eq!(Claim::Conflict, old.claim(&on(None, Some(&next))), "this program is two steps behind");
    }

    /// The program that knew all servers has ended.
    #[test]
    fn a_list_that_is_not_renewed_is_replaced_by_one_that_knows_less() {
        let (whole, part) = (servers(&[1, 2, 3]), servers(&[1, 0, 0]));
        let mut old = on(Some(&only(&whole)), None);
        old.first.as_mut().unwrap().is_old = true;
        assert_eq!(Announcement::Replace(Place::First), part.announcement(&old, true));
    }

    /// A program that knows less does not renew the list: it cannot know whether the other servers are still the same.
    #[test]
    fn a_list_that_knows_more_replaces_one_that_may_be_the_same() {
        let (whole, part) = (servers(&[1, 2, 3]), servers(&[1, 0, 0]));
        assert_eq!(Announcement::Nothing, part.announcement(&on(Some(&only(&whole)), None), true));
        assert_eq!(
            Announcement::Replace(Place::First),
            whole.announcement(&on(Some(&only(&part)), None), true)
        );
        let another_part = servers(&[0, 2, 0]);
        assert_eq!(Announcement::Nothing, another_part.announcement(&on(Some(&only(&part)), None), true));
    }

    /// Votes of the other programs rely on the announcement.
    #[test]
    fn an_announcement_that_must_agree_keeps_the_servers_of_others() {
        let agreeing = |known: &[u64]| {
            let mut servers = Servers::new(Quorums::of(known.len()), true, None);
            reply(&mut servers, known, 10);
            servers
        };
        let first = Place::First;
        let on = |token: Token| Announced {
            first: Some(Listed { token, ..of(&Lists::new(list(3, &[]), None)) }),
            ..Announced::default()
        };
        let (one, two, part) = (agreeing(&[1, 2, 0]), agreeing(&[1, 0, 3]), agreeing(&[1, 0, 0]));
        let by_one = on(one.token(first));
        assert_eq!(Announcement::Renew(first), one.announcement(&by_one, true));
        assert_eq!(
            Announcement::Nothing,
            part.announcement(&by_one, true),
            "it has the server of this program"
        );
        assert_eq!(Announcement::Replace(first), two.announcement(&by_one, true));
        let both = on(two.token_on(&by_one, first));
        assert_eq!(Announcement::Nothing, two.announcement(&both, true));
        assert_eq!(Announcement::Replace(first), one.announcement(&both, true), "it only carries server 2");
        let whole = agreeing(&[1, 2, 4]);
        assert_eq!((Claim::Own, Claim::Conflict), (whole.claim(&by_one), whole.claim(&both)));
        // Nobody announces it any more.
        let mut aged = by_one.clone();
        aged.first.as_mut().unwrap().is_aged = true;
        assert_eq!(Announcement::Replace(first), part.announcement(&aged, true));
        // A program without the setting leaves it, and one with the setting does not rely on that of others.
        let (plain, all) = (servers(&[1, 2, 0]), servers(&[1, 2, 3]));
        aged.first.as_mut().unwrap().is_old = true;
        assert_eq!([Announcement::Nothing; 2], [&plain, &all].map(|it| it.announcement(&aged, true)));
        assert_eq!(Announcement::Replace(first), one.announcement(&on(plain.token(first)), true));
        assert_eq!(one.token(first), one.token_on(&on(all.token(first)), first));
    }

    /// The place of neighbours has the next announcement meanwhile.
    #[test]
    fn a_place_that_is_being_replaced_is_not_that_of_another_list() {
        let (old, new, next) = (servers(&[1, 2, 3]), servers(&[3, 4, 5]), servers(&[5, 6, 7]));
        let mut both = Servers::new(Quorums::of_change(3, &[3, 4, 0]), true, None);
        reply(&mut both, &[3, 4, 5, 1, 2], 10);
        let in_change =
            |servers: &Servers| Announced { change: Some(of(&servers.lists())), ..Announced::default() };
        assert_eq!(Claim::Busy, both.claim(&in_change(&old)));
        assert_eq!(Claim::Conflict, both.claim(&in_change(&next)));
        assert_eq!(Claim::Conflict, new.claim(&in_change(&old)));
        let first = Announced { first: Some(of(&both.lists())), ..Announced::default() };
        assert_eq!([Claim::Busy; 2], [&old, &new].map(|it| it.claim(&first)));
        assert_eq!(Claim::Conflict, next.claim(&first));
        // Programs with the same list continue it.
        let mut agreeing = Servers::new(Quorums::of(3), true, None);
        reply(&mut agreeing, &[1, 2, 0], 10);
        let carried = Lists::new(list(3, &[1, 3]), None).relied_on_token();
        let guarded =
            Announced { change: Some(Listed { token: carried, ..of(&old.lists()) }), ..Announced::default() };
        assert_eq!(Announcement::Announce(Place::First), agreeing.announcement(&guarded, true));
        let expected = Lists::new(list(3, &[1, 3]), None).followed_by(&agreeing.lists(), false);
        assert_eq!(expected.relied_on_token(), agreeing.token_on(&guarded, Place::First));
    }

    /// One program notices the restart of server 1 earlier than the other.
    #[test]
    fn a_list_with_a_former_server_is_the_same_list() {
        let before = servers(&[1, 2, 3]);
        let (mut early, mut in_part) = (before.clone(), before.clone());
        reply(&mut early, &[7, 2, 3], 15);
        assert_eq!(Finding::Equal, early.compare_on(&on(Some(&only(&before)), None)));
        assert_eq!(
            Announcement::Replace(Place::First),
            early.announcement(&on(Some(&only(&before)), None), true)
        );
        // Server 2 is restarted, too. This program knows of both restarts, and has never announced the list between them.
        reply(&mut in_part, &[0, 2, 3], 15);
        reply(&mut in_part, &[7, 8, 3], 16);
        let between = only(&early);
        assert_eq!(Finding::Equal, in_part.compare_on(&on(Some(&between), None)));
        assert_eq!(
            Announcement::Replace(Place::First),
            in_part.announcement(&on(Some(&between), None), true)
        );
        // A node that has not replied after its restart is unknown.
        let mut unknown = early.clone();
        reply(&mut unknown, &[0, 2, 3], 16);
        assert_eq!(Finding::Equal, unknown.compare_on(&on(Some(&only(&before)), None)));
        // Another list differs even if it has a former server.
        assert!(differs(early.compare_on(&on(Some(&list(3, &[1, 4, 5])), None))));
    }

    /// Its program may have ended before servers were restarted.
    #[test]
    fn an_announcement_from_before_this_program_saw_its_servers_is_unconfirmed() {
        let other = list(3, &[1, 4, 5]);
        let mut servers = Servers::new(Quorums::of(3), false, None);
        reply(&mut servers, &[1, 2, 3], 20);
        assert_eq!(Finding::Unconfirmed, servers.compare_on(&on(Some(&other), None)));
        assert_eq!(Finding::Unconfirmed, servers.compare_on(&on(None, Some(&other))));
        assert_eq!(Claim::Conflict, servers.claim(&on(Some(&other), None)));
        // Servers that are seen again are the same.
        let mut servers = Servers::new(Quorums::of(3), false, None);
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
        // A server that is carried may have been restarted before the announcement.
        let mut carrying =
            of(&Lists::new(list(3, &[4, 5]), None).followed_by(&Lists::new(list(3, &[7]), None), false));
        carrying.as_of = at(40);
        assert_eq!(Finding::Unconfirmed, servers.compare(&carrying));
    }

    /// Two servers may have been restarted after they replied to this program, and before the other program read them.
    #[test]
    fn an_announcement_that_was_read_long_after_its_servers_replied_is_unconfirmed() {
        let mut servers = servers(&[1, 2, 3]);
        reply(&mut servers, &[1, 2, 3], 30);
        let mut listed = of(&Lists::new(list(3, &[1, 4, 5]), None));
        listed.read = at(30) + DELAY;
        assert!(differs(servers.compare(&listed)));
        listed.read = at(31);
        assert_eq!(Finding::Unconfirmed, servers.compare(&listed));
        // No restart changes the number of nodes.
        let mut other = of(&Lists::new(list(5, &[]), None));
        other.read = at(31);
        assert!(differs(servers.compare(&other)));
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
        let as_of = |remaining, timeout: u64| {
            let mut entry = LockEntry::of(Token::from_bytes("nodes 1"));
            entry.remaining = remaining;
            Listed::new(entry, at(100), at(100), Duration::from_millis(timeout)).as_of
        };
        assert_eq!(at(100) - DELAY, as_of(Some(TTL), 3_000));
        assert_eq!(at(100) - Duration::from_millis(20), as_of(Some(TTL), 20));
        assert_eq!(at(91) - DELAY, as_of(Some(Duration::from_secs(22)), 3_000));
        assert_eq!(at(100) - DELAY, as_of(Some(2 * TTL), 3_000), "the clock of the server was set back");
        assert_eq!(Instant::ORIGIN, as_of(None, 3_000));
    }

    /// The program began to read its servers at 200 s, and announced its list after this time.
    #[test]
    fn no_server_was_read_before_the_time_of_an_announcement() {
        for timeout in [1, 100, 1_000, 5_000, 60_000].map(Duration::from_millis) {
            for reading in [Duration::ZERO, timeout / 2, timeout, max_reading(timeout)] {
                let mut entry = LockEntry::of(Token::from_bytes("nodes 1"));
                let (announced, passed) = (at(200) + reading, Duration::from_secs(3));
                entry.remaining = Some(ttl_after(reading).saturating_sub(passed));
                let now = announced + passed;
                let listed = Listed::new(entry, now, now, timeout);
                assert!(listed.as_of <= at(200), "{timeout:?} {reading:?}");
            }
        }
    }

    #[test]
    fn an_announcement_certainly_stands_for_less_than_its_remaining_time() {
        assert_eq!(Duration::from_secs(7), certain(Duration::from_secs(8)));
        assert_eq!(certain(TTL), certain(2 * TTL), "the clock of the server was set back");
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
}
