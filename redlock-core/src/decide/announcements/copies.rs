//! Copies of announcements during a change of the nodes, if lists must agree.
//!
//! Programs of step 1 and of step 3 do not exclude each other. If no node is in both lists, neither of them sees the
//! announcement of the other. A program of step 2 reaches the nodes of both lists. It copies an announcement of one list
//! from the first place of its nodes to the first place of the nodes that are only in the other list. A copy blocks
//! programs with the other list, as the announcement of any other list does.
//!
//! - A place that is not free keeps its announcement. So of two programs, the one that was first continues, if a program
//!   of step 2 has compared lists in between.
//! - A copy expires when the announcement would that was copied, unless that was renewed.
//! - The nodes of a list are the only source, and a copy is none. A copy of a copy would never expire.
//! - No vote relies on a copy, so it may be replaced. Each comparison replaces one, because its place is free for one round
//!   trip. Meanwhile the copies on other nodes block programs.
//! - A copy is marked. The list of a program contains the nodes on which it finds a copy, so the copy is one of another
//!   list, even if the known servers of both could be those of one list.

use std::time::Duration;

use crate::decide::announcements::{Announced, Listed, Servers, TTL};
use crate::decide::node_list::Lists;
use crate::decide::quorums::Members;
use crate::types::instant::Instant;
use crate::types::token::Token;

/// A copy of an announcement on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListCopy {
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    pub(crate) action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The place is free.
    Make,
    /// The place has this copy.
    Renew,
    /// The place has a copy of this former announcement of the same list.
    Replace(Token),
}

/// A copy is not made for a shorter time, and not renewed for less.
const LEAST: Duration = Duration::from_secs(1);

impl Servers {
    /// Returns the copies to be made on nodes, whose announcements are these.
    pub(crate) fn copies(&self, announced: &[(usize, &Announced)], now: Instant) -> Vec<(usize, ListCopy)> {
        match self.quorums.previous().filter(|_| self.must_agree) {
            None => Vec::new(),
            Some(previous) => {
                let current = self.quorums.current();
                let mut copies = self.copies_of(current, previous, announced, now);
                copies.extend(self.copies_of(previous, current, announced, now));
                copies
            }
        }
    }

    /// Returns the copies of announcements of one list on nodes that are only in the other one.
    fn copies_of(
        &self,
        list: Members,
        other: Members,
        announced: &[(usize, &Announced)],
        now: Instant,
    ) -> Vec<(usize, ListCopy)> {
        let is_of_list = |listed: &Listed| self.is_only(list, other, &listed.token);
        let is_source = |listed: &&Listed| is_of_list(listed) && !Lists::is_copy(&listed.token);
        let source = |(node, announced): &(usize, &Announced)| {
            let listed = announced.first.as_ref().filter(|_| list.contains(*node)).filter(is_source)?;
            Some((Lists::parse(&listed.token)?.copied_token(), listed.clone()))
        };
        let sources: Vec<_> = announced.iter().filter_map(source).collect();
        let Some((copied, latest)) = sources.iter().max_by_key(|(_, listed)| listed.remaining) else {
            return Vec::new();
        };
        let remaining = latest.remaining.unwrap_or_default().min(TTL);
        let ttl = remaining.saturating_sub(now.saturating_duration_since(latest.read));
        let copy = |token: &Token, action| Some(ListCopy { token: token.clone(), ttl, action });
        let copy_on = |announced: &Announced| match &announced.first {
            _ if ttl < LEAST => None,
            None => copy(copied, Action::Make),
            Some(listed) if !Lists::is_copy(&listed.token) => None,
            Some(listed) if sources.iter().any(|(copied, _)| *copied == listed.token) => {
                let is_short = listed.remaining.is_some_and(|left| left + LEAST <= ttl);
                is_short.then(|| copy(&listed.token, Action::Renew))?
            }
            Some(listed) if is_of_list(listed) => copy(copied, Action::Replace(listed.token.clone())),
            Some(_) => None,
        };
        let targets = announced.iter().filter(|(node, _)| !list.contains(*node));
        let mut all: Vec<_> =
            targets.filter_map(|(node, announced)| Some((*node, copy_on(announced)?))).collect();
        let mut replaces_one = false;
        all.retain(|(_, copy)| {
            !matches!(copy.action, Action::Replace(_)) || !std::mem::replace(&mut replaces_one, true)
        });
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::decide::announcements::Place;
    use crate::decide::node_list::{Lists, NodeList};
    use crate::decide::quorums::Quorums;
    use crate::types::entry::LockEntry;
    use crate::types::identity::ServerId;

    fn at(seconds: u64) -> Instant {
        Instant::since_origin(Duration::from_secs(seconds))
    }

    fn list(known: &[u64]) -> Lists {
        let known = known.iter().map(|id| ServerId::from(NonZeroU64::new(*id).expect("not zero")));
        Lists::new(NodeList::new(3, known), None)
    }

    /// Returns a program that changes from servers 1, 2, 3 to 3, 4, 5. Its nodes are 3, 4, 5, 1, 2.
    fn both(must_agree: bool) -> Servers {
        let mut both = Servers::new(Quorums::of_change(3, &[3, 4, 0]), must_agree, None);
        both.begin();
        for (node, id) in [3, 4, 5, 1, 2].into_iter().enumerate() {
            both.note(node, NonZeroU64::new(id).map(ServerId::from), at(10));
        }
        both
    }

    /// Returns an announcement in the first place that was read at 100 s, with this time left.
    fn first(token: Token, seconds: u64) -> Announced {
        let mut entry = LockEntry::of(token);
        entry.remaining = Some(Duration::from_secs(seconds));
        let mut announced = Announced::default();
        announced.set(Place::First, Listed::new(entry, at(100), at(100), Duration::from_secs(1)));
        announced
    }

    /// Returns the copies at 101 s.
    fn copies(both: &Servers, announced: &[Announced; 5]) -> Vec<(usize, ListCopy)> {
        let announced: Vec<_> = announced.iter().enumerate().collect();
        both.copies(&announced, at(101))
    }

    fn copied(known: &[u64]) -> Token {
        list(known).copied_token()
    }

    fn copy(token: &Token, seconds: u64, action: Action) -> ListCopy {
        ListCopy { token: token.clone(), ttl: Duration::from_secs(seconds), action }
    }

    #[test]
    fn an_announcement_of_one_list_is_copied_to_the_nodes_of_the_other_list() {
        let (old, new) = (list(&[1, 2, 3]).relied_on_token(), list(&[3, 4, 5]).relied_on_token());
        let none = Announced::default;
        let is_old = [none(), none(), none(), first(old.clone(), 20), first(old.clone(), 25)];
        let made = copy(&copied(&[1, 2, 3]), 24, Action::Make);
        assert_eq!(vec![(1, made.clone()), (2, made)], copies(&both(true), &is_old));
        assert!(copies(&both(false), &is_old).is_empty(), "no vote relies on announcements");
        let is_new = [first(new.clone(), 20), none(), none(), none(), none()];
        let made = copy(&copied(&[3, 4, 5]), 19, Action::Make);
        assert_eq!(vec![(3, made.clone()), (4, made)], copies(&both(true), &is_new));
        // A place that is not free keeps its announcement.
        let other = || first(list(&[4, 5, 6]).token(), 20);
        let taken = [none(), first(new.clone(), 20), other(), first(old.clone(), 20), first(old.clone(), 20)];
        assert!(copies(&both(true), &taken).is_empty());
        let announced = [none(), first(old.clone(), 20), other(), first(old.clone(), 25), first(old, 25)];
        assert!(copies(&both(true), &announced).is_empty(), "it is no copy");
    }

    #[test]
    fn a_copy_is_renewed_as_long_as_its_announcement_is() {
        let (old, of_old, none) =
            (list(&[1, 2, 3]).relied_on_token(), copied(&[1, 2, 3]), Announced::default);
        let left = |source: u64, copied: u64| {
            let copied = || first(of_old.clone(), copied);
            [none(), copied(), copied(), first(old.clone(), source), none()]
        };
        let renewed = copy(&of_old, 24, Action::Renew);
        assert_eq!(vec![(1, renewed.clone()), (2, renewed)], copies(&both(true), &left(25, 15)));
        assert!(copies(&both(true), &left(25, 25)).is_empty(), "another program has renewed it");
        assert!(copies(&both(true), &left(1, 1)).is_empty());
        for node in [1, 3] {
            let mut orphan = [(); 5].map(|()| none());
            orphan[node] = first(of_old.clone(), 20);
            assert!(copies(&both(true), &orphan).is_empty(), "a copy is never copied");
        }
    }

    /// A program has announced its servers again after one was restarted.
    #[test]
    fn a_copy_of_a_former_announcement_is_replaced() {
        let (old, former) = (list(&[1, 2, 3]).relied_on_token(), list(&[1, 3]).relied_on_token());
        let (of_old, of_former, none) = (copied(&[1, 2, 3]), copied(&[1, 3]), Announced::default);
        let announced = [none(), first(of_former.clone(), 20), none(), first(old.clone(), 25), none()];
        let replaced = copy(&of_old, 24, Action::Replace(of_former.clone()));
        let made = copy(&of_old, 24, Action::Make);
        assert_eq!(vec![(1, replaced), (2, made.clone())], copies(&both(true), &announced));
        // Both are announced: each program reaches other servers.
        let both_stand = [none(), first(of_former.clone(), 20), none(), first(old, 25), first(former, 5)];
        let expected = [(1, copy(&of_former, 24, Action::Renew)), (2, made)];
        assert_eq!(expected.to_vec(), copies(&both(true), &both_stand));
        let former = || first(of_former.clone(), 20);
        let on_both = [none(), former(), former(), first(list(&[1, 2, 3]).relied_on_token(), 25), none()];
        let one = copy(&of_old, 24, Action::Replace(of_former.clone()));
        assert_eq!(vec![(1, one)], copies(&both(true), &on_both), "the other one blocks meanwhile");
    }

    /// Server 3 is in both lists.
    #[test]
    fn an_announcement_that_may_be_of_either_list_is_not_copied() {
        let none = Announced::default;
        let token = list(&[3]).relied_on_token();
        assert!(copies(&both(true), &[first(token, 20), none(), none(), none(), none()]).is_empty());
    }
}
