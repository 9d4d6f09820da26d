//! Who has a resource: what a quorum of nodes sees.
//!
//! *Held* by a token that a quorum of nodes has: nobody else can get a quorum before the first of them lets go. *Free*
//! when a quorum has nothing: a lock that is asked for now can be won. The two exclude each other, since any two quorums
//! share a node. Neither is *undecided*: an attempt is under way, one is being undone, or nodes have lost data; whoever
//! asks again soon sees what has become of it. Like every decision it is made as soon as nothing that may still arrive
//! changes it.
//!
//! How long it is held at least: a quorum of nodes holds it until the quorum-th largest of the remaining times has
//! passed.

use std::time::Duration;

use crate::node::Holding;
use crate::token::Token;

/// What one voter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight<'a> {
    /// It did not answer and no longer can.
    Failed,
    Pending,
    Free,
    Held(&'a Holding),
}

/// What all of them see together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion<'a> {
    /// What may still arrive decides.
    Open,
    Free,
    /// With the least time that it is held, if that has an end.
    Held(&'a Token, Option<Duration>),
    Undecided,
    /// Too few answer.
    NoQuorum,
}

impl Sight<'_> {
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::Free | Self::Held(_))
    }

    /// Whether both are answers, and name the same holder or none.
    fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Free, Self::Free) => true,
            (Self::Held(one), Self::Held(other)) => one.token == other.token,
            _ => false,
        }
    }
}

/// What a server sees that was asked under several names: what the names say, each different answer once. An agreement
/// counts once, with the shortest time.
///
/// Where they disagree, one of them may only state that it is this server. It must not take away the vote of the other: so
/// each answer counts, and no answer twice.
pub(crate) fn of_server<'a>(names: impl IntoIterator<Item = Sight<'a>>) -> Vec<Sight<'a>> {
    let mut answers: Vec<Sight<'a>> = Vec::with_capacity(1);
    let mut without = Sight::Failed;
    for sight in names {
        match (answers.iter_mut().find(|answer| answer.says_the_same(&sight)), sight) {
            (Some(Sight::Held(known)), Sight::Held(held)) if expiry(held) < expiry(known) => *known = held,
            (None, Sight::Free | Sight::Held(_)) => answers.push(sight),
            (None, Sight::Pending) => without = Sight::Pending,
            _ => {}
        }
    }
    if answers.is_empty() { vec![without] } else { answers }
}

/// No expiry is more than any time.
fn expiry(holding: &Holding) -> Duration {
    holding.remaining.unwrap_or(Duration::MAX)
}

/// Decides on what the voters see. `quorum` is one of all nodes, of which there may be more than voters.
pub(crate) fn conclude<'a>(voters: &[Sight<'a>], quorum: usize) -> Conclusion<'a> {
    let count = |wanted: &dyn Fn(Sight<'a>) -> bool| voters.iter().filter(|sight| wanted(**sight)).count();
    let free = count(&|sight| sight == Sight::Free);
    if free >= quorum {
        return Conclusion::Free;
    }
    let has = |token: &Token| count(&|sight| matches!(sight, Sight::Held(held) if held.token == *token));
    let held = voters.iter().filter_map(|sight| match sight {
        Sight::Held(holding) => Some(&holding.token),
        _ => None,
    });
    let most = held.map(|token| (has(token), token)).max_by_key(|(nodes, _)| *nodes);
    if let Some((_, token)) = most.filter(|(nodes, _)| *nodes >= quorum) {
        return Conclusion::Held(token, least(voters, token, quorum));
    }
    let pending = count(&|sight| sight == Sight::Pending);
    let answered = count(&Sight::is_answer);
    if answered + pending < quorum {
        return Conclusion::NoQuorum;
    }
    let strongest = free.max(most.map_or(0, |(nodes, _)| nodes));
    if strongest + pending < quorum && answered >= quorum { Conclusion::Undecided } else { Conclusion::Open }
}

/// The quorum-th largest of the times that a token has left. No expiry is more than any time.
fn least(voters: &[Sight<'_>], token: &Token, quorum: usize) -> Option<Duration> {
    let mut remaining: Vec<_> = voters
        .iter()
        .filter_map(|sight| match sight {
            Sight::Held(held) if held.token == *token => Some(expiry(held)),
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
    use crate::decide::tally::quorum;

    /// What a node says at the end.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Said {
        Nothing,
        Free,
        /// Who has it, for so many seconds; 60 are for ever.
        Held(u8, u64),
    }

    fn said() -> impl Strategy<Value = Said> {
        let holder = || prop_oneof![4 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
        prop_oneof![
            1 => Just(Said::Nothing),
            2 => Just(Said::Free),
            4 => (holder(), prop_oneof![4 => 0_u64..60, 1 => Just(60)]).prop_map(|(who, left)| Said::Held(who, left)),
        ]
    }

    /// What nodes say, in the order in which it arrives: (node, what).
    fn arrivals() -> impl Strategy<Value = Vec<(usize, Said)>> {
        prop::collection::vec(said(), 1..10)
            .prop_map(|said| said.into_iter().enumerate().collect::<Vec<_>>())
            .prop_shuffle()
    }

    fn holding(said: Said) -> Option<Holding> {
        let Said::Held(who, left) = said else { return None };
        let holding = Holding::of(Token::from_bytes([who]));
        Some(if left == 60 { holding } else { holding.expiring_in(Duration::from_secs(left)) })
    }

    #[test]
    fn names_of_one_server_that_disagree_count_once_each() {
        let held =
            |who: u8, left| Holding::of(Token::from_bytes([who])).expiring_in(Duration::from_secs(left));
        let (long, short, other) = (held(0, 9), held(0, 3), held(1, 5));
        let (long, short, other) = (Sight::Held(&long), Sight::Held(&short), Sight::Held(&other));
        assert_eq!(vec![Sight::Free], of_server([Sight::Free, Sight::Failed, Sight::Free]));
        assert_eq!(vec![Sight::Free, long], of_server([Sight::Free, long]));
        assert_eq!(vec![short], of_server([long, short, long]), "the least time");
        assert_eq!(vec![long, other], of_server([long, other]));
        assert_eq!(vec![Sight::Pending], of_server([Sight::Failed, Sight::Pending]));
        assert_eq!(vec![Sight::Failed], of_server([Sight::Failed]));
        let endless = Holding::of(Token::from_bytes([0]));
        assert_eq!(vec![long], of_server([Sight::Held(&endless), long]));
    }

    /// A conclusion that borrows nothing.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Concluded {
        Open,
        Free,
        Held(u8, Option<u64>),
        Undecided,
        NoQuorum,
    }

    /// What is concluded once the first `count` have arrived.
    fn after(arrivals: &[(usize, Said)], count: usize) -> Concluded {
        let found: Vec<_> = arrivals.iter().map(|(_, said)| holding(*said)).collect();
        let mut voters = vec![Sight::Pending; arrivals.len()];
        for ((node, said), found) in arrivals.iter().zip(&found).take(count) {
            let silent = if *said == Said::Nothing { Sight::Failed } else { Sight::Free };
            voters[*node] = found.as_ref().map_or(silent, Sight::Held);
        }
        match conclude(&voters, quorum(voters.len())) {
            Conclusion::Open => Concluded::Open,
            Conclusion::Free => Concluded::Free,
            Conclusion::Held(token, left) => {
                Concluded::Held(token.as_bytes()[0], left.map(|left| left.as_secs()))
            }
            Conclusion::Undecided => Concluded::Undecided,
            Conclusion::NoQuorum => Concluded::NoQuorum,
        }
    }

    /// The rule, said of what all have said and in other words than the code's.
    fn at_the_end(arrivals: &[(usize, Said)]) -> Concluded {
        let needed = arrivals.len() / 2 + 1;
        let count = |wanted: &dyn Fn(Said) -> bool| arrivals.iter().filter(|(_, said)| wanted(*said)).count();
        if count(&|said| said != Said::Nothing) < needed {
            return Concluded::NoQuorum;
        }
        if count(&|said| said == Said::Free) >= needed {
            return Concluded::Free;
        }
        for who in 0..3 {
            let held_for = |least: u64| {
                count(&|said| matches!(said, Said::Held(holder, left) if holder == who && left >= least))
            };
            // The largest time for which a quorum has it.
            if let Some(left) = (0..=60).rev().find(|least| held_for(*least) >= needed) {
                return Concluded::Held(who, (left < 60).then_some(left));
            }
        }
        Concluded::Undecided
    }

    proptest! {
        #[test]
        fn what_is_concluded_is_what_a_quorum_sees(arrivals in arrivals()) {
            prop_assert_eq!(at_the_end(&arrivals), after(&arrivals, arrivals.len()));
        }

        #[test]
        fn what_is_concluded_early_stays_true(arrivals in arrivals()) {
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
        fn nobody_waits_for_what_cannot_matter(arrivals in arrivals(), cut in 0_usize..10) {
            let cut = cut.min(arrivals.len());
            if after(&arrivals, cut) == Concluded::Open {
                let ending = |last: Said| {
                    let rest = arrivals[cut..].iter().map(|(node, _)| (*node, last));
                    at_the_end(&arrivals[..cut].iter().copied().chain(rest).collect::<Vec<_>>())
                };
                let nodes = (0..3).map(|who| Said::Held(who, 1));
                let mut endings = nodes.chain([Said::Nothing, Said::Free]).map(ending);
                let first = endings.next();
                prop_assert!(endings.any(|other| Some(other) != first), "always {:?}", first);
            }
        }
    }

    #[test]
    fn the_quorum_th_largest_time_counts() {
        let held = |left| Said::Held(0, left);
        let all = [held(9), held(3), held(60), held(5), Said::Free];
        let arrivals: Vec<_> = all.into_iter().enumerate().collect();
        assert_eq!(Concluded::Held(0, Some(5)), after(&arrivals, 5));
        assert_eq!(Concluded::Held(0, Some(3)), after(&arrivals, 3), "as far as is known");
        assert_eq!(Concluded::Open, after(&arrivals, 2));
    }
}
