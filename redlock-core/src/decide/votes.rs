//! The outcomes of one round, by node, and their count.
//!
//! Nodes that are one server have one vote, which is the strongest of their votes. Among the nodes that granted a fenced
//! claim, only the largest group whose counters are [together](super::fencing) has a vote.
//!
//! During a change of the nodes, each of the two [lists](super::quorums) has its own count.

use std::iter;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use crate::decide::admission::{Countable, until_quorums};
use crate::decide::fencing::{Bound, Numbering, number};
use crate::decide::holder::{self, Contention, HolderReply, contention};
use crate::decide::quorums::{Members, Quorums, quorum};
use crate::decide::tally::{Decision, RoundKind, Tally, VoteState};
use crate::decide::waiters;
use crate::types::denial::Denial;
use crate::types::fencing_token::FencingToken;
use crate::types::identity::ServerId;
use crate::types::instant::Instant;
use crate::types::node_error::{NodeError, NodeErrorKind};
use crate::types::position::Position;
use crate::types::report::{self, NodeReport, Outcome};
use crate::types::token::Token;

/// The outcomes of one round, by node index.
#[derive(Clone, Debug)]
pub(crate) struct Votes {
    pub(crate) start: Instant,
    votes: Vec<Vote>,
    pub(crate) quorums: Quorums,
    bound: Bound,
    /// The number of nodes whose outcome is known.
    ended: usize,
    /// True if several nodes have turned out to be one server.
    aliases: bool,
}

#[derive(Clone, Debug)]
struct Vote {
    outcome: Outcome,
    latency: Duration,
    /// The server that replied.
    server: Option<ServerId>,
}

impl Votes {
    pub(crate) fn new(start: Instant, quorums: Quorums, bound: Bound) -> Self {
        let pending = || Vote { outcome: Outcome::Pending, latency: Duration::ZERO, server: None };
        Self {
            start,
            votes: iter::repeat_with(pending).take(quorums.nodes()).collect(),
            quorums,
            bound,
            ended: 0,
            aliases: false,
        }
    }

    /// Creates the votes of no nodes.
    pub(crate) fn none(start: Instant) -> Self {
        Self {
            start,
            votes: Vec::new(),
            quorums: Quorums::of(0),
            bound: Bound::NONE,
            ended: 0,
            aliases: false,
        }
    }

    /// Records the outcome of a node at the time `at`. `server` is the server that replied, if it is known.
    pub(crate) fn put(&mut self, index: usize, outcome: Outcome, server: Option<ServerId>, at: Instant) {
        let server = server.filter(|_| !is_failure(&outcome));
        self.ended += usize::from(self.is_pending(index));
        self.aliases |= server.is_some() && self.votes.iter().any(|other| other.server == server);
        let latency = at.saturating_duration_since(self.start);
        self.votes[index] = Vote { outcome, latency, server };
    }

    pub(crate) fn outcome(&self, index: usize) -> &Outcome {
        &self.votes[index].outcome
    }

    pub(crate) fn is_pending(&self, index: usize) -> bool {
        matches!(self.outcome(index), Outcome::Pending)
    }

    /// Returns whether the node has not replied and no longer can.
    pub(crate) fn has_failed(&self, index: usize) -> bool {
        is_failure(self.outcome(index))
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.votes.len()
    }

    pub(crate) fn decide(&self, kind: RoundKind) -> Decision {
        // So few nodes neither form a quorum nor exclude one.
        if self.ended < self.quorums.least_decisive() {
            return Decision::Pending;
        }
        Tally::decide(kind, self.tallies().map(|(list, tally)| (tally, list.quorum())))
    }

    /// Counts the votes of each list so far.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = (Members, Tally)> {
        let group = if self.is_fenced() { self.together() } else { None };
        self.quorums.lists().map(move |list| (list, self.tally_of(list.nodes(), group.as_ref())))
    }

    /// Counts the votes of all nodes so far.
    pub(crate) fn tally(&self) -> Tally {
        let group = if self.is_fenced() { self.together() } else { None };
        self.tally_of(0..self.votes.len(), group.as_ref())
    }

    fn is_fenced(&self) -> bool {
        self.votes.iter().any(|vote| matches!(vote.outcome, Outcome::GrantedFenced(_)))
    }

    /// Counts the votes of these nodes. A node has the vote of its server, which other nodes may be as well.
    fn tally_of(
        &self,
        nodes: impl Iterator<Item = usize> + Clone,
        group: Option<&RangeInclusive<FencingToken>>,
    ) -> Tally {
        let vote = |index: usize| match self.outcome(index) {
            Outcome::GrantedFenced(_) if !self.is_counter_in(group, index) => VoteState::Failed,
            _ => self.votes[index].vote_state(),
        };
        if !self.aliases {
            return Tally::of(nodes.map(vote));
        }
        let is_first = |index: &usize| self.first_of_server(nodes.clone(), *index) == *index;
        Tally::of(nodes.clone().filter(is_first).map(|voter| {
            let same = self.all().filter(|index| self.is_same_server(voter, *index));
            same.map(vote).max().unwrap_or(VoteState::Failed)
        }))
    }

    fn all(&self) -> Range<usize> {
        0..self.votes.len()
    }

    /// Returns the token of a fenced claim, once it is certain.
    pub(crate) fn number(&self) -> Option<Numbering> {
        let counters = |list: Members| {
            let is_voter =
                move |node: &usize| !self.aliases || self.first_of_server(list.nodes(), *node) == *node;
            (list.nodes().filter(is_voter).filter_map(|node| self.counter_of_server(node)), list.quorum())
        };
        number(&self.together()?, self.quorums.lists().map(counters))
    }

    /// Returns the counters that nodes reported.
    ///
    /// Nodes that are one server have one counter, which is the greatest of their counters. One of these nodes may
    /// wrongly claim to be this server.
    pub(crate) fn counters(&self) -> impl Iterator<Item = FencingToken> + Clone {
        (0..self.votes.len()).filter_map(|index| self.counter(index))
    }

    /// Returns the counter that a node reported.
    ///
    /// `None` if it has none, or if another node is the same server and reported a greater one.
    fn counter(&self, index: usize) -> Option<FencingToken> {
        // If counters are equal, the first one counts.
        let rank = |index: usize| self.reported(index).map(|counter| (counter, usize::MAX - index));
        let same = |other: &usize| self.is_same_server(*other, index);
        let exceeded = self.aliases && self.all().filter(same).any(|other| rank(other) > rank(index));
        self.reported(index).filter(|_| !exceeded)
    }

    /// Returns the greatest counter that the server of a node reported, under any name.
    fn counter_of_server(&self, index: usize) -> Option<FencingToken> {
        if !self.aliases {
            return self.reported(index);
        }
        let same = self.all().filter(|other| self.is_same_server(*other, index));
        same.filter_map(|other| self.reported(other)).max()
    }

    fn reported(&self, index: usize) -> Option<FencingToken> {
        match self.outcome(index) {
            Outcome::GrantedFenced(counter) => Some(*counter),
            _ => None,
        }
    }

    /// Returns the largest group of counters that are together.
    ///
    /// During a change of the nodes, a group that is a quorum of both lists, or can become one, is preferred.
    fn together(&self) -> Option<RangeInclusive<FencingToken>> {
        let prospect = |least: FencingToken| {
            let of = |list: Members| {
                let in_group = |node: &usize| {
                    self.counter_of_server(*node)
                        .is_some_and(|counter| self.bound.is_in_group(least, counter))
                };
                let granted = list.nodes().filter(in_group).count();
                let pending = list.nodes().filter(|node| self.is_pending(*node)).count();
                (granted >= list.quorum(), granted + pending >= list.quorum())
            };
            self.quorums.previous().map(|previous| {
                let ((is_one, can_one), (is_other, can_other)) = (of(self.quorums.current()), of(previous));
                (is_one && is_other, can_one && can_other)
            })
        };
        self.bound.together(&self.counters(), prospect)
    }

    fn is_counter_in(&self, group: Option<&RangeInclusive<FencingToken>>, index: usize) -> bool {
        self.counter(index).zip(group).is_some_and(|(counter, group)| group.contains(&counter))
    }

    /// Describes the distance of a counter from the group that has votes.
    fn describe_distance(
        &self,
        group: Option<&RangeInclusive<FencingToken>>,
        index: usize,
    ) -> Option<String> {
        let (counter, group) = self.counter(index).zip(group)?;
        let seconds = |micros: u64| micros / 1_000_000;
        let (counter, least, most) = (counter.as_u64(), group.start().as_u64(), group.end().as_u64());
        match () {
            () if counter > most => Some(format!("{}s ahead of", seconds(counter - most))),
            () if counter < least => Some(format!("{}s behind", seconds(least - counter))),
            () => None,
        }
    }

    /// Returns what each voter of a list sees of a resource.
    ///
    /// Nodes that are one server have one view, unless they [disagree](holder::of_server).
    pub(crate) fn holder_replies(&self, list: Members) -> Vec<HolderReply<'_>> {
        let voters = list.nodes().filter(|index| self.first_of_server(list.nodes(), *index) == *index);
        voters
            .flat_map(|voter| {
                let same = self.all().filter(move |index| self.is_same_server(voter, *index));
                holder::of_server(same.map(|index| self.votes[index].reply()))
            })
            .collect()
    }

    /// Returns the number of waiters that an inspection has found.
    pub(crate) fn waiters(&self) -> Option<u32> {
        let stated = self.each_server().filter_map(|outcome| match outcome {
            Outcome::Free { waiters } => *waiters,
            Outcome::Held(entry) => entry.waiters.map(|others| with_reserved(others, &entry.token)),
            _ => None,
        });
        waiters::waiters(stated, quorum(self.votes.len()))
    }

    /// Returns the position of the request among the waiters, according to the denials.
    pub(crate) fn position(&self) -> Option<Position> {
        let stated = self.each_server().filter_map(|outcome| match outcome {
            Outcome::Denied(Denial { position: Some(Position { rank, waiters }), holder, .. }) => {
                let with_reserved =
                    |number| holder.as_ref().map_or(number, |holder| with_reserved(number, holder));
                Some(Position { rank: with_reserved(*rank), waiters: with_reserved(*waiters) })
            }
            _ => None,
        });
        waiters::position(&stated, quorum(self.votes.len()))
    }

    /// Returns one outcome of each server.
    fn each_server(&self) -> impl Iterator<Item = &Outcome> + Clone {
        self.all()
            .filter(|index| self.first_of_server(self.all(), *index) == *index)
            .map(|index| self.outcome(index))
    }

    /// Returns a human-readable report for every node.
    pub(crate) fn reports<'a>(&self, now: Instant, label: impl Fn(usize) -> &'a str) -> Vec<NodeReport> {
        let so_far = now.saturating_duration_since(self.start);
        let group = self.together();
        let outcome = |index: usize| match self.describe_distance(group.as_ref(), index) {
            None => self.outcome(index).clone(),
            Some(how_far) => Outcome::Failed(NodeError::unknown(format!(
                "grant not counted: the fencing counter is {how_far} those of other nodes"
            ))),
        };
        let report = |(index, vote): (usize, &Vote)| NodeReport {
            index,
            label: label(index).to_owned(),
            outcome: outcome(index),
            latency: if matches!(vote.outcome, Outcome::Pending) { so_far } else { vote.latency },
            same_server_as: Some(self.first_of_server(self.all(), index))
                .filter(|first| *first != index)
                .map(|i| (i, label(i).to_owned())),
        };
        self.votes.iter().enumerate().map(report).collect()
    }

    /// Returns the time until a quorum counts, if [quarantine](crate::decide::admission) is the obstacle.
    pub(crate) fn until_quorum(&self) -> Option<Duration> {
        let group = self.together();
        let countable = |index: usize| match self.outcome(index) {
            Outcome::Quarantined { quarantine, .. } => Countable::Later(quarantine.remaining),
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => Countable::Unknown,
            _ if self.describe_distance(group.as_ref(), index).is_some() => Countable::Unknown,
            _ => Countable::Now,
        };
        let countable_in = &|list: Members, index: usize| match countable(index) {
            Countable::Now if self.first_of_server(list.nodes(), index) != index => Countable::Unknown,
            countable => countable,
        };
        let lost = self.tallies().filter(|(list, tally)| tally.is_lost(list.quorum()));
        let lists =
            lost.map(|(list, _)| (list.nodes().map(move |node| countable_in(list, node)), list.quorum()));
        until_quorums(lists)
    }

    /// Returns whether one client has the resources on a quorum of nodes, according to the denials.
    pub(crate) fn contention(&self, is_confirmation: bool) -> Contention {
        let of = |(list, tally): (Members, Tally)| {
            contention(&self.denials(list, is_confirmation), tally.pending(), list.quorum())
        };
        self.tallies().map(of).reduce(Contention::and).unwrap_or(Contention::Split)
    }

    /// Returns the holders that denials of a list name; `None` for a denial that may be caused by any client.
    ///
    /// Nodes that are one server have one denial. A denial of a key that is gone is caused by no client. A confirmation is
    /// denied without a holder only if the key is gone.
    fn denials(&self, list: Members, is_confirmation: bool) -> impl Iterator<Item = Option<&Token>> + Clone {
        let denials = list.nodes().filter_map(move |index| {
            let same = |other: &usize| self.is_same_server(*other, index);
            let mut earlier = list.nodes().take_while(|other| *other < index).filter(same);
            let denial = self.votes[index].denial();
            denial.filter(|_| earlier.all(|other| self.votes[other].denial().is_none()))
        });
        let has_holder =
            move |denial: &&Denial| denial.holder.is_some() || !(denial.is_gone || is_confirmation);
        denials.filter(has_holder).map(|denial| denial.holder.as_ref())
    }

    /// Returns the holder that caused a denial, if a node reported it.
    pub(crate) fn holder(&self) -> Option<&Token> {
        report::holder(self.votes.iter().map(|vote| &vote.outcome))
    }

    /// Returns the token of a lock or of an attempt that has a quorum, if the nodes without a reply that counts have it.
    pub(crate) fn possible_holder(&self) -> Option<&Token> {
        let holder = self.holder().filter(|holder| !holder.is_place())?;
        let may_have = |node: usize| match self.outcome(node) {
            Outcome::Denied(Denial { holder: Some(other), .. }) => other == holder,
            Outcome::Denied(denial) => !denial.is_gone,
            outcome => !matches!(outcome, Outcome::Granted | Outcome::GrantedFenced(_)),
        };
        self.quorums.are_met_by(may_have).then_some(holder)
    }

    /// Returns whether errors of this kind alone exclude a quorum.
    pub(crate) fn excludes_quorum(&self, kind: NodeErrorKind) -> bool {
        !self.quorums.are_met_by(|node| !self.is_failure_of(node, kind))
    }

    /// Returns the number of nodes that failed with an error of this kind.
    pub(crate) fn failures(&self, kind: NodeErrorKind) -> usize {
        self.all().filter(|node| self.is_failure_of(*node, kind)).count()
    }

    fn is_failure_of(&self, node: usize, kind: NodeErrorKind) -> bool {
        matches!(self.outcome(node), Outcome::Failed(error) if error.kind() == kind)
    }

    /// Returns the first of these nodes that is known to be the same server; the node itself, if none is.
    fn first_of_server(&self, nodes: impl IntoIterator<Item = usize>, index: usize) -> usize {
        nodes.into_iter().find(|other| self.is_same_server(*other, index)).unwrap_or(index)
    }

    fn is_same_server(&self, one: usize, other: usize) -> bool {
        let server = &self.votes[one].server;
        one == other || server.is_some() && *server == self.votes[other].server
    }
}

impl Vote {
    fn denial(&self) -> Option<&Denial> {
        match &self.outcome {
            Outcome::Denied(denial) => Some(denial),
            _ => None,
        }
    }

    fn reply(&self) -> HolderReply<'_> {
        match &self.outcome {
            Outcome::Free { .. } => HolderReply::Free,
            // Reserved for a waiter: no client holds the lock.
            Outcome::Held(entry) if entry.token.is_place() => HolderReply::Free,
            Outcome::Held(holding) => HolderReply::Held(holding),
            Outcome::Pending => HolderReply::Pending,
            _ => HolderReply::Failed,
        }
    }

    fn vote_state(&self) -> VoteState {
        match self.outcome {
            Outcome::Granted | Outcome::GrantedFenced(_) | Outcome::Released => VoteState::Granted,
            Outcome::Superseded(_) => VoteState::Superseded,
            // An inspection reply grants nothing.
            Outcome::Denied(_) | Outcome::NotHeld | Outcome::Free { .. } | Outcome::Held(_) => {
                VoteState::Denied
            }
            Outcome::Failed(_) | Outcome::TimedOut => VoteState::Failed,
            Outcome::Quarantined { .. } => VoteState::Quarantined,
            Outcome::Pending => VoteState::Pending,
        }
    }
}

/// Adds the waiter for which a node has reserved the resource. It is no longer among the places, and before all of them.
fn with_reserved(number: u32, holder: &Token) -> u32 {
    number.saturating_add(holder.is_place().into())
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(_) | Outcome::TimedOut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn votes(all: &[(Outcome, Option<&str>)]) -> Votes {
        let mut votes =
            Votes::new(Instant::ORIGIN, Quorums::of(all.len()), Bound::of(Duration::from_secs(1)));
        for (index, (outcome, server)) in all.iter().enumerate() {
            votes.put(index, outcome.clone(), server.map(ServerId::new), Instant::ORIGIN);
        }
        votes
    }

    #[test]
    fn a_denial_of_a_key_that_is_gone_is_caused_by_no_client() {
        let holder = Token::from_bytes("a");
        let denied = |denial: &Denial| Outcome::Denied(denial.clone());
        let (named, unnamed, gone) = (Denial::by(holder.clone()), Denial::default(), Denial::of_gone_key());
        let all = [(denied(&named), None), (denied(&unnamed), None), (denied(&gone), None)];
        let denials = |all: &[(Outcome, Option<&str>)], is_confirmation| -> Vec<_> {
            let votes = votes(all);
            let denials = votes.denials(votes.quorums.current(), is_confirmation);
            denials.map(Option::<&Token>::cloned).collect()
        };
        assert_eq!(vec![Some(holder.clone()), None], denials(&all, false));
        assert_eq!(vec![Some(holder.clone())], denials(&all, true));
        let aliases =
            [(denied(&named), Some("s")), (Outcome::TimedOut, Some("s")), (denied(&named), Some("s"))];
        assert_eq!(vec![Some(holder)], denials(&aliases, false), "one server has one denial");
    }

    #[test]
    fn a_lock_may_be_on_the_nodes_that_have_failed() {
        let [a, b] = ["a", "b"].map(Token::from_bytes);
        let place = Token::of_place(&Token::random(|bytes| bytes.fill(1), None));
        let by = |token: &Token| (Outcome::Denied(Denial::by(token.clone())), None);
        let (granted, failed) = ((Outcome::Granted, None), (Outcome::TimedOut, None));
        let holder = |all: &[_]| votes(all).possible_holder().cloned();
        assert_eq!(Some(a.clone()), holder(&[by(&a), granted.clone(), failed.clone()]));
        assert_eq!(None, holder(&[by(&a), granted.clone(), granted.clone()]));
        assert_eq!(None, holder(&[by(&a), by(&b), granted.clone()]));
        assert_eq!(Some(a.clone()), holder(&[by(&a), by(&a), by(&b), granted.clone(), failed.clone()]));
        let [unnamed, gone] =
            [Denial::default(), Denial::of_gone_key()].map(|no| (Outcome::Denied(no), None));
        assert_eq!(Some(a.clone()), holder(&[by(&a), granted.clone(), unnamed]));
        assert_eq!(None, holder(&[by(&a), granted.clone(), gone]));
        assert_eq!(None, holder(&[by(&place), granted, failed]), "a reservation is no lock");
    }

    #[test]
    fn nodes_on_one_server_count_with_the_greatest_counter() {
        let counted = |number| Outcome::GrantedFenced(FencingToken::new(number).unwrap());
        let counters = |all: &[(Outcome, Option<&str>)]| -> Vec<_> {
            votes(all).counters().map(FencingToken::as_u64).collect()
        };
        let different =
            [(counted(7), Some("a")), (counted(9), Some("b")), (counted(8), None), (counted(8), None)];
        assert_eq!(vec![7, 9, 8, 8], counters(&different));
        let states = |first, second| {
            counters(&[
                (counted(first), Some("a")),
                (counted(5), None),
                (counted(second), Some("a")),
                (counted(5), None),
            ])
        };
        assert_eq!(vec![5, 9, 5], states(1, 9), "in either order of the replies");
        assert_eq!(vec![9, 5, 5], states(9, 1));
        assert_eq!(vec![9, 5, 5], states(9, 9));
        assert_eq!(vec![7], counters(&[(Outcome::TimedOut, Some("a")), (counted(7), Some("a"))]));
    }

    /// Returns the nodes of each step of a change, and the rule: the old list, both lists, the new list.
    fn steps(current: usize, common: usize, others: usize) -> [(Quorums, Vec<usize>); 3] {
        let previous: Vec<_> = (current - common..current + others).collect();
        [
            (Quorums::of(previous.len()), previous.clone()),
            (Quorums::of_change(current, &previous), (0..current + others).collect()),
            (Quorums::of(current), (0..current).collect()),
        ]
    }

    proptest! {
        /// The nodes that counted for an older claim reply with a counter above its token.
        #[test]
        fn a_token_is_above_every_older_one_of_neighbouring_steps(
            (current, common, others) in (1_usize..5, 0_usize..4, 0_usize..5),
            neighbours in prop::sample::select(vec![(0_usize, 1_usize), (1, 0), (1, 1), (1, 2), (2, 1)]),
            counted in any::<u16>(),
            older in 1_u64..400,
            counters in prop::collection::vec(prop_oneof![1_u64..400, 1_u64..1 << 53], 9),
            order in Just((0_usize..9).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let common = common.min(current);
            prop_assume!(common + others > 0);
            let steps = steps(current, common, others);
            let (before, nodes_before) = &steps[neighbours.0];
            let is_counted = |node: usize| counted >> node & 1 == 1;
            prop_assume!(before.are_met_by(|position| is_counted(nodes_before[position])));
            let (rule, nodes) = &steps[neighbours.1];
            let mut votes = Votes::new(Instant::ORIGIN, *rule, Bound::of(Duration::from_micros(100)));
            for node in order {
                let Some(position) = nodes.iter().position(|other| *other == node) else { continue };
                let raised = is_counted(node) && nodes_before.contains(&node);
                let counter = if raised { counters[node].max(older + 1) } else { counters[node] };
                let counter = FencingToken::new(counter).unwrap();
                votes.put(position, Outcome::GrantedFenced(counter), None, Instant::ORIGIN);
                let is_won = votes.decide(RoundKind::Acquire) == Decision::Won;
                prop_assert_eq!(is_won, votes.number().is_some());
                if let Some(numbering) = votes.number() {
                    prop_assert!(numbering.token.as_u64() > older);
                }
            }
        }
    }

    #[test]
    fn a_token_needs_counters_of_both_lists() {
        let counted = |number| Outcome::GrantedFenced(FencingToken::new(number).unwrap());
        // Three current nodes, and three previous ones.
        let after = |counters: &[u64]| {
            let rule = Quorums::of_change(3, &[3, 4, 5]);
            let mut votes = Votes::new(Instant::ORIGIN, rule, Bound::of(Duration::from_secs(1)));
            for (node, counter) in counters.iter().enumerate().filter(|(_, counter)| **counter > 0) {
                votes.put(node, counted(*counter), None, Instant::ORIGIN);
            }
            votes.number().map(|numbering| (numbering.token.as_u64(), numbering.settled))
        };
        assert_eq!(None, after(&[7, 7, 7, 9, 0, 0]));
        assert_eq!(Some((9, false)), after(&[7, 7, 7, 9, 9, 0]));
        assert_eq!(Some((9, false)), after(&[9, 0, 9, 9, 8, 0]), "only the current nodes have it");
        assert_eq!(Some((9, true)), after(&[9, 0, 9, 9, 9, 0]));
        let far = 1 << 40;
        assert_eq!(None, after(&[7, 7, 7, far, far, far]), "the lists are not together");
        assert_eq!(Some((7, true)), after(&[far, 7, 7, 7, 7, far]));
    }

    /// A list of which most counters are far from the others does not decide which group counts.
    #[test]
    fn a_group_that_can_be_a_quorum_of_both_lists_is_preferred() {
        let rule = Quorums::of_change(9, &[9, 10, 11]);
        let bound = 100;
        let mut votes = Votes::new(Instant::ORIGIN, rule, Bound::of(Duration::from_micros(bound)));
        let counters = [60, 60, 60, 60, 60, 120, 120, 120, 120, 10, 10, 120];
        for (node, counter) in counters.into_iter().enumerate() {
            let counter = FencingToken::new(counter).unwrap();
            votes.put(node, Outcome::GrantedFenced(counter), None, Instant::ORIGIN);
        }
        assert_eq!(Some(60), votes.number().map(|numbering| numbering.token.as_u64()));
        assert_eq!(Decision::Won, votes.decide(RoundKind::Acquire));
    }

    #[test]
    fn one_server_under_two_names_is_in_both_lists() {
        let rule = Quorums::of_change(1, &[1]);
        let mut votes = Votes::new(Instant::ORIGIN, rule, Bound::of(Duration::from_secs(1)));
        votes.put(0, Outcome::Granted, Some(ServerId::new("a")), Instant::ORIGIN);
        assert_eq!(Decision::Pending, votes.decide(RoundKind::Acquire));
        votes.put(1, Outcome::Denied(Denial::default()), Some(ServerId::new("a")), Instant::ORIGIN);
        assert_eq!(Decision::Won, votes.decide(RoundKind::Acquire));
        assert_eq!(1, votes.tally().granted(), "one server");
    }
}
