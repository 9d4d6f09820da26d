//! The holder of a resource, as a quorum of nodes sees it.
//!
//! *Held* means that a quorum of nodes has the same token. No other client can get a quorum before the first of these
//! nodes releases it. *Free* means that on a quorum the key is absent, so an attempt that begins now can succeed. The
//! two exclude each other, since any two quorums share a node. Otherwise the state is *undecided*: an attempt is in
//! progress, one is being cleaned up, or nodes have lost data. An inspection soon afterwards shows the result. Like
//! every decision, it is made as soon as no missing reply can change it.
//!
//! The minimum remaining time: a quorum of nodes holds the lock until the quorum-th largest of the remaining times has
//! passed.

use std::time::Duration;

use crate::types::entry::LockEntry;
use crate::types::token::Token;

/// The view of one voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderReply<'a> {
    /// The voter did not reply and no longer can.
    Failed,
    Pending,
    Free,
    Held(&'a LockEntry),
}

/// The view of all voters together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderQuorum<'a> {
    /// The missing replies decide.
    Open,
    Free,
    /// The holder, with the minimum remaining time if the lock expires.
    Held(&'a Token, Option<Duration>),
    Undecided,
    /// Too few nodes reply.
    NoQuorum,
}

impl HolderReply<'_> {
    pub(crate) fn is_reply(self) -> bool {
        matches!(self, Self::Free | Self::Held(_))
    }

    /// Returns whether both are replies with the same holder, or none.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Free, Self::Free) => true,
            (Self::Held(one), Self::Held(other)) => one.token == other.token,
            _ => false,
        }
    }
}

/// Returns the views of one server that was queried under several names.
///
/// Each different reply counts once. Equal replies count once, with the shortest time.
///
/// If the names disagree, one of them may wrongly claim to be this server. It must not remove the vote of the other.
/// Thus each reply counts, and none counts twice.
pub(crate) fn of_server<'a>(names: impl IntoIterator<Item = HolderReply<'a>>) -> Vec<HolderReply<'a>> {
    let mut replies: Vec<HolderReply<'a>> = Vec::with_capacity(1);
    let mut without = HolderReply::Failed;
    for reply in names {
        match (replies.iter_mut().find(|known| known.is_same_as(&reply)), reply) {
            (Some(HolderReply::Held(known)), HolderReply::Held(held)) if expiry(held) < expiry(known) => {
                *known = held;
            }
            (None, HolderReply::Free | HolderReply::Held(_)) => replies.push(reply),
            (None, HolderReply::Pending) => without = HolderReply::Pending,
            _ => {}
        }
    }
    if replies.is_empty() { vec![without] } else { replies }
}

/// The reason of a claim's denials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contention {
    /// The missing replies decide.
    Open,
    /// One client has the resource on a quorum of nodes, as far as their denials name it.
    Held,
    /// During a change of the nodes: one client has the resource on a quorum of only one list.
    ///
    /// It holds the lock if it has no other list. Otherwise the votes are split.
    HeldOnOneList,
    /// The votes are split: no client is known to have the resource on a quorum of nodes.
    Split,
}

impl Contention {
    /// Combines the decisions of two lists.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Held, Self::Held) => Self::Held,
            (Self::Split, Self::Split) => Self::Split,
            _ => Self::HeldOnOneList,
        }
    }
}

/// Decides whether one client holds the resource that voters have denied.
///
/// `denials` has an item for each voter that denied: the token that it named. Backends need not name it. A voter that
/// did not name it may have denied because of any token. `pending` is the number of voters that may still reply. A voter
/// that failed names no holder: then a client that has the resource on too few other nodes is not known to hold it.
pub(crate) fn contention<'a>(
    denials: &(impl Iterator<Item = Option<&'a Token>> + Clone),
    pending: usize,
    quorum: usize,
) -> Contention {
    let unnamed = denials.clone().filter(Option::is_none).count();
    let named = || denials.clone().flatten();
    let votes = |token: &Token| named().filter(|other| *other == token).count();
    let most = unnamed + named().map(votes).max().unwrap_or(0);
    match () {
        () if most >= quorum => Contention::Held,
        () if most + pending >= quorum => Contention::Open,
        () => Contention::Split,
    }
}

/// Returns the remaining time. A key without an expiry has the longest time.
fn expiry(holding: &LockEntry) -> Duration {
    holding.remaining.unwrap_or(Duration::MAX)
}

/// Decides from the views of the voters. `quorum` refers to all nodes, of which there may be more than voters.
pub(crate) fn conclude<'a>(voters: &[HolderReply<'a>], quorum: usize) -> HolderQuorum<'a> {
    let count =
        |wanted: &dyn Fn(HolderReply<'a>) -> bool| voters.iter().filter(|reply| wanted(**reply)).count();
    let free = count(&|reply| reply == HolderReply::Free);
    if free >= quorum {
        return HolderQuorum::Free;
    }
    let has =
        |token: &Token| count(&|reply| matches!(reply, HolderReply::Held(held) if held.token == *token));
    let held = voters.iter().filter_map(|reply| match reply {
        HolderReply::Held(holding) => Some(&holding.token),
        _ => None,
    });
    let most = held.map(|token| (has(token), token)).max_by_key(|(nodes, _)| *nodes);
    if let Some((_, token)) = most.filter(|(nodes, _)| *nodes >= quorum) {
        return HolderQuorum::Held(token, least(voters, token, quorum));
    }
    let pending = count(&|reply| reply == HolderReply::Pending);
    let replied = count(&HolderReply::is_reply);
    if replied + pending < quorum {
        return HolderQuorum::NoQuorum;
    }
    let strongest = free.max(most.map_or(0, |(nodes, _)| nodes));
    if strongest + pending < quorum && replied >= quorum {
        HolderQuorum::Undecided
    } else {
        HolderQuorum::Open
    }
}

impl HolderQuorum<'_> {
    /// Combines the views of the two lists during a change of the nodes.
    ///
    /// A program with one list holds a lock on this list alone. The lock is free once both lists are.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NoQuorum, _) | (_, Self::NoQuorum) => Self::NoQuorum,
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Free, Self::Free) => Self::Free,
            (Self::Held(one, left), Self::Held(other, other_left)) if one == other => {
                Self::Held(one, left.into_iter().chain(other_left).min())
            }
            (Self::Held(..), Self::Held(..))
            | (Self::Undecided | Self::Free, Self::Undecided | Self::Free) => Self::Undecided,
            (held @ Self::Held(..), _) | (_, held @ Self::Held(..)) => held,
        }
    }
}

/// Returns the quorum-th largest remaining time of a token; `None` if that key has no expiry.
fn least(voters: &[HolderReply<'_>], token: &Token, quorum: usize) -> Option<Duration> {
    let mut remaining: Vec<_> = voters
        .iter()
        .filter_map(|reply| match reply {
            HolderReply::Held(held) if held.token == *token => Some(expiry(held)),
            _ => None,
        })
        .collect();
    remaining.sort_unstable_by(|one, other| other.cmp(one));
    // The token has a quorum.
    remaining.get(quorum - 1).copied().filter(|left| *left < Duration::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::quorums::quorum;

    /// The final reply of a node.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Reply {
        Nothing,
        Free,
        /// The holder, and the remaining time in seconds; 60 means forever.
        Held(u8, u64),
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let holder = || prop_oneof![4 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
        prop_oneof![
            1 => Just(Reply::Nothing),
            2 => Just(Reply::Free),
            4 => (holder(), prop_oneof![4 => 0_u64..60, 1 => Just(60)]).prop_map(|(who, left)| Reply::Held(who, left)),
        ]
    }

    /// Returns the replies of nodes in their order of arrival: (node, reply).
    fn arrivals() -> impl Strategy<Value = Vec<(usize, Reply)>> {
        prop::collection::vec(reply(), 1..10)
            .prop_map(|reply| reply.into_iter().enumerate().collect::<Vec<_>>())
            .prop_shuffle()
    }

    fn holding(reply: Reply) -> Option<LockEntry> {
        let Reply::Held(who, left) = reply else { return None };
        let holding = LockEntry::of(Token::from_bytes([who]));
        Some(if left == 60 { holding } else { holding.expiring_in(Duration::from_secs(left)) })
    }

    #[test]
    fn different_replies_of_one_server_count_once_each() {
        let held =
            |who: u8, left| LockEntry::of(Token::from_bytes([who])).expiring_in(Duration::from_secs(left));
        let (long, short, other) = (held(0, 9), held(0, 3), held(1, 5));
        let (long, short, other) =
            (HolderReply::Held(&long), HolderReply::Held(&short), HolderReply::Held(&other));
        assert_eq!(
            vec![HolderReply::Free],
            of_server([HolderReply::Free, HolderReply::Failed, HolderReply::Free])
        );
        assert_eq!(vec![HolderReply::Free, long], of_server([HolderReply::Free, long]));
        assert_eq!(vec![short], of_server([long, short, long]), "the least remaining time");
        assert_eq!(vec![long, other], of_server([long, other]));
        assert_eq!(vec![HolderReply::Pending], of_server([HolderReply::Failed, HolderReply::Pending]));
        assert_eq!(vec![HolderReply::Failed], of_server([HolderReply::Failed]));
        let endless = LockEntry::of(Token::from_bytes([0]));
        assert_eq!(vec![long], of_server([HolderReply::Held(&endless), long]));
    }

    /// A conclusion without borrowed data.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Concluded {
        Open,
        Free,
        Held(u8, Option<u64>),
        Undecided,
        NoQuorum,
    }

    /// Returns the conclusion from the first `count` replies.
    fn after(arrivals: &[(usize, Reply)], count: usize) -> Concluded {
        let found: Vec<_> = arrivals.iter().map(|(_, reply)| holding(*reply)).collect();
        let mut voters = vec![HolderReply::Pending; arrivals.len()];
        for ((node, reply), found) in arrivals.iter().zip(&found).take(count) {
            let silent = if *reply == Reply::Nothing { HolderReply::Failed } else { HolderReply::Free };
            voters[*node] = found.as_ref().map_or(silent, HolderReply::Held);
        }
        match conclude(&voters, quorum(voters.len())) {
            HolderQuorum::Open => Concluded::Open,
            HolderQuorum::Free => Concluded::Free,
            HolderQuorum::Held(token, left) => {
                Concluded::Held(token.as_bytes()[0], left.map(|left| left.as_secs()))
            }
            HolderQuorum::Undecided => Concluded::Undecided,
            HolderQuorum::NoQuorum => Concluded::NoQuorum,
        }
    }

    /// Returns the conclusion from all replies, by another formulation of the rule.
    fn at_the_end(arrivals: &[(usize, Reply)]) -> Concluded {
        let needed = arrivals.len() / 2 + 1;
        let count =
            |wanted: &dyn Fn(Reply) -> bool| arrivals.iter().filter(|(_, reply)| wanted(*reply)).count();
        if count(&|reply| reply != Reply::Nothing) < needed {
            return Concluded::NoQuorum;
        }
        if count(&|reply| reply == Reply::Free) >= needed {
            return Concluded::Free;
        }
        for who in 0..3 {
            let held_for = |least: u64| {
                count(&|reply| matches!(reply, Reply::Held(holder, left) if holder == who && left >= least))
            };
            // The longest time for which a quorum has the key.
            if let Some(left) = (0..=60).rev().find(|least| held_for(*least) >= needed) {
                return Concluded::Held(who, (left < 60).then_some(left));
            }
        }
        Concluded::Undecided
    }

    proptest! {
        #[test]
        fn the_conclusion_is_that_of_a_quorum(arrivals in arrivals()) {
            prop_assert_eq!(at_the_end(&arrivals), after(&arrivals, arrivals.len()));
        }

        #[test]
        fn an_early_conclusion_stays_true(arrivals in arrivals()) {
            let end = at_the_end(&arrivals);
            for count in 0..arrivals.len() {
                match (after(&arrivals, count), end) {
                    (Concluded::Open, _) => {}
                    (Concluded::Held(early, least), Concluded::Held(late, left)) => {
                        prop_assert_eq!(early, late);
                        prop_assert!(least.unwrap_or(60) <= left.unwrap_or(60), "{:?} > {:?}", least, left);
                    }
                    (early, end) => prop_assert_eq!(early, end),
                }
            }
        }

        #[test]
        fn an_open_conclusion_can_still_be_changed_by_the_missing_replies(arrivals in arrivals(), cut in 0_usize..10) {
            let cut = cut.min(arrivals.len());
            if after(&arrivals, cut) == Concluded::Open {
                let ending = |last: Reply| {
                    let rest = arrivals[cut..].iter().map(|(node, _)| (*node, last));
                    at_the_end(&arrivals[..cut].iter().copied().chain(rest).collect::<Vec<_>>())
                };
                let nodes = (0..3).map(|who| Reply::Held(who, 1));
                let mut endings = nodes.chain([Reply::Nothing, Reply::Free]).map(ending);
                let first = endings.next();
                prop_assert!(endings.any(|other| Some(other) != first), "always {:?}", first);
            }
        }
    }

    /// A voter's final reply to a claim: no denial, or a denial with the holder if the voter names it.
    fn claim_reply() -> impl Strategy<Value = Option<Option<u8>>> {
        prop_oneof![3 => Just(None), 1 => Just(Some(None)), 6 => (0_u8..3).prop_map(|who| Some(Some(who)))]
    }

    proptest! {
        #[test]
        fn a_claim_is_prevented_by_one_holder_or_the_votes_are_split(
            replies in prop::collection::vec(claim_reply(), 1..10), cut in 0_usize..10,
        ) {
            let tokens = [0_u8, 1, 2].map(|who| Token::from_bytes([who]));
            let (voters, needed) = (replies.len(), quorum(replies.len()));
            let after = |replies: &[Option<Option<u8>>]| {
                let denials: Vec<_> =
                    replies.iter().flatten().map(|who| who.map(|who| &tokens[usize::from(who)])).collect();
                contention(&denials.iter().copied(), voters - replies.len(), needed)
            };
            let denials_by = |who: u8| {
                let is_by = |reply: &&Option<Option<u8>>| {
                    matches!(reply, Some(holder) if holder.is_none_or(|by| by == who))
                };
                replies.iter().filter(is_by).count()
            };
            let is_held = (0..3).any(|who| denials_by(who) >= needed);
            let end = if is_held { Contention::Held } else { Contention::Split };
            prop_assert_eq!(end, after(&replies));
            let early = after(&replies[..cut.min(voters)]);
            prop_assert!(early == Contention::Open || early == end, "{:?}, then {:?}", early, end);
        }
    }

    #[test]
    fn a_split_is_certain_only_if_no_missing_reply_can_complete_a_quorum() {
        let (one, other) = (Token::from_bytes("1"), Token::from_bytes("2"));
        let denied = |denials: &[Option<&Token>], pending| contention(&denials.iter().copied(), pending, 3);
        assert_eq!(Contention::Open, denied(&[Some(&one), Some(&other), Some(&one)], 1));
        assert_eq!(Contention::Held, denied(&[Some(&one), Some(&other), Some(&one), Some(&one)], 0));
        assert_eq!(Contention::Split, denied(&[Some(&one), Some(&other), Some(&one)], 0));
        assert_eq!(Contention::Held, denied(&[None, None, None], 2), "the backend names no holder");
    }

    #[test]
    fn two_lists_have_a_holder_if_one_has_and_the_other_has_no_other() {
        use HolderQuorum::{Free, Held, NoQuorum, Open, Undecided};
        let (one, other) = (Token::from_bytes("1"), Token::from_bytes("2"));
        let (short, long) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(2)));
        let cases = [
            (Free, Free, Free),
            (Free, Held(&one, long), Held(&one, long)),
            (Undecided, Held(&one, long), Held(&one, long)),
            (Held(&one, short), Held(&one, long), Held(&one, short)),
            (Held(&one, None), Held(&one, long), Held(&one, long)),
            (Held(&one, short), Held(&other, long), Undecided),
            (Free, Undecided, Undecided),
            (Held(&one, short), Open, Open),
            (Held(&one, short), NoQuorum, NoQuorum),
            (Open, NoQuorum, NoQuorum),
        ];
        for (current, previous, all) in cases {
            assert_eq!(all, current.and(previous), "{current:?} {previous:?}");
            assert_eq!(all, previous.and(current), "{previous:?} {current:?}");
        }
    }

    #[test]
    fn a_holder_of_one_list_is_not_known_to_hold_the_lock() {
        use Contention::{Held, HeldOnOneList, Open, Split};
        for (one, other, all) in [
            (Held, Held, Held),
            (Held, Split, HeldOnOneList),
            (Split, Split, Split),
            (Held, Open, Open),
            (Split, Open, Open),
        ] {
            assert_eq!((all, all), (one.and(other), other.and(one)));
        }
    }

    #[test]
    fn the_remaining_time_is_the_largest_that_a_quorum_has() {
        let held = |left| Reply::Held(0, left);
        let all = [held(9), held(3), held(60), held(5), Reply::Free];
        let arrivals: Vec<_> = all.into_iter().enumerate().collect();
        assert_eq!(Concluded::Held(0, Some(5)), after(&arrivals, 5));
        assert_eq!(Concluded::Held(0, Some(3)), after(&arrivals, 3), "a lower bound after three replies");
        assert_eq!(Concluded::Open, after(&arrivals, 2));
    }
}
